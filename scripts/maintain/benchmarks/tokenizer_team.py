"""The contenders of the tokenizer benchmark as processes that are asked in turn."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from .measuring import resident_megabytes, with_children

Task = dict[str, str | int]
PROGRAM = Path(__file__).with_name("tokenizer_contender.py")
OURS, CLEAR, TOKENIZERS, TIKTOKEN = "ours", "clear", "tokenizers", "tiktoken"


class Team:
    """Processes, one for each contender and number of threads, started when they are first asked.

    Args:
        scratch: A folder for files of their own.
        rounds: Turns of which the median counts.
    """

    def __init__(self, scratch: Path, rounds: int) -> None:
        self.scratch = scratch
        self.rounds = rounds
        self._processes: dict[tuple[str, int], subprocess.Popen[str]] = {}

    def __enter__(self) -> "Team":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def times(
        self, names: Sequence[str], num_threads: int, task: Task, *, warm: bool = True
    ) -> dict[str, float]:
        """Return the median seconds that each contender takes for a task, asked in turns.

        Args:
            names: The contenders.
            num_threads: Threads or processes that each may use.
            task: What to do; see tokenizer_contender.
            warm: Whether a first turn does not count.
        """
        found: dict[str, list[float]] = {name: [] for name in names}
        for number in range(self.rounds + warm):
            for name, seconds in found.items():
                elapsed_s = self._ask(name, num_threads, task)
                if number or not warm:
                    seconds.append(elapsed_s)
        return {name: statistics.median(seconds) for name, seconds in found.items()}

    def peak_memory(self, name: str, num_threads: int, task: Task) -> float:
        """Return the most memory, in MB, that all processes of a fresh contender hold in a task."""
        process = self._start(name, num_threads)
        assert process.stdin is not None
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.close()
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, sum(map(resident_megabytes, with_children(process.pid))))
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
        assert process.stdout is not None
        process.stdout.close()
        if process.returncode:
            raise ValueError(f"{name} has failed: see above")
        return peak

    def _ask(self, name: str, num_threads: int, task: Task) -> float:
        key = (name, num_threads)
        if key not in self._processes:
            self._processes[key] = self._start(name, num_threads)
        process = self._processes[key]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise ValueError(f"{name} has failed at {task}: see above")
        return float(answer)

    def _start(self, name: str, num_threads: int) -> subprocess.Popen[str]:
        environment = os.environ | {
            "RAYON_NUM_THREADS": str(num_threads),
            "TOKENIZERS_PARALLELISM": "true",
            "TOKENIZER_SCRATCH": str(self.scratch),
            "PYTHONPATH": str(PROGRAM.parents[2]),
        }
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), name, str(num_threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
