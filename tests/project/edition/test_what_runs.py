"""What a student wrote is what trains: a fault in any part of it changes a run, or ends it."""

import pytest
from test_graduation import SMALL, losses_of

FAULTS = {
    "train_bpe": ("bpe", "highest = max(", "highest = min("),
    "Tokenizer.encode": (
        "tokenizer",
        "tokens = merge_by_rank(text_to_bytes(pretoken), self._ranks)",
        "tokens = merge_by_rank(text_to_bytes(pretoken), {})",
    ),
    "Tokenizer.decode": ("tokenizer", '.decode("utf-8", "replace")\n        except KeyError', None),
    "cross_entropy": ("functional", "(log_normaliser - target_logits).mean()", "2 * OLD"),
    "AdamW": ("optim", "p.sub_(rate * m", "p.add_(rate * m"),
    "cosine_schedule": ("optim", "step / warmup_steps * max_lr", "OLD / 2"),
    "clip_grad_norm": ("optim", "grad.mul_(scale)", "grad.mul_(1.0)"),
    "get_batch": ("data", "dataset[indices + 1]", "dataset[indices]"),
    "save_checkpoint": ("checkpoint", '"optimizer": optimizer.state_dict()', '"optimizer": {}'),
    "load_checkpoint": ("checkpoint", 'optimizer.load_state_dict(state["optimizer"])', "pass"),
}


def fault(module, old, new):
    if new is None:
        return f"{module}.py", old, old.replace('"replace")', '"replace").upper()')
    return f"{module}.py", old, new.replace("OLD", old)


@pytest.mark.slow
@pytest.mark.parametrize("filled", ["reference"], indirect=True)
def test_a_fault_in_what_the_student_wrote_changes_the_run_or_ends_it(
    filled, inside, of_texts, tmp_path
):
    given = [*SMALL, "--fast", "off", "--max-grad-norm", "0.1", *of_texts]
    changes = {"": [], **{name: [fault(*change)] for name, change in FAULTS.items()}}
    jobs = [
        {
            "argv": ["train", "debug", *given, "--run-dir", str(tmp_path / f"of {name}")],
            "changes": c,
        }
        for name, c in changes.items()
    ]
    done = dict(zip(changes, inside(filled, *jobs), strict=True))
    assert done.pop("")["code"] == 0
    healthy = losses_of(tmp_path / "of ")
    for name, finished in done.items():
        is_ended = finished["code"] == 2 and "will not work" in finished["out"] + finished["err"]
        assert is_ended or losses_of(tmp_path / f"of {name}") != healthy, name
