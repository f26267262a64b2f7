"""Make the student edition of this repository: python scripts/instructor/make_starter.py --out DIR.

The edition is a copy: each file that GIVEN names is in it byte for byte, in its own place. Only the
modules in which students write have blanks (BLANK), oracles and mistakes look up what they answered
to the reference, and what starter/edition holds is the edition's own. Of docs/contract/ it has the
conventions that tests/contract.toml names (docs/teach.md); the handout tells them in the sections
that they change, and the reference is patched to them.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / folder) for folder in ("scripts", "tests", "tests/exam", "tests/project")]

from bank.patches import apply, read
from cli import check_can_write, run
from starter.blank import blank
from starter.edition.tests.exam.stored import COMPUTED

STARTER = Path(__file__).with_name("starter")
OWN = STARTER / "edition"
"""Files of the edition that are not the repository's, each in its place."""

RUBRIC = tomllib.loads((ROOT / "tests" / "rubric.toml").read_text(encoding="utf-8"))

# What stays in a module that students complete; the rest of it is left out.
KEPT: dict[str, tuple[str, ...]] = {
    "bpe": ("Vocab", "Merge", "SINGLE_BYTES"),
    "optim": ("Parameters", "SGD"),
    "pretokenize": ("PRETOKEN",),
}  # fmt: skip
BLANK: dict[str, set[str]] = {"pretokenize": set()}
for _place in (place for problem in RUBRIC.values() for place in problem["write"]):
    _module, _, _name = _place.partition(".")
    BLANK.setdefault(_module, set()).add(_name)
"""The definitions to write, by module."""

GIVEN = (
    "cs_basics/__init__.py", "cs_basics/__main__.py", "cs_basics/generate.py",
    "cs_basics/training.py", "cs_basics/settings/*", "cs_basics/run/*", "cs_basics/stories/*",
    "cs_basics/study/*", "cs_basics/study/doctor/*", "cs_basics/interop/*",
    # JavaScript that runs a trained model in a browser: the only forward pass and encoder that
    # students are given. It cannot train.
    "cs_basics/interop/page/*",
    # The from-scratch rule, so that it is told before the grading.
    "cs_grader/result.py", "cs_grader/rules/*.py",
    *(f"cs_grader/sandbox/{name}.py" for name in ("blocked", "forbidden", "ledger")),
    "tests/*.*", "tests/exam/*.*", "tests/exam/probes/*", "tests/exam/*/__init__.py",
    "scripts/*.py", "docs/learn.md", "docs/pictures/block.svg", "LICENSE",
    "constraints.txt", ".gitignore", ".gitattributes",
)  # fmt: skip
"""What is copied as it is; folders of a folder are not, unless they are named."""
LEFT_OUT = (
    "cs_grader/rules/__init__.py", "cs_grader/rules/findings.py",
    "scripts/convert_tokenizer.py", "scripts/encode.py", "scripts/import_llama.py",
    "scripts/microscope.py", "scripts/size.py",
    "scripts/train_tokenizer.py",
)  # fmt: skip
"""Exceptions, which need the fast twins or other solutions."""


def main(out: Path, solution: Path | None = None) -> None:
    """Make the student edition.

    Args:
        out: The folder to make; it must not exist yet.
        solution: A second folder to make, for yourself: the edition filled in with the reference,
            and with the oracles, so that grade.py and make_gradescope.py accept its tests.
    """
    for folder in filter(None, (out, solution)):
        if folder.exists():
            raise ValueError(f"{folder} exists already: name a new folder")
        check_can_write(folder)
    if solution is not None and solution.resolve() == out.resolve():
        raise ValueError(f"--solution {solution} is --out, too: name another folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
        folder = Path(scratch) / out.name
        build(folder)
        filled = Path(scratch) / "solution"
        fill_in(filled, folder)
        print("asking the oracles: the reference sits the whole examination, a minute or two")
        record_answers(folder / "tests" / "exam/stored_answers.npz", filled)
        if solution:
            shutil.move(filled, solution)
        folder.replace(out)
    for made in filter(None, (out, solution)):
        sizes = [path.stat().st_size for path in made.rglob("*") if path.is_file()]
        print(f"{made}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB")


def build(folder: Path) -> None:
    """Write all of the edition except the stored answers."""
    for path in given():
        write(folder / path.relative_to(ROOT), path.read_bytes())
    if chosen():
        handout = folder / "docs" / "learn.md"
        write(handout, with_conventions(handout.read_text(encoding="utf-8")).encode())
    write_reference(folder)
    for module, names in BLANK.items():
        path = folder / "cs_basics" / f"{module}.py"
        source = path.read_text(encoding="utf-8")
        text = blank(source, names, KEPT.get(module, ()), heading_of(module, source))
        write(path, text.encode())
    for path in answering():
        write(folder / path.relative_to(ROOT), answers(path).encode())
    unread = shutil.ignore_patterns("__pycache__", ".*_cache")
    shutil.copytree(OWN, folder, dirs_exist_ok=True, ignore=unread)


def given() -> list[Path]:
    """List the files that are copied."""
    paths = {path for pattern in GIVEN for path in ROOT.glob(pattern) if path.is_file()}
    paths |= {ROOT / "docs" / "contract" / f"{name}.md" for name in chosen()}
    return sorted(paths - {ROOT / name for name in LEFT_OUT})


def chosen() -> set[str]:
    """Return the conventions of this class.

    Raises:
        ValueError: There is no such convention.
    """
    from oracles import CHOSEN

    return CHOSEN


def with_conventions(handout: str) -> str:
    """Put what this class does otherwise where the handout teaches the other rule."""
    for name in sorted(chosen()):
        page = (ROOT / "docs" / "contract" / f"{name}.md").read_text(encoding="utf-8")
        title, _, rule = page.partition("\n\n")
        subject, _, what = title.removeprefix("# ").partition(": ")
        heading = re.search(rf"^## {re.escape(subject)}.*\n", handout, re.MULTILINE)
        assert heading, f"docs/contract/{name}.md is about no section of the handout"
        said = [f"**In this class: {what}.**", "", *rule.splitlines()]
        quoted = "\n".join(f"> {line}".rstrip() for line in said)
        handout = f"{handout[: heading.end()]}\n{quoted}\n{handout[heading.end() :]}"
    return handout


def write_reference(folder: Path) -> None:
    """Write the modules that students complete, by the conventions of this class."""
    for module in BLANK:
        place = Path("cs_basics", f"{module}.py")
        shutil.copyfile(ROOT / place, folder / place)
    for patch in read(ROOT / "tests" / "project" / "bank" / "contract.txt"):
        if patch.kind in chosen() and patch.style == "book":
            apply(patch.places, folder)


def answering() -> list[Path]:
    """List the modules that know the answers."""
    return [*ROOT.glob("tests/exam/oracles/[!_]*.py"), *ROOT.glob("tests/exam/mistakes/[!_]*.py")]


def fill_in(folder: Path, edition: Path) -> None:
    """Write an edition with the reference in the place of blanks, and with oracles."""
    stored = shutil.ignore_patterns("stored*", "__pycache__")
    shutil.copytree(edition, folder, ignore=stored)
    # With oracles any seed will do, and a grader that takes these tests keeps the rule by itself.
    (folder / "conftest.py").unlink()
    for path in answering():
        shutil.copyfile(path, folder / path.relative_to(ROOT))
    write_reference(folder)


def write(path: Path, content: bytes) -> None:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def heading_of(module: str, source: str) -> str:
    """Return a module's docstring, with a list of what students write in the module."""
    summary = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0].partition(". ")[0]
    lines = [
        f"    {name:<34}  {problem['title']} ({problem['points']} points)"
        for name, problem in RUBRIC.items()
        if problem["write"][0].startswith(f"{module}.")
    ]
    if not lines:
        return summary
    asked = 'Yours to write (docs/learn.md); examined by `make test ARGS="--problem NAME"`:'
    return "\n".join([f"{summary.removesuffix('.')}.", "", asked, "", *lines, ""])


def answers(path: Path) -> str:
    """Return a module that looks up what an oracle or a mistake answers."""
    name = f"{path.parent.name}.{path.stem}"
    source, computed = path.read_text(encoding="utf-8"), COMPUTED.get(name, ())
    lookups = [
        f'{node.name} = answer_of("{name}.{node.name}")'
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name not in computed
    ]
    heading = f"Stored answers of {name}: see stored.py."
    lines = blank(source, (), computed, heading).splitlines()
    imports = [
        node.end_lineno or 1
        for node in ast.parse("\n".join(lines)).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    above, place, below = ([], max(imports), ["", ""]) if imports else ([""], 1, [""])
    lines[place:place] = [*above, "from stored import answer_of"]
    return "\n".join([*lines, *below, *lookups, ""])


def record_answers(path: Path, solution: Path = ROOT) -> None:
    """Let the reference sit the examination and store the answers of oracles and mistakes.

    Args:
        path: The file to write.
        solution: The repository of the reference.

    Raises:
        ValueError: The reference does not pass.
    """
    places = [str(STARTER), str(OWN / "tests/exam"), os.environ.get("PYTHONPATH", "")]
    command = [
        sys.executable, "-m", "pytest", "tests", "--ignore", "tests/project", "--quiet",
        "-p", "record_answers", "--record-answers", str(path.resolve()),
        f"--submission={solution.resolve()}",
        f"--gpt2-files={ROOT.parent / 'shared' / 'data' / 'gpt2'}",
    ]  # fmt: skip
    finished = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"}
        | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode or not path.exists():
        print(finished.stdout[-3000:], finished.stderr[-3000:], file=sys.stderr)
        raise ValueError("the reference does not pass its own examination: see above")


if __name__ == "__main__":
    run(main)
