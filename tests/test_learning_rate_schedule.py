"""The learning-rate schedule: warm-up, cosine, minimum."""

import numpy as np
import pytest
from compare import expect, expect_close, noting
from mistakes import training as mistakes
from oracles import training as oracles
from probes.training import schedule
from trials import ask, once

pytestmark = [pytest.mark.problem("learning_rate_schedule"), pytest.mark.usefixtures("rng")]

NAME = "run_get_lr_cosine_schedule"


def settings(top=1.0, floor=0.1, warmup=7, cycle=21):
    return {
        "max_learning_rate": top,
        "min_learning_rate": floor,
        "warmup_iters": warmup,
        "cosine_cycle_iters": cycle,
    }


def rates(observe, iterations, given):
    """Ask for all rates; say so if an exception goes away with a warm-up of one step."""
    warmup, top = given["warmup_iters"], given["max_learning_rate"]
    floor = given["min_learning_rate"]

    def runs_with(applies, **others):
        usual = {**given, **others}
        return lambda: (
            observe(schedule, iterations=iterations, settings=usual) if applies else 1 / 0
        )

    with (
        noting(
            "with warmup_iters = 1; 0 has to work, too",
            runs_with(warmup == 0, warmup_iters=1),
        ),
        noting(
            "with a minimum between 0 and the maximum; it may be 0, or equal to the maximum",
            runs_with(floor in (0.0, top), min_learning_rate=top / 2),
        ),
    ):
        return observe(schedule, iterations=iterations, settings=given)


@once
def trials(observe):
    for label, given in {
        "a peak of 1, a minimum of 0.1": settings(),
        "a minimum of 0": settings(floor=0.0),
        "a peak of 3e-4": settings(top=3e-4, floor=3e-5, warmup=5, cycle=17),
        "a long cycle": settings(top=0.5, floor=0.2, warmup=3, cycle=40),
        "a warm-up of 1": settings(warmup=1, cycle=9),
    }.items():
        iterations = list(range(given["cosine_cycle_iters"] + 15))
        yield ask(
            observe,
            label,
            np.array([oracles.cosine_schedule(it, **given) for it in iterations]),
            mistakes.schedule(iterations, given),
            read=lambda seen: np.array(seen["rates"]),
            tolerance=1e-6,
            probe=schedule,
            iterations=iterations,
            settings=given,
        )


def examine(observe, iterations, given):
    iterations, given = list(iterations), observe.fresh.rates(given)
    seen = rates(observe, iterations, given)
    expect_close(
        {"dtype": "float64", "values": np.array(seen["rates"])},
        np.array([oracles.cosine_schedule(it, **given) for it in iterations]),
        NAME,
        dtypes="float64",
        tolerance=1e-6,
        mistakes=lambda: mistakes.schedule(iterations, given),
        trials=lambda: trials(observe),
    )


def test_schedule_has_the_right_rate_at_every_step(observe):
    examine(observe, range(40), settings())


def test_schedule_takes_any_settings(observe, rng):
    for _ in range(5):
        floor, top = sorted(rng.uniform(1e-5, 1e-2, 2).tolist())
        warmup = int(rng.integers(2, 30))
        cycle = warmup + int(rng.integers(2, 60))
        examine(observe, range(cycle + 20), settings(top, floor, warmup, cycle))


def test_schedule_starts_at_zero_and_peaks_after_the_warmup(observe):
    examine(observe, [0, 1, 6, 7, 8], settings())


def test_schedule_reaches_the_minimum_at_the_end_of_the_cycle_and_stays(observe):
    examine(observe, [20, 21, 22, 28, 35, 42, 1000, 10**6], settings())


@pytest.mark.parametrize("floor", [0.0, 1.0])
def test_schedule_takes_a_minimum_of_zero_or_equal_to_the_maximum(observe, floor):
    examine(observe, range(30), settings(floor=floor))


def test_schedule_without_warmup_starts_at_the_maximum(observe):
    examine(observe, range(30), settings(warmup=0))


def test_schedule_may_be_all_warmup(observe):
    # At the end itself both the maximum and the minimum make sense; refusing is free, too.
    given = settings(warmup=10, cycle=10)
    try:
        observe(schedule, iterations=[9, 10, 11], settings=given)
    except Exception:
        return
    examine(observe, [*range(10), 11, 12, 100], given)
    given = observe.fresh.rates(given)
    rate = rates(observe, [10], given)["rates"][0]
    floor, top = given["min_learning_rate"], given["max_learning_rate"]
    expect(
        min(abs(rate - top), abs(rate - floor)) < 1e-6 * top,
        f"{NAME} at it = warmup_iters = cosine_cycle_iters: got {rate}, expected {floor} or {top}",
    )


def test_schedule_takes_a_warmup_of_one_step(observe):
    examine(observe, range(8), settings(warmup=1, cycle=5))
