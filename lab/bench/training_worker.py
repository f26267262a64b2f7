"""One contender of the training benchmark, in a process of its own.

It answers "begin" with how long its first update took, "step" with how long one more took, and
"peak" with the most memory that it held, in MB.
"""

import json
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from process import keep_freed_memory
from torch import Tensor, nn

from cs_basics.fast import accelerate
from cs_basics.fast.training import compile_training
from cs_basics.optim import AdamW
from cs_basics.run.evaluation import make_loss_function
from cs_basics.run.hardware import forget_peak_memory, peak_memory_mb, resolve_dtype
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.run import TrainConfig
from cs_basics.variants.model import Transformer

from .models import SHAPE, BuiltInLM, llama, random_batch, training_step
from .worker import answer_all

CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """A model, and how it is trained."""

    kind: Literal["ours", "book", "transformers", "built-in layers"]
    """ours: the fast twins, as --fast auto trains; book: the book's own code, as --fast off."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    is_compiled: bool = True
    is_tuned: bool = True
    """glibc keeps the blocks that are freed, idle threads spin for less (scripts/process.py)."""
    fast_parts: tuple[str, ...] = ()
    """Classes of the book that are exchanged for their fast twins all the same."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the model or the batch that are not those of all others."""

    @property
    def config(self) -> TrainConfig:
        """The sizes as a configuration."""
        sizes = {**asdict(SHAPE), "batch_size": 16, "max_steps": 1, **self.sizes}
        return TrainConfig.of(**sizes)

    @property
    def num_tokens(self) -> int:
        """Tokens of an update."""
        return self.config.data.batch_size * self.config.model.context_length


def make_step(contender: Contender) -> Callable[[], None]:
    """Return an update of the contender's model, compiled if it is to be."""
    config = contender.config
    dtype = resolve_dtype(contender.dtype, CPU)
    if contender.kind in ("transformers", "built-in layers"):
        return make_step_of_peer(contender, dtype)
    torch.manual_seed(0)
    if contender.kind == "book":
        model = partly_fast(config.model, contender.fast_parts)
        optimizer = AdamW(model.parameters())
        loss_of = make_loss_function(model, dtype)
        loss_of = torch.compile(loss_of) if contender.is_compiled else loss_of
    else:
        model = accelerate(Transformer)(config.model)
        optimizer = accelerate(AdamW)(model.parameters())
        size = config.data.batch_size
        loss_of = compile_training(model, config.model, optimizer, dtype, size)
    return training_step(model, optimizer, loss_of, random_batch(config))


def partly_fast(config: ModelConfig, names: Collection[str]) -> Transformer:
    """Return a model in which some classes of the book are replaced by their fast twins."""

    class PartlyFast(Transformer):
        def kind(self, part: Any) -> Any:  # noqa: ANN401  as in Transformer
            return accelerate(part) if part.__name__ in names else part

    return PartlyFast(config)


def make_step_of_peer(contender: Contender, dtype: torch.dtype) -> Callable[[], None]:
    """Return an update as one of PyTorch's tutorials makes it."""
    shape = contender.config.model
    peer: nn.Module = llama(shape) if contender.kind == "transformers" else BuiltInLM(shape)
    peer.train()
    called = torch.compile(peer) if contender.is_compiled else peer
    optimizer = torch.optim.AdamW(peer.parameters(), fused=True)
    inputs, _ = random_batch(contender.config)
    is_mixed = dtype != torch.float32

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=dtype if is_mixed else None, enabled=is_mixed):
            loss: Tensor = called(input_ids=inputs, labels=inputs).loss
        loss.backward()
        nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        optimizer.step()

    return step


def main() -> None:
    """Answer until there are no more questions."""
    contender = Contender(**json.loads(sys.argv[1]))
    if contender.is_tuned:
        keep_freed_memory()
    step: Callable[[], None] | None = None

    def answer(question: str) -> float | None:
        nonlocal step
        if question == "peak":
            return peak_memory_mb(CPU)
        start = time.perf_counter()
        if step is None:
            step = make_step(contender)
            step()
            elapsed_s = time.perf_counter() - start
            step()
            # The memory that compiling took is not that of training.
            forget_peak_memory(CPU)
            return elapsed_s
        step()
        return time.perf_counter() - start

    answer_all(answer)


if __name__ == "__main__":
    main()
