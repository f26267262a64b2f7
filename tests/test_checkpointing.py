"""Saving and loading checkpoints."""

import numpy as np
import pytest
from compare import expect, expect_close, noting
from oracles import training as oracles
from oracles.model import rounded
from probes.training import OTHER_DECAY, checkpoint, checkpoint_of_frozen

RATES = FIRST_LR, LATER_LR = 1e-2, 3e-2
PARTS = ("weight", "bias", "buffer")

# For each place to save to, another one, and what the contract says of the two.
OTHER_PLACES = {
    "path": ("with the path as a string; pathlib.Path may be given, too", "str"),
    "str": ("with a pathlib.Path; a string may be given, too", "path"),
    "bytes": ("with a path; a binary file object may be given, too", "str"),
    "open file": ("with a path; a binary file object may be given, too", "str"),
    "overwritten": ("where no file lies at the path yet; an old one is overwritten", "path"),
}


def draw(rng, steps=8):
    shapes = [(2, 3), (4,)]
    parameters = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    gradients = [
        [rng.standard_normal(shape).astype(np.float32) for shape in shapes] for _ in range(steps)
    ]
    return parameters, gradients


def run(observe, parameters, gradients, save_after=5, iteration=5, place="path", **more):
    inputs = {
        "parameters": parameters,
        "gradients": gradients,
        "save_after": save_after,
        "iteration": iteration,
        "first_lr": FIRST_LR,
        "later_lr": LATER_LR,
        **more,
    }
    otherwise, other = OTHER_PLACES[place]
    with noting(otherwise, lambda: observe(checkpoint, **inputs, place=other)):
        seen = observe(checkpoint, **inputs, place=place)
    expect(
        not seen["is_closed"],
        "run_save_checkpoint closed the file object that it was given: only its owner may do that",
        "file-is-closed",
    )
    expect(
        seen["dtype"] == "float32",
        f"run_save_checkpoint made the model's weights {seen['dtype']}, they were float32:"
        " saving must not change the model",
        "saving-changes-the-model",
    )
    return seen


def test_checkpoint_lies_at_the_path_that_was_given(observe, rng):
    files, wanted = run(observe, *draw(rng))["files"], ["after step 5.ckpt"]
    expect(
        files == wanted,
        f"run_save_checkpoint left the files {files} in a folder, expected {wanted}: a"
        " checkpoint lies at exactly the path that was given, and nothing beside it",
        "another-path",
    )


def expected_after(parameters, gradients, steps, save_after=5):
    """PyTorch's AdamW with its defaults, the rate being raised at the save."""
    options = {"lr": FIRST_LR, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
    rates = [FIRST_LR if step < save_after else LATER_LR for step in range(steps)]
    groups = [{"params": parameters}]
    trail = oracles.adamw(groups, options, gradients[:steps], rates, is_decay_last=False)
    return [*trail[-1], np.array([float(steps)])]


@pytest.mark.parametrize("place", ["path", "str", "bytes", "open file", "overwritten"])
def test_checkpoint_restores_parameters_and_buffers(observe, rng, place):
    parameters, gradients = draw(rng)
    seen = run(observe, parameters, gradients, place=place)
    expected = expected_after(parameters, gradients, 5)
    at_end = expected_after(parameters, gradients, len(gradients))
    for name, got, wanted, end in zip(PARTS, seen["loaded"], expected, at_end, strict=True):
        expect_close(
            got,
            wanted,
            f"run_load_checkpoint, the model's {name} after loading",
            mistakes=lambda wanted=wanted, end=end: {
                **other_than(wanted),
                "the live tensors are kept, not what the file held: they train on": end,
            },
            hint="A checkpoint holds model.state_dict(), and loading gives it back to the model.",
        )


def other_than(wanted):
    """What a tensor may be after loading."""
    return {
        "it is not restored": np.zeros_like(wanted),
        "weights are saved in float16: save them as they are": rounded(wanted, "float16"),
        "weights are saved in bfloat16: save them as they are": rounded(wanted, "bfloat16"),
    }


def test_resuming_equals_never_having_stopped(observe, rng):
    parameters, gradients = draw(rng)
    seen = run(observe, parameters, gradients)
    expected = expected_after(parameters, gradients, len(gradients))
    restarts = [
        expected_after_cold_restart(parameters, gradients, 5, lr, weight_decay)
        for lr in RATES
        for weight_decay in (0.01, OTHER_DECAY)
    ]
    cold_parts = zip(*restarts, strict=True)
    saved = expected_after(parameters, gradients, 5)
    for name, got, wanted, cold, at_save in zip(
        PARTS, seen["resumed"], expected, cold_parts, saved, strict=True
    ):
        expect_close(
            got,
            wanted,
            f"the model's {name}, three steps after run_load_checkpoint",
            mistakes=lambda cold=cold, at_save=at_save: {
                "the optimizer's state is not restored: its moments start again from zero": list(
                    cold
                ),
                "loading puts new parameters into the model (assign=True), and the optimizer still"
                " steps the old ones": at_save,
            },
            hint="A checkpoint holds optimizer.state_dict(), and loading gives it back.",
        )


def expected_after_cold_restart(parameters, gradients, save_after, lr=FIRST_LR, weight_decay=0.01):
    *middle, _ = expected_after(parameters, gradients, save_after)
    options = {"lr": lr, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": weight_decay}
    groups = [{"params": middle}]
    trail = oracles.adamw(groups, options, gradients[save_after:], is_decay_last=False)
    return [*trail[-1], np.array([float(len(gradients))])]


def test_checkpoint_restores_the_learning_rate_of_the_optimizer(observe, rng):
    seen = run(observe, *draw(rng))
    expect(
        seen["loaded_lr"] == LATER_LR,
        f"run_load_checkpoint left the optimizer's lr at {seen['loaded_lr']}, saved was {LATER_LR}",
        "learning-rate-is-not-restored",
    )


@pytest.mark.parametrize("iteration", [0, 1, 123456789])
def test_checkpoint_returns_the_iteration(observe, rng, iteration):
    draws = draw(rng, steps=2)
    later = iteration + 1000
    seen = run(observe, *draws, save_after=1, iteration=iteration, saved_later=later)
    is_later = ": that of another file, which was saved later" * (seen["iteration"] == later)
    expect(
        seen["iteration"] == iteration,
        f"run_load_checkpoint returned iteration {seen['iteration']!r}, saved was {iteration}"
        f"{is_later}",
        "iteration-is-not-restored",
    )


def test_saving_changes_nothing(observe, rng):
    parameters, gradients = draw(rng)
    seen = run(observe, parameters, gradients)
    for steps, key in ((5, "at_save"), (8, "never_stopped")):
        expected = expected_after(parameters, gradients, steps)
        cold = expected_after_cold_restart(parameters, gradients, 5, LATER_LR)
        for name, got, wanted, restarted in zip(PARTS, seen[key], expected, cold, strict=True):
            expect_close(
                got,
                wanted,
                f"the model's {name} after run_save_checkpoint",
                mistakes=lambda restarted=restarted: {
                    "saving clears the optimizer's state": restarted
                },
            )


def test_checkpoint_restores_frozen_parameters(observe, rng):
    frozen, trained = (rng.standard_normal((2, 3)).astype(np.float32) for _ in range(2))
    seen = observe(checkpoint_of_frozen, frozen=frozen, trained=trained, training=True)
    expect_close(
        seen["trained"],
        trained,
        "run_load_checkpoint, the trained parameter after loading",
        mistakes=lambda: other_than(trained),
    )
    expect_close(  # The trained one is restored.
        seen["frozen"],
        frozen,
        "run_load_checkpoint, the frozen parameter after loading",
        mistakes=lambda: {"parameters that are not trained are not saved": np.zeros_like(frozen)},
    )


@pytest.mark.parametrize("training", [True, False])
def test_saving_leaves_the_training_mode_alone(observe, rng, training):
    weights = rng.standard_normal((2, 3)).astype(np.float32)
    seen = observe(checkpoint_of_frozen, frozen=weights, trained=weights, training=training)
    expect(
        seen["training"] == training,
        f"run_save_checkpoint set model.training to {seen['training']}: saving must not change the"
        " model",
        "saving-changes-the-model",
    )
    expect(
        seen["training_after_loading"] or not training,
        "run_load_checkpoint set model.training to False: whoever goes on training would not"
        " notice",
        "loading-changes-the-mode",
    )
