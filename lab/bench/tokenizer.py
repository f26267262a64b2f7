"""The tokenizer against tokenizers (Hugging Face), tiktoken and gigatoken: same text and threads.

Each contender is a process; they are asked in turns. What they do differently: tokenizers breaks
ties between equally frequent pairs by its own rule, so that its vocabulary differs a little from
ours; tiktoken alone remembers nothing of a text that it has seen. All give the same ids with the
same vocabulary (tests/project/interop). gigatoken is measured where it is installed
(lab/requirements.txt).
"""

import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from .measuring import Row
from .tokenizer_texts import Text, make_texts
from .worker import Worker

MEGABYTES = 200
"""Size of the large text."""
ROUNDS = 5
"""Turns of which the median counts."""
ALL_THREADS = os.cpu_count() or 1
TOKENIZERS, TIKTOKEN = "tokenizers", "tiktoken"
COMPILED = [TIKTOKEN, *(["gigatoken"] if find_spec("gigatoken") else [])]


class Team(ExitStack):
    """Processes, one for each contender and number of threads, started when first asked."""

    def __init__(self) -> None:
        super().__init__()
        self.workers: dict[tuple[str, int], Worker] = {}

    def race(
        self,
        name: str,
        text: Text,
        task: object,
        peers: Sequence[str],
        num_threads: int = 1,
        *,
        warm: bool = True,
    ) -> Iterator[Row]:
        """Ask us and some peers to do a task, in turns; yield the speeds, a row for each peer.

        Args:
            name: What the task does.
            text: The text that is worked on.
            task: What to do; see tokenizer_contender.
            peers: The others.
            num_threads: Threads or processes that each may use.
            warm: Whether to begin with a turn that does not count.
        """
        found: dict[str, list[float]] = {contender: [] for contender in ("ours", *peers)}
        for _ in range(ROUNDS + warm):
            for contender, seconds in found.items():
                seconds.append(self.worker(contender, num_threads).ask(task))
        ours, *others = (
            text.megabytes / statistics.median(seconds[warm:]) for seconds in found.values()
        )
        for peer, theirs in zip(peers, others, strict=True):
            yield Row(f"{name}, {text.name} (peer: {peer})", ours, "MB/s", theirs)

    def worker(self, name: str, num_threads: int) -> Worker:
        """Return a contender, started if it is not running yet."""
        key = (name, num_threads)
        if key not in self.workers:
            self.workers[key] = self.enter_context(_fresh(*key))
        return self.workers[key]


def _fresh(name: str, num_threads: int) -> Worker:
    threads = str(num_threads)
    settings = {"RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true"}
    return Worker(name, "tokenizer_contender", name, threads, **settings)


def measure() -> Iterator[Row]:
    """Measure training, encoding and memory, in turns with the peers."""
    with tempfile.TemporaryDirectory() as scratch:
        texts = make_texts(Path(scratch), MEGABYTES)
        for part in (_training, _encoding):
            with Team() as team:
                yield from part(team, texts)
        yield from _memory(texts["stories"])


def _training(team: Team, texts: dict[str, Text]) -> Iterator[Row]:
    """Training, all threads."""
    for name in ("sample", "books", "stories"):
        if name in texts:
            text, warm = texts[name], name != "stories"
            task = text.task("train", vocab_size=10_000)
            yield from team.race("train 10,000", text, task, [TOKENIZERS], ALL_THREADS, warm=warm)


def _encoding(team: Team, texts: dict[str, Text]) -> Iterator[Row]:
    """Encoding documents one at a time, and whole files to ids on disk."""
    text, large = texts["sample"], texts["stories"]
    one_thread = "encode a file, one thread"
    everybody = [TOKENIZERS, *COMPILED]
    yield from team.race(
        "encode one at a time, one thread", text, text.task("documents"), everybody
    )
    yield from team.race(one_thread, text, text.task("whole"), [TIKTOKEN])
    if books := texts.get("books"):
        yield from team.race(one_thread, books, books.task("whole"), [TIKTOKEN])
        first = "encode a file for the first time, one thread"
        yield from team.race(first, books, books.task("fresh"), [TIKTOKEN])
    yield from team.race(one_thread, large, large.task("whole"), COMPILED, warm=False)
    all_threads, task = f"encode a file, {ALL_THREADS} threads", large.task("whole")
    yield from team.race(all_threads, large, task, [TIKTOKEN], ALL_THREADS, warm=False)
    chinese = texts["Chinese"]
    yield from team.race("encode 1 MB", chinese, chinese.task("raw"), [TIKTOKEN])


def _memory(text: Text) -> Iterator[Row]:
    """Memory of all processes of each, fresh ones."""
    peaks: list[float] = []
    for contender in ("ours", TIKTOKEN):
        with _fresh(contender, ALL_THREADS) as worker:
            peaks.append(worker.peak_memory_mb(text.task("whole")))
    ours, theirs = peaks
    name = f"memory, encode a file, {MEGABYTES} MB (peer: {TIKTOKEN})"
    yield Row(name, ours, "MB", theirs)
