"""The run doctor: why does this training not work?

    finding.py      what a check returns, in the order in which one cause explains another
    subject.py      what is examined: model, loss, optimizer, batches; how it is left undisturbed
    model.py        checks of the model: what a position sees, how the loss starts
    loss.py         checks of the loss, by planted logits: targets, mean, precision
    attention.py    checks of attention: scale, gradients, whether it sees one place alone
    weights.py      checks of parameters and optimizer: gradients, groups, ties
    watch.py        what is seen of a loop while it runs
    steps.py        checks of its updates: gradients, accumulation, clipping, schedule, mode
    text.py         checks of tokens and batches
    trial.py        checks by trying: a batch overfitted at other rates, evaluation, a checkpoint
    ranks.py        checks of several processes
    curve.py        checks of logged losses
    of_run.py       the runs of this project
    doctor.py       Doctor: joins a loop and the table of all checks; the report

The script: scripts/doctor.py. In a training program of your own, five lines:

    from cs_basics.study.doctor import Doctor
    doctor = Doctor(model, loss_of, optimizer, batches, tokens=tokens, decode=decode)
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
