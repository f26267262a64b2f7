"""Make the student edition of this repository: python scripts/instructor/make_starter.py --out DIR.

The library without its solutions, the public examination with stored answers in the place of
oracles, the scripts, and the handout. Generated from the reference and its tests, both of which
have to pass: nothing is written by hand twice.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # for cli.py and process.py

from cli import check_can_write, run
from starter.blank import Module, blank
from starter.stored import COMPUTED

ROOT = Path(__file__).parents[2]
LIBRARY = "cs_basics"
TEMPLATES = Path(__file__).with_name("starter")

# What solves each problem of the rubric: a module, and names in it.
SOLUTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "train_bpe": ("bpe", ("train_bpe",)),
    "tokenizer": ("tokenizer", ("Tokenizer",)),
    "linear": ("layers", ("Linear",)),
    "embedding": ("layers", ("Embedding",)),
    "rmsnorm": ("norms", ("RMSNorm",)),
    "silu": ("functional", ("silu",)),
    "positionwise_feedforward": ("layers", ("SwiGLU",)),
    "rope": ("rope", ("RotaryPositionalEmbedding",)),
    "softmax": ("functional", ("softmax",)),
    "scaled_dot_product_attention": ("functional", ("scaled_dot_product_attention",)),
    "multihead_self_attention": ("attention", ("CausalSelfAttention",)),
    "multihead_self_attention_with_rope": ("attention", ("CausalSelfAttention",)),
    "transformer_block": ("transformer", ("TransformerBlock",)),
    "transformer_lm": ("transformer", ("TransformerLM",)),
    "cross_entropy": ("functional", ("cross_entropy",)),
    "adamw": ("optim", ("AdamW",)),
    "learning_rate_schedule": ("optim", ("cosine_schedule",)),
    "gradient_clipping": ("optim", ("clip_grad_norm",)),
    "data_loading": ("data", ("get_batch",)),
    "checkpointing": ("checkpoint", ("save_checkpoint", "load_checkpoint")),
}

# Not examined, but to be written too: training and generation need them.
BEYOND: dict[str, tuple[str, ...]] = {
    "optim": ("SGD",),
    "generate": ("sample", "generate"),
    "chunked_loss": ("linear_cross_entropy",),
    "tiled_attention": ("flash_causal_attention",),
    "norm_function": ("make_norm",),
    "data": ("read_windows",),
    "epochs": ("epoch_batch",),
    "pretokenize": (),
}

# What stays as it is in the modules above. Everything else is left out.
GIVEN: dict[str, frozenset[str]] = {
    "attention": frozenset({"KVCache"}),
    "bpe": frozenset({"Vocab", "Merge"}),
    "data": frozenset({"*"}),
    "pretokenize": frozenset(
        {"PRETOKEN", "read_text", "text_to_bytes", "check_special_tokens", "_holds_surrogate"}
    ),
}

SCRIPTS = (
    "ablate", "ablation_run", "account", "cli", "download", "encode", "evaluate",
    "package", "process", "train", "train_tokenizer", "write_stories",
)  # fmt: skip
TEACHERS_ONLY = (
    "basedpyright", "beartype", "hypothesis", "import-linter", "transformers", "triton",
)  # fmt: skip
COPIED = (
    "LICENSE", "constraints.txt", ".gitignore", "data/README.md", "docs/handout.md",
    "cs_basics/attention_kernel.cpp", "cs_basics/stories/plots.txt", "cs_basics/stories/words.txt",
)  # fmt: skip
RENAMED = {
    "README.md": "README.md",
    "Makefile": "Makefile",
    "conftest.py": "conftest.py",
    "stored.py": "tests/stored.py",
    "generate.py": "scripts/generate.py",
}


def main(out: Path) -> None:
    """Make the student edition.

    Args:
        out: The folder to make; it must not exist yet.
    """
    if out.exists():
        raise ValueError(f"{out} exists already: name a new folder")
    check_can_write(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
        folder = Path(scratch) / out.name
        for place, text in texts().items():
            write(folder / place, text)
        for place in COPIED:
            write(folder / place, (ROOT / place).read_text(encoding="utf-8"))
        print("asking the oracles: the reference sits the whole examination, some minutes")
        record_answers(folder / "tests" / "stored_answers.npz")
        folder.replace(out)
    sizes = [path.stat().st_size for path in out.rglob("*") if path.is_file()]
    print(f"{out}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB")


def texts() -> dict[str, str]:
    """Return the text of each file that is not merely copied, by its place."""
    return {
        **{f"{LIBRARY}/{name}.py": text for name, text in library().items()},
        **{f"scripts/{name}.py": read(f"scripts/{name}.py") for name in SCRIPTS},
        **{place: read(f"scripts/instructor/starter/{name}") for name, place in RENAMED.items()},
        **examination(),
        "pyproject.toml": project_file(),
    }


def project_file() -> str:
    """Return pyproject.toml without what only the whole repository has or needs."""
    text = read("pyproject.toml").partition("\n[tool.importlinter]")[0] + "\n"
    text = re.sub(
        r"\n\[tool\.(setuptools\.package-data|basedpyright)\]\n(?:[^\[\n].*\n|\n)*", "\n", text
    )
    text = re.sub(r"(?m)^packages = .*$", f'packages = ["{LIBRARY}"]', text)
    return re.sub(rf'(?m)^    "(?:{"|".join(TEACHERS_ONLY)})\b.*\n', "", text)


def read(place: str) -> str:
    """Read a file of the repository."""
    return (ROOT / place).read_text(encoding="utf-8")


def write(path: Path, text: str) -> None:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


# --- the library ---


def library() -> dict[str, str]:
    """Return the modules that a student gets: those to write, and what the scripts need."""
    asked: dict[str, set[str]] = defaultdict(set)
    for module, names in [*SOLUTIONS.values(), *BEYOND.items()]:
        asked[module] |= set(names)
    readers = [read(f"scripts/{name}.py") for name in (*SCRIPTS, "starter/generate")]
    readers.append(read("tests/adapters.py"))
    written = set(asked)
    while True:
        modules = {name: edition(name, asked[name], name in written) for name in asked}
        before = sum(map(len, asked.values())) + len(asked)
        for text in [*readers, *modules.values()]:
            for module, name in imported(text):
                asked[module] |= {name}
        if sum(map(len, asked.values())) + len(asked) == before:
            return {"__init__": overview(written), **modules}


def edition(module: str, wanted: set[str], is_written: bool) -> str:
    """Return a module of the library: as a student gets it."""
    source = read(f"{LIBRARY}/{module}.py")
    if module == "config":
        # The presets train with what a student writes last, if at all.
        source = re.sub(r"(tile_attention|chunk_loss)=True", r"\1=False", source)
    if not is_written:
        return source
    given = GIVEN.get(module, frozenset())
    if "*" in given:
        to_write = {name for _, names in SOLUTIONS.values() for name in names}
        wanted = (to_write | set(BEYOND.get(module, ()))) & wanted
    return blank(source, wanted - given, given, note_of(module))


def imported(text: str) -> Iterator[tuple[str, str]]:
    """Yield each name that a text imports from the library, with its module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{LIBRARY}."):
            for alias in node.names:
                yield (node.module or "").partition(".")[2], alias.name


def note_of(module: str) -> str:
    """Say in a module's docstring what is to be written in it."""
    rubric = tomllib.loads(read("tests/rubric.toml"))
    problems = [problem for problem, (where, _) in SOLUTIONS.items() if where == module]
    if not problems:
        return "Not examined; training and generation need it."
    lines = "\n".join(
        f"    {rubric[problem]['title']} ({rubric[problem]['points']} points)"
        for problem in problems
    )
    return f"Yours to write (docs/handout.md):\n\n{lines}"


def overview(written: set[str]) -> str:
    """Write the package's docstring: which modules are whose."""
    examined = dict.fromkeys(module for module, _ in SOLUTIONS.values())
    later = sorted(written - examined.keys())
    lists = (
        f"Yours to write: {', '.join(examined)}; then, for training and generation: "
        f"{', '.join(later)}. The other modules are given."
    )
    filled = textwrap.fill(lists, 100)
    return f'"""A Transformer language model from scratch.\n\n{filled}\n"""\n'


# --- the examination ---


def examination() -> dict[str, str]:
    """Return the public examination: as it is, but for oracles and mistakes."""
    tests = ROOT / "tests"
    found = [*tests.glob("*.py"), *tests.glob("*.toml"), *tests.glob("probes/*.py")]
    kept = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in found}
    replaced = {
        path.relative_to(ROOT).as_posix(): answers(path)
        for package in ("oracles", "mistakes")
        for path in tests.glob(f"{package}/*.py")
    }
    return kept | replaced


def answers(path: Path) -> str:
    """Write a module that looks up what an oracle or a mistake answers."""
    name = f"{path.parent.name}.{path.stem}"
    if path.stem == "__init__":
        return f'"""Stored answers: see stored.py. ({path.parent.name.capitalize()})"""\n'
    module = Module(path.read_text(encoding="utf-8"))
    computed = COMPUTED.get(name, ())
    kept = module.kept(set(), set(computed)) if computed else {}
    code = [module.render(part, as_stub=False) for part in kept]
    lookups = [
        f'{function} = answer_of("{name}.{function}")'
        for function, node in module.defined.items()
        if isinstance(node, ast.FunctionDef) and function not in kept
    ]
    heading = f'"""Stored answers of {name}: see stored.py."""'
    used = "\n".join(code)
    above = [heading, "", *module.imports(used), "from stored import answer_of"]
    return "\n".join([*above, *code, *([""] if code else []), "", *lookups, ""])


def record_answers(path: Path, tests: Sequence[str] = ("tests",)) -> None:
    """Let the reference sit the examination and keep what oracles and mistakes say.

    Args:
        path: The file to write.
        tests: Files or folders of the examination.

    Raises:
        ValueError: The reference does not pass.
    """
    search = os.pathsep.join([str(TEMPLATES), os.environ.get("PYTHONPATH", "")])
    command = [
        sys.executable, "-m", "pytest", *tests, "--ignore", "tests/project", "--quiet",
        "-p", "record_answers", "--record-answers", str(path.resolve()),
    ]  # fmt: skip
    finished = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode or not path.exists():
        print(finished.stdout[-3000:], finished.stderr[-3000:], file=sys.stderr)
        raise ValueError("the reference does not pass its own examination: see above")


if __name__ == "__main__":
    run(main)
