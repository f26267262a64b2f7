"""A contender in a process of its own, which answers questions line by line.

Memory, threads and the settings of the allocator belong to a process. Contenders are asked one at a
time, in turns, so that other work on the machine slows all of them.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cs_grader.sandbox.processes import descendants, memory_of
from lab import ROOT


class Worker(subprocess.Popen[str]):
    """A running contender; the end of its context kills it.

    Args:
        name: For messages.
        module: A module of this package that calls `answer_all`.
        arguments: Those of its command line.
        changes: Its environment variables where they are not ours; None takes one out.
    """

    def __init__(self, name: str, module: str, *arguments: str, **changes: str | None) -> None:
        self.name = name
        environment = os.environ | {"PYTHONPATH": str(ROOT)} | changes
        super().__init__(
            [sys.executable, "-m", f"lab.bench.{module}", *arguments],
            env={key: value for key, value in environment.items() if value is not None},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __exit__(self, *_error: object) -> None:
        self.kill()
        self.communicate()

    def ask(self, question: object) -> Any:  # noqa: ANN401  JSON
        """Ask and wait for the answer.

        Raises:
            ValueError: The process ended without an answer; it has said why on stderr.
        """
        assert self.stdin is not None
        assert self.stdout is not None
        line = ""
        with contextlib.suppress(BrokenPipeError):  # It has ended since the last question.
            self.stdin.write(json.dumps(question) + "\n")
            self.stdin.flush()
            line = self.stdout.readline()
        if not line:
            raise ValueError(f"{self.name}: the process ended early, see above")
        return json.loads(line)

    def peak_memory_mb(self, question: object) -> float:
        """Ask, and return the largest sum of the memory of its processes until the answer, in MB.

        Raises:
            ValueError: As `ask`.
        """
        peak = 0
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(self.ask, question)
            while not answer.done():
                processes = [self.pid, *descendants(self.pid)]
                peak = max(peak, memory_of(processes, enough=sys.maxsize))
                time.sleep(0.02)
        answer.result()
        return peak / 1e6


def answer_all(answer: Callable[[Any], object]) -> None:
    """Answer each question of stdin by one line, until there are no more."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
