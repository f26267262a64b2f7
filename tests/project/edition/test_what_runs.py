"""What a student wrote is what trains: a fault in any part of it changes a run, or ends it."""

import pytest

TINY = {
    "vocab_size": 300, "context_length": 16, "d_model": 16, "d_ff": 32, "num_layers": 1,
    "num_heads": 2, "batch_size": 4, "max_steps": 12, "eval_every": 6,
    "num_samples": 1, "warmup_steps": 4, "lr": 1e-2,
    "max_grad_norm": 0.1, "device": "cpu", "fast": "auto",
}  # fmt: skip

FAULTS = {
    "train_bpe": ("bpe", "best = max(", "best = min("),
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
    "get_batch": ("data", "dataset[places + 1]", "dataset[places]"),
    "save_checkpoint": ("checkpoint", '"optimizer": optimizer.state_dict()', '"optimizer": {}'),
    "load_checkpoint": ("checkpoint", 'optimizer.load_state_dict(state["optimizer"])', "pass"),
}


def fault(module, old, new):
    if new is None:
        return f"{module}.py", old, old.replace('"replace")', '"replace").upper()')
    return f"{module}.py", old, new.replace("OLD", old)


@pytest.mark.slow
@pytest.mark.parametrize("filled", ["reference"], indirect=True)
def test_a_fault_in_what_the_student_wrote_changes_the_run(filled, inside, texts):
    settings = {**TINY, "train_text": str(texts[0]), "valid_text": str(texts[1])}
    changes = [[], *([fault(*change)] for change in FAULTS.values())]
    healthy, *faulty = inside(filled, *({"train": settings, "changes": c} for c in changes))
    assert healthy["run"] == healthy["again"]  # resumed in the middle
    assert len(healthy["run"]["losses"]) == TINY["max_steps"]
    for name, run in zip(FAULTS, faulty, strict=True):
        if "error" in run:
            assert name == "save_checkpoint", run
            continue
        where = "again" if name.endswith("checkpoint") else "run"
        assert run[where] != healthy[where], f"a fault in {name} changes nothing"
        is_seen_in_loss = name != "Tokenizer.decode"
        assert (run[where]["losses"] != healthy[where]["losses"]) == is_seen_in_loss, name
