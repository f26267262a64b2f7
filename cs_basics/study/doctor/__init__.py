"""The run doctor: why does this training not work?

    finding.py      what a check returns, in the order in which one cause explains another
    subject.py      what is examined: model, loss, optimizer, batches; how it is left undisturbed
    model.py        checks of the model: what a position sees, how the loss starts
    loss.py         checks of the loss, by planted logits: targets, mean, precision
    weights.py      checks of parameters and optimizer: gradients, groups, ties
    watch.py        what is seen of a loop while it runs
    steps.py        checks of its updates: gradients, accumulation, clipping, schedule, mode
    text.py         checks of tokens and batches
    trial.py        checks by trying: a batch overfitted at other rates, evaluation, a checkpoint
    curve.py        checks of logged losses
    doctor.py       Doctor: joins a loop and the table of all checks; the report

The script: scripts/doctor.py. In a training program of your own: docs/train.md.
"""

from cs_basics.study.doctor.doctor import Doctor

__all__ = ["Doctor"]
