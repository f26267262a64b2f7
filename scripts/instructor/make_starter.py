"""Make the student edition of this repository: python scripts/instructor/make_starter.py --out DIR.

The edition holds the book with blanks in the place of what is examined, the code that runs it (in
given/), the examination with stored answers in the place of oracles, the scripts, and the handout.
It is generated from the reference and its tests, which have to pass: nothing is written by hand
twice.
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

sys.path.append(str(Path(__file__).parents[1]))  # for cli.py

from cli import check_can_write, run
from starter.blank import blank
from starter.edition.tests.stored import COMPUTED

ROOT = Path(__file__).parents[2]
STARTER = Path(__file__).with_name("starter")
STANDS_IN = STARTER / "edition"
"""Files of the edition that are not the repository's, each in its place."""

# What solves each problem of the rubric: a module of the book, and names in it.
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

# What stays in a module that students complete; the rest of it is left out.
GIVEN: dict[str, tuple[str, ...]] = {
    "bpe": ("Vocab", "Merge", "SINGLE_BYTES"),
    "optim": ("Parameters", "SGD", "call_closure"),
    "pretokenize": ("PRETOKEN",),
}  # fmt: skip
BLANK = {
    module: {name for where, names in SOLUTIONS.values() if where == module for name in names}
    for module in [*(where for where, _ in SOLUTIONS.values()), "pretokenize"]
}
"""The definitions to write, by module."""

SPARED = "  # noqa: F401"

# What is copied as it is, from and to.
COPIED = {
    "cs_basics/generate.py": "cs_basics",
    "cs_basics/training.py": "cs_basics",
    "cs_basics/run/*": "given/run",
    "cs_basics/stories/*": "given/stories",
    "cs_basics/study/*": "given/study",
    "cs_basics/interop/*": "given/interop",
    # JavaScript that runs a trained model in a browser: the only forward pass and encoder that
    # students are given. It cannot train.
    "cs_basics/interop/page/*": "given/interop/page",
    "cs_basics/variants/config.py": "given/variants",
    "cs_basics/fast/activation_checkpointing.py": "given/fast",
    "cs_basics/variants/dropout.py": "given/variants",
    # The from-scratch rule, so that it is told before the grading.
    "cs_grader/result.py": "cs_grader",
    "cs_grader/rules/*.py": "cs_grader/rules",
    **{
        f"cs_grader/sandbox/{name}.py": "cs_grader/sandbox"
        for name in ("blocked", "forbidden", "libraries", "places")
    },
    "tests/*.py": "tests",
    "tests/*.toml": "tests",
    "tests/probes/*": "tests/probes",
    "scripts/*.py": "scripts",
    "docs/handout.md": "docs",
    "data/README.md": "data",
    "LICENSE": "",
    "constraints.txt": "",
    ".gitignore": "",
}
# Exceptions, which are not copied: they need the fast twins or other solutions.
LEFT_OUT = (
    "cs_basics/run/epochs.py", "cs_basics/run/fsdp.py", "cs_basics/run/parallel_layers.py",
    "cs_basics/run/tensor_parallel.py",
    "cs_grader/rules/__init__.py", "cs_grader/rules/apart.py", "cs_grader/rules/findings.py",
    "scripts/convert_tokenizer.py", "scripts/encode.py", "scripts/import_llama.py",
    "scripts/join_tokens.py", "scripts/microscope.py", "scripts/serve.py", "scripts/size.py",
    "scripts/train_tokenizer.py",
)  # fmt: skip
FIXED = (
    *("norm", "norm_eps", "placement", "positions"),
    *("num_kv_heads", "head_dim", "qk_norm", "ffn", "tie_embeddings"),
    *("value_residual", "head_bias"),
    *("optimizer", "muon_lr_ratio"),
    *("order", "parallel"),
)
"""Settings that the edition fixes at their default: they are neither fields nor flags there."""
NAMING_FIXED = (
    "cs_basics/run/config.py", "cs_basics/run/presets.py", "cs_basics/variants/config.py",
    "scripts/account.py",
)  # fmt: skip
# Texts that differ in the edition: the file, the repository's text, the edition's; [...] stands for
# any text.
OTHERWISE = (
    ("cs_basics/run/config.py", "the fast twins of cs_basics/fast, comp", "your code, comp"),
    ("cs_basics/run/config.py", "the book's own code, uncompiled", "your code, line by line"),
    ("cs_basics/run/presets.py", '    schedule="linear",\n', ""),
    ("cs_basics/run/__init__.py", "batches.py, epochs.py              the batches, drawn at random "
     "or from end to end", "batches.py                         the batches, drawn at random"),
    ("cs_basics/run/__init__.py", "distributed.py, fsdp.py            ... DDP, FSDP\n"
     "tensor_parallel.py                 ... or shares of every matrix product "
     "(parallel_layers.py)\n", "distributed.py                     ... DDP\n"),
    ("cs_basics/run/batches.py", "from cs_basics.run.epochs import epoch_batch\n", ""),
    ("cs_basics/run/batches.py", '    if data.order == "epochs":[...]    else:\n    ',
     "    del step  # get_batch draws anew each time.\n"),
    ("cs_basics/run/distributed.py", "; with `FSDP` (fsdp.py)[...]matrix product. All make", ".\n"
     "It makes"),
    ("cs_basics/run/distributed.py", "draws, and write the", "draws, and writes the"),
    ("cs_basics/run/distributed.py", " or another method.", "."),
    ("cs_basics/run/encoding.py", "A FastTokenizer (cs_basics.fast.text) encodes with several "
     "processes. Any other tokenizer needs", "A tokenizer needs"),
    ("cs_basics/run/optimizer.py", "; a bias of the output head is not decayed", ""),
    ("cs_basics/run/optimizer.py", "    biases = head_biases(model)\n", ""),
    ("cs_basics/run/optimizer.py", "(*tables, *biases)", "tables"),
    ("cs_basics/run/optimizer.py", "    if biases:[...]\"weight_decay\": 0.0})\n", ""),
    ("cs_basics/run/optimizer.py", "    kind = AdamW\n[...](accelerate(kind) if is_fast else kind)",
     "    return (accelerate(AdamW) if is_fast else AdamW)"),
    ("cs_basics/run/layout.py", ", or the model not at all[...]def micro_batch_size(",
     '.\n    """\n    micro_batch_size(config, world)\n\n\ndef micro_batch_size('),
    ("cs_basics/run/layout.py", '    if config.run.parallel == "ddp" or world.size == 1:\n    '
     "    return DDP(model, world)\n[...]    return FSDP(model, optimizer, world, build_whole)",
     "    del optimizer, config  # They are whole in each process.\n    return DDP(model, world)"),
    ("cs_basics/run/trainer.py", "        set_head_bias(self.model, corpus.train.tokens)\n", ""),
    ("cs_basics/run/token_file.py", ": make one with scripts/encode.py", ""),
    ("cs_basics/study/__init__.py", "microscope/ [...]through a block\n", ""),
    ("cs_basics/study/ablation.py", "def _norms([...]def _lr(", "def _lr("),
    ("cs_basics/study/ablation.py", '    "norms": _norms,\n[...]    "lr"', '    "lr"'),
    ("cs_basics/variants/config.py", "NormKind = Literal[[...]@dataclass", "@dataclass"),
    ("cs_basics/variants/config.py", "without head_dim it divides", "divides"),
    ("docs/handout.md", " (the student edition, which `python scripts/instructor/make_starter.py "
     "--out DIR` makes)", ""),
    ("scripts/ablate.py", "scripts/ablate.py norms.", "scripts/ablate.py lr."),
    ("scripts/ablate.py", "scripts/ablate.py norms --minutes", "scripts/ablate.py batch --minutes"),
    ("scripts/train.py", "from process import keep_freed_memory\n",
     "from process import keep_freed_memory\nfrom rehearse import check\n"),
    ("scripts/train.py", "    try:\n        on_progress = progress",
     "    if world.is_first and not resume:\n        check()\n"
     "    try:\n        on_progress = progress"),
    ("cs_basics/interop/__init__.py",
     "serve/               the same page against a model on this machine, and the completions "
     "endpoint\n", ""),
    ("cs_basics/interop/page_data.py", "asdict(config.model)",
     "{name: getattr(config.model, name) for name in ModelConfig.__annotations__}"),
    ("cs_basics/interop/page_data.py", "from cs_basics.transformer import TransformerLM\n",
     "from cs_basics.transformer import TransformerLM\n"
     "from cs_basics.variants.config import ModelConfig\n"),
    ("cs_basics/interop/page_file.py", "look into it with scripts/serve.py",
     "write with scripts/generate.py"),
    ("cs_basics/interop/tokenizer_files.py", "def load_tiktoken([...]def _check", "def _check"),
    ("data/README.md", " (`scripts/encode.py`, and `tokens/` in", " (`tokens/` in"),
)  # fmt: skip
TEACHERS_ONLY = (
    "basedpyright", "beartype", r"cs_basics\[serve", "hypothesis", "import-linter", "needs",
    "openai", "pyyaml", "transformers", "triton",
)  # fmt: skip


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
        print("asking the oracles: the reference sits the whole examination, a minute or two")
        record_answers(folder / "tests" / "stored_answers.npz")
        if solution:
            fill_in(Path(scratch) / "solution", folder)
            shutil.move(Path(scratch) / "solution", solution)
        folder.replace(out)
    for made in filter(None, (out, solution)):
        sizes = [path.stat().st_size for path in made.rglob("*") if path.is_file()]
        print(f"{made}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB")


def build(folder: Path) -> None:
    """Write all of the edition except the stored answers."""
    for pattern, place in COPIED.items():
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and path.relative_to(ROOT).as_posix() not in LEFT_OUT:
                write(folder / place / path.name, as_handed_out(path))
    for module, names in BLANK.items():
        source = (ROOT / "cs_basics" / f"{module}.py").read_text(encoding="utf-8")
        text = blank(source, names, GIVEN.get(module, ()), heading_of(module, source))
        # Students need torch for their code, even where no signature does: tidy must leave it.
        text = text.replace("import torch\n", f"import torch{SPARED}\n")
        write(folder / "cs_basics" / f"{module}.py", text)
    for path in answering():
        write(folder / path.relative_to(ROOT), answers(path))
    shutil.copytree(
        STANDS_IN, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    write(folder / "pyproject.toml", project_file())
    tidy(folder)


def answering() -> list[Path]:
    """List the modules that know the answers."""
    return [*ROOT.glob("tests/oracles/*.py"), *ROOT.glob("tests/mistakes/*.py")]


def tidy(folder: Path) -> None:
    """Take out the imports that only solutions needed, and empty lines."""
    unused = ["--fix", "--select", "F401,I", "--config", "lint.per-file-ignores={}"]
    for command in (["check", *unused], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--no-cache", "."]
        subprocess.run(ruff, cwd=folder, check=True)
    for path in (folder / "cs_basics").glob("*.py"):
        path.write_text(path.read_text(encoding="utf-8").replace(SPARED, ""), encoding="utf-8")


def fill_in(folder: Path, edition: Path) -> None:
    """Write an edition with the reference in the place of blanks, and with oracles."""
    stored = shutil.ignore_patterns("stored*", "__pycache__")
    shutil.copytree(edition, folder, ignore=stored)
    # With oracles any seed will do, and a grader that takes these tests keeps the rule by itself.
    (folder / "conftest.py").unlink()
    for path in [*answering(), *(ROOT / "cs_basics" / f"{module}.py" for module in BLANK)]:
        shutil.copyfile(path, folder / path.relative_to(ROOT))
    tidy(folder)


def as_handed_out(path: Path) -> str:
    """Return a file's text as the edition has it."""
    text = path.read_text(encoding="utf-8")
    for name, ours, theirs in OTHERWISE:
        if path == ROOT / name:
            pattern = ".*?".join(re.escape(part) for part in ours.split("[...]"))
            parts = re.split(pattern, text, flags=re.DOTALL)
            if len(parts) != 2:
                raise ValueError(f"{name} says {ours!r} {len(parts) - 1} times: see OTHERWISE")
            text = theirs.join(parts)
    return without_choices(text) if path in {ROOT / name for name in NAMING_FIXED} else text


def without_choices(text: str) -> str:
    """Return the text of a Python file without the fields and arguments of fixed settings."""
    names = "|".join(FIXED)
    # A field with its docstring; an argument of a call; a parameter; its line in a docstring.
    text, num_fixed = re.subn(
        rf'(?m)^    ({names}): .* = (.*[^,])\n    """[^"]*"""\n', r"    \1: ClassVar = \2\n", text
    )
    text = re.sub(rf"(?m)^ +({names})=.*,\n", "", text)
    text = re.sub(rf"(?m)^    ({names}): .*,\n", "", text)
    text = re.sub(rf"(?m)^        ({names}): .*\n", "", text)
    return text.replace("from typing import", "from typing import ClassVar,") if num_fixed else text


def write(path: Path, text: str) -> None:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def project_file() -> str:
    """Return pyproject.toml without what only the whole repository has or needs."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    text = text.partition("\n[tool.importlinter]")[0] + "\n"
    text = re.sub(
        r"\n\[(project\.entry-points\.pytest11|tool\.(setuptools\.package-data|basedpyright))\]\n"
        r"(?:[^\[\n].*\n|\n)*",
        "\n",
        text,
    )
    text = re.sub(r"(?m)^serve = \[[^]]*\]\n", "", text)
    # Rules for folders that the edition does not have.
    text = re.sub(r'(?m)^"(?:scripts/\*/\*\.py|lab/[^"]*)" = .*\n', "", text)
    text = text.replace(": use cs_basics.variants.muon.Muon", "")
    text = re.sub(r'(?m)^"lab"\.msg = .*\n', "", text)
    text = text.replace(
        '"scripts/**" = ["T20"]\n',
        '"scripts/**" = ["T20"]\n"cs_basics/*.py" = ["F401"]  # torch, before it is used\n',
    )
    text = re.sub(r'(?m)^    "slow: takes seconds; .*', '    "slow: takes seconds",', text)
    text = text.replace('include = ["cs_basics*", "cs_grader*"]', 'include = ["cs_basics"]')
    return re.sub(rf'(?m)^    "(?:{"|".join(TEACHERS_ONLY)})\b.*\n', "", text)


def heading_of(module: str, source: str) -> str:
    """Return a module's docstring, with a list of what students write in the module."""
    summary = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0].partition(". ")[0]
    rubric = tomllib.loads((ROOT / "tests" / "rubric.toml").read_text(encoding="utf-8"))
    lines = [
        f"    {problem:<34}  {rubric[problem]['title']} ({rubric[problem]['points']} points)"
        for problem, (where, _) in SOLUTIONS.items()
        if where == module
    ]
    if not lines:
        return summary
    asked = 'Yours to write (docs/handout.md); examined by `make test ARGS="--problem NAME"`:'
    return "\n".join([f"{summary.removesuffix('.')}.", "", asked, "", *lines, ""])


def answers(path: Path) -> str:
    """Return a module that looks up what an oracle or a mistake answers."""
    name = f"{path.parent.name}.{path.stem}"
    if path.stem == "__init__":
        return f'"""Stored answers: see stored.py. ({path.parent.name.capitalize()})"""\n'
    source, computed = path.read_text(encoding="utf-8"), COMPUTED.get(name, ())
    lookups = [
        f'{node.name} = answer_of("{name}.{node.name}")'
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name not in computed
    ]
    kept = blank(source, (), computed, f"Stored answers of {name}: see stored.py.")
    heading, _, rest = kept.partition("\n")
    return "\n".join([heading, "from stored import answer_of", rest, *lookups, ""])


def record_answers(path: Path) -> None:
    """Let the reference sit the examination and store the answers of oracles and mistakes.

    Args:
        path: The file to write.

    Raises:
        ValueError: The reference does not pass.
    """
    places = [str(STARTER), str(STANDS_IN / "tests"), os.environ.get("PYTHONPATH", "")]
    command = [
        sys.executable, "-m", "pytest", "tests", "--ignore", "tests/project", "--quiet",
        "-p", "record_answers", "--record-answers", str(path.resolve()),
        f"--gpt2-files={ROOT.parent / 'shared' / 'data' / 'gpt2'}",
    ]  # fmt: skip
    finished = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode or not path.exists():
        print(finished.stdout[-3000:], finished.stderr[-3000:], file=sys.stderr)
        raise ValueError("the reference does not pass its own examination: see above")


if __name__ == "__main__":
    run(main)
