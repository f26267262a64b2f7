"""Results of runs, written by hand, of which a report and a ranking are made."""

import dataclasses

from cs_basics.settings.presets import PRESETS
from cs_basics.study.ablation_run import RunResult
from cs_basics.study.ablation_summary import Run

BASE = PRESETS["debug"][1]
RESULT = RunResult(
    num_parameters=123_456,
    steps=1_234,
    minutes=2.01,
    loss=2.3456,
    bits_per_byte=0.9876,
    unigram_loss=6.0,
    tokens_per_s=7_654.3,
    peak_memory_mb=876.5,
    largest_activation=43.21,
    largest_grad_norm=9.876,
    diverged_at=None,
)
LOST = dataclasses.replace(
    RESULT, loss=None, bits_per_byte=None, largest_activation=None, diverged_at=77, steps=76
)


def run_of(variant, seed=0, result=RESULT, crash=None, **changed):
    config = BASE.replace(seed=seed, **changed)
    last = 8 if result is not None and result.diverged_at else 2
    rows = [
        {"step": i, "elapsed_s": i / 10, "train/loss": last + 6 / i}
        for i in range(1, 1 + (result.steps if result else 0))
    ]
    return Run(variant=variant, config=config, result=result, rows=rows, crash=crash)


RUNS = [
    run_of("rmsnorm"),
    run_of("rmsnorm", 1, dataclasses.replace(RESULT, bits_per_byte=0.9878)),
    run_of("layernorm", 0, dataclasses.replace(RESULT, bits_per_byte=0.9878), norm="layernorm"),
    run_of("layernorm", 1, dataclasses.replace(RESULT, bits_per_byte=0.9880), norm="layernorm"),
    run_of("no-norm", 0, dataclasses.replace(RESULT, bits_per_byte=1.5), placement="none"),
    run_of("no-norm", 1, dataclasses.replace(RESULT, bits_per_byte=1.5002), placement="none"),
    run_of("wild", 0, LOST, lr=9.0),
    run_of("wild", 1, LOST, lr=9.0),
]
