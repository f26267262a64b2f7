"""Doctor: sees a training loop from inside, and reports what keeps it from working."""

import atexit
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.study.doctor import attention, curve, loss, model, ranks, steps, text, trial, weights
from cs_basics.study.doctor.finding import CAUSES, Finding, Findings
from cs_basics.study.doctor.subject import Subject, line_of, undisturbed, weights_of
from cs_basics.study.doctor.watch import Batches, Watch

BEFORE = (
    model.start_loss,
    weights.graph,
    weights.sharing,
    loss.targets,
    loss.mean,
    loss.precision,
    model.sees,
    model.position_table,
    model.residual,
    attention.scale,
)
"""Checks of a model, its loss and its optimizer with one batch."""
AFTER = (
    steps.silent,
    text.vocabulary,
    text.rows,
    steps.stepping,
    steps.gradients,
    steps.schedule,
    steps.mode,
    steps.optimizer,
    steps.changes,
    trial.evaluation,
    trial.generation,
    trial.checkpoint,
    trial.ending,
    attention.collapsed,
    steps.zeros,
    ranks.equal,
)
"""Checks of what was seen of a loop."""


def examine(s: Subject) -> None:
    """Make the checks of BEFORE."""
    run_check(text.readable, s)
    for check in BEFORE:
        if s.vocab and all(finding.cause != "not-finite" for finding in s.findings):
            run_check(check, s)


def run_check(check: Callable[..., Findings], s: Subject) -> None:
    """Make a check, and place what it finds; what it cannot do with this program is kept as well.

    A finding without a place is one of the model.
    """
    try:
        for finding in check(s):
            place = s.bare if finding.place is None else finding.place
            s.findings.append(replace(finding, place=line_of(s.own(place))))
    except Exception as error:
        s.could_not.append(f"{check.__name__}: {type(error).__name__}: {error}")


class Doctor:
    """Watch a training loop through its loss, its batches and its optimizer.

    The loop uses `loss_of` and `batches` of this object in place of its own, and calls `report`
    at its end.

    Args:
        model: Its call gives logits (batch, time, vocab), alone, first in a tuple or as `.logits`.
        loss_of: Returns the loss of a model and a micro-batch, before it is divided.
        optimizer: Any optimizer of PyTorch's kind.
        batches: Yields (inputs, targets) or a dict of `input_ids` and `labels`, (batch, time).
        options: What else is known of the program; each switches on the checks that need it.
            `tokens`: ids of the training text. `decode`: ids to text. `text`: its beginning.
            `evaluate`: returns the validation loss. `generate`: a list of ids to a longer one that
            begins with them, drawn at temperature 1. `save_and_load`: returns a fresh model and
            optimizer, read back. `schedule`: update (the first is 1) to rate. `clip`: the norm
            that is meant.
            `accumulate`: micro-batches an update. `rank`, `world_size`: of this process.
    """

    def __init__(
        self,
        model: nn.Module,
        loss_of: Callable[[Any, Any], Tensor],
        optimizer: Optimizer,
        batches: Iterable[Any],
        **options: Any,  # noqa: ANN401
    ) -> None:
        self.watch = Watch(model, loss_of, optimizer, batches=batches, **options)
        self.watch.could_not.append("anything: doctor.loss_of was never called in training")
        self.batches = Batches(batches, self.watch)
        self.validations = list[tuple[int, float]]()
        optimizer.register_step_post_hook(self._after_step)
        atexit.register(self.report)

    def loss_of(self, model: Any, batch: Any) -> Tensor:  # noqa: ANN401
        """Return the loss of the program; before the first, examine the model."""
        s = self.watch
        if s.batch is None and torch.is_grad_enabled() and not s.is_off:
            s.batch, s.start = batch, [tensor.detach().clone() for tensor in weights_of(s.bare)]
            s.could_not.clear()
            with s.off():
                examine(s)
        return s.watched_loss(model, batch)

    def evaluate(self, s: Watch) -> Findings:
        """Keep the validation loss of now; find nothing yet."""
        with undisturbed(s.bare):
            self.validations.append((len(s.updates), float(s.evaluate())))
        yield from ()

    def _after_step(self, *_: Any) -> None:  # noqa: ANN401
        s, step = self.watch, len(self.watch.updates)
        is_due = step >= 8 and 4 * (step & -step) > step  # 8, 12, 16, 24, 32, 48, ...
        if s.is_off:
            return
        ranks.note(s)
        if is_due and s.evaluate:
            with s.off():
                run_check(self.evaluate, s)

    def report(self) -> list[Finding]:
        """Print and return what was found, the most probable cause first."""
        atexit.unregister(self.report)
        s = self.watch
        if s.is_replaced:
            s.could_not.append("the end: the loop trains another model, which needs a new Doctor")
        elif s.vocab:
            with s.off():
                for check in AFTER:
                    run_check(check, s)
                if all(f.rank() > CAUSES.index("rate-too-low") for f in s.findings):
                    run_check(trial.rates, s)
                losses = [(i + 1, u.loss) for i, u in enumerate(s.updates)]
                s.findings += curve.overfitting(losses, self.validations)
                s.findings += curve.too_good(self.validations, text.pair_entropy(s))
                s.findings += () if s.findings else curve.divergence(losses)
        kinds = {finding.cause: finding for finding in reversed(s.findings)}
        found = sorted(kinds.values(), key=Finding.rank)
        if path := os.environ.get("DOCTOR_JSON"):
            Path(path).write_text(json.dumps([asdict(finding) for finding in found], indent=1))
        whose = f"rank {s.rank}: " if s.world_size > 1 else ""
        print(whose + as_text(found, s.could_not))  # noqa: T201
        return found


def as_text(found: list[Finding], could_not: Iterable[str] = ()) -> str:
    """Return the report: a line if all is well, else the first cause in full, and the others."""
    could_not = list(could_not)
    well = "no fault found in what could be checked" if could_not else "healthy (no fault found)"
    lines = [f"1. {finding}" for finding in found[:1]] or [f"doctor: {well}"]
    lines += ["Fix this first; it may explain what else was seen:"][: len(found) - 1]
    lines += [f"- {f.cause}: {f.seen}" + f" ({f.place})" * bool(f.place) for f in found[1:]]
    return "\n".join([*lines, *(f"(could not check {reason})" for reason in could_not)])
