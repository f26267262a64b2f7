"""Make the zip that Gradescope builds its autograder from.

python scripts/instructor/make_gradescope.py --out autograder.zip
"""

import json
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import tyro

sys.path.append(str(Path(__file__).parents[1]))  # for cli.py

from cli import check_can_write, run
from grade import chosen
from package import write_zip

from cs_grader.trusted.hidden import check_secret

ROOT = Path(__file__).parents[2]
CONTAINER = ROOT / "cs_grader" / "container"


def main(
    out: Path = Path("autograder.zip"),
    exam_seed: str | None = None,
    hidden_items: Literal["visible", "hidden", "after_due_date", "after_published"] = "visible",
    require_isolation: Literal["bubblewrap", "uid", "process"] = "uid",
    minutes: float = 9,
    only: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    packages: Path | None = None,
    pip_options: str = "",
    tests: Path = ROOT / "tests",
    overwrite: bool = False,
) -> None:
    """Write the zip: upload it under "Configure Autograder" with the base image Ubuntu 24.04.

    Args:
        out: Zip to write; it appears when it is complete.
        exam_seed: Secret from which the hidden inputs are drawn, at least 22 random characters; a
            fresh one is drawn and printed if not given. Equal submissions get equal inputs, and no
            others do.
        hidden_items: Who sees how many checks on those inputs failed. Students who cannot see that
            cannot see their total either: Gradescope hides it.
        require_isolation: Mark nothing in a container without at least this isolation. Gradescope
            allows "uid".
        minutes: Stop after this time and report what is marked so far. A submission that exceeds
            Gradescope's own limit, 10 minutes unless you change it, gets no report at all.
        only: Mark this problem only; may be repeated (none: all of them).
        packages: File with further packages that submissions may import, as pip's requirements.
        pip_options: Options for pip, such as where it finds builds of torch without CUDA, which
            are smaller by gigabytes.
        tests: Folder of the examination, such as the one that make_starter.py --solution writes.
        overwrite: Replace a zip that is there, and with it the secret that it holds.
    """
    if not 0 < minutes <= 40:
        raise ValueError(f"--minutes {minutes} must be above 0 and at most 40")
    secret = check_secret(exam_seed)
    chosen(only, tests)
    if packages is not None and not packages.is_file():
        raise ValueError(f"--packages {packages} is not a file")
    check_can_write(out, overwrite)
    requirements = _requirements(packages)
    shlex.split(pip_options)
    options = {
        "exam_seed": secret,
        "hidden_items": hidden_items,
        "require_isolation": require_isolation,
        "minutes": minutes,
        "only": only,
    }
    content = {
        "autograder.json": f"{json.dumps(options, indent=1)}\n".encode(),
        "requirements.txt": requirements.encode(),
        "pip_options.txt": f"{' '.join(pip_options.split())}\n".encode(),
    }
    # A checkout on Windows may have CRLF, and no shell of Linux runs such a script.
    content |= {name: file.read_bytes().replace(b"\r\n", b"\n") for name, file in _files(tests)}
    write_zip(out, content)
    print(f"wrote {out}: {len(content)} files, {out.stat().st_size / 1e3:.0f} kB")
    if secret:
        print(f"secret of the hidden inputs: {secret} (keep it to yourself)")


def _files(tests: Path) -> Iterator[tuple[str, Path]]:
    """Yield the repository's files for the zip, by their names in it: no solution, no adapters."""
    yield "setup.sh", CONTAINER / "setup.sh"
    yield "run_autograder", CONTAINER / "run_autograder"
    yield "constraints.txt", ROOT / "constraints.txt"
    yield "LICENSE", ROOT / "LICENSE"
    yield from _below(ROOT / "cs_grader", "cs_grader", {".py", ".ini", ".md"})
    own = {tests / "adapters.py", tests / "project"}
    for name, file in _below(tests, "tests", {".py", ".toml"}):
        if own.isdisjoint([file, *file.parents]):
            yield name, file


def _below(folder: Path, name: str, suffixes: set[str]) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*")):
        if file.suffix in suffixes and file.is_file():
            yield f"{name}/{file.relative_to(folder).as_posix()}", file


def _requirements(packages: Path | None) -> str:
    """The library's own requirements, which submissions may count on, and the examination's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tools = project["optional-dependencies"]["dev"]
    wanted = [
        *project["dependencies"],
        *(t for t in tools if t.startswith(("pytest>", "tiktoken"))),
    ]
    try:
        more = packages.read_text(encoding="utf-8").splitlines() if packages else []
    except UnicodeDecodeError:
        raise ValueError(f"--packages {packages} is not text: name a requirements file") from None
    return "\n".join([*wanted, *more]) + "\n"


if __name__ == "__main__":
    run(main)
