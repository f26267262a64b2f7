"""Speed: how fast updates are made, and how much of the machine they use."""

import time

from torch import nn

from cs_basics.run.clock import Clock
from cs_basics.run.hardware import peak_memory_mb
from cs_basics.run.metrics import Row
from cs_basics.run.optimizer import embedding_tables
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.run import TrainConfig


def flops_per_token(model: nn.Module, sizes: ModelConfig) -> float:
    """Return the operations that training needs for a token.

    Model FLOPs as Chowdhery et al. 2022, appendix B (https://arxiv.org/abs/2204.02311) count them:
    two for each weight of a matrix product and two for each score and each weighted value of
    attention, three times for forward and backward.
    """
    tables = [] if sizes.tie_embeddings else embedding_tables(model, sizes)
    looked_up = {id(table) for table in tables}
    weights = (p.numel() for p in model.parameters() if p.dim() == 2 and id(p) not in looked_up)
    scores = 2 * sizes.num_layers * sizes.d_q * sizes.context_length
    return 6.0 * (sum(weights) + scores)


class Speed:
    """Measures the seconds per update, without the time of evaluations and checkpoints.

    Args:
        config: The run.
        model: Its model, on its device.
        peak_flops_per_s: Operations that the machine can do in a second, all processes together;
            None: unknown.
    """

    def __init__(
        self, config: TrainConfig, model: nn.Module, peak_flops_per_s: float | None
    ) -> None:
        self.tokens_per_step = config.data.batch_size * config.model.context_length
        self.flops_per_token = flops_per_token(model, config.model)
        self.device = next(model.parameters()).device
        self.peak_flops_per_s = peak_flops_per_s
        self._num_steps, self._elapsed_s = 0, 0.0
        self.restart()

    def restart(self) -> None:
        """Start timing now, so that the time since the last update does not count."""
        self._last = time.monotonic()

    def count_step(self) -> None:
        """Count an update that ends now."""
        now = time.monotonic()
        self._elapsed_s += now - self._last
        self._last = now
        self._num_steps += 1

    def figures(self, step: int, clock: Clock) -> Row:
        """Return speed, time left, memory and share of the peak (MFU) since the last call."""
        seconds_per_step = self._elapsed_s / self._num_steps
        self._num_steps, self._elapsed_s = 0, 0.0
        tokens_per_s = self.tokens_per_step / seconds_per_step
        figures = {"perf/tokens_per_s": tokens_per_s}
        if step > 1:  # The time of the first update includes compiling.
            figures["perf/seconds_left"] = clock.seconds_left(step, seconds_per_step)
        if (memory := peak_memory_mb(self.device)) is not None:
            figures["perf/peak_memory_mb"] = memory
        if self.peak_flops_per_s is not None:
            figures["perf/mfu"] = tokens_per_s * self.flops_per_token / self.peak_flops_per_s
        return figures
