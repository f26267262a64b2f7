"""Programs in a process of their own, from the root of this repository."""

import contextlib
import multiprocessing
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command, **options):
    """Run a program to its end; return how it ended and what it said, as text."""
    usual = {"capture_output": True, "text": True, "check": False, "cwd": ROOT}
    return subprocess.run([*map(str, command)], **usual | options)


def python(*arguments, **options):
    """Run Python likewise."""
    return run(sys.executable, *arguments, **options)


@contextlib.contextmanager
def held_elsewhere(hold, *arguments):
    """Let another process be within a context meanwhile; it is killed there."""
    context = multiprocessing.get_context("fork")
    is_held = context.Event()

    def stay():
        with hold(*arguments):
            is_held.set()
            context.Event().wait()

    other = context.Process(target=stay, daemon=True)
    other.start()
    assert is_held.wait(30)
    yield
    other.kill()
    other.join()
