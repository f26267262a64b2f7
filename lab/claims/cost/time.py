"""Times of RMSNorm relative to LayerNorm: layers, training steps, generation."""

from collections.abc import Callable

import torch

from cs_basics.fast import accelerate
from cs_basics.optim import AdamW, clip_grad_norm
from cs_basics.run.config import TrainConfig
from cs_basics.run.evaluation import make_loss_function
from cs_basics.run.presets import PRESETS
from cs_basics.run.updates import make_updates
from cs_basics.variants.model import build_model
from lab.claims.claim import FALSE, NOT_SEEN, Claim, Intervals, Values, true_if
from lab.claims.draws import normal
from lab.claims.norm_calls import calls_of, norms
from lab.claims.sources import CIRCULATES, NARANG, ZHANG
from lab.timing import alternating_times

ROWS, D, ROUNDS = 4096, 512, 101
CONFIG = PRESETS["own-text"][1].replace(tie_embeddings=False, head_bias=False, value_residual=False)
RATIO = "time / the other's"
LAYER = f"ratio of medians of {ROUNDS} turns in one process, 4,096 x 512, float32"


def layer(names: tuple[str, str], compiled: bool, device: str = "cpu") -> Callable[[int], Values]:
    """Return the measurement: time of the first norm relative to the second, both directions."""

    def measure(seed: int) -> Values:
        x = normal(seed, ROWS, D).float().to(device).requires_grad_()
        gradient = normal(seed + 1, ROWS, D).float().to(device)
        torch.compiler.reset()
        calls = [norms(D)[name].to(device) for name in names]
        if compiled:
            for module in calls:
                module.compile(fullgraph=True)
        ratios: dict[str, float] = {}
        for direction in ("forward", "both"):
            functions = [calls_of(module, x, gradient)[direction] for module in calls]
            one, other = alternating_times(functions, ROUNDS, device=torch.device(device))
            ratios[f"{direction}: {RATIO}"] = one / other
        return ratios

    return measure


def training_step(compiled: bool) -> Callable[[int], Values]:
    """Return the measurement: training step with RMSNorm / LayerNorm."""

    def measure(seed: int) -> Values:
        torch.compiler.reset()
        steps = [step_of(CONFIG.replace(norm=n), seed, compiled) for n in ("rmsnorm", "layernorm")]
        one, other = alternating_times(steps, 7)
        return {f"training step: {RATIO}": one / other}

    return measure


def step_of(config: TrainConfig, seed: int, compiled: bool) -> Callable[[], None]:
    """Return an update of a fresh model, always with the same batch."""
    torch.manual_seed(seed)
    model = build_model(config.model)
    if compiled:
        model = accelerate(model)
    loss_of = make_loss_function(model, torch.float32)
    if compiled:
        loss_of = torch.compile(loss_of, dynamic=False)
    shape = (config.data.batch_size, config.model.context_length + 1)
    ids = torch.randint(config.model.vocab_size, shape)
    batch, optimizer = (ids[:, :-1], ids[:, 1:]), AdamW(model.parameters())

    def clip() -> float:
        return float(clip_grad_norm(model.parameters(), 1.0))

    return lambda: make_updates(optimizer, [batch], lambda _: 1e-3, loss_of, clip)


def one_token(seed: int) -> Values:
    """Time of the forward pass of one token, RMSNorm / LayerNorm, eager."""
    torch.manual_seed(seed)
    models = [build_model(CONFIG.replace(norm=norm).model) for norm in ("rmsnorm", "layernorm")]
    ids = torch.randint(CONFIG.model.vocab_size, (1, 1))
    with torch.no_grad():
        one, other = alternating_times([lambda m=m: m(ids) for m in models], 101)
    return {f"one token: {RATIO}": one / other}


def bias(seed: int) -> Values:
    """Time of LayerNorm without its bias, relative to LayerNorm with it."""
    return layer(("LayerNorm, no bias", "LayerNorm"), True)(seed)


def savings(least: float, most: float) -> Callable[[Intervals], str]:
    """Return the rule of "saves so much of the time"; most is a share, such as 0.64."""

    def judge(values: Intervals) -> str:
        (time,) = [values[name] for name in values if not name.startswith("forward")]
        if time.is_above(1 - least):
            return FALSE
        if time.is_below(1 - most):
            return f"true, and even more than {most:.0%}"
        return true_if(time.is_below(1 - least), NOT_SEEN)

    return judge


PAPER = (
    f"{ZHANG}, abstract: of the running time of whole models, in the frameworks of 2019, where "
    "LayerNorm was a chain of operations"
)

CLAIMS = [
    Claim(
        name="saves-7-to-64-eager",
        says="RMSNorm saves 7 to 64 % of the time of LayerNorm (the layer, uncompiled).",
        source=PAPER,
        shows=f"{LAYER}, the formulas operation by operation",
        measure=layer(("RMSNorm", "LayerNorm"), False),
        is_timing=True,
        verdict=savings(0.07, 0.64),
    ),
    Claim(
        name="saves-7-to-64-compiled",
        says="RMSNorm saves 7 to 64 % of the time of LayerNorm (the layer, compiled).",
        source=PAPER,
        shows=f"{LAYER}, compiled",
        measure=layer(("RMSNorm", "LayerNorm"), True),
        is_timing=True,
        verdict=savings(0.07, 0.64),
        needs="torch.compile",
    ),
    Claim(
        name="saves-7-to-64-torch",
        says="torch.nn.RMSNorm saves 7 to 64 % of the time of torch.nn.LayerNorm.",
        source=PAPER,
        shows=f"{LAYER}; on a CPU, torch has a kernel for LayerNorm and none for RMSNorm",
        measure=layer(("torch.nn.RMSNorm", "torch.nn.LayerNorm"), False),
        is_timing=True,
        verdict=savings(0.07, 0.64),
    ),
    Claim(
        name="thirty-percent",
        says="RMSNorm is 30 % faster than LayerNorm.",
        source=CIRCULATES,
        shows=f"{LAYER}, compiled; 30 % faster would be 0.77",
        measure=layer(("RMSNorm", "LayerNorm"), True),
        is_timing=True,
        verdict=lambda v: true_if(v[f"both: {RATIO}"].is_below(0.77), NOT_SEEN),
        needs="torch.compile",
    ),
    Claim(
        name="fewer-parameters-faster",
        says="RMSNorm is faster because it has fewer parameters.",
        source=CIRCULATES,
        shows=f"LayerNorm without its bias / LayerNorm with it; {LAYER}, compiled",
        measure=bias,
        is_timing=True,
        verdict=lambda v: true_if(v[f"forward: {RATIO}"].is_below(0.97), NOT_SEEN),
        needs="torch.compile",
    ),
    Claim(
        name="faster-inference",
        says="RMSNorm makes inference faster.",
        source=CIRCULATES,
        shows="forward of one token, uncompiled, model of own-text, 101 turns: what counts there "
        "is the number of operations that are started",
        measure=one_token,
        is_timing=True,
        verdict=lambda v: true_if(v[f"one token: {RATIO}"].is_below(0.98), NOT_SEEN),
    ),
    *(
        Claim(
            name=f"training-5-to-10-{how}",
            says=f"Training is 5 to 10 % faster end to end ({how}).",
            source=f"circulates; {NARANG}, table 1: 3.68 steps/s against 3.50 (5 %)",
            shows="training step of the model of own-text, 7 turns, float32",
            measure=training_step(how == "compiled"),
            is_timing=True,
            verdict=savings(0.05, 0.10),
            cost="long",
            needs="torch.compile" if how == "compiled" else "",
        )
        for how in ("eager", "compiled")
    ),
    Claim(
        name="gpu-torch",
        says="On a GPU, torch.nn.RMSNorm is faster than torch.nn.LayerNorm.",
        source=CIRCULATES,
        shows=LAYER,
        measure=layer(("torch.nn.RMSNorm", "torch.nn.LayerNorm"), False, "cuda"),
        is_timing=True,
        verdict=lambda v: true_if(v[f"both: {RATIO}"].is_below(1), NOT_SEEN),
        needs="a GPU",
    ),
    Claim(
        name="gpu-compiled",
        says="On a GPU, compiled, RMSNorm saves 7 to 64 % of the time of LayerNorm.",
        source=PAPER,
        shows=f"{LAYER}, compiled",
        measure=layer(("RMSNorm", "LayerNorm"), True, "cuda"),
        is_timing=True,
        verdict=savings(0.07, 0.64),
        needs="a GPU",
    ),
    Claim(
        name="gpu-kernel",
        says="On a GPU, a kernel of one's own beats the formula run operation by operation.",
        source=CIRCULATES,
        shows=f"FusedRMSNorm (Triton) / RMSNorm; {LAYER}",
        measure=layer(("FusedRMSNorm", "RMSNorm"), False, "cuda"),
        is_timing=True,
        verdict=lambda v: true_if(v[f"both: {RATIO}"].is_below(0.9), NOT_SEEN),
        needs="a GPU",
    ),
]
