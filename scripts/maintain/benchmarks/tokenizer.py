"""The tokenizer against tokenizers (Hugging Face) and tiktoken: same text, same number of threads.

Each contender is a process; they are asked in turns. What they do differently: tokenizers breaks
ties between equally frequent pairs by its own rule, so that its vocabulary differs a little from
ours, and reads files line by line; it and we keep what they have seen of a text, tiktoken does not.
All three give the same ids with the same vocabulary (tests/project/test_interchange.py).
"""

import os
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from cs_basics.run.tokenizer_folder import load_tokenizer

from .measuring import ROUNDS, Report, Row, compare
from .tokenizer_plot import draw
from .tokenizer_team import CLEAR, OURS, TIKTOKEN, TOKENIZERS, Task, Team
from .tokenizer_texts import HARD, HARD_BYTES, Text, make_texts

MEGABYTES = 200
"""Size of the large text."""
VOCAB_SIZES = (1_000, 10_000, 32_000)
ALL_THREADS = os.cpu_count() or 1


def measure() -> Report:
    """Measure training, encoding, decoding and memory, in turns with the peers."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        _say("the texts are written")
        texts = make_texts(scratch, MEGABYTES)
        for part in (_training, _encoding, _whole_files, _decoding, _hard_texts, _growth, _memory):
            _say((part.__doc__ or "").rstrip("."))
            with Team(scratch, ROUNDS) as team:
                rows += part(team, texts)
    return Report(rows, draw=partial(draw, rows))


def _say(what: str) -> None:
    print(f"measuring: {what}", file=sys.stderr)


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
    times = team.times(
        [OURS, CLEAR], 1, {"do": "train", "text": str(small.path), "vocab_size": 500}
    )
    met = times[OURS] <= 0.3
    name = "train 500 on 130 kB (peer: clear version)"
    return [*rows, Row(name, times[OURS], "s", times[CLEAR], "at most 0.3 s", met)]


def _encoding(team: Team, texts: dict[str, Text]) -> list[Row]:
    """Encoding documents one at a time and in a batch."""
    rows: list[Row] = []
    for text in (texts[name] for name in ("sample", "books") if name in texts):
        task: Task = {"text": str(text.path), "tokenizer": str(text.tokenizer)}
        times = team.times([OURS, CLEAR, TOKENIZERS, TIKTOKEN], 1, task | {"do": "documents"})
        rows += _faster("encode one at a time, one thread", text, times)
        times = team.times([OURS, TOKENIZERS, TIKTOKEN], ALL_THREADS, task | {"do": "batch"})
        rows += _faster("encode a batch, ours one thread", text, times)
    return rows


def _whole_files(team: Team, texts: dict[str, Text]) -> list[Row]:
    """Encoding whole files to ids on disk."""
    rows: list[Row] = []
    goals = {"sample": {TIKTOKEN: 3.0, TOKENIZERS: 8.0}, "books": {TIKTOKEN: 1.5}}
    for text in (texts[name] for name in ("sample", "books", "stories") if name in texts):
        task = _whole_file(team, text)
        is_large = text.name == "stories"
        # What is slow is left out where it would take minutes.
        peers = [OURS, TIKTOKEN] if is_large else [OURS, TIKTOKEN, TOKENIZERS, CLEAR]
        times = team.times(peers, 1, task, warm=not is_large)
        rows += _faster("encode a file, one thread", text, times, **goals.get(text.name, {}))
        if is_large:
            times = team.times(peers, ALL_THREADS, task, warm=False)
            rows += _faster(f"encode a file, {ALL_THREADS} threads", text, times)
        else:
            times = team.times([OURS, TIKTOKEN], 1, task | {"do": "fresh"})
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
    times = team.times([OURS, TOKENIZERS, TIKTOKEN], 1, task)
    return _faster("decode", text, times)


def _hard_texts(team: Team, texts: dict[str, Text]) -> list[Row]:
    """Encoding text without spaces."""
    rows: list[Row] = []
    for name in HARD:
        small, large = (texts[f"{name}, {size}"] for size in (HARD_BYTES // 10, HARD_BYTES))
        task: Task = {"do": "raw", "tokenizer": str(large.tokenizer)}
        times = team.times([OURS, TIKTOKEN], 1, task | {"text": str(large.path)})
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
        ("encode a file", encode, [TOKENIZERS, TIKTOKEN], 300),
    ):
        ours = team.peak_memory(OURS, ALL_THREADS, task)
        for peer in peers:
            theirs = team.peak_memory(peer, ALL_THREADS, task)
            title = f"memory, {name}, {MEGABYTES} MB (peer: {peer})"
            rows.append(Row(title, ours, "MB", theirs, f"at most {bound} MB", ours <= bound))
    return rows
