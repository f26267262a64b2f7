"""Account for the costs of a model: parameters, floating-point operations, memory, time.

python scripts/account.py stories
python scripts/account.py tinystories --peak-tflops 989 --mfu 0.4
python scripts/account.py --vocab-size 50257 --context-length 1024 --num-layers 48 \
    --d-model 1600 --num-heads 25 --d-ff 4288
"""

import dataclasses
import sys
from typing import Any, Literal

import tyro
from cli import names_in, run

from cs_basics.run.metrics import format_duration
from cs_basics.settings.model import FeedForwardKind, ModelConfig, NormKind
from cs_basics.settings.presets import PRESETS, preset_named
from cs_basics.settings.run import TrainConfig
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

SIZES = ("vocab_size", "context_length", "d_model", "num_layers", "num_heads", "d_ff")
MAX_RATE = 1e15
"""More 10^12 operations, or tokens, in a second than any hardware will do."""


def main(
    preset: tyro.conf.Positional[str | None] = None,
    vocab_size: int | None = None,
    context_length: int | None = None,
    d_model: int | None = None,
    num_layers: int | None = None,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    d_ff: int | None = None,
    norm: NormKind | None = None,
    placement: Literal["pre", "post", "sandwich", "none"] | None = None,
    ffn: FeedForwardKind | None = None,
    qk_norm: bool = False,
    value_residual: bool = False,
    tie_embeddings: bool = False,
    head_bias: bool = False,
    batch_size: int | None = None,
    tokens: int | None = None,
    peak_tflops: float | None = None,
    mfu: float = 0.4,
    tokens_per_s: float | None = None,
) -> None:
    """Account for the costs of training and running a preset, or a model of given sizes.

    Args:
        preset: The preset to start from; without one all sizes must be given.
        vocab_size: Number of token ids.
        context_length: Tokens in a sequence.
        d_model: Size of the residual stream.
        num_layers: Number of blocks.
        num_heads: Attention heads per block.
        num_kv_heads: Heads of keys and values per block (none: num_heads).
        head_dim: Size of a head (none: d_model / num_heads).
        d_ff: Hidden size of the feed-forward parts.
        norm: Kind of normalisation.
        placement: Placement of the norms.
        ffn: Kind of feed-forward part.
        qk_norm: Normalise queries and keys.
        value_residual: Mix the values of every later block with those of the first.
        tie_embeddings: Share the weight of embedding and output head.
        head_bias: Add a bias to the output head.
        batch_size: Sequences per update (none: the preset's, or 1).
        tokens: Tokens to train on (none: the preset's, if it limits the updates).
        peak_tflops: Peak of the hardware in 10^12 operations per second.
        mfu: Assumed model FLOPs utilisation of training, as a share of the peak.
        tokens_per_s: Measured training speed; with peak_tflops it gives the utilisation reached.
    """
    flags = dict(locals())
    asked = names_in(sys.argv[1:])
    settings = [field.name for field in dataclasses.fields(ModelConfig) if field.name in asked]
    train_config = preset_named(preset) if preset else None
    config = model_of(train_config, {n: flags[n] for n in settings if flags[n] is not None})
    for name, value in (("batch_size", batch_size), ("tokens", tokens)):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    batch_size = batch_size or (train_config.data.batch_size if train_config else 1)
    if tokens is None and train_config and train_config.run.max_steps:
        tokens = train_config.run.max_steps * batch_size * config.context_length
    for name, value in (("peak_tflops", peak_tflops), ("tokens_per_s", tokens_per_s)):
        if value is not None and not 0 < value <= MAX_RATE:
            raise ValueError(f"{name}={value} must be greater than 0 and at most {MAX_RATE:g}")
    if tokens_per_s is not None and peak_tflops is None:
        raise ValueError("tokens_per_s needs peak_tflops beside it: a share of what peak?")
    if not 0 < mfu <= 1:
        raise ValueError(f"mfu={mfu} must be greater than 0 and at most 1")
    show_costs(config, batch_size)
    show_time(config, batch_size, tokens, peak_tflops, mfu)
    if peak_tflops is not None and tokens_per_s is not None:
        reached = utilisation_of(config, tokens_per_s, 1e12 * peak_tflops)
        print(f"{tokens_per_s:,.0f} tokens/s reach {reached:.1%} of the peak")


def model_of(train_config: TrainConfig | None, given: dict[str, Any]) -> ModelConfig:
    """Return the model of a preset with some settings replaced, or a model of given sizes.

    Raises:
        ValueError: Without a preset, a size is missing; or the sizes do not fit together.
    """
    if train_config is not None:
        return dataclasses.replace(train_config.model, **given)
    if missing := [name for name in SIZES if name not in given]:
        flags = " ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise ValueError(f"give a preset ({', '.join(PRESETS)}) or all sizes; missing: {flags}")
    return ModelConfig(**given)


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
