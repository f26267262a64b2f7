"""The small trainings that claims compare: each is made once and kept with its weights."""

import contextlib
import fcntl
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cs_basics.run.corpus import prepare_corpus
from cs_basics.run.evaluation import make_loss_function
from cs_basics.run.folder import RunFolder
from cs_basics.run.token_file import TokenFile
from cs_basics.settings.run import TrainConfig
from cs_basics.study.ablation_run import RunResult, read_result, run_variant
from cs_basics.transformer import TransformerLM
from lab.claims.measures.swaps import swapped

BASE = TrainConfig.of(
    corpus_megabytes=2.0,
    vocab_size=512,
    context_length=64,
    d_model=128,
    d_ff=344,
    num_layers=4,
    num_heads=4,
    max_steps=400,
    batch_size=16,
    lr=3e-3,
    warmup_steps=40,
    device="cpu",
    dtype="float32",
    fast="off",
)
"""A million parameters, about a minute on one core."""

KEPT = Path("runs/claims")
"""Where trainings lie, with the tokenizer and the tokens that all share."""
EVALUATED = 256
"""Validation sequences with which a trained model is looked at."""


@dataclass(frozen=True)
class Trained:
    """A training that is done."""

    config: TrainConfig
    result: RunResult
    folder: RunFolder
    valid: TokenFile
    swap: str

    @property
    def bits_per_byte(self) -> float:
        """Bits per byte of the validation text, at most 8 (a guess among 256 bytes)."""
        found = self.result.bits_per_byte
        return 8.0 if found is None or self.result.diverged_at is not None else min(found, 8.0)

    def model(self) -> TransformerLM:
        """Load its weights."""
        with swapped(self.swap):
            return self.folder.load_model("cpu")

    def sequences(self) -> Tensor:
        """Return validation sequences, (EVALUATED, context_length + 1)."""
        length = self.config.model.context_length + 1
        tokens = self.valid.tokens[: EVALUATED * length].astype(np.int64)
        return torch.from_numpy(tokens).view(-1, length)

    @torch.no_grad()
    def loss_of(self, model: TransformerLM) -> float:
        """Return a model's mean loss on the sequences."""
        ids = self.sequences()
        return make_loss_function(model, torch.float32)(ids[:, :-1], ids[:, 1:]).item()


@contextlib.contextmanager
def one_at_a_time(name: str) -> Generator[None]:
    """Wait until no other process is in such a context of this name."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def trained(settings: Mapping[str, Any], seed: int) -> Trained:
    """Return a training, made now unless it is kept.

    Args:
        settings: What differs from BASE; `swap` names a part of SWAPS that no ModelConfig has.
        seed: Of weights and batches.

    Raises:
        ValueError: The training that was kept has other settings.
    """
    shared = RunFolder(KEPT / "shared")
    parts = [f"{name}={value}" for name, value in settings.items()] or ["base"]
    folder = RunFolder(KEPT / "-".join([*parts, f"seed{seed}"]))
    swap = settings.get("swap", "")
    options = {name: value for name, value in settings.items() if name != "swap"}
    config = BASE.replace(**options, seed=seed, run_dir=folder.path)
    with one_at_a_time("shared"):
        # Of the base, so that the texts do not depend on which seed is trained first.
        corpus = prepare_corpus(BASE, shared, is_fast=False)
    with one_at_a_time(folder.path.name):
        result = read_result(folder)
        if result is None:
            print(f"training {folder.path.name}", file=sys.stderr)
            folder.write_config(config)
            with swapped(swap):
                result = run_variant(config, shared, keep_weights=True)
    if folder.read_config().replace(run_dir=folder.path) != config:
        raise ValueError(f"{folder.path} had other settings: delete it, and it is made again")
    return Trained(config, result, folder, corpus.valid, swap)
