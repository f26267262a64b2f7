"""A contender in a process of its own, which answers questions line by line.

Memory, threads and the settings of the allocator belong to a process. Contenders are asked one at a
time, in turns, so that other work on the machine slows all of them.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from lab import ROOT


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this package."""
    return [sys.executable, "-m", f"lab.bench.{module}", *arguments]


def environment_of(**changes: str | None) -> dict[str, str]:
    """Return the environment in which modules of this package can be run; None takes a name out."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | changes
    return {name: value for name, value in environment.items() if value is not None}


class Worker:
    """A running contender.

    Args:
        name: For messages.
        command: Starts a program that calls `answer_all`.
        environment: Its environment variables.
    """

    def __init__(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, question: object) -> Any:  # noqa: ANN401  JSON
        """Ask and wait for the answer.

        Raises:
            ValueError: The process ended without an answer; it has said why on stderr.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        line = ""
        with contextlib.suppress(BrokenPipeError):  # It has ended since the last question.
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        if not line:
            raise ValueError(f"{self.name}: the process ended early, see above")
        return json.loads(line)


def answer_all(answer: Callable[[Any], object]) -> None:
    """Answer each question of stdin by one line, until there are no more."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
