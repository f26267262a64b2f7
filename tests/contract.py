"""Which of several customary conventions the examination asks for: the contract.

Solutions with the default conventions are public. An instructor who wants others names them in
contract.toml, which stands beside this file, and only those that differ:

    rope_pairs = "halves"
    bpe_ties = "smaller"

Oracles and mistakes ask `current()`; what handout, starter and reference say under each convention
stands in scripts/instructor/starter/conventions/. Without the file all is as the handout says it.
"""

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("contract.toml")


def convention(problems: str, **options: str) -> Any:
    """Make a field: the problems that it touches, what each option means; the first is default."""
    about = {"problems": tuple(problems.split()), "options": options}
    return dataclasses.field(default=next(iter(options)), metadata=about)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contract:
    """One option of each convention.

    What an option means completes the sentence "a contract in which ...".
    """

    rope_pairs: str = convention(
        "rope multihead_self_attention_with_rope transformer_block transformer_lm",
        neighbours="RoPE turns the pairs (2i, 2i+1)",
        halves="RoPE turns the pairs (i, i + d/2)",
    )
    bpe_ties: str = convention(
        "train_bpe",
        greater="the lexicographically greater of tied pairs is merged",
        smaller="the lexicographically smaller of tied pairs is merged",
    )
    norm_gain: str = convention(
        "rmsnorm transformer_block transformer_lm",
        weight="the gain of RMSNorm is its weight, which starts at 1",
        one_plus_weight="the gain of RMSNorm is 1 + its weight, which starts at 0",
    )
    ffn_gate: str = convention(
        "positionwise_feedforward transformer_block transformer_lm",
        w1="the activation of SwiGLU belongs on W1 x",
        w3="the activation of SwiGLU belongs on W3 x",
    )
    ffn_activation: str = convention(
        "positionwise_feedforward transformer_block transformer_lm",
        silu="the activation of SwiGLU is SiLU",
        relu_squared="the activation of SwiGLU is the square of ReLU",
    )
    weight_decay: str = convention(
        "adamw",
        either="AdamW may decay a parameter before its update or after it",
        after="AdamW decays a parameter after its update",
    )
    qk_norm: str = convention(
        "multihead_self_attention multihead_self_attention_with_rope transformer_block"
        " transformer_lm",
        none="queries and keys are not normalised",
        unit="queries and keys of each head are divided by their root mean square",
    )
    norm_rounding: str = convention(
        "rmsnorm",
        either="RMSNorm may round to the dtype of x before the gain or after it",
        before_gain="RMSNorm rounds to the dtype of x before the gain and once more after it",
    )
    embedding_init: str = convention(
        "embedding",
        unit="the embedding starts from a standard deviation of 1",
        small="the embedding starts from a standard deviation of 0.02",
    )
    argument_names: str = convention(
        "linear silu positionwise_feedforward rmsnorm softmax scaled_dot_product_attention"
        " multihead_self_attention multihead_self_attention_with_rope transformer_block",
        long="adapters are given in_features, and for attention Q, K and V",
        short="adapters are given x, and for attention query, key and value",
    )

    def __post_init__(self) -> None:
        for name, options in OPTIONS.items():
            if (value := getattr(self, name)) not in list(options):
                choices = " or ".join(f'"{option}"' for option in options)
                raise ValueError(f"{name} = {value!r} is no option of the contract: use {choices}")

    def changed(self, problem: str = "") -> list[str]:
        """Name the conventions that are not the default ones, of all problems or of one."""
        return [
            name
            for name in OPTIONS
            if getattr(self, name) != getattr(DEFAULT, name)
            and (not problem or problem in PROBLEMS[name])
        ]

    @property
    def renamed(self) -> Mapping[str, str]:
        """For each argument of adapters that has another name than usual, that name."""
        return NEW_NAMES.get(self.argument_names, {})

    def says(self, name: str) -> str:
        """Say what the option of a convention means."""
        return OPTIONS[name][getattr(self, name)]


NEW_NAMES = {"short": {"in_features": "x", "Q": "query", "K": "key", "V": "value"}}
_FIELDS = {field.name: field.metadata for field in dataclasses.fields(Contract)}
OPTIONS: Mapping[str, Mapping[str, str]] = {n: about["options"] for n, about in _FIELDS.items()}
"""What each option of each convention means."""
PROBLEMS: Mapping[str, tuple[str, ...]] = {n: about["problems"] for n, about in _FIELDS.items()}
"""The problems that a solution of another convention fails."""
DEFAULT = Contract()


def read(file: Path) -> Contract:
    """Read a contract.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not TOML, or names a convention or an option that does not exist.
    """
    try:
        chosen = tomllib.loads(file.read_text(encoding="utf-8"))
        if unknown := [name for name in chosen if name not in OPTIONS]:
            raise ValueError(f"there is no convention {unknown[0]}: use {', '.join(OPTIONS)}")
        return Contract(**chosen)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: {error}") from None


def write(file: Path, contract: Contract) -> None:
    """Write a contract, the default conventions left out."""
    lines = [f'{name} = "{getattr(contract, name)}"\n' for name in contract.changed()]
    file.write_text("".join(lines), encoding="utf-8")


_in_force: list[Contract] = []


def current() -> Contract:
    """Return the contract that the examination follows."""
    if not _in_force:
        _in_force.append(read(FILE) if FILE.exists() else DEFAULT)
    return _in_force[-1]


@contextmanager
def under(contract: Contract) -> Iterator[None]:
    """Let oracles answer by another contract."""
    current()
    _in_force.append(contract)
    try:
        yield
    finally:
        _in_force.pop()
