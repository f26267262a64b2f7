"""The run doctor: why does this training not work?

    report.py       what a check returns, and the table of causes; the report
    subject.py      the subject: model, loss, optimizer, a batch; how it is left undisturbed
    model.py        what a position sees, what bounds the logits, how the loss starts
    loss.py         the loss, by planted logits: targets, mean, precision
    weights.py      parameters and optimizer: the graph, groups, ties
    loop.py         the loop: its losses, batches and updates, a few of them watched
    updates.py      what was seen of them: gradients, accumulation, clipping, schedule, mode
    text.py         tokens and batches
    trial.py        what is tried: other rates, an evaluation
    ranks.py        several processes
    curve.py        logged losses
    doctor.py       Doctor: joins a loop and the table of all checks
    of_run.py       the runs of this project
    log.py          their logs, and those of others

The script: scripts/doctor.py. In a training program of your own, five lines:

    from cs_basics.study.doctor import Doctor
    doctor = Doctor(model, loss_of, optimizer, batches, tokens=tokens)
    loss_of, batches = doctor.loss_of, doctor.batches
    ...  # the loop, unchanged
    doctor.report()
"""

from typing import Any


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import Doctor when it is asked for: what it needs may be a submission's."""
    if name != "Doctor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cs_basics.study.doctor.doctor import Doctor

    return Doctor
