"""One contender of the training benchmark, in a process of its own that takes turns with others.

A process of its own, because the memory that a step holds, and the allocator's settings, belong to
a process. It says how long its first update took; then, for each line that it reads, it makes an
update and says how long that took; at the end of the input it says what it held at the most.

    cd scripts/maintain; python -m benchmarks.training_worker '{"kind": "ours", "dtype": "bfloat16"}'
"""

import json
import sys
import time
from collections.abc import Callable

import torch
from process import keep_freed_memory
from torch import Tensor, nn

from cs_basics.fast.adamw import OnePassAdamW
from cs_basics.fast.native.ahead_of_time import compile_training
from cs_basics.run.evaluation import make_loss_function
from cs_basics.run.hardware import forget_peak_memory, peak_memory_mb

from .contender import Contender
from .peer import llama, ours
from .plain_model import BuiltInLM
from .training_step import random_batch, training_step


def make_step(contender: Contender) -> Callable[[], None]:
    """Return an update of the contender's model, compiled if it is to be."""
    config = contender.config
    torch.manual_seed(0)
    batch = random_batch(config)
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[contender.dtype]
    if contender.kind == "ours":
        model = ours(config)
        loss_of = make_loss_function(model, dtype, config.chunk_loss)
        optimizer = OnePassAdamW(model.parameters())
        if contender.is_compiled:
            loss_of = compile_training(model, loss_of, optimizer, config, config.batch_size)
        return training_step(model, loss_of, batch, optimizer)
    peer: nn.Module = llama(config) if contender.kind == "transformers" else BuiltInLM(config)
    peer.train()
    called = torch.compile(peer) if contender.is_compiled else peer
    optimizer = torch.optim.AdamW(peer.parameters(), fused=True)  # noqa: TID251 (the peer's)
    is_mixed = dtype != torch.float32

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=dtype if is_mixed else None, enabled=is_mixed):
            loss: Tensor = called(input_ids=batch[0], labels=batch[0]).loss
        loss.backward()
        nn.utils.clip_grad_norm_(peer.parameters(), 1.0)  # noqa: TID251 (the peer's)
        optimizer.step()

    return step


def main() -> None:
    """Take turns until the input ends."""
    contender = Contender(**json.loads(sys.argv[1]))
    if contender.is_tuned:
        keep_freed_memory()
    sys.stdin.readline()  # The first line: begin.
    start = time.perf_counter()
    step = make_step(contender)
    step()
    print(time.perf_counter() - start, flush=True)
    step()
    # What compiling held is not what training holds.
    forget_peak_memory(torch.device("cpu"))
    for _ in sys.stdin:
        start = time.perf_counter()
        step()
        print(time.perf_counter() - start, flush=True)
    print(peak_memory_mb(torch.device("cpu")), flush=True)


if __name__ == "__main__":
    main()
