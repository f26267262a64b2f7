"""Kill a training run again and again, and see that it ends as if nothing had happened.

python -m lab.campaigns.chaos --kills 30

One run is left alone. Another is killed (SIGKILL) at random moments, and every other time a line of
its metrics is cut off or a bit of its newest checkpoint flipped; each time it is resumed. In the
end both must agree in every bit of weights, optimizer and random states and in every row of their
metrics.
"""

import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from cli import run

from cs_basics.run.checkpoint_file import read_checkpoint
from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import read_metrics, read_samples
from cs_basics.run.optimizer import make_optimizer
from cs_basics.stories.grammar import write_stories
from cs_basics.variants.model import Transformer
from lab import ROOT

SETTINGS = shlex.split("""
    --vocab-size 300 --context-length 32 --d-model 32 --d-ff 64
    --batch-size 4 --eval-every 10 --num-samples 0 --device cpu --dtype float32
""")


def main(kills: int = 30, steps: int = 400, seed: int = 0) -> None:
    """Kill a small run many times, resume it each time, and compare it with one left alone.

    Args:
        kills: How often to kill.
        steps: Updates of a whole run.
        seed: Seed of the moments.
    """
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_stories(folder / "train.txt", 100_000, seed=1)
        write_stories(folder / "valid.txt", 10_000, seed=2)
        whole, victim = RunFolder(folder / "whole"), RunFolder(folder / "killed")
        began = time.monotonic()
        finish(whole, steps)
        usual_s = time.monotonic() - began
        for number in range(kills):
            process = start(victim, steps)
            # Long enough that the run has begun, and short enough that the last is not its end.
            time.sleep(usual_s * chance.uniform(0.3, 0.6))
            process.kill()
            process.wait()
            damage = damaged(victim, number)
            print(f"killed {number + 1}: {len(victim.all_checkpoints())} checkpoints {damage}")
        finish(victim, steps)
        for path, left, right in pairs(state_of(victim, steps), state_of(whole, steps)):
            same = torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right
            if not same:
                raise ValueError(f"the runs differ in {path}: {left} and {right}")
    print(f"{kills} kills: weights, optimizer and metrics are the same, bit for bit")


def start(folder: RunFolder, steps: int) -> subprocess.Popen[str]:
    """Start or resume a run."""
    texts = [folder.path.with_name(f"{name}.txt") for name in ("train", "valid")]
    command = [ROOT / "scripts" / "train.py", "debug", "--run-dir", folder.path, "--train-text"]
    command += [texts[0], "--valid-text", texts[1], "--max-steps", steps, *SETTINGS]
    command += ["--resume"] if folder.config.exists() else []
    return subprocess.Popen(
        [sys.executable, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True,
    )  # fmt: skip


def finish(folder: RunFolder, steps: int) -> None:
    """Let a run come to its end.

    Raises:
        ValueError: It failed.
    """
    process = start(folder, steps)
    _, errors = process.communicate()
    if process.returncode:
        raise ValueError(f"{folder.path} ended with code {process.returncode}: {errors[-2000:]}")


def damaged(folder: RunFolder, number: int) -> str:
    """Break something that a power cut may break; return what."""
    if number % 4 == 1 and folder.metrics.exists():
        with folder.metrics.open("ab") as file:
            file.write(b'{"step": 99, "train/lo')
        return "and a line was cut off"
    if number % 4 == 3 and len(checkpoints := folder.all_checkpoints()) > 1:
        content = bytearray(checkpoints[-1].read_bytes())
        content[len(content) // 2] ^= 1
        checkpoints[-1].write_bytes(content)
        return "and a bit of the newest flipped"
    return ""


def state_of(folder: RunFolder, steps: int) -> dict[str, Any]:
    """Return all that a run ended with, but for what depends on the clock."""
    config, checkpoint = folder.read_config(), read_checkpoint(folder.checkpoint_of(steps))
    model = Transformer(config.model)
    optimizer = make_optimizer(model, config)
    checkpoint.load_into(model, optimizer)
    clocks = ("perf/", "elapsed", "waited", "stages", "num_metrics_bytes")
    rows = [*read_metrics(folder.metrics), checkpoint.progress]
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "rows": [{k: v for k, v in row.items() if not k.startswith(clocks)} for row in rows],
        "samples": read_samples(folder.metrics),
    }


def pairs(left: Any, right: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:  # noqa: ANN401
    """Yield the parts of two nested states that belong together, each with its place."""
    if isinstance(left, dict | list) and len(left) == len(right):
        keys: Any = left if isinstance(left, dict) else range(len(left))
        for key in keys:
            yield from pairs(left[key], right[key], f"{path}.{key}")
    else:
        yield path, left, right


if __name__ == "__main__":
    run(main)
