"""What an attack is: a small change of a right submission, and what should come of it."""

import functools
import re
import shutil
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from files import write_files
from processes import ROOT

PACKAGE = "student_lm"
PROBLEMS = ("silu", "softmax")
# Needed by no adapter.
LEFT_OUT = {"stories", "study", "interop"}

RIGHT = "return softmax(in_features, dim)"
# Of a shape that is never right, so that no item passes by chance.
WRONG = "return torch.zeros(7, 7, 7)"
# One item of each seed asks for float64: what takes long or breaks much does it only there.
ONCE = "if in_features.dtype == torch.float64:"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What the grader should find. A problem that is not named keeps all of its points."""

    lost: tuple[str, ...] = ()
    """Problems with no points left."""
    partly: tuple[str, ...] = ()
    """Problems with some points lost and some kept."""
    unsure: tuple[str, ...] = ()
    """Problems of whose points nothing is expected."""
    note: str = ""
    """Pattern found in the note of the gradebook; "" means that nothing has to be there."""
    message: str = ""
    """Pattern found in the message of an item that did not pass."""
    policy: tuple[str, ...] = ()
    """Patterns, each found in a "rule operator file:line" of the policy; none: it is empty."""
    any_policy: bool = False
    """Nothing is expected of the policy."""
    check: Callable[[dict, Path], None] | None = None
    """Looks at the result and the folder of outputs."""


@dataclass(frozen=True)
class Attack:
    """One submission."""

    name: str
    change: Callable[[Path], Path | None] = field(repr=False)
    """Changes the folder of a right submission; may return what is handed in instead of it."""
    expected: Expected
    code: str = field(default="", repr=False)
    """The source of its run_softmax, if that is all."""
    seen: str = ""
    """Pattern of the beginning of what one call comes to (asking.py); "": not called by itself."""
    needs_sandbox: bool = False
    """A plain process does not withstand it."""

    @property
    def title(self) -> str:
        return re.sub("[^a-zA-Z0-9]+", "-", self.name)

    @property
    def module(self) -> str:
        return f"called_{self.title.replace('-', '_')}"


ATTACKS: list[Attack] = []


def changes(name: str, **expected):
    """Declare that the decorated function changes a right submission into this one."""

    def declare(change):
        ATTACKS.append(Attack(name, change, Expected(**expected)))
        return change

    return declare


def softmax_does(
    name: str,
    body: str,
    *,
    at_import: str = "",
    seen: str = "",
    needs_sandbox: bool = False,
    **expected,
):
    """Declare an attack whose run_softmax has this body."""
    code = source(body, at_import)

    def change(folder):
        add_to_adapters(folder, code)

    ATTACKS.append(Attack(name, change, Expected(**expected), code, seen, needs_sandbox))


Text = str | bytes | Callable[[str], str | bytes]


def has_files(name: str, files: dict[str, Text], **expected):
    """Declare a right submission with these files, each given or made of the text that it has."""

    def change(folder):
        for path, text in files.items():
            made = text((folder / path).read_text(encoding="utf-8")) if callable(text) else text
            write_files(folder, {path: made})

    ATTACKS.append(Attack(name, change, Expected(**expected)))


def ends_with(text: str) -> Text:
    """Let a file end with more lines."""
    return lambda was: f"{was}\n\n{text}"


def source(body: str, at_import: str = "") -> str:
    """Another run_softmax, which hides the right one where the adapters end with it."""
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return (
        f"{textwrap.dedent(at_import).strip()}\n\n\ndef run_softmax(in_features, dim):\n{lines}\n"
    )


def add_to_adapters(folder: Path, text: str) -> None:
    with adapters_of(folder).open("a", encoding="utf-8") as file:
        file.write(f"\n\n{text}")


ADAPTERS, FUNCTIONS = "tests/adapters.py", f"{PACKAGE}/functional.py"


def adapters_of(folder: Path) -> Path:
    return folder / ADAPTERS


LAST_IMPORT = "from torch import Tensor\n"
AT_THE_TOP = f"""
from {PACKAGE}.functional import cross_entropy, scaled_dot_product_attention, silu, softmax
from {PACKAGE}.layers import Embedding, Linear, SwiGLU
from {PACKAGE}.norms import RMSNorm
from {PACKAGE}.optim import AdamW, clip_grad_norm, cosine_schedule
from {PACKAGE}.tokenizer import Tokenizer
from {PACKAGE}.transformer import TransformerLM
"""
"""Many import at the top of their adapters, and the attacks use these names."""


@functools.cache
def reference() -> dict[str, str]:
    """The files of a right submission: the reference under the name of a student's package."""
    files = {
        "pyproject.toml": (
            f'[project]\nname = "{PACKAGE.replace("_", "-")}"\nversion = "1.0"\n'
            'requires-python = ">=3.11"\n'
        )
    }
    sources = [
        path for path in (ROOT / "cs_basics").rglob("*.py") if LEFT_OUT.isdisjoint(path.parts)
    ]
    for path in (*sources, ROOT / "tests" / "adapters.py"):
        name = path.relative_to(ROOT).as_posix().replace("cs_basics", PACKAGE)
        files[name] = path.read_text(encoding="utf-8").replace("cs_basics", PACKAGE)
    adapters = files["tests/adapters.py"]
    assert adapters.count(LAST_IMPORT) == 1
    files["tests/adapters.py"] = adapters.replace(LAST_IMPORT, LAST_IMPORT + AT_THE_TOP)
    files[f"{PACKAGE}/__init__.py"] = (
        f'import importlib.metadata\n\n__version__ = importlib.metadata.version("{PACKAGE}")\n'
    )
    return files


def build(which: Attack, folder: Path) -> Path:
    """Make one in a new folder; return what is handed in, a folder or a zip."""
    if folder.exists():
        shutil.rmtree(folder)
    return which.change(write_files(folder, reference())) or folder


def load() -> list[Attack]:
    """All of them, file by file."""
    from attacks import (  # noqa: F401
        answering,
        cheating,
        hiding,
        honest,
        leaving,
        packing,
        remembering,
        shortcuts,
    )

    return ATTACKS
