"""Programs in a process of their own, from the root of this repository; and waiting for them."""

import contextlib
import multiprocessing
import subprocess
import sys
import time
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


def until(condition, seconds=60):
    """Wait until something is so, and return it; a test that passes has waited for no clock."""
    limit = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < limit, "it never came to that"
        time.sleep(0.01)
    return found
