"""How a model and its batches are laid out over the processes of a run."""

from torch import nn
from torch.optim import Optimizer

from cs_basics.run.distributed import ALONE, DDP, World
from cs_basics.run.model import build_model
from cs_basics.run.optimizer import make_optimizer
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.run import TrainConfig


def check_layout(config: TrainConfig, world: World) -> None:
    """Refuse a run that the processes cannot share out, before minutes of work.

    Raises:
        ValueError: The batch cannot be shared out evenly, or the model not at all.
    """
    parallel = config.run.parallel
    if parallel != "ddp" and world.size > 1:
        if config.optim.optimizer == "muon":
            raise ValueError(
                f"--optimizer muon needs whole matrices, and with --parallel {parallel} each "
                "process holds a part of them: use --parallel ddp, or --optimizer adamw"
            )
        if parallel == "tp":
            _check_shares(config.model, world)
    micro_batch_size(config, world)


def _check_shares(model: ModelConfig, world: World) -> None:
    """Refuse a model that tensor parallelism cannot share out."""
    for name in ("value_residual", "head_bias"):
        if getattr(model, name):
            flag = name.replace("_", "-")
            raise ValueError(
                f"--parallel tp does not know how to share out --{flag}: use ddp or fsdp, or "
                f"--no-{flag}"
            )
    for heads in (model.num_heads, model.num_kv_heads or model.num_heads):
        if heads % world.size:
            raise ValueError(
                f"--parallel tp cannot share out {heads} heads among {world.size} processes"
            )


def micro_batch_size(config: TrainConfig, world: World) -> int:
    """Return how many rows of a batch a process works on at a time.

    Raises:
        ValueError: The batch cannot be shared out evenly.
    """
    num_processes = data_world(config, world).size
    size, remainder = divmod(config.data.batch_size, num_processes * config.run.grad_accum_steps)
    if remainder:
        raise ValueError(
            f"batch_size={config.data.batch_size} cannot be shared out evenly among "
            f"{num_processes} process(es) in grad_accum_steps={config.run.grad_accum_steps} parts "
            "each"
        )
    return size


def data_world(config: TrainConfig, world: World) -> World:
    """Return the processes that share out a batch; with tensor parallelism each computes it all."""
    return ALONE if config.run.parallel == "tp" and world.size > 1 else world


def lay_out(model: nn.Module, optimizer: Optimizer, config: TrainConfig, world: World) -> DDP:
    """Spread a model and its optimizer over the processes."""
    if config.run.parallel == "ddp" or world.size == 1:
        return DDP(model, world)

    def build_whole() -> tuple[nn.Module, Optimizer]:
        whole = build_model(config.model, "cpu")
        return whole, make_optimizer(whole, config)

    # Here and not above: importing them takes half a second.
    if config.run.parallel == "tp":
        from cs_basics.run.parallel.tensor_parallel import TensorParallel

        return TensorParallel(model, optimizer, world, build_whole)
    from cs_basics.run.parallel.fsdp import FSDP

    return FSDP(model, optimizer, world, build_whole)
