"""The files of a run: where each of them is, and how to load it again."""

import contextlib
import json
import logging
import math
import re
from collections.abc import Generator
from pathlib import Path
from typing import Literal

import torch

from cs_basics.run.atomic import lock, remove_leftovers, write_atomically
from cs_basics.run.checkpoint_file import Checkpoint, read_checkpoint
from cs_basics.run.json_file import read_json
from cs_basics.run.model import build_model
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.tokenizer_folder import load_tokenizer
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.run import TrainConfig
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM

logger = logging.getLogger(__name__)

NUM_KEPT = 2
"""Newest checkpoints that a run keeps, besides the best: if the last is damaged, there is one."""
STEP = re.compile(r"step-(\d+)\.pt")
Which = Literal["latest", "best"]


class RunFolder:
    """The paths of one run.

    Args:
        path: The folder; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        self.tokenizer = path / "tokenizer"
        self.corpus = path / "corpus"
        self.tokens = path / "tokens"
        self.metrics = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoints"
        self.best = self.checkpoints / "best.json"
        self.samples = path / "samples.md"
        self.report = path / "report.html"
        self.page = path / "page.html"

    @contextlib.contextmanager
    def claim(self) -> Generator[None]:
        """Keep other processes from training in this folder until this one is done, or has died.

        The folder is made if it is missing, and removed again if nothing was put into it.

        Raises:
            OSError: The folder cannot be written.
            ValueError: Another process is training in it.
        """
        is_new = not self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / "lock"
        with path.open("ab") as file:
            try:
                lock(file)
            except ValueError:
                raise ValueError(
                    f"another process is training in {self.path}: wait for it, or choose another "
                    "folder"
                ) from None
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    path.unlink()
                    if is_new:
                        self.path.rmdir()  # Fails unless it is empty.

    def write_config(self, config: TrainConfig, **provenance: str | None) -> None:
        """Write config.json: the settings as resolved, and what they ran with."""
        text = json.dumps({"settings": config.to_json(), "provenance": provenance}, indent=2)
        write_atomically(self.config, text.encode() + b"\n")

    def imported_from(self) -> str | None:
        """Return the name of the folder whose weights are this run's step 0; None: its seed's."""
        provenance = read_json(self.config).get("provenance") or {}
        return provenance.get("imported_from")

    def launch(self) -> str | None:
        """Return which call of torchrun has begun this run, or resumed it; None: none has."""
        if not self.config.exists():
            return None
        return (read_json(self.config).get("provenance") or {}).get("launch")

    def read_config(self) -> TrainConfig:
        """Read config.json.

        Raises:
            FileNotFoundError: The folder holds no run.
            ValueError: The file is damaged or of another version.
        """
        if not self.config.is_file():
            raise FileNotFoundError(
                f"{self.path} holds no run: there is no {self.config.name} in it"
            )
        try:
            config = TrainConfig.from_json(read_json(self.config)["settings"])
        except (KeyError, TypeError, AttributeError, OverflowError, ValueError) as error:
            raise ValueError(f"{self.config} cannot be read: {error}") from error
        self._check_size(config)
        return config

    def _check_size(self, config: TrainConfig) -> None:
        """Refuse a model larger than all its checkpoints, before memory is allocated for it."""
        num_bytes = least_bytes(config.model)
        # Not the newest: it may be cut short, and an older one be used in its place.
        sizes = {path: path.stat().st_size for path in self.all_checkpoints()}
        if sizes and num_bytes > max(sizes.values()):
            path = max(sizes, key=sizes.__getitem__)
            raise ValueError(
                f"{self.config} describes a model of at least {num_bytes:,} bytes, but {path} "
                f"has only {sizes[path]:,}: one of them is damaged"
            )

    def has_begun(self) -> bool:
        """Tell whether there is anything of an update."""
        has_rows = self.metrics.exists() and self.metrics.stat().st_size > 0
        return has_rows or bool(self.all_checkpoints())

    def checkpoint_of(self, step: int) -> Path:
        """Return the path of the checkpoint of a step."""
        return self.checkpoints / f"step-{step:08d}.pt"

    def all_checkpoints(self) -> list[Path]:
        """Return the checkpoints, that of the highest step last."""
        found = self.checkpoints.glob("step-*.pt")
        return sorted((path for path in found if STEP.fullmatch(path.name)), key=step_of)

    def best_checkpoint(self) -> Path:
        """Return the checkpoint with the lowest validation loss.

        Raises:
            FileNotFoundError: None was kept as the best.
        """
        path, _ = self.read_best()
        if path is None or not path.exists():
            raise FileNotFoundError(f"{self.checkpoints} holds no best checkpoint: use the latest")
        return path

    def read_newest_checkpoint(self) -> Checkpoint:
        """Read the newest undamaged checkpoint; damaged ones are skipped with a warning.

        Raises:
            FileNotFoundError: There is no checkpoint.
            ValueError: All checkpoints are damaged.
        """
        if not (found := self.all_checkpoints()):
            raise FileNotFoundError(f"{self.checkpoints} holds no checkpoint to go on from")
        *earlier, latest = found
        advice = ": use a copy, or start another run"
        for path in (latest, *reversed(earlier)):
            try:
                return read_checkpoint(path)
            except ValueError as error:
                if not earlier:
                    raise ValueError(f"{error}, and there is no other{advice}") from None
                logger.warning("%s: skipped", error)
        raise ValueError(f"{latest} and all checkpoints before it are damaged{advice}")

    def prune_checkpoints(self, step: int, validation_loss: float | None) -> None:
        """Delete old checkpoints, after that of a step has been written.

        Args:
            step: The step whose checkpoint was written.
            validation_loss: The loss of this step's weights, if it was measured; decides which
                checkpoint is best.
        """
        past = [path for path in self.all_checkpoints() if step_of(path) <= step]
        best, best_loss = self.read_best()
        if best not in past:
            best, best_loss = None, None
        if best_loss is None or best == self.checkpoint_of(step):
            best_loss = math.inf  # That of a checkpoint that was written anew is of other weights.
        if validation_loss is not None and validation_loss < best_loss:
            best = self.checkpoint_of(step)
            content = {"checkpoint": best.name, "validation_loss": validation_loss}
            write_atomically(self.best, json.dumps(content).encode() + b"\n")
        for path in past[:-NUM_KEPT]:
            if path != best:
                path.unlink()

    def remove_leftovers(self) -> None:
        """Delete the unfinished files of a process that was killed."""
        for folder in (self.path, self.checkpoints, self.tokenizer, self.tokens, self.corpus):
            remove_leftovers(folder)

    def read_best(self) -> tuple[Path | None, float | None]:
        """Return the best checkpoint and its loss on part of the validation text, None if none."""
        try:
            content = read_json(self.best)
            name, loss = Path(content["checkpoint"]).name, float(content["validation_loss"])
        except FileNotFoundError:
            return None, None
        except (KeyError, TypeError, OverflowError, ValueError) as error:
            logger.warning(
                "%s cannot be read (%s): no checkpoint counts as the best", self.best, error
            )
            return None, None
        return self.checkpoints / name, loss

    def load_tokenizer(self, is_fast: bool = True) -> Tokenizer:
        """Return the run's tokenizer, or its fast twin.

        Raises:
            FileNotFoundError: The run has none.
            ValueError: Its files are damaged.
        """
        return load_tokenizer(self.tokenizer, is_fast)

    def load_model(
        self,
        device: torch.device | str = "cpu",
        which: Which = "latest",
        *,
        is_fast: bool = False,
    ) -> TransformerLM:
        """Return the model of the latest undamaged checkpoint, or of the best; or its fast twin.

        Raises:
            FileNotFoundError: There is no run or no checkpoint.
            ValueError: A file is damaged, or the weights do not fit the configuration.
        """
        config = self.read_config()
        if which == "best":
            checkpoint = read_checkpoint(self.best_checkpoint())
        else:
            checkpoint = self.read_newest_checkpoint()
        model = build_model(config.model, device, is_fast=is_fast)
        checkpoint.load_into(model, make_optimizer(model, config, is_fast=True))
        return model


def step_of(checkpoint: Path) -> int:
    """Return the step of a checkpoint, from its name."""
    return int(STEP.sub(r"\1", checkpoint.name))


def least_bytes(config: ModelConfig) -> int:
    """Return a lower bound on the bytes that it takes to store a model of these sizes."""
    per_layer = 2 * config.d_model * (config.d_q + config.d_ff)
    return 4 * (config.vocab_size * config.d_model + config.num_layers * per_layer)
