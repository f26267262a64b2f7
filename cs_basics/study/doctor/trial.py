"""Checks by trying: one batch learnt at other rates, an evaluation, a checkpoint read back."""

import math
from collections.abc import Iterable, Iterator
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.study.doctor.curve import repetition
from cs_basics.study.doctor.finding import Finding, Findings
from cs_basics.study.doctor.model import not_finite
from cs_basics.study.doctor.subject import (
    first_of,
    held_by,
    log_total,
    nats_of,
    padding,
    undisturbed,
)
from cs_basics.study.doctor.text import Places, unigram_entropy
from cs_basics.study.doctor.watch import Watch, flat

STEPS = 16
MOST_TOKENS = 2048
"""Of the batch that is learnt."""
MOST_LOGIT = 100.0
"""Of a language model; what it needs to be sure of a token is 20 more than another's."""


def learn(s: Watch, rates: Iterable[float]) -> tuple[float, float]:
    """Make STEPS updates by one batch; return its first loss and its last, infinity for NaN.

    Args:
        s: The subject, whose weights and optimizer begin as they did.
        rates: Of each group of the optimizer.
    """
    optimizer, found, held = s.optimizer, list[float](), s.trained()
    batch = s.cut(max(1, MOST_TOKENS // s.time))
    with undisturbed(s.bare, optimizer, s.start):
        for _ in range(STEPS):
            loss = s.loss_of(s.bare, batch)
            found.append(loss.item())
            if not loss.isfinite():
                return found[0], math.inf
            # Not backward, by which gradients would be shared out over processes.
            grads = torch.autograd.grad(loss, held, materialize_grads=True)
            share = min(1.0, (s.clip or math.inf) / (flat(grads).norm().item() + 1e-6))
            for p, grad in zip(held, grads, strict=True):
                p.grad = grad * share
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
            optimizer.step()
    return found[0], found[-1]


def rates(s: Watch) -> Findings:
    """Where a run learns nothing, learn one batch: at its rate, and at others.

    A run that gets below the entropy of single tokens learns, whatever its rate.
    """
    losses = [u.loss for u in s.updates]
    if len(losses) < 8:
        return
    first, entropy = losses[0], unigram_entropy(s)
    last = fmean(losses[-max(2, len(losses) // 8) :])
    if last < 0.7 * entropy:
        return
    highest = [max(rates) for rates in zip(*(u.rates for u in s.updates), strict=True)]
    begin, end = learn(s, highest)
    is_stuck = end > 0.9 * begin or not last < first
    if end < 0.6 * begin and not is_stuck:
        return
    # By how much the rate has to be changed before the batch is learnt.
    for scale in (0.1, 0.01, 1e-3, 10.0, 100.0, 1e3, 1e4, 1e5) if is_stuck else (0.1,):
        other = learn(s, [rate * scale for rate in highest])[1]
        if other < (0.9 if is_stuck else 0.5) * min(begin, end):
            break
    else:
        if math.isfinite(end) and is_stuck:
            yield Finding(
                "optimizer-setup",
                f"the loss of one batch does not fall from {begin:.3g} at any learning rate",
                "a fall, by any optimizer that steps against the gradient",
                "torch.optim.AdamW instead: if that learns, check your optimizer's signs and rates",
                s.place,
            )
        return
    is_high = scale < 1
    if not is_high and first - last > 0.35 * (first - min(last, entropy)):
        return  # It learns, if slowly.
    yield Finding(
        "rate-too-high" if is_high else "rate-too-low",
        f"{STEPS} updates on one batch take its loss from {begin:.3g} to {end:.3g} at "
        f"lr={max(highest):.2g}, and to {other:.3g} at {scale:g} times that; the run ends at "
        f"{last:.3g}",
        f"an end well below {entropy:.3g}, which the frequencies of tokens alone give",
        f"lr={max(highest) * scale:.2g}",
        s.place,
    )


def evaluation(s: Watch) -> Findings:  # noqa: C901
    """Call the program's evaluation, and look at what it reads, changes and returns."""
    if s.evaluate is None:
        return
    read, inside = list[tuple[Tensor, bool]](), list[float]()

    def note(module: Any, args: Any, kwargs: Any, output: Any) -> None:  # noqa: ANN401
        ids = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
        if ids is None or ids.is_floating_point():
            return
        read.append((ids.detach(), module.training))
        logits = first_of(output).detach()[:, :-1]
        if logits.dim() == 3 and ids.shape[1] == logits.shape[1] + 1:
            # The loss of the batch's own tokens by what the model returned.
            is_padding = padding(ids) | padding(ids.flip(1)).flip(1)
            nats = nats_of(logits, ids[:, 1:])[~is_padding[:, 1:].cpu()]
            inside.append(nats.mean().item())

    tensors, seen = list(s.bare.parameters()), None
    found, ends = 0.0, list[Tensor]()
    with undisturbed(s.bare), s.bare.register_forward_hook(note, with_kwargs=True):
        s.bare.train()
        for p in tensors:
            p.grad = torch.ones_like(p)
        before = flat(tensors).nan_to_num()
        for seed in (1, 2):
            torch.manual_seed(seed)
            found = float(s.evaluate())
            ends.append(torch.get_rng_state())
        if not torch.equal(before, flat(tensors).nan_to_num()):
            seen = "evaluate() changes the weights"
        elif not all(p.grad is not None and (p.grad == 1).all() for p in tensors):
            seen = "evaluate() changes the gradients"
        elif torch.equal(*ends):
            seen = "evaluate() seeds the global generator, so training draws the same numbers again"
    typical = fmean([x for x in inside if math.isfinite(x)] or [found])
    if s.has_dropout and any(is_training for _, is_training in read):
        yield Finding(
            "train-eval-mode",
            "evaluate() calls the model in training mode, with dropout on",
            "evaluation mode: dropout makes the loss higher, and different each time",
            "model.eval() before the validation loss, model.train() after it",
            s.evaluate,
        )
    elif seen is None and abs(found - typical) > 0.25 * found + 0.1:
        seen = f"evaluate() returned {found:.4g}; the logits it computed give {typical:.4g}"
    if seen is None and s.tokens is not None and read:
        # Evenly, since many programs also measure the training loss: that is half of what is read.
        some = read[:: -(-len(read) // 8)]
        windows = [row.cpu().numpy() for ids, _ in some for row in ids[:8]]
        size, places = len(windows[0]), Places(s.tokens)
        share = sum(places.find(window) is not None for window in windows) / len(windows)
        is_learnt = share > 0.9 and size >= 8 and len(s.tokens) > 200
        if is_learnt and places.share_repeated(size) < 0.5:
            seen = f"{share:.0%} of the windows that evaluate() reads are in the training text"
    if seen:
        yield Finding(
            "evaluation",
            seen,
            "the mean loss of text not trained on; weights, gradients, random generators unchanged",
            "look in evaluate(): held-out text, a mean per token, no step, no backward, no seed",
            s.evaluate,
        )


def checkpoint(s: Watch) -> Findings:
    """Save, read back into fresh objects, and compare weights and optimizer."""
    if s.save_and_load is None:
        return
    with undisturbed(s.bare):
        try:
            model, optimizer, *_ = s.save_and_load()
            seen = _lost(s, getattr(model, "module", model), optimizer)
        except Exception as error:  # whatever reading back raises is the finding
            seen = f"reading back raises {type(error).__name__}: {error}"
    if seen:
        yield Finding(
            "checkpoint",
            seen,
            "what is read back equals what was saved, the optimizer's moments and steps included",
            "save model.state_dict() and optimizer.state_dict() of the same update, and load both",
            s.save_and_load,
        )


def _lost(s: Watch, model: nn.Module, optimizer: Optimizer) -> str | None:
    """Say what of a model and its optimizer was not restored."""
    held = held_by(optimizer)
    if where := _difference(s.bare.state_dict(), model.state_dict()):
        return f"{where} of the model differs after loading"
    if len(held) != len(held_by(s.optimizer)):
        return "the optimizer holds another number of parameters after loading"
    if not {id(p) for p in held} & {id(p) for p in model.parameters()}:
        return "the optimizer read back holds other parameters than the model read back"
    if len([*model.parameters()]) != len([*s.bare.parameters()]):
        return "weights that were tied are two after loading"
    where = _difference(s.optimizer.state_dict(), optimizer.state_dict())
    return where and f"{where} of the optimizer differs after loading"


def _difference(mine: Any, theirs: Any) -> str | None:  # noqa: ANN401
    """Return the path of the first tensor or number that differs, such as `state/0/exp_avg`."""
    others = dict(_numbers(theirs))
    for path, one in _numbers(mine):
        other = others.get(path)
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            is_same = torch.equal(*(x.cpu().to(one.dtype).nan_to_num() for x in (one, other)))
        else:
            is_same = one == other
        if not is_same:
            return path
    return None


def _numbers(state: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """Yield the tensors and numbers of a state after their paths."""
    if isinstance(state, (dict, list)):
        for name, part in state.items() if isinstance(state, dict) else enumerate(state):
            yield from _numbers(part, f"{path}/{name}".lstrip("/"))
    elif isinstance(state, (Tensor, int, float)):
        yield path, state


def generation(s: Watch) -> Findings:
    """Let the program write, and compare each token's nats with the entropy of the model's choice.

    Tokens that are drawn from the model's own distribution cost as much as that, on average.
    """
    if s.generate is None or s.time < 8:
        return
    begun, written, excess = s.time // 4, list[list[int]](), list[Tensor]()
    with s.quiet():
        if not s.logits(s.inputs[:1]).isfinite().all():
            return
        for row in s.inputs[:8]:
            s.bare.eval()
            ids = torch.tensor([[*s.generate(row[:begun].tolist())][: s.time]], device=row.device)
            logits = s.logits(ids)[:, begun - 1 : -1].cpu().double()
            log_p = logits - log_total(logits).unsqueeze(-1)
            excess += nats_of(logits, ids[:, begun:]) + (log_p.exp() * log_p).sum(-1)
            written.append(ids[0].tolist())
    more = torch.cat(excess)
    repeated, usual = repetition(written), repetition(s.inputs[:8].tolist())
    if more.mean() > 0.5 + 4 * more.std() / len(more) ** 0.5:
        seen = f"generated tokens cost {more.mean():.2g} nats more than tokens drawn from the model"
    elif repeated > 2 * usual + 0.3:
        seen = f"{repeated:.0%} of the four-token runs in generated texts are repeats; "
        seen += f"in batches {usual:.0%}"
    else:
        return
    yield Finding(
        "generation",
        seen,
        "tokens drawn from the model's distribution: as likely as it says, and with about as few "
        "repetitions as in the text",
        "sample softmax(model(ids)[:, -1]), ids all so far; then check eval mode, positions, cache",
        s.generate,
    )


def ending(s: Watch) -> Findings:
    """Look for losses that are not finite and for units that are always the same."""
    for number, u in enumerate(s.updates, 1):
        if not math.isfinite(u.loss + u.norm):
            yield not_finite(s, f"the loss or gradient of update {number}")
            return
    if s.inputs.unique().numel() < 8 or len(s.updates) < 8:
        return
    with s.quiet():
        s.bare.eval()
        largest = s.logits(s.inputs).abs()
    largest = largest.where(largest < 1e4, 0).max().item()  # -1e9 is no token's.
    if largest > MOST_LOGIT:
        yield Finding(
            "logits-drift",
            f"a logit of {largest:.3g} after the last update",
            f"less than {MOST_LOGIT:.0f}: above it, bfloat16 rounds to steps of 0.5",
            "add 1e-4 * log_z.square().mean() to the loss (z-loss), or norm queries and keys",
        )
    worst, name = 0.0, ""
    for call in s.calls(s.inputs):
        for x in call.ends():
            if x.dim() == 3 and x.shape[-1] >= 8 and x.is_floating_point():
                spread, size = x.float().flatten(0, 1).std(0), x.float().abs().mean() + 1e-12
                share = (spread < 1e-5 * size).float().mean().item()
                if share > worst:
                    worst, name = share, call.name
    if worst > 0.5:
        yield Finding(
            "dead-units",
            f"{worst:.0%} of the outputs of {name} are the same for every token",
            "nearly none: a unit that never changes says nothing, and gets no gradient",
            "print((h.std((0, 1)) == 0).float().mean())  # h: hidden units; is a gate shut?",
        )
