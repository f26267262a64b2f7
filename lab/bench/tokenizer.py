"""The tokenizer against tokenizers (Hugging Face), tiktoken and gigatoken: same text and threads.

Each contender is a process; they are asked in turns. What they do differently: tokenizers breaks
ties between equally frequent pairs by its own rule, so that its vocabulary differs a little from
ours, and reads files line by line; tiktoken alone remembers nothing of a text that it has seen.
All give the same ids with the same vocabulary (tests/project/interop). gigatoken is measured where
it is installed (lab/requirements.txt).
"""

import json
import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from cs_basics.run.tokenizer_folder import load_tokenizer

from .measuring import Row, compare, peak_memory_of
from .tokenizer_texts import HARD, HARD_BYTES, Text, make_texts
from .worker import Worker, command_of, environment_of

MEGABYTES = 200
"""Size of the large text."""
ROUNDS = 5
"""Turns of which the median counts."""
VOCAB_SIZES = (1_000, 10_000, 32_000)
ALL_THREADS = os.cpu_count() or 1


Task = dict[str, str | int]
OURS, TOKENIZERS, TIKTOKEN = "ours", "tokenizers", "tiktoken"
COMPILED = [TIKTOKEN, *(["gigatoken"] if find_spec("gigatoken") else [])]


class Team(ExitStack):
    """Processes, one for each contender and number of threads, started when they are first asked.

    Args:
        scratch: A folder for files of their own.
    """

    def __init__(self, scratch: Path) -> None:
        super().__init__()
        self.scratch = scratch
        self.workers: dict[tuple[str, int], Worker] = {}

    def times(
        self, names: Sequence[str], num_threads: int, task: Task, *, warm: bool = True
    ) -> dict[str, float]:
        """Return the median seconds that each contender takes for a task, asked in turns.

        Args:
            names: The contenders.
            num_threads: Threads or processes that each may use.
            task: What to do; see tokenizer_contender.
            warm: Whether to begin with a turn that does not count.
        """
        found: dict[str, list[float]] = {name: [] for name in names}
        for number in range(ROUNDS + warm):
            for name, seconds in found.items():
                elapsed_s = self.worker(name, num_threads).ask(task)
                if number or not warm:
                    seconds.append(elapsed_s)
        return {name: statistics.median(seconds) for name, seconds in found.items()}

    def peak_memory(self, name: str, num_threads: int, task: Task) -> float:
        """Return the most memory, in MB, that all processes of a fresh contender hold in a task."""
        return peak_memory_of(
            _command(name, num_threads), json.dumps(task) + "\n", self._environment(num_threads)
        )

    def worker(self, name: str, num_threads: int) -> Worker:
        """Return a contender, started if it is not running yet."""
        key = (name, num_threads)
        if key not in self.workers:
            worker = Worker(name, _command(*key), self._environment(num_threads))
            self.workers[key] = self.enter_context(worker)
        return self.workers[key]

    def _environment(self, num_threads: int) -> dict[str, str]:
        return environment_of(
            RAYON_NUM_THREADS=str(num_threads),
            TOKENIZERS_PARALLELISM="true",
            TOKENIZER_SCRATCH=str(self.scratch),
        )


def _command(name: str, num_threads: int) -> list[str]:
    return command_of("tokenizer_contender", name, str(num_threads))


def measure() -> Iterator[Row]:
    """Measure training, encoding, decoding and memory, in turns with the peers."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        texts = make_texts(scratch, MEGABYTES)
        for part in (_training, _encoding, _whole_files, _decoding, _hard_texts, _growth, _memory):
            with Team(scratch) as team:
                yield from part(team, texts)


def _faster(name: str, text: Text, times: dict[str, float], **goals: float) -> list[Row]:
    """Return a row for each peer: speeds in MB/s, and by how much ours has to be greater."""
    return [
        compare(
            f"{name}, {text.name} (peer: {peer})",
            text.megabytes / times[OURS],
            text.megabytes / seconds,
            "MB/s",
            at_least=goals.get(peer),
        )
        for peer, seconds in times.items()
        if peer != OURS
    ]


def _training(team: Team, texts: dict[str, Text]) -> list[Row]:
    """Training, all threads."""
    rows: list[Row] = []
    for name, vocab_sizes in (
        ("sample", VOCAB_SIZES),
        ("books", VOCAB_SIZES),
        ("stories", [10_000]),
    ):
        for vocab_size in vocab_sizes if name in texts else ():
            times = team.times(
                [OURS, TOKENIZERS],
                ALL_THREADS,
                {"do": "train", "text": str(texts[name].path), "vocab_size": vocab_size},
                warm=name != "stories",
            )
            goal = {"stories": 5.0, "sample": 1.0}.get(name) if vocab_size == 10_000 else None
            goals = {} if goal is None else {TOKENIZERS: goal}
            rows += _faster(f"train {vocab_size:,}", texts[name], times, **goals)
    small = texts["small"]
    task: Task = {"do": "train", "text": str(small.path), "vocab_size": 500}
    elapsed_s = team.times([OURS], 1, task)[OURS]
    name = "train 500 on 130 kB"
    return [*rows, Row(name, elapsed_s, "s", None, "at most 0.3 s", elapsed_s <= 0.3)]


def _encoding(team: Team, texts: dict[str, Text]) -> list[Row]:
    """Encoding documents one at a time and in a batch."""
    rows: list[Row] = []
    for text in (texts[name] for name in ("sample", "books") if name in texts):
        task: Task = {"text": str(text.path), "tokenizer": str(text.tokenizer)}
        times = team.times([OURS, TOKENIZERS, *COMPILED], 1, task | {"do": "documents"})
        rows += _faster("encode one at a time, one thread", text, times)
        times = team.times([OURS, TOKENIZERS, *COMPILED], ALL_THREADS, task | {"do": "batch"})
        rows += _faster("encode a batch, ours one thread", text, times)
    return rows


def _whole_files(team: Team, texts: dict[str, Text]) -> list[Row]:
    """Encoding whole files to ids on disk."""
    rows: list[Row] = []
    goals = {"sample": {TIKTOKEN: 3.0, TOKENIZERS: 8.0}, "books": {TIKTOKEN: 1.5}}
    for text in (texts[name] for name in ("sample", "books", "stories") if name in texts):
        task = _whole_file(team, text)
        is_large = text.name == "stories"
        # Slow contenders are left out where they would take minutes.
        peers = [OURS, *COMPILED] if is_large else [OURS, *COMPILED, TOKENIZERS]
        times = team.times(peers, 1, task, warm=not is_large)
        rows += _faster("encode a file, one thread", text, times, **goals.get(text.name, {}))
        if is_large:
            times = team.times(peers, ALL_THREADS, task, warm=False)
            rows += _faster(f"encode a file, {ALL_THREADS} threads", text, times)
        else:
            times = team.times([OURS, *COMPILED], 1, task | {"do": "fresh"})
            rows += _faster("encode a file for the first time, one thread", text, times)
    return rows


def _whole_file(team: Team, text: Text) -> Task:
    out = str(team.scratch / "out.bin")
    return {
        "do": "whole", "text": str(text.path), "tokenizer": str(text.tokenizer), "out": out,
    }  # fmt: skip


def _decoding(team: Team, texts: dict[str, Text]) -> list[Row]:
    """Decoding."""
    text = texts["sample"]
    ids = load_tokenizer(text.tokenizer).encode(text.path.read_text("utf-8"))
    path = team.scratch / "ids.bin"
    np.array(ids, np.uint16).tofile(path)
    task: Task = {"do": "decode", "ids": str(path), "tokenizer": str(text.tokenizer)}
    times = team.times([OURS, TOKENIZERS, *COMPILED], 1, task)
    return _faster("decode", text, times)


def _hard_texts(team: Team, texts: dict[str, Text]) -> list[Row]:
    """Encoding text without spaces."""
    rows: list[Row] = []
    for name in HARD:
        small, large = (texts[f"{name}, {size}"] for size in (HARD_BYTES // 10, HARD_BYTES))
        task: Task = {"do": "raw", "tokenizer": str(large.tokenizer)}
        times = team.times([OURS, *COMPILED], 1, task | {"text": str(large.path)})
        goals = {TIKTOKEN: 0.5} if name == "no spaces" else {}
        rows += _faster("encode 1 MB", large, times, **goals)
        small_s = team.times([OURS], 1, task | {"text": str(small.path)})[OURS]
        per_byte = times[OURS] / 10, small_s
        rows.append(
            compare(f"  time per 100 kB (peer: of 100 kB), {name}", *per_byte, "s", at_most=2.0)
        )
    return rows


def _growth(team: Team, texts: dict[str, Text]) -> list[Row]:
    """Ten times the text."""
    whole = _whole_file(team, texts["stories"])
    train: Task = {"do": "train", "vocab_size": 10_000}
    rows: list[Row] = []
    for name, task, bound in (("train 10,000", train, 10.0), ("encode a file", whole, 10.5)):
        small_s, large_s = (
            team.times([OURS], 1, task | {"text": str(texts[text].path)}, warm=False)[OURS]
            for text in ("tenth", "stories")
        )
        title = f"{name}, {MEGABYTES} MB (peer: {MEGABYTES // 10} MB), one thread"
        rows.append(compare(title, large_s, small_s, "s", at_most=bound))
    return rows


def _memory(team: Team, texts: dict[str, Text]) -> list[Row]:
    """Memory of all processes of each."""
    text = texts["stories"]
    train: Task = {"do": "train", "text": str(text.path), "vocab_size": 10_000}
    encode = _whole_file(team, text)
    rows: list[Row] = []
    for name, task, peers, bound in (
        ("train 10,000", train, [TOKENIZERS], 600),
        ("encode a file", encode, [TOKENIZERS, *COMPILED], 300),
    ):
        ours = team.peak_memory(OURS, ALL_THREADS, task)
        for peer in peers:
            theirs = team.peak_memory(peer, ALL_THREADS, task)
            title = f"memory, {name}, {MEGABYTES} MB (peer: {peer})"
            rows.append(Row(title, ours, "MB", theirs, f"at most {bound} MB", ours <= bound))
    return rows
