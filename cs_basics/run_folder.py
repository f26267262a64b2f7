"""Where everything of a run lies, and how to load it again."""

import json
import os
from pathlib import Path

import torch

from cs_basics.atomic import atomic_writer
from cs_basics.checkpoint import load_weights, read_checkpoint
from cs_basics.config import TrainConfig
from cs_basics.tokenizer import Tokenizer
from cs_basics.transformer import TransformerLM


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
        self.plot = path / "loss.png"
        self.samples = path / "samples.md"

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
            settings = json.loads(self.config.read_text(encoding="utf-8"))["settings"]
            return TrainConfig.from_json(settings)
        except (KeyError, TypeError, AttributeError, UnicodeDecodeError, ValueError) as error:
            raise ValueError(f"{self.config} cannot be read: {error}") from error

    def latest_checkpoint(self) -> Path:
        """Return the checkpoint of the highest step.

        Raises:
            FileNotFoundError: There is none.
        """
        found = sorted(self.checkpoints.glob("step-*.pt"))
        if not found:
            raise FileNotFoundError(f"{self.checkpoints} holds no checkpoint to go on from")
        return found[-1]

    def checkpoint_of(self, step: int) -> Path:
        """Return the path of the checkpoint of a step."""
        return self.checkpoints / f"step-{step:08d}.pt"

    def load_tokenizer(self) -> Tokenizer:
        """Return the run's tokenizer.

        Raises:
            FileNotFoundError: The run has none.
            ValueError: Its files are damaged.
        """
        return Tokenizer.load(self.tokenizer)

    def load_model(self, device: torch.device | str = "cpu") -> TransformerLM:
        """Return the model of the latest checkpoint.

        Raises:
            FileNotFoundError: There is no run or no checkpoint.
            ValueError: A file is damaged, or the weights do not fit the configuration.
        """
        model = build_model(self.read_config(), device)
        path = self.latest_checkpoint()
        load_weights(model, read_checkpoint(path, device)["model"], os.fspath(path))
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
