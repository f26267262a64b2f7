"""Tensor parallelism: processes that share out every matrix compute what one process computes."""

import sys
from pathlib import Path

import pytest
import torch
from processes import ROOT, python

from cs_basics.functional import cross_entropy
from cs_basics.run.checkpoint_file import read_checkpoint, write_checkpoint
from cs_basics.run.distributed import ALONE, DDP, World, join
from cs_basics.run.layout import data_world, lay_out, micro_batch_size
from cs_basics.run.optimizer import make_optimizer
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.presets import PRESETS
from cs_basics.settings.run import TrainConfig
from cs_basics.variants.model import Transformer

# 259 ids and 50 hidden features: neither is a multiple of 4.
SIZES = {"vocab_size": 259, "context_length": 8, "d_model": 32, "num_layers": 2, "num_heads": 4}
MODELS = {
    "book": {},
    "grouped": {
        "num_kv_heads": 4,
        "qk_norm": True,
        "tie_embeddings": True,
        "ffn": "silu",
        "head_dim": 16,
    },
}
NUM_UPDATES = 3


def config_of(name: str) -> TrainConfig:
    """A run of a model; nothing of it but model and optimizer is used."""
    model = ModelConfig(d_ff=50, **SIZES, **MODELS[name])  # pyright: ignore[reportArgumentType]
    settings = {key: getattr(model, key) for key in model.__dataclass_fields__}
    return PRESETS["debug"][1].replace(parallel="tp", max_grad_norm=0.05, lr=0.01, **settings)


def laid_out(
    config: TrainConfig, world: World, seed: int
) -> tuple[torch.nn.Module, torch.optim.Optimizer, DDP]:
    """Make a model with the weights of a seed, its optimizer, and lay them out."""
    torch.manual_seed(seed)
    model = Transformer(config.model)
    optimizer = make_optimizer(model, config)
    return model, optimizer, lay_out(model, optimizer, config, world)


def updated(name: str, world: World, checkpoint: Path | None = None) -> dict[str, torch.Tensor]:
    """Make some updates; return losses, norms, and the whole weights and moments.

    If a checkpoint is named, it is written before the last update and read by another model.
    """
    config = config_of(name)
    model, optimizer, layout = laid_out(config, world, seed=5)
    ids = torch.randint(259, (NUM_UPDATES, 4, 9), generator=torch.Generator().manual_seed(1))
    found: dict[str, torch.Tensor] = {}
    for number, batch in enumerate(ids):
        if checkpoint is not None and number == NUM_UPDATES - 1:
            whole = layout.whole(optimizer)
            if world.is_first:
                write_checkpoint(checkpoint, *whole, number)
            world.wait()
            model, optimizer, layout = laid_out(config, world, seed=6)
            layout.load(optimizer, read_checkpoint(checkpoint))
        optimizer.zero_grad()
        loss = cross_entropy(model(batch[:, :-1]), batch[:, 1:])
        loss.backward()
        norm = layout.clip(optimizer, config.optim.max_grad_norm)
        optimizer.step()
        found |= {f"loss {number}": loss.detach(), f"norm {number}": torch.tensor(norm)}
    whole_model, whole_optimizer = layout.whole(optimizer)
    found |= whole_model.state_dict()
    for place, state in whole_optimizer.state_dict()["state"].items():
        found |= {f"{key} {place}": value for key, value in state.items() if torch.is_tensor(value)}
    return found


@pytest.mark.slow
def test_processes_compute_losses_norms_and_updates_of_one(tmp_path):
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 4)
    environment = {"PYTHONPATH": f"{ROOT}:{Path(__file__).parents[1]}", "OMP_NUM_THREADS": "1"}
    result = python(*torchrun, __file__, tmp_path, env=environment)
    assert result.returncode == 0, result.stderr
    for name in MODELS:
        wanted = updated(name, ALONE)
        assert float(wanted["norm 0"]) > 2 * 0.05, "clipping would not be seen"
        for rank in range(4):
            found = torch.load(tmp_path / f"{name}-{rank}.pt")
            assert found.keys() == wanted.keys()
            for key, value in wanted.items():
                # AdamW divides by the root of v: where gradients are tiny, rounding is not.
                atol = 1e-4 if key.endswith("weight") else 1e-6
                torch.testing.assert_close(
                    found[key].double(), value.double(), rtol=1e-4, atol=atol, msg=f"{name} {key}"
                )


def test_a_batch_is_not_shared_out():
    config = config_of("book")
    assert data_world(config, World(1, 2)) is ALONE
    assert micro_batch_size(config.replace(batch_size=3), World(1, 2)) == 3
    assert data_world(config.replace(parallel="fsdp"), World(1, 2)).size == 2


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with join() as world:
        for name in MODELS:
            found = updated(name, world, folder / f"{name}.checkpoint")
            torch.save(found, folder / f"{name}-{world.rank}.pt")
