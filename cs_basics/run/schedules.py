"""The learning rate of each update, by the name of its schedule."""

from cs_basics.optim import cosine_schedule


def linear_schedule(
    step: int, max_lr: float, min_lr: float, warmup_steps: int, cycle_steps: float
) -> float:
    """Return the learning rate of a step: linear warm-up, then a straight line to the minimum.

    Defazio et al. 2023 (https://arxiv.org/abs/2310.07831). Arguments as in `cosine_schedule`.
    """
    if step < warmup_steps:
        return step / warmup_steps * max_lr
    if step >= cycle_steps:
        return min_lr
    left = (cycle_steps - step) / (cycle_steps - warmup_steps)
    return min_lr + left * (max_lr - min_lr)


SCHEDULES = {"cosine": cosine_schedule, "linear": linear_schedule}
