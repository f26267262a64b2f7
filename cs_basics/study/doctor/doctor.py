"""Doctor: sees a training loop from inside, and reports what keeps it from working."""

import atexit
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.study.doctor import attention, curve, loss, model, steps, text, trial, weights
from cs_basics.study.doctor.finding import CAUSES, Finding
from cs_basics.study.doctor.ranks import Ranks
from cs_basics.study.doctor.subject import Subject, undisturbed, weights_of
from cs_basics.study.doctor.watch import Watch

Check = Callable[..., Iterator[Finding]]
BEFORE: tuple[Check, ...] = (
    *(model.start_loss, weights.graph, weights.sharing, loss.targets, loss.mean, loss.precision),
    *(model.sees, model.position_table, model.residual, attention.scale),
)
"""Checks of a model, its loss and its optimizer with one batch."""
AFTER: tuple[Check, ...] = (
    *(text.vocabulary, text.rows, steps.stepping, steps.gradients, steps.schedule, steps.mode),
    *(steps.optimizer, steps.changes, trial.evaluation, trial.generation, trial.checkpoint),
    *(trial.ending, attention.collapsed),
)
"""Checks of what was seen of a loop."""


def examine(s: Subject) -> tuple[list[Finding], list[str]]:
    """Make the checks of BEFORE; return what they find, and which could not be made and why."""
    found, could_not = list[Finding](), list[str]()
    with undisturbed(s.bare), torch.no_grad():
        try:
            s.options["vocab"] = s.logits(s.inputs).shape[-1]
        except IndexError as error:
            return [text.unreadable(s, error)], could_not
        for name, mode in (("has_dropout", True), ("is_random", False)):
            runs = list[Tensor]()
            for seed in (0, 1):
                s.bare.train(mode)
                torch.manual_seed(seed)
                runs.append(s.logits(s.inputs[:8]))
            s.options[name] = not torch.equal(*(run.nan_to_num() for run in runs))
    for check in BEFORE:
        if not any(finding.cause == "not-finite" for finding in found):
            run_check(check, (s,), found, could_not)
    return found, could_not


def run_check(
    check: Check, arguments: tuple[Any, ...], found: list[Finding], could_not: list[str]
) -> None:
    """Make a check; what it cannot do with this program is said in the report."""
    try:
        found += check(*arguments)
    except Exception as error:
        could_not.append(f"{check.__name__}: {type(error).__name__}: {error}")


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
            `evaluate`: returns the validation loss. `generate`: ids to the same and more, drawn at
            temperature 1. `save_and_load`: returns a fresh model and
            optimizer, read back. `schedule`: update to rate. `clip`: the norm that is meant.
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
        self.subject = Subject(model, loss_of, optimizer, options={"batches": batches, **options})
        self.watch = Watch(self.subject, batches)
        self.batches = self.watch.batches
        self.findings: list[Finding] = []
        self.could_not: list[str] = ["all: the loop has computed no loss"]
        self.validations: list[tuple[int, float]] = []
        self.ranks = Ranks(self.subject, self.watch)
        self._is_reported = False
        optimizer.register_step_post_hook(self._after_step)
        atexit.register(self._at_exit)

    def loss_of(self, model: Any, batch: Any) -> Tensor:  # noqa: ANN401
        """Return the loss of the program; before the first, examine the model."""
        if self.subject.batch is None and torch.is_grad_enabled() and not self.watch.is_off:
            self.examine(batch)
        return self.watch.loss_of(model, batch)

    def examine(self, batch: Any) -> None:  # noqa: ANN401
        """Make the checks that need no updates."""
        self.subject.batch = batch
        self.subject.start = [tensor.detach().clone() for tensor in weights_of(self.subject.bare)]
        with self.watch.off():
            found, self.could_not = examine(self.subject)
        self.findings += found

    def _run(self, check: Check, *arguments: Any) -> None:  # noqa: ANN401
        run_check(check, arguments, self.findings, self.could_not)

    def _after_step(self, *_: Any) -> None:  # noqa: ANN401
        evaluate, step = self.subject.options.get("evaluate"), len(self.watch.updates)
        is_due = step >= 8 and 4 * (step & -step) > step  # 8, 12, 16, 24, 32, 48, ...
        if self.watch.is_off or evaluate is None or not is_due:
            return
        with self.watch.off(), undisturbed(self.subject.bare):
            try:
                self.validations.append((step, float(evaluate())))
            except Exception as error:
                self.could_not.append(f"evaluate: {type(error).__name__}: {error}")

    def report(self) -> list[Finding]:
        """Print and return what was found, the most probable cause first."""
        s, watch = self.subject, self.watch
        self._is_reported = True
        if "vocab" in s.options:
            with watch.off():
                if len(watch.updates) >= steps.FEW:
                    self._run(steps.silent, s, watch)
                for check in AFTER:
                    self._run(check, s, watch)
                self._run(self.ranks.check)
                if all(f.rank() > CAUSES.index("rate-too-low") for f in self.findings):
                    self._run(trial.rates, s, watch)
                losses = [(i + 1, u.loss) for i, u in enumerate(watch.updates)]
                self._run(curve.overfitting, losses, self.validations)
                if not self.findings:
                    self._run(curve.divergence, losses)
        found = self.sorted()
        if path := os.environ.get("DOCTOR_JSON"):
            Path(path).write_text(json.dumps([asdict(finding) for finding in found], indent=1))
        print(as_text(found, self.could_not))  # noqa: T201
        return found

    def sorted(self) -> list[Finding]:
        """Return one finding for each cause, the most probable first."""
        kinds = {finding.cause: finding for finding in reversed(self.findings)}
        return sorted(kinds.values(), key=Finding.rank)

    def _at_exit(self) -> None:
        if not self._is_reported:
            self.report()


def as_text(found: list[Finding], could_not: Iterable[str] = ()) -> str:
    """Return the report: a line if all is well, else a paragraph for each cause."""
    lines = [f"{number}. {finding}" for number, finding in enumerate(found, start=1)]
    lines = lines or ["doctor: healthy"]
    return "\n".join([*lines, *(f"(a check could not be made: {reason})" for reason in could_not)])
