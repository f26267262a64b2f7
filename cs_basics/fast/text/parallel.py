"""Work shared out among processes, with results in the order of the tasks."""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.synchronize import Event
from typing import Any, TypeVar

OnProgress = Callable[[str, str, int, int], None]
"""Called at the beginning and then now and then, with the name of the work, its unit, how many
units are done and the total (0 if unknown)."""

MIN_BYTES_PER_WORKER = 1 << 22
"""Below this, starting another worker process costs about as much time as it saves."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def default_num_workers(num_workers: int | None, num_bytes: int) -> int:
    """Return the number of workers: the caller's choice, or what text size and machine merit.

    Raises:
        ValueError: The caller asks for fewer than 1.
    """
    if num_workers is None:
        cpus = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
        return max(1, min(cpus, num_bytes // MIN_BYTES_PER_WORKER))
    if num_workers < 1:
        raise ValueError(f"num_workers={num_workers} must be at least 1")
    return num_workers


def map_in_order(
    function: Callable[[Task], Result], tasks: Iterable[Task], num_workers: int
) -> Iterator[Result]:
    """Yield `function(task)` of each task, in order, computed by `num_workers` processes.

    Tasks are drawn only a few ahead of the results taken, so that neither piles up in memory. One
    worker means this process itself. The function is sent once to each worker, not with each task.
    Workers end with this process, even if it is killed.

    Raises:
        ChildProcessError: A worker has been killed, or none could be started.
    """
    if num_workers == 1:
        yield from map(function, tasks)
        return
    # Forked workers start at once and share the memory of what is loaded; other systems lack fork.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    pending: deque[Future[Result]] = deque()
    has_started = context.Event()
    pool = ProcessPoolExecutor(
        num_workers,
        mp_context=context,
        initializer=_start_worker,
        initargs=(function, has_started),
    )
    try:
        for task in tasks:
            pending.append(pool.submit(_work_on, task))
            if len(pending) > 2 * num_workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        if not has_started.is_set():
            raise ChildProcessError(
                "no worker could be started: each of them imports the script that starts it, which "
                'must do its work below `if __name__ == "__main__":`; num_workers=1 needs none'
            ) from None
        raise ChildProcessError(
            f"one of {num_workers} workers was killed, perhaps for lack of memory: use fewer"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


_worker_function: Callable[[Any], Any]


def _start_worker(function: Callable[[Any], Any], has_started: Event) -> None:
    """Remember the function in a new worker; an interrupt is the parent's to handle."""
    global _worker_function
    has_started.set()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker_function = function


def _end_with_parent() -> None:
    """End this worker once its parent has ended; while waiting for tasks it would not notice."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work_on(task: Any) -> Any:  # noqa: ANN401  the executor's function may take anything
    return _worker_function(task)
