"""Times of RMSNorm relative to LayerNorm: layers, training steps, generation."""

from collections.abc import Callable

import torch

from cs_basics.fast import accelerate
from cs_basics.optim import AdamW, clip_grad_norm
from cs_basics.run.config import TrainConfig
from cs_basics.run.evaluation import make_loss_function
from cs_basics.run.presets import PRESETS
from cs_basics.run.updates import make_updates
from cs_basics.variants.model import Transformer
from lab.claims.claim import NOT_SEEN, Intervals, Values, Verdict, claim
from lab.claims.draws import normal
from lab.claims.norm_calls import calls_of, norms
from lab.timing import alternating_times

ROWS, D, ROUNDS = 4096, 512, 101
CONFIG = PRESETS["own-text"][1].replace(tie_embeddings=False, head_bias=False, value_residual=False)
RATIO = "time / the other's"


def faster(what: str, limit: float) -> Callable[[Intervals], Verdict]:
    """Return the rule of "is faster": takes less than a limit of the other's time."""
    return lambda v: v[f"{what}: {RATIO}"].is_below(limit) or NOT_SEEN


def layer(names: tuple[str, str], compiled: bool, device: str = "cpu") -> Callable[[int], Values]:
    """Return the measurement: time of the first norm relative to the second, both directions."""

    def measure(seed: int) -> Values:
        x = normal(seed, ROWS, D).float().to(device).requires_grad_()
        torch.compiler.reset()
        calls = [norms(D)[name].to(device) for name in names]
        if compiled:
            for module in calls:
                module.compile(fullgraph=True)
        ratios: dict[str, float] = {}
        for direction in ("forward", "both"):
            functions = [calls_of(module, x)[direction] for module in calls]
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
    model = (accelerate(Transformer) if compiled else Transformer)(config.model)
    loss_of = make_loss_function(model, torch.float32)
    if compiled:
        loss_of = torch.compile(loss_of, dynamic=False)
    shape = (config.data.batch_size, config.model.context_length + 1)
    ids = torch.randint(config.model.vocab_size, shape)
    batch, optimizer = (ids[:, :-1], ids[:, 1:]), AdamW(model.parameters())

    def clip() -> float:
        return float(clip_grad_norm(model.parameters(), 1.0))

    return lambda: make_updates(optimizer, [batch], lambda _: 1e-3, loss_of, clip)


@claim("faster-inference", faster("one token", 0.98))
def one_token(seed: int) -> Values:
    """Time of the forward pass of one token, RMSNorm / LayerNorm, eager."""
    torch.manual_seed(seed)
    models = [Transformer(CONFIG.replace(norm=norm).model) for norm in ("rmsnorm", "layernorm")]
    ids = torch.randint(CONFIG.model.vocab_size, (1, 1))
    with torch.no_grad():
        one, other = alternating_times([lambda m=m: m(ids) for m in models], 101)
    return {f"one token: {RATIO}": one / other}


def savings(least: float, most: float) -> Callable[[Intervals], Verdict]:
    """Return the rule of "saves so much of the time"; most is a share, such as 0.64."""

    def judge(values: Intervals) -> Verdict:
        (time,) = [values[name] for name in values if not name.startswith("forward")]
        if time.is_above(1 - least):
            return False
        if time.is_below(1 - most):
            return f"true, and even more than {most:.0%}"
        return time.is_below(1 - least) or NOT_SEEN

    return judge


claim("saves-7-to-64-eager", savings(0.07, 0.64))(layer(("RMSNorm", "LayerNorm"), False))
claim("saves-7-to-64-compiled", savings(0.07, 0.64), needs="torch.compile")(
    layer(("RMSNorm", "LayerNorm"), True)
)
claim("saves-7-to-64-torch", savings(0.07, 0.64))(
    layer(("torch.nn.RMSNorm", "torch.nn.LayerNorm"), False)
)
claim("thirty-percent", faster("both", 0.77), needs="torch.compile")(
    layer(("RMSNorm", "LayerNorm"), True)
)
claim("fewer-parameters-faster", faster("forward", 0.97), needs="torch.compile")(
    layer(("LayerNorm, no bias", "LayerNorm"), True)
)
for _how in ("eager", "compiled"):
    claim(
        f"training-5-to-10-{_how}",
        savings(0.05, 0.10),
        needs="torch.compile" if _how == "compiled" else "",
        takes_minutes=True,
    )(training_step(_how == "compiled"))
claim("gpu-torch", faster("both", 1), needs="a GPU")(
    layer(("torch.nn.RMSNorm", "torch.nn.LayerNorm"), False, "cuda")
)
claim("gpu-compiled", savings(0.07, 0.64), needs="a GPU")(
    layer(("RMSNorm", "LayerNorm"), True, "cuda")
)
claim("gpu-kernel", faster("both", 0.9), needs="a GPU")(
    layer(("FusedRMSNorm", "RMSNorm"), False, "cuda")
)
