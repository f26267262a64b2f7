"""One contender for the lowest loss, in a process of its own that takes turns with others.

Everything but the model, its loss and its optimizer is the same code for all: batches, clipping,
schedule, clock, evaluation. The clock runs only while it is this process's turn; compiling comes
before it starts, and evaluating does not count. For each line "SECONDS" that it reads it trains so
long; for "evaluate" it reads the whole validation text. It answers each by one line.

    cd scripts/maintain; python -m benchmarks.loss_worker '{"kind": "ours", ...}'
"""

import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from process import keep_freed_memory
from torch import Tensor, nn

from cs_basics.fast.adamw import OnePassAdamW
from cs_basics.fast.native.ahead_of_time import compile_training
from cs_basics.functional import cross_entropy
from cs_basics.optim import clip_grad_norm, cosine_schedule
from cs_basics.run.config import TrainConfig
from cs_basics.run.epochs import random_batch
from cs_basics.run.evaluation import LossFunction, evaluate, make_loss_function
from cs_basics.run.hardware import compile_if_possible, resolve_dtype
from cs_basics.run.token_file import open_token_file
from cs_basics.run.trainer import parameter_groups
from cs_basics.transformer import TransformerLM

from .peer import llama, ours

CPU = torch.device("cpu")
Kind = Literal["ours", "transformers"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """A model, a rate and a time."""

    kind: Kind
    lr: float
    minutes: float
    tokens: str
    """Folder with train.bin and valid.bin."""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """A TrainConfig as JSON."""

    def to_json(self) -> str:
        """Return the fields as one line."""
        return json.dumps(asdict(self))


class Racer:
    """A training that can be interrupted.

    Args:
        attempt: What to train.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.config = config = TrainConfig.from_json(attempt.settings)
        self.max_s, self.lr = 60 * attempt.minutes, attempt.lr
        folder = Path(attempt.tokens)
        self.train, self.valid = (open_token_file(folder / f"{n}.bin") for n in ("train", "valid"))
        torch.manual_seed(config.seed)
        self.model, loss_of, self.optimizer = make(attempt.kind, config)
        self.plain_loss_of = loss_of
        self.loss_of = loss_of
        if config.compile:
            self.loss_of = self.compiled()
        self.batches = torch.Generator().manual_seed(config.seed)
        self.step, self.elapsed_s = 0, 0.0
        # Compiled before the clock starts; no update is made.
        self.loss_of(*self.batch(torch.Generator())).backward()

    def compiled(self) -> LossFunction:
        """Return the loss, compiled; ours as it is for training."""
        if not isinstance(self.model, TransformerLM):
            return compile_if_possible(self.plain_loss_of, CPU)
        assert isinstance(self.optimizer, OnePassAdamW)
        is_bfloat16 = resolve_dtype(self.config.dtype, CPU) == torch.bfloat16
        config = replace(self.config, dtype="bfloat16" if is_bfloat16 else "float32")
        return compile_training(
            self.model, self.plain_loss_of, self.optimizer, config, config.batch_size
        )

    def batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw a batch."""
        config = self.config
        return random_batch(
            self.train.tokens, config.batch_size, config.context_length, CPU, generator
        )

    def run(self, seconds: float) -> dict[str, float]:
        """Make updates for so long, but not beyond the end; return where that led."""
        until = min(self.elapsed_s + seconds, self.max_s)
        losses: list[float] = []
        while self.elapsed_s < until:
            start = time.perf_counter()
            losses.append(self.update())
            self.elapsed_s += time.perf_counter() - start
        return {
            "elapsed_s": self.elapsed_s, "step": self.step, "loss": statistics.fmean(losses)
        }  # fmt: skip

    def update(self) -> float:
        """Make one update; return the loss before it."""
        config = self.config
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(*self.batch(self.batches))
        loss.backward()
        clip_grad_norm(self.model.parameters(), config.max_grad_norm)
        self.step += 1
        # As many updates as there will be, if it goes on at this speed.
        whole = self.step * self.max_s / self.elapsed_s if self.elapsed_s else math.inf
        rate = cosine_schedule(
            self.step, self.lr, config.min_lr_ratio * self.lr, config.warmup_steps, whole
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("lr_ratio", 1.0)
        self.optimizer.step()
        return loss.item()

    def bits_per_byte(self) -> float:
        """Measure on the whole validation text."""
        result = evaluate(
            self.loss_of,
            self.valid,
            self.config.context_length,
            self.config.batch_size,
            CPU,
            loss_of_rest=self.plain_loss_of,
            as_in_training=not self.config.chunk_loss,
        )
        return result.bits_per_byte


def make(kind: Kind, config: TrainConfig) -> tuple[nn.Module, LossFunction, torch.optim.Optimizer]:
    """Return a model, its loss and its optimizer; all but the rates are the same for all kinds."""
    dtype = resolve_dtype(config.dtype, CPU)
    settings: dict[str, Any] = {
        "betas": (config.beta1, config.beta2), "weight_decay": config.weight_decay
    }  # fmt: skip
    if kind == "ours":
        model = ours(config, config.seed)
        optimizer = OnePassAdamW(parameter_groups(model, config), **settings)
        return model, make_loss_function(model, dtype, config.chunk_loss), optimizer
    peer = llama(config).train()
    adamw = torch.optim.AdamW(peer.parameters(), fused=True, **settings)  # noqa: TID251 (a peer)
    return peer, peer_loss(peer, dtype), adamw


def peer_loss(peer: Callable[..., Any], dtype: torch.dtype) -> LossFunction:
    """Return the mean loss of a batch; the peer's own would shift the targets once more."""
    is_mixed = dtype != torch.float32

    def loss_of(inputs: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=dtype if is_mixed else None, enabled=is_mixed):
            logits = peer(input_ids=inputs).logits
        return cross_entropy(logits, targets)

    return loss_of


def main() -> None:
    """Take turns until the input ends."""
    keep_freed_memory()
    racer = Racer(Attempt(**json.loads(sys.argv[1])))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        if line.strip() == "evaluate":
            print(json.dumps({"bits_per_byte": racer.bits_per_byte()}), flush=True)
        else:
            print(json.dumps(racer.run(float(line))), flush=True)


if __name__ == "__main__":
    main()
