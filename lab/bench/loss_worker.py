"""One contender for the lowest loss, in a process of its own that takes turns with others.

Everything but the model, its loss and its optimizer is the same code for all: batches, the book's
loop, schedule, clock, evaluation. The clock runs only while it is this process's turn; neither
compiling nor evaluating counts. It answers "begin" with nothing, once it is compiled; a number,
after so many seconds of training, with the updates so far and whether its time is up; and
"evaluate" with the bits per byte on the whole validation text.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import torch
from process import keep_freed_memory
from torch import Tensor, nn
from torch.optim import Optimizer

from cs_basics.fast import accelerate, compile_if_possible, compile_training
from cs_basics.functional import cross_entropy
from cs_basics.optim import clip_grad_norm
from cs_basics.run.batches import draw_batch
from cs_basics.run.config import TrainConfig
from cs_basics.run.evaluation import (
    LossFunction,
    evaluate,
    make_loss_function,
)
from cs_basics.run.hardware import resolve_dtype
from cs_basics.run.optimizer import BETA1, MUON_LR_RATIO, make_optimizer
from cs_basics.run.schedules import SCHEDULES
from cs_basics.run.token_file import open_token_file
from cs_basics.run.updates import make_updates
from cs_basics.training import Batch, TrainingDivergedError, Update
from cs_basics.variants.dropout import Dropout
from cs_basics.variants.head_bias import set_head_bias
from cs_basics.variants.model import Transformer

from .models import llama
from .worker import answer_all

CPU = torch.device("cpu")
Kind = Literal["ours", "transformers, AdamW", "transformers, Muon"]


class Racer:
    """A training that can be interrupted.

    Args:
        kind: Whose model and optimizer.
        lr: The highest rate.
        minutes: How long to train.
        tokens: Folder with train.bin and valid.bin.
        settings: A TrainConfig as JSON.
    """

    def __init__(
        self, kind: Kind, lr: float, minutes: float, tokens: str, settings: dict[str, Any]
    ) -> None:
        self.config = config = TrainConfig.from_json(settings)
        self.max_s, self.lr = 60 * minutes, lr
        self.train, self.valid = (open_token_file(f"{tokens}/{n}.bin") for n in ("train", "valid"))
        training = make_ours(config) if kind == "ours" else make_peer(kind, config)
        self.model, self.optimizer, self.loss_of, self.plain_loss_of, self.dropout = training
        set_head_bias(self.model, self.train.tokens)
        self.step, self.elapsed_s, self.has_diverged = 0, 0.0, False
        # Compiled before the clock starts; no update is made.
        self.loss_of(*self.batch()).backward()
        torch.manual_seed(config.run.seed)

    def batch(self) -> Batch:
        """Draw the next batch, and the dropout masks for it."""
        config = self.config
        self.dropout.draw(config.run.seed, self.step, progress=self.elapsed_s / self.max_s)
        return draw_batch(self.train.tokens, config, self.step, slice(None), CPU)

    def run(self, seconds: float) -> tuple[int, bool]:
        """Make updates for some seconds; return how many there are, and whether the time is up."""
        before, start = self.elapsed_s, time.perf_counter()
        until = min(before + seconds, self.max_s)

        def batches() -> Iterator[Batch]:
            while self.elapsed_s < until:
                yield self.batch()

        def after(update: Update) -> None:
            self.step = update.step
            self.elapsed_s = before + time.perf_counter() - start

        try:
            make_updates(
                self.optimizer, batches(), self.lr_at, self.loss_of,
                lambda: float(
                    clip_grad_norm(self.model.parameters(), self.config.optim.max_grad_norm)
                ),
                first_step=self.step + 1,
                on_update=after,
            )  # fmt: skip
        except TrainingDivergedError:  # Of this rate alone: the others train on.
            self.has_diverged, self.elapsed_s = True, self.max_s
        return self.step, self.elapsed_s >= self.max_s

    def lr_at(self, step: int) -> float:
        """Return the rate of a step: the schedule ends with the time."""
        optim = self.config.optim
        # The number of updates of the whole run at the speed so far.
        length = step * self.max_s / self.elapsed_s if self.elapsed_s else math.inf
        return SCHEDULES[optim.schedule](step, self.lr, 0.0, optim.warmup_steps, length)

    def bits_per_byte(self) -> float:
        """Measure on the whole validation text; infinite if the training diverged."""
        if self.has_diverged:
            return math.inf
        config = self.config
        self.dropout.rest()
        result = evaluate(
            self.loss_of,
            self.valid,
            config.model.context_length,
            config.data.batch_size,
            CPU,
            loss_of_rest=self.plain_loss_of,
        )
        return result.bits_per_byte if math.isfinite(result.bits_per_byte) else math.inf


Training = tuple[nn.Module, Optimizer, LossFunction, LossFunction, Dropout]
"""A model, its optimizer, its loss for training, the same loss uncompiled, and its dropout."""


def make_ours(config: TrainConfig) -> Training:
    """Return what scripts/train.py trains."""
    dtype = resolve_dtype(config.run.dtype, CPU)
    rows = config.data.batch_size
    torch.manual_seed(0)
    model = accelerate(Transformer)(config.model)
    optimizer = make_optimizer(model, config, is_fast=True)
    shape = (rows, config.model.context_length, config.model.d_model)
    dropout = Dropout(model, config.optim.dropout, shape)
    plain_loss_of = make_loss_function(model, dtype)
    loss_of = compile_training(model, config.model, optimizer, dtype, rows)
    return model, optimizer, loss_of, plain_loss_of, dropout


def make_peer(kind: Kind, config: TrainConfig) -> Training:
    """Return the model of transformers with an optimizer of torch; settings are those of ours."""
    dtype = resolve_dtype(config.run.dtype, CPU)
    peer = llama(config.model).train()
    optimizer = with_muon(peer, config) if "Muon" in kind else adamw(peer.parameters(), config)
    plain_loss_of = peer_loss(peer, dtype)
    loss_of = compile_if_possible(plain_loss_of, CPU)
    # Its only dropout is that of attention weights, for which it would give up fast attention.
    return peer, optimizer, loss_of, plain_loss_of, Dropout(peer, 0.0, ())


def adamw(params: Iterable[nn.Parameter], config: TrainConfig) -> Optimizer:
    """Return torch's AdamW in its fastest form."""
    optim = config.optim
    betas = (BETA1, optim.beta2)
    return torch.optim.AdamW(params, betas=betas, weight_decay=optim.weight_decay, fused=True)


class OneAfterTheOther:
    """Optimizers of different weights as one."""

    def __init__(self, *optimizers: Optimizer) -> None:
        self.optimizers = optimizers
        self.param_groups = [group for one in optimizers for group in one.param_groups]

    def zero_grad(self) -> None:
        """Let each forget the gradients of its weights."""
        for one in self.optimizers:
            one.zero_grad()

    def step(self) -> None:
        """Let each make its update."""
        for one in self.optimizers:
            one.step()


def with_muon(peer: nn.Module, config: TrainConfig) -> Any:  # noqa: ANN401
    """Return torch's Muon for the matrices of the blocks, and AdamW for all other weights."""
    named = dict(peer.named_parameters())
    matrices = {name: p for name, p in named.items() if ".layers." in name and p.dim() == 2}
    muon = torch.optim.Muon(
        [{"params": list(matrices.values()), "lr_ratio": MUON_LR_RATIO}],
        weight_decay=config.optim.weight_decay / MUON_LR_RATIO,
        momentum=0.95,
        adjust_lr_fn="match_rms_adamw",
    )
    others = [p for name, p in named.items() if name not in matrices]
    return OneAfterTheOther(muon, adamw(others, config))


def peer_loss(peer: Callable[..., Any], dtype: torch.dtype) -> LossFunction:
    """Return the mean loss of a batch; the peer's own would shift the targets once more."""

    def loss_of(inputs: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype != torch.float32):
            logits = peer(input_ids=inputs).logits
        return cross_entropy(logits, targets)

    return loss_of


def main() -> None:
    """Answer until there are no more questions."""
    keep_freed_memory()
    racer = Racer(**json.loads(sys.argv[1]))

    def answer(question: str | float) -> object:
        if question == "begin":
            return None
        return racer.bits_per_byte() if question == "evaluate" else racer.run(float(question))

    answer_all(answer)


if __name__ == "__main__":
    main()
