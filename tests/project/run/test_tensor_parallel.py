"""Tensor parallelism: processes that share out every matrix compute what one process computes."""

import shutil

import pytest
import torch
from processes import run
from run_files import folder_of, rows_of
from test_distributed import assert_same_curve, command

from cs_basics.run.run import train_run

MODELS = {
    "book": ({}, False),
    "grouped": (
        {
            "num_kv_heads": 4,
            "qk_norm": True,
            "tie_embeddings": True,
            "ffn": "silu",
            "head_dim": 16,
        },
        True,
    ),
}
"""In what a model differs from the book's, and whether it comes from another's checkpoint."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_processes_compute_losses_norms_and_updates_of_one(make_tiny_config, tmp_path, name):
    changes, is_resumed = MODELS[name]
    # 299 ids and 50 hidden features: neither is a multiple of 4. A batch of 3 is not shared out.
    alone = make_tiny_config(tmp_path / "alone").replace(
        vocab_size=299, d_ff=50, num_heads=4, batch_size=3, max_grad_norm=0.05, eval_every=10,
        **changes,
    )  # fmt: skip
    shared = alone.replace(run_dir=tmp_path / "shared", parallel="tp")
    train_run(alone)
    if is_resumed:
        shutil.copytree(alone.run.run_dir, shared.run.run_dir)
        folder_of(shared).checkpoint_of(20).unlink()
    result = run(*command(shared, num_processes=4), *["--resume"] * is_resumed)
    assert result.returncode == 0, result.stderr
    assert "4 processes (tp)" in result.stdout
    assert rows_of(alone)[0]["optim/grad_norm"] > 2 * 0.05, "clipping would not be seen"
    assert_same_curve(folder_of(shared), rows_of(alone))
    models = [folder_of(config).load_model() for config in (alone, shared)]
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)
