"""Readings of a run: of each checkpoint that it keeps, and of the weights that it began with."""

import torch
from jaxtyping import Int
from torch import Tensor

from cs_basics.run.checkpoint_file import read_checkpoint
from cs_basics.run.folder import RunFolder, step_of
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.progress import OnProgress
from cs_basics.run.random_state import seed_all
from cs_basics.run.token_file import open_token_file
from cs_basics.study.microscope.reading import Reading, read
from cs_basics.variants.model import Transformer

NUM_WINDOWS = 8
"""Windows of the validation text that the model reads, spread over all of it."""


def readings_of(folder: RunFolder, on_progress: OnProgress | None = None) -> list[Reading]:
    """Read the steps of a run that can be looked at, in their order.

    Step 0 is one of them if its weights follow from the seed: a GPU draws other numbers.

    Args:
        folder: The run, finished or in progress.
        on_progress: Called with the number of steps read.

    Raises:
        OSError: The folder holds no run, or no validation text or checkpoint yet.
        ValueError: A file of the run is damaged.
    """
    config, token_ids = folder.read_config(), _windows(folder)
    checkpoints = {step_of(path): path for path in folder.all_checkpoints()}
    if not checkpoints:
        raise FileNotFoundError(f"{folder.path} holds no checkpoint yet: wait for the first")
    is_drawn_again = config.run.device == "cpu" and folder.imported_from() is None
    steps = sorted({*checkpoints, 0} if is_drawn_again else checkpoints)
    readings: list[Reading] = []
    for number, step in enumerate(steps):
        if on_progress is not None:
            on_progress("reading", "steps", number, len(steps))
        seed_all(config.run.seed)
        model = Transformer(config.model)
        if step in checkpoints:
            read_checkpoint(checkpoints[step]).load_into(model, make_optimizer(model, config))
        readings.append(read(model, token_ids, step))
    return readings


def _windows(folder: RunFolder) -> Int[Tensor, "windows seq"]:
    file = open_token_file(folder.tokens / "valid.bin")
    length = folder.read_config().model.context_length
    last = file.num_tokens - length
    if last < 0:
        raise ValueError(f"{file.path} holds fewer tokens than one context of {length}")
    starts = [last * number // (NUM_WINDOWS - 1) for number in range(NUM_WINDOWS)]
    rows = [file.tokens[start : start + length].astype("int64") for start in starts]
    return torch.stack([torch.from_numpy(row) for row in rows])
