"""The tokenizer against tokenizers (Hugging Face), tiktoken and gigatoken: same text and threads.

Each contender is a process; they are asked in turns. What they do differently: tokenizers breaks
ties between equally frequent pairs by its own rule, so that its vocabulary differs a little from
ours, and reads files line by line; tiktoken alone remembers nothing of a text that it has seen.
All give the same ids with the same vocabulary (tests/project/interop). gigatoken is measured where
it is installed (lab/requirements.txt).
"""

import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np

from cs_basics.run.tokenizer_folder import load_tokenizer

from .measuring import Row, compare
from .tokenizer_texts import HARD, HARD_BYTES, Text, make_texts
from .worker import Worker

MEGABYTES = 200
"""Size of the large text."""
ROUNDS = 5
"""Turns of which the median counts."""
VOCAB_SIZES = (1_000, 10_000, 32_000)
ALL_THREADS = os.cpu_count() or 1
OURS, TOKENIZERS, TIKTOKEN = "ours", "tokenizers", "tiktoken"
COMPILED = [TIKTOKEN, *(["gigatoken"] if find_spec("gigatoken") else [])]
FAST = [OURS, *COMPILED]
ALL = [OURS, TOKENIZERS, *COMPILED]
Texts = dict[str, Text]


class Team(ExitStack):
    """Processes, one for each contender and number of threads, started when first asked."""

    def __init__(self) -> None:
        super().__init__()
        self.workers: dict[tuple[str, int], Worker] = {}

    def times(
        self, names: Sequence[str], num_threads: int, task: object, *, warm: bool = True
    ) -> dict[str, float]:
        """Return the median seconds that each contender takes for a task, asked in turns.

        Args:
            names: The contenders.
            num_threads: Threads or processes that each may use.
            task: What to do; see tokenizer_contender.
            warm: Whether to begin with a turn that does not count.
        """
        found: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(ROUNDS + warm):
            for name, seconds in found.items():
                seconds.append(self.worker(name, num_threads).ask(task))
        return {name: statistics.median(seconds[warm:]) for name, seconds in found.items()}

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
    """Measure training, encoding, decoding and memory, in turns with the peers."""
    with tempfile.TemporaryDirectory() as scratch:
        texts = make_texts(Path(scratch), MEGABYTES)
        for part in (_training, _encoding, _whole_files, _decoding, _hard_texts, _growth):
            with Team() as team:
                yield from part(team, texts)
        yield from _memory(texts["stories"])


def _faster(name: str, text: Text, times: dict[str, float], **goals: float | None) -> Iterator[Row]:
    """Yield a row for each peer: speeds in MB/s, and by how much ours has to be greater."""
    ours, *speeds = ((peer, text.megabytes / seconds) for peer, seconds in times.items())
    for peer, speed in speeds:
        title = f"{name}, {text.name} (peer: {peer})"
        yield compare(title, ours[1], speed, "MB/s", at_least=goals.get(peer))


def _training(team: Team, texts: Texts) -> Iterator[Row]:
    """Training, all threads."""
    goals = {("stories", 10_000): 5.0, ("sample", 10_000): 1.0}
    for name, size in (*product(("sample", "books"), VOCAB_SIZES), ("stories", 10_000)):
        if name in texts:
            task = texts[name].task("train", vocab_size=size)
            times = team.times([OURS, TOKENIZERS], ALL_THREADS, task, warm=name != "stories")
            at_least = goals.get((name, size))
            yield from _faster(f"train {size:,}", texts[name], times, tokenizers=at_least)
    elapsed_s = team.times([OURS], 1, texts["small"].task("train", vocab_size=500))[OURS]
    name = "train 500 on 130 kB"
    yield Row(name, elapsed_s, "s", None, "at most 0.3 s", elapsed_s <= 0.3)


def _encoding(team: Team, texts: Texts) -> Iterator[Row]:
    """Encoding documents one at a time and in a batch."""
    for text in (texts[name] for name in ("sample", "books") if name in texts):
        times = team.times(ALL, 1, text.task("documents"))
        yield from _faster("encode one at a time, one thread", text, times)
        times = team.times(ALL, ALL_THREADS, text.task("batch"))
        yield from _faster("encode a batch, ours one thread", text, times)


def _whole_files(team: Team, texts: Texts) -> Iterator[Row]:
    """Encoding whole files to ids on disk."""
    goals = {"sample": {TIKTOKEN: 3.0, TOKENIZERS: 8.0}, "books": {TIKTOKEN: 1.5}}
    for text in (texts[name] for name in ("sample", "books", "stories") if name in texts):
        task = text.task("whole")
        is_large = text.name == "stories"
        # Slow contenders are left out where they would take minutes.
        peers = FAST if is_large else [*FAST, TOKENIZERS]
        times = team.times(peers, 1, task, warm=not is_large)
        yield from _faster("encode a file, one thread", text, times, **goals.get(text.name, {}))
        if is_large:
            times = team.times(peers, ALL_THREADS, task, warm=False)
            yield from _faster(f"encode a file, {ALL_THREADS} threads", text, times)
        else:
            times = team.times(FAST, 1, text.task("fresh"))
            yield from _faster("encode a file for the first time, one thread", text, times)


def _decoding(team: Team, texts: Texts) -> Iterator[Row]:
    """Decoding."""
    text = texts["sample"]
    ids = load_tokenizer(text.tokenizer).encode(text.path.read_text("utf-8"))
    path = text.beside("ids.bin")
    np.array(ids, np.uint16).tofile(path)
    times = team.times(ALL, 1, text.task("decode", ids=str(path)))
    yield from _faster("decode", text, times)


def _hard_texts(team: Team, texts: Texts) -> Iterator[Row]:
    """Encoding text without spaces."""
    for name in HARD:
        small, large = (texts[f"{name}, {size}"] for size in (HARD_BYTES // 10, HARD_BYTES))
        times = team.times(FAST, 1, large.task("raw"))
        at_least = 0.5 if name == "no spaces" else None
        yield from _faster("encode 1 MB", large, times, tiktoken=at_least)
        small_s = team.times([OURS], 1, small.task("raw"))[OURS]
        title = f"  time per 100 kB (peer: of 100 kB), {name}"
        yield compare(title, times[OURS] / 10, small_s, "s", at_most=2.0)


def _growth(team: Team, texts: Texts) -> Iterator[Row]:
    """Ten times the text."""
    for name, do, bound in (("train 10,000", "train", 10.0), ("encode a file", "whole", 10.5)):
        small_s, large_s = (
            team.times([OURS], 1, texts[text].task(do, vocab_size=10_000), warm=False)[OURS]
            for text in ("tenth", "stories")
        )
        title = f"{name}, {MEGABYTES} MB (peer: {MEGABYTES // 10} MB), one thread"
        yield compare(title, large_s, small_s, "s", at_most=bound)


def _memory(text: Text) -> Iterator[Row]:
    """Memory of all processes of each, fresh ones."""
    for name, do, peers, bound in (
        ("train 10,000", "train", [TOKENIZERS], 600),
        ("encode a file", "whole", [TOKENIZERS, *COMPILED], 300),
    ):
        peaks: list[float] = []
        for contender in (OURS, *peers):
            with _fresh(contender, ALL_THREADS) as worker:
                peaks.append(worker.peak_memory_mb(text.task(do, vocab_size=10_000)))
        ours, *others = peaks
        for peer, theirs in zip(peers, others, strict=True):
            title = f"memory, {name}, {MEGABYTES} MB (peer: {peer})"
            yield Row(title, ours, "MB", theirs, f"at most {bound} MB", ours <= bound)
