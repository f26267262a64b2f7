"""Runs the command of an entry on the organiser's texts, by the organiser's clock.

The validation text is nowhere inside: in its place stands the end of the training text. What the
run says of itself is not read, and what is there when its time is over is what counts.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cs_grader.entries import sandboxed
from cs_grader.trusted.clean_copy import RefusedError
from cs_grader.trusted.sandbox import Stage

START_S = 15.0
"""Allowed before the clock of a run begins (Python and its packages) and to save the weights."""
LOOK_S = 0.2
STAND_IN_BYTES = 100_000
END_OF_STORY = b"<|endoftext|>"
Tell = Callable[[str, str, int, int], None]
"""Called with a stage, the unit of its steps, how many are done and how many there are."""


def run_again(
    isolation: str, stage: Stage, arguments: list[str], text: bytes, limit_s: float, tell: Tell
) -> Path:
    """Train in the sandbox, for so long at most.

    Args:
        isolation: One of isolation.ISOLATIONS.
        stage: As `sandboxed.build_stage` makes it.
        arguments: Those of scripts/train.py, without texts and folder.
        text: The training text.
        limit_s: Seconds after which it is killed, and all that it started.
        tell: Told of the seconds that have passed.

    Returns:
        The run folder, in which the weights are those that were saved last.

    Raises:
        RefusedError: It ended with an error.
    """
    run = sandboxed.out_of(stage) / "run"
    given = ["--run-dir", str(run), "--device", "cpu", "--no-page"]
    for role, content in (("train", text), ("valid", stand_in(text))):
        (stage.root / f"{role}.txt").write_bytes(content)
        given += [f"--{role}-text", f"{stage.root}/{role}.txt"]
    with tempfile.TemporaryFile() as output:
        started = sandboxed.running(
            isolation, stage, "scripts/train.py", [*arguments, *given], output, is_training=True
        )
        began = time.monotonic()
        with started as process:
            while (code := process.poll()) is None and time.monotonic() - began < limit_s:
                tell("training", "s", round(time.monotonic() - began), round(limit_s))
                time.sleep(LOOK_S)
        if code:
            said = sandboxed.last_line(output)
            raise RefusedError(f"the command ended with exit code {code}: {said}")
    return run


def stand_in(text: bytes) -> bytes:
    """Return the last stories of a training text, which the run takes for its validation text.

    Never all of it: a run refuses to validate on the very text that it trains on.
    """
    end = text[max(len(text) // 2, len(text) - STAND_IN_BYTES) :]
    return end.partition(END_OF_STORY)[2].lstrip() or end
