"""The learning rate of each update, by the name of its schedule."""

from cs_basics.optim import cosine_schedule


def linear_schedule(
    step: int, max_lr: float, min_lr: float, warmup_steps: int, cycle_steps: float
) -> float:
    """Return the learning rate of a step: warm-up as in `cosine_schedule`, then a straight line.

    Defazio et al. 2023 (https://arxiv.org/abs/2310.07831). Arguments as in `cosine_schedule`.
    """
    if step < warmup_steps or step >= cycle_steps:
        return cosine_schedule(step, max_lr, min_lr, warmup_steps, cycle_steps)
    left = (cycle_steps - step) / (cycle_steps - warmup_steps)
    return min_lr + left * (max_lr - min_lr)


SCHEDULES = {"cosine": cosine_schedule, "linear": linear_schedule}
