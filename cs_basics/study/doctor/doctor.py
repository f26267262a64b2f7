"""Doctor: sees a training loop from inside, and reports what keeps it from working."""

import atexit
import json
import math
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.study.doctor import curve, loss, model, ranks, text, trial, updates, weights
from cs_basics.study.doctor.loop import Batches, Loop
from cs_basics.study.doctor.report import ORDER, Finding, as_text, ranked
from cs_basics.study.doctor.subject import Subject, weights_of

BEFORE = (
    model.start_loss,
    model.start_weights,
    weights.parameters,
    weights.shared_weights,
    loss.meaning_of_loss,
    model.positions_seen,
    model.range_of_logits,
)
"""Checks of a model, its loss and its optimizer with one batch."""
AFTER = (
    text.vocabulary,
    text.rows,
    updates.steps,
    updates.gradients,
    updates.schedule,
    updates.mode,
    updates.optimizer,
    updates.precision,
    trial.evaluation,
    trial.last_loss,
    ranks.equal_processes,
)
"""Checks of what was seen of a loop."""


def examine(s: Subject) -> None:
    """Make the checks of BEFORE."""
    s.run(text.readable)
    for check in BEFORE:
        if s.vocab and all(finding.cause != "not-finite" for finding in s.findings):
            s.run(check)


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
            `tokens`: ids of the training text. `evaluate`: returns the validation loss.
            `schedule`: update (the first is 1) to rate. `clip`: the norm that is meant.
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
        self.loop = Loop(model, loss_of, optimizer, batches=batches, **options)
        self.loop.could_not.append("anything: doctor.loss_of was never called in training")
        self.batches = Batches(batches, self.loop)
        self.logged: tuple[curve.Points, curve.Points, float] = ([], [], 0.0)
        """What `curve.of_curve` reads of a run that was not watched from its start."""
        self.peak = 1.0
        """Times its highest rate of the watched updates that such a run had."""
        note = optimizer.register_step_post_hook(partial(ranks.note, self.loop))
        self.loop.hooks.callback(note.remove)
        atexit.register(self.report)

    def loss_of(self, model: Any, batch: Any) -> Tensor:  # noqa: ANN401
        """Return the loss of the program; before the first, examine the model."""
        s = self.loop
        if s.batch is None and torch.is_grad_enabled() and not s.is_off:
            self.begin(batch)
        return s.watched_loss(model, batch)

    def begin(self, batch: Any) -> None:  # noqa: ANN401
        """Examine the model as it is, with this batch."""
        s = self.loop
        s.batch, s.start = batch, [tensor.detach().clone() for tensor in weights_of(s.bare)]
        s.could_not.clear()
        with s.off():
            examine(s)

    def report(self) -> list[Finding]:
        """Print and return what was found, the most probable cause first."""
        atexit.unregister(self.report)
        s = self.loop
        s.hooks.close()
        if s.vocab:
            with s.off():
                self._conclude(s)
        found = ranked(s.findings)
        if path := os.environ.get("DOCTOR_JSON"):
            Path(path).write_text(json.dumps([one.to_json() for one in found], indent=1))
        whose = f"rank {s.rank}: " if s.world_size > 1 else ""
        print(whose + as_text(found, s.could_not))  # noqa: T201
        return found

    def _conclude(self, s: Loop) -> None:
        """Make the checks of AFTER, and look at the losses."""
        for check in AFTER:
            s.run(check)
        seen = [(u.number, u.loss) for u in s.updates]
        train, valid, after_one = self.logged
        losses = train or [(number, loss) for number, loss in seen if math.isfinite(loss)]
        single = text.entropy(s)
        if all(ORDER.index(f.cause) > ORDER.index("rate-too-low") for f in s.findings):
            highest = [self.peak * max(r) for r in zip(*(u.rates for u in s.updates), strict=True)]
            known = {"losses": [loss for _, loss in losses], "highest": highest}
            s.run(partial(trial.rates, **known, single=single))
        s.findings += curve.of_curve(losses, valid, after_one)
        s.could_not += () if s.findings else curve.unlearnt(losses, single)
