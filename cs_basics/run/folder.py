"""Where everything of a run lies, and how to load it again."""

import json
import logging
import os
from pathlib import Path
from typing import Any, Literal

import torch

from cs_basics.checkpoint import load_weights, read_checkpoint
from cs_basics.run.atomic import atomic_writer, remove_leftovers
from cs_basics.run.config import TrainConfig
from cs_basics.run.json_file import read_json
from cs_basics.run.tokenizer_folder import load_tokenizer
from cs_basics.study.accounting import FLOAT32_BYTES, parameters, shape_of, total
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM

logger = logging.getLogger(__name__)

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
        self.plot = path / "loss.png"
        self.samples = path / "samples.md"
        self.report = path / "report.html"

    def write_config(self, config: TrainConfig, **provenance: str | None) -> None:
        """Write config.json: the settings as resolved, and what they ran with."""
        self.path.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"settings": config.to_json(), "provenance": provenance}, indent=2)
        with atomic_writer(self.config) as file:
            file.write(text.encode() + b"\n")

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
        """Refuse sizes that the checkpoint cannot hold, before memory is taken for the model."""
        num_bytes = FLOAT32_BYTES * total(parameters(shape_of(config)))
        for path in self.all_checkpoints()[-1:]:
            if num_bytes > (size := path.stat().st_size):
                raise ValueError(
                    f"{self.config} describes a model of {num_bytes:,} bytes, but {path} has only "
                    f"{size:,}: one of them is damaged"
                )

    def checkpoint_of(self, step: int) -> Path:
        """Return the path of the checkpoint of a step."""
        return self.checkpoints / f"step-{step:08d}.pt"

    def all_checkpoints(self) -> list[Path]:
        """Return the checkpoints, that of the highest step last."""
        return sorted(self.checkpoints.glob("step-*.pt"))

    def latest_checkpoint(self) -> Path:
        """Return the checkpoint of the highest step.

        Raises:
            FileNotFoundError: There is none.
        """
        if found := self.all_checkpoints():
            return found[-1]
        raise FileNotFoundError(f"{self.checkpoints} holds no checkpoint to go on from")

    def best_checkpoint(self) -> Path:
        """Return the checkpoint with the lowest validation loss.

        Raises:
            FileNotFoundError: None was kept as the best.
        """
        path, _ = self._read_best()
        if path is None or not path.exists():
            raise FileNotFoundError(f"{self.checkpoints} holds no best checkpoint: use the latest")
        return path

    def read_newest_checkpoint(
        self, device: torch.device | str = "cpu"
    ) -> tuple[Path, dict[str, Any]]:
        """Read the checkpoint of the highest step that is whole; damaged ones are skipped aloud.

        Raises:
            FileNotFoundError: There is none.
            ValueError: All are damaged.
        """
        latest = self.latest_checkpoint()
        for path in reversed(self.all_checkpoints()):
            try:
                return path, read_checkpoint(path, device)
            except ValueError as error:
                logger.warning("%s: skipped", error)
        raise ValueError(f"{latest} and all checkpoints before it are damaged: start another run")

    def keep_checkpoints(self, step: int, num_kept: int, validation_loss: float | None) -> None:
        """Delete old checkpoints, once that of a step is written.

        Args:
            step: The step.
            num_kept: How many to keep, besides the best.
            validation_loss: The last one measured up to this step, if any; decides which is best.
        """
        past = [path for path in self.all_checkpoints() if path <= self.checkpoint_of(step)]
        best, best_loss = self._read_best()
        if best not in past:
            best, best_loss = None, None
        if validation_loss is not None and (best_loss is None or validation_loss < best_loss):
            best = self.checkpoint_of(step)
            content = {"checkpoint": best.name, "validation_loss": validation_loss}
            with atomic_writer(self.best) as file:
                file.write(json.dumps(content).encode() + b"\n")
        for path in past[:-num_kept]:
            if path != best:
                path.unlink()

    def remove_leftovers(self) -> None:
        """Delete the unfinished files of a process that was killed."""
        for folder in (self.path, self.checkpoints, self.tokenizer, self.tokens, self.corpus):
            remove_leftovers(folder)

    def _read_best(self) -> tuple[Path | None, float | None]:
        """Return the best checkpoint and its validation loss; None, None if none was kept."""
        try:
            content = json.loads(self.best.read_text(encoding="utf-8"))
            name, loss = Path(content["checkpoint"]).name, float(content["validation_loss"])
        except FileNotFoundError:
            return None, None
        except (KeyError, TypeError, UnicodeDecodeError, ValueError) as error:
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
        self, device: torch.device | str = "cpu", which: Which = "latest"
    ) -> TransformerLM:
        """Return the model of the latest checkpoint that is whole, or of the best.

        Raises:
            FileNotFoundError: There is no run or no checkpoint.
            ValueError: A file is damaged, or the weights do not fit the configuration.
        """
        model = build_model(self.read_config(), device)
        if which == "best":
            path = self.best_checkpoint()
            state = read_checkpoint(path, device)
        else:
            path, state = self.read_newest_checkpoint(device)
        load_weights(model, state["model"], os.fspath(path))
        return model


def build_model(config: TrainConfig, device: torch.device | str = "cpu") -> TransformerLM:
    """Return a freshly initialised model of the configured sizes."""
    return TransformerLM(
        vocab_size=config.vocab_size,
        context_length=config.context_length,
        d_model=config.d_model,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        d_ff=config.d_ff,
        rope_theta=config.rope_theta,
        device=device,
        architecture=config,
    )
