"""Makes a submission's processes fork, however it asks to start them.

A fresh interpreter would be another program, which the sandbox does not start (confine.py): no
operator is blocked in it. A process that is forked can do all that one that is spawned can.
"""

import multiprocessing
import multiprocessing.context
import multiprocessing.resource_tracker


def fork_only() -> None:
    """Make multiprocessing fork where it is asked to spawn, in this process and those below."""
    context = multiprocessing.context
    contexts = context._concrete_contexts  # pyright: ignore
    for name in ("spawn", "forkserver"):
        contexts[name] = contexts["fork"]
    # Not by set_start_method, which may be called only once.
    context._default_context._default_context = contexts["fork"]  # pyright: ignore
    # No resource tracker, which is another program: the sandbox clears away what is left behind.
    tracker = multiprocessing.resource_tracker
    tracker.register = tracker.unregister = _nothing
    tracker.ensure_running = _nothing


def _nothing(*_: object) -> None:
    pass
