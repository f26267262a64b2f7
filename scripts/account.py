"""Account for the costs of a model: parameters, floating-point operations, memory, time.

python scripts/account.py stories
python scripts/account.py tinystories --peak-tflops 989 --mfu 0.4
python scripts/account.py stories --vocab-size 50257 --context-length 1024 --num-layers 48 \
    --d-model 1600 --num-heads 25 --d-ff 4288
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tyro
from cli import run

from cs_basics.run.metrics import format_duration
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.presets import PRESETS
from cs_basics.study.accounting import (
    Parts,
    forward_flops,
    generation_flops,
    inference_memory,
    parameters,
    seconds,
    total,
    training_flops,
    training_memory,
    utilisation_of,
)

MAX_RATE = 1e15
"""More 10^12 operations, or tokens, in a second than any hardware will do."""


@dataclass(frozen=True, kw_only=True)
class Account(ModelConfig):
    """A model, how long it is trained, and on what hardware."""

    batch_size: int
    """Sequences per update."""
    max_steps: tyro.conf.Suppress[int | None]
    tokens: int | None = None
    """Tokens to train on (none: those of the preset, if it limits the updates)."""
    peak_tflops: float | None = None
    """Peak of the hardware in 10^12 operations per second."""
    mfu: float = 0.4
    """Assumed model FLOPs utilisation of training, as a share of the peak."""
    tokens_per_s: float | None = None
    """Measured training speed; with peak_tflops it gives the utilisation reached."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("batch_size", "tokens"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        for name in ("peak_tflops", "tokens_per_s"):
            if (value := getattr(self, name)) is not None and not 0 < value <= MAX_RATE:
                raise ValueError(f"{name}={value} must be greater than 0 and at most {MAX_RATE:g}")
        if self.tokens_per_s is not None and self.peak_tflops is None:
            raise ValueError("tokens_per_s needs peak_tflops beside it: a share of what peak?")
        if not 0 < self.mfu <= 1:
            raise ValueError(f"mfu={self.mfu} must be greater than 0 and at most 1")


if TYPE_CHECKING:
    Preset = Account
else:
    Preset = tyro.extras.subcommand_type_from_defaults(
        {
            name: Account(
                **dataclasses.asdict(config.model),
                batch_size=config.data.batch_size,
                max_steps=config.run.max_steps,
            )
            for name, (_, config) in PRESETS.items()
        },
        {name: text for name, (text, _) in PRESETS.items()},
        prefix_names=False,
    )


def main(account: Preset) -> None:
    """Account for the costs of training and running a model.

    Args:
        account: The preset; flags change its settings.
    """
    show_costs(account, account.batch_size)
    tokens = account.tokens
    if tokens is None and account.max_steps:
        tokens = account.max_steps * account.batch_size * account.context_length
    show_time(account, account.batch_size, tokens, account.peak_tflops, account.mfu)
    if account.peak_tflops is not None and account.tokens_per_s is not None:
        reached = utilisation_of(account, account.tokens_per_s, 1e12 * account.peak_tflops)
        print(f"{account.tokens_per_s:,.0f} tokens/s reach {reached:.1%} of the peak")


def show_costs(config: ModelConfig, batch_size: int) -> None:
    """Print the tables of parameters, operations and memory."""
    last = config.context_length - 1
    table("parameters", parameters(config), 1, "")
    table("operations of a forward pass over one full context", forward_flops(config), 1e9, "GFLOP")
    step = training_flops(config, batch_size)
    table(f"operations of a training step of {batch_size} sequences", step, 1e9, "GFLOP")
    per_token = total(step) / (batch_size * config.context_length)
    print(f"  {per_token / 1e6:,.1f} MFLOP per token\n")
    generated = generation_flops(config, last)
    table(f"operations of generating the token at position {last}", generated, 1e6, "MFLOP")
    memory = training_memory(config, batch_size)
    title = f"memory of a training step of {batch_size} sequences"
    table(f"{title}, float32, --fast off, AdamW, no dropout", memory, 1e6, "MB")
    table("memory of generating one text, float32", inference_memory(config), 1e6, "MB")


def table(title: str, parts: Parts, scale: float, unit: str) -> None:
    """Print one part per line, with its share."""
    whole = total(parts)
    digits = 0 if scale == 1 else 1
    print(title)
    for part, value in (parts | {"together": whole}).items():
        share = value / whole
        print(f"  {part:<28} {value / scale:>18,.{digits}f} {unit:<5} {share:>7.1%}")
    print()


def show_time(
    config: ModelConfig, batch_size: int, tokens: int | None, peak_tflops: float | None, mfu: float
) -> None:
    """Print the time of a step and of the whole training on given hardware."""
    if peak_tflops is None:
        print("time: give --peak-tflops (and --mfu) of the hardware")
        return
    step_flops = total(training_flops(config, batch_size))
    step_s = seconds(step_flops, 1e12 * peak_tflops, mfu)
    speed = batch_size * config.context_length / step_s
    print(f"at {mfu:.0%} of {peak_tflops:g} TFLOP/s")
    print(f"  a step takes {1000 * step_s:,.1f} ms: {speed:,.0f} tokens/s")
    if tokens is not None:
        print(f"  {tokens:,} tokens take {format_duration(tokens / speed)}")


if __name__ == "__main__":
    run(main)
