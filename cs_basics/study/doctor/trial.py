"""Checks by trying: one batch learnt at other rates, an evaluation, a checkpoint read back."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.run.random_state import random_states
from cs_basics.study.doctor.finding import Finding
from cs_basics.study.doctor.loss import padding
from cs_basics.study.doctor.model import not_finite
from cs_basics.study.doctor.subject import Subject, first_of, leaves_of, line_of, undisturbed
from cs_basics.study.doctor.text import Places
from cs_basics.study.doctor.watch import Watch

STEPS = 16
MOST_TOKENS = 2048
"""Of the batch that is learnt."""


class Trial:
    """Learns one batch from the first weights on, with the program's own optimizer.

    Args:
        s: The subject.
        watch: What was seen; its highest rates are tried.
        start: The first weights.
    """

    def __init__(self, s: Subject, watch: Watch, start: list[Tensor]) -> None:
        self.s, self.start = s, start
        self.batch = s.cut(max(1, MOST_TOKENS // s.inputs.shape[1]))
        seen = [u.rates for u in watch.updates if u.rates]
        self.rates = [max(rates) for rates in zip(*seen, strict=True)]

    def losses(self, scale: float) -> list[float]:
        """Return the losses of STEPS updates at a multiple of the highest rates."""
        s, found = self.s, []
        with undisturbed(s.bare, s.optimizer, self.start), torch.enable_grad():
            for _ in range(STEPS):
                s.optimizer.zero_grad()
                loss = s.loss(self.batch)
                found.append(loss.item())
                if not math.isfinite(found[-1]):
                    break
                # Not backward, by which gradients would be shared out over processes.
                held = [p for p in {id(p): p for p in s.held()}.values() if p.requires_grad]
                grads = torch.autograd.grad(loss, held, allow_unused=True)
                for p, grad in zip(held, grads, strict=True):
                    p.grad = grad
                if s.options.get("clip"):
                    _clip(s.held(), s.options["clip"])
                for group, rate in zip(s.optimizer.param_groups, self.rates, strict=True):
                    group["lr"] = rate * scale
                s.optimizer.step()
        return found

    def reference(self, rate: float) -> list[float]:
        """Return the losses of STEPS updates of a plain Adam, of all that the loss depends on."""
        s, found = self.s, []
        moments: dict[int, list[Tensor]] = {}
        with undisturbed(s.bare, start=self.start), torch.enable_grad():
            for step in range(1, STEPS + 1):
                loss = s.loss(self.batch)
                found.append(loss.item())
                leaves = list(leaves_of(loss).values())
                for p, g in zip(leaves, torch.autograd.grad(loss, leaves), strict=True):
                    m, v = moments.setdefault(id(p), [torch.zeros_like(p), torch.zeros_like(p)])
                    m.lerp_(g, 0.1)
                    v.lerp_(g * g, 0.05)
                    size = (v / (1 - 0.95**step)).sqrt() + 1e-8
                    with torch.no_grad():
                        p -= rate / (1 - 0.9**step) * m / size
        return found


def _clip(held: list[Tensor], most: float) -> None:
    grads = [p.grad for p in held if p.grad is not None]
    norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt().item()
    for g in grads:
        g *= min(1.0, most / (norm + 1e-6))


def rates(s: Subject, watch: Watch, start: list[Tensor]) -> Iterator[Finding]:
    """Where a run learns nothing, learn one batch: at its rate, at others, by another optimizer.

    A run that gets below the entropy of single tokens learns, whatever its rate.
    """
    losses = [u.loss for u in watch.updates]
    if len(losses) < 8:
        return
    tail = losses[-max(2, len(losses) // 8) :]
    first, last, entropy = losses[0], sum(tail) / len(tail), unigram_entropy(s, watch)
    if last < 0.97 * entropy:
        return
    trial, place = Trial(s, watch, start), watch.updates[-1].place
    own = trial.losses(1.0)
    begin, end = own[0], _end(own)
    if end < 0.9 * begin and last < first:
        return
    # By how much the rate has to be changed before the batch is learnt.
    best = end
    for scale in (0.1, 0.01, 1e-3, 10.0, 100.0, 1e3, 1e4, 1e5):
        other = _end(trial.losses(scale))
        best = min(best, other)
        if other < 0.9 * min(begin, end):
            break
    else:
        other = min(_end(trial.reference(rate)) for rate in (3e-3, 3e-4))
        if other < 0.9 * begin and best > 0.97 * begin:
            yield Finding(
                "optimizer-setup",
                f"one batch does not fall from {begin:.3g} at any rate of this optimizer; plain "
                f"Adam brings it to {other:.3g}",
                "a fall by any optimizer that steps against the gradient",
                "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)",
                place,
            )
        return
    is_high = scale < 1
    if not is_high and first - last > 0.25 * (first - entropy):
        return  # It learns, if slowly.
    yield Finding(
        "rate-too-high" if is_high else "rate-too-low",
        f"one batch comes from {begin:.3g} to {end:.3g} in {STEPS} updates at the highest rate, "
        f"{max(trial.rates):.2g}, and to {other:.3g} at {scale:g} times that; the run ends at "
        f"{last:.3g}",
        f"a clear fall in batch and run, which begins with that to {entropy:.3g}, the entropy of "
        "single tokens",
        f"--lr {max(trial.rates) * scale:.2g}",
        place,
    )


def _end(losses: list[float]) -> float:
    return losses[-1] if math.isfinite(losses[-1]) else math.inf


def unigram_entropy(s: Subject, watch: Watch) -> float:
    """Return the entropy of single tokens of the text, in nats."""
    tokens = s.options.get("tokens")
    rows = [torch.as_tensor(batch).flatten() for batch, _ in watch.rows]
    ids = (
        torch.as_tensor(tokens[:1_000_000]).long()
        if tokens is not None
        else torch.cat(rows or [s.inputs.flatten()])
    )
    share = torch.bincount(ids.clamp(min=0)).double() / len(ids)
    share = share[share > 0]
    return -(share * share.log()).sum().item()


def evaluation(s: Subject, watch: Watch) -> Iterator[Finding]:  # noqa: C901
    """Call the program's evaluation, and look at what it reads, changes and returns."""
    call: Callable[[], float] | None = s.options.get("evaluate")
    if call is None:
        return
    read: list[tuple[Tensor, bool, float]] = []

    def note(module: Any, args: Any, kwargs: Any, output: Any) -> None:  # noqa: ANN401
        ids = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
        if ids is not None and not ids.is_floating_point():
            read.append((ids.detach(), module.training, _inside(ids, output)))

    place, seen = line_of(call), None
    tensors = list(s.bare.parameters())
    with undisturbed(s.bare), watch.off():
        s.bare.train()
        for p in tensors:
            p.grad = torch.ones_like(p) if p.requires_grad else None
        before = [p.detach().clone() for p in tensors]
        hook = s.bare.register_forward_hook(note, with_kwargs=True)
        found, ends = 0.0, []
        try:
            for seed in (1, 2):
                torch.manual_seed(seed)
                found = float(call())
                ends.append(random_states()["torch"])
        finally:
            hook.remove()
        if not all(
            torch.equal(a.nan_to_num(), b.nan_to_num())
            for a, b in zip(before, tensors, strict=True)
        ):
            seen = "evaluation changes the weights"
        elif any(
            p.requires_grad and (p.grad is None or bool((p.grad != 1).any())) for p in tensors
        ):
            seen = "evaluation changes the gradients"
        elif torch.equal(*ends):
            seen = "evaluation seeds the global generator, so that training draws the same again"
    inside = [value for *_, value in read if math.isfinite(value)]
    if read and any(mode for _, mode, _ in read) and s.options.get("has_dropout"):
        yield Finding(
            "train-eval-mode",
            "evaluation calls the model in training mode, with dropout on",
            "evaluation mode: dropout makes the loss higher, and another each time",
            "model.eval() before the validation loss, model.train() after it",
            place,
        )
    elif seen is None and inside and abs(found - sum(inside) / len(inside)) > 0.25 * found + 0.1:
        seen = f"it returns {found:.3g}; its logits have the loss {sum(inside) / len(inside):.3g}"
    tokens = s.options.get("tokens")
    if seen is None and tokens is not None and read:
        windows = [row.cpu().numpy() for ids, *_ in read[:8] for row in ids[:8]]
        if len(windows[0]) >= 8 and len(tokens) > 200:
            places = Places(np.asarray(tokens[:3_000_000]), min(12, len(windows[0])))
            share = sum(places.find(window) is not None for window in windows) / len(windows)
            if places.is_varied and share > 0.5:
                seen = f"{share:.0%} of the windows that it reads stand in the training text"
    if seen:
        yield Finding(
            "evaluation",
            seen,
            "the loss of a text that was not trained on, without a trace in model or generators",
            "compare weights, gradients and torch.get_rng_state() before and after it",
            place,
        )


def _inside(ids: Tensor, output: Any) -> float:  # noqa: ANN401
    """Return the loss of a batch's own tokens by the logits that the model returned."""
    logits = first_of(output).detach().double()[:, :-1]
    if logits.dim() != 3 or ids.shape[1] != logits.shape[1] + 1:
        return math.nan
    logits = logits - logits.amax(-1, keepdim=True)
    nats = logits.exp().sum(-1).log() - logits.gather(-1, ids[:, 1:, None]).squeeze(-1)
    return nats[~padding(ids)[:, 1:]].mean().item()


def checkpoint(s: Subject, watch: Watch) -> Iterator[Finding]:
    """Save, read back into fresh objects, and compare weights and optimizer."""
    call = s.options.get("save_and_load")
    if call is None:
        return
    with undisturbed(s.bare), watch.off():
        try:
            model, optimizer, *_ = call()
            seen = _lost(s, getattr(model, "module", model), optimizer)
        except Exception as error:  # whatever reading back raises is the finding
            seen = f"reading back raises {type(error).__name__}: {error}"
    if seen:
        yield Finding(
            "checkpoint",
            seen,
            "what is read back equals what was saved, the optimizer's moments and steps included",
            "save optimizer.state_dict() beside model.state_dict(), and load both",
            line_of(call),
        )


def _lost(s: Subject, model: nn.Module, optimizer: Optimizer) -> str | None:
    """Say what of a model and its optimizer was not restored."""
    mine, theirs = (dict(m.state_dict()) for m in (s.bare, model))
    wrong = [k for k in mine if k not in theirs or not torch.equal(mine[k].cpu(), theirs[k].cpu())]
    groups = [o.param_groups for o in (s.optimizer, optimizer)]
    held = [[p for group in some for p in group["params"]] for some in groups]
    if wrong:
        return f"{len(wrong)} of {len(mine)} tensors of the model differ, such as {wrong[0]}"
    if len(held[0]) != len(held[1]):
        return "the optimizer holds another number of parameters"
    if not {id(p) for p in held[1]} & {id(p) for p in model.parameters()}:
        return "the optimizer read back holds other parameters than the model read back"
    if len(list(model.parameters())) != len(list(s.bare.parameters())):
        return "weights that were tied are two after reading back"
    for one, two in zip(*groups, strict=True):
        for name, value in one.items():
            if isinstance(value, (int, float)) and value != two.get(name):
                return f"{name} of the optimizer is {two.get(name)}, not {value}"
    states = (
        (s.optimizer.state.get(a, {}), optimizer.state.get(b, {}))
        for a, b in zip(*held, strict=True)
    )
    return next(filter(None, (_differs(*pair) for pair in states)), None)


def _differs(mine: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """Name the part of an optimizer's state that was not restored."""
    for name, value in mine.items():
        other = theirs.get(name)
        if isinstance(value, Tensor):
            same = isinstance(other, Tensor) and torch.equal(
                value.cpu(), other.cpu().to(value.dtype)
            )
        else:
            same = value == other or not isinstance(value, (int, float))
        if not same:
            return f"{name!r} of the optimizer's state is not restored"
    return None


def ending(s: Subject, watch: Watch) -> Iterator[Finding]:
    """Look for losses that are not finite and for units that are always the same."""
    bad = next((i for i, u in enumerate(watch.updates) if not math.isfinite(u.loss + u.norm)), None)
    if bad is not None:
        yield not_finite(s, f"loss or gradient of update {bad + 1}")
        return
    if s.inputs.unique().numel() < 8 or len(watch.updates) < 8:
        return
    worst: dict[str, float] = {}
    names = {module: name for name, module in s.bare.named_modules()}

    def note(module: Any, args: Any, output: Any) -> None:  # noqa: ANN401
        for x in (args[0] if args else None, output):
            if (
                isinstance(x, Tensor)
                and x.is_floating_point()
                and x.dim() == 3
                and x.shape[-1] >= 8
            ):
                spread, size = x.float().flatten(0, 1).std(0), x.float().abs().mean() + 1e-12
                share = (spread < 1e-5 * size).float().mean().item()
                worst[names[module]] = max(share, worst.get(names[module], 0.0))

    hooks = [m.register_forward_hook(note) for m in s.bare.modules()]
    with undisturbed(s.bare), torch.no_grad():
        s.bare.eval()
        s.logits(s.inputs)
    for hook in hooks:
        hook.remove()
    name = max(worst, key=worst.__getitem__, default="")
    if worst and worst[name] > 0.5:
        yield Finding(
            "dead-units",
            f"{worst[name]:.0%} of the units at {name} are the same for every token",
            "few: a unit that does not change tells nothing, and gets no gradient",
            "print((hidden.std((0, 1)) == 0).float().mean()) in each block",
            line_of(s.bare),
        )
