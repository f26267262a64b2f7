"""Who uses which norm: one row per family of models, each checked against its own code.

lab/norms/test_norm_users.py compares every row with the classes of transformers: the bits
of the norm in bfloat16, the eps, where in a block the norms stand. docs/norms.md shows the table;
python -m lab.norms.norm_users writes it there.
"""

from dataclasses import dataclass
from typing import Literal

from cli import run

from cs_basics.run.atomic import write_atomically
from cs_basics.variants.config import NormKind
from lab import ROOT

BEGIN, END = "<!-- who uses which norm: begin -->", "<!-- end -->"

Place = Literal["before", "after", "both"]


@dataclass(frozen=True, slots=True)
class NormUser:
    """A family of models and its norm."""

    models: str
    """Its name."""
    library: str
    """Its package in transformers.models."""
    prefix: str
    """What the names of its classes begin with there."""
    norm: NormKind
    """The norm of this project that gives the same bits."""
    eps: float
    """The default of its configuration in transformers."""
    place: Place
    """Whether it normalises what a part reads, what it gives, or both."""
    inside: str
    """What else is normalised inside attention; empty: nothing."""
    source: str
    """Number at arXiv of the paper that describes the models."""


_HEADS = "queries and keys, head by head"
_JOINED = "queries and keys, all heads together"
_LATENT = "compressed queries, and compressed keys and values"

NORM_USERS = (
    NormUser("T5", "t5", "T5", "rmsnorm-llama", 1e-6, "before", "", "1910.10683"),
    NormUser("Llama 1 to 3", "llama", "Llama", "rmsnorm-llama", 1e-6, "before", "", "2302.13971"),
    NormUser("Mistral", "mistral", "Mistral", "rmsnorm-llama", 1e-6, "before", "", "2310.06825"),
    NormUser("Gemma", "gemma", "Gemma", "rmsnorm-gemma", 1e-6, "before", "", "2403.08295"),
    NormUser("Gemma 2", "gemma2", "Gemma2", "rmsnorm-gemma", 1e-6, "both", "", "2408.00118"),
    NormUser("Gemma 3", "gemma3", "Gemma3", "rmsnorm-gemma", 1e-6, "both", _HEADS, "2503.19786"),
    NormUser("Qwen2", "qwen2", "Qwen2", "rmsnorm-llama", 1e-6, "before", "", "2407.10671"),
    NormUser("Qwen3", "qwen3", "Qwen3", "rmsnorm-llama", 1e-6, "before", _HEADS, "2505.09388"),
    NormUser("OLMo 2", "olmo2", "Olmo2", "rmsnorm", 1e-5, "after", _JOINED, "2501.00656"),
    NormUser(
        "DeepSeek-V2", "deepseek_v2", "DeepseekV2", "rmsnorm-llama", 1e-6, "before", _LATENT,
        "2405.04434",
    ),
    NormUser(
        "DeepSeek-V3", "deepseek_v3", "DeepseekV3", "rmsnorm-llama", 1e-6, "before", _LATENT,
        "2412.19437",
    ),
)  # fmt: skip

_ORDERS = {
    "rmsnorm": "gain, then cast",
    "rmsnorm-llama": "cast, then gain",
    "rmsnorm-gemma": "gain 1 + w, then cast",
}
_PLACES = {"before": "what a part reads", "after": "what a part gives", "both": "both"}


def markdown() -> str:
    """Return the table of docs/norms.md."""
    lines = [
        "| models | order | `--norm` | eps | in a block | inside attention | source |",
        "|---|---|---|---|---|---|---|",
    ]
    for user in NORM_USERS:
        cells = (
            user.models, _ORDERS[user.norm], f"`{user.norm}`", f"{user.eps:g}".replace("e-0", "e-"),
            _PLACES[user.place], user.inside or "nothing",
            f"[{user.source}](https://arxiv.org/abs/{user.source})",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    """Return a document with the table between its two marks.

    Raises:
        ValueError: A mark does not occur exactly once.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"the table goes between {BEGIN} and {END}, each once")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{markdown()}\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Write the table of who uses which norm into docs/norms.md."""
    document = ROOT / "docs" / "norms.md"
    write_atomically(document, with_table(document.read_text(encoding="utf-8")).encode())


if __name__ == "__main__":
    run(main)
