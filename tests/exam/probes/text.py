"""Encode, decode and train on text."""

import contextlib
import copy
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from probes.lazy_memory import growth
from probes.model import Plain
from probes.yardstick import one_count_s


def encode(adapters: Any, tokenizer: Plain, texts: list[str]) -> Plain:
    """Encode texts with one tokenizer, and name the types of what came out."""
    made = adapters.get_tokenizer(**copy.deepcopy(tokenizer))
    encoded = [made.encode(text) for text in texts]
    return {
        "ids": [ids_of(ids, "encode") for ids in encoded],
        "container": type(encoded[0]).__name__,
        "kinds": sorted({type(token).__name__ for ids in encoded for token in ids}),
    }


def there_and_back(adapters: Any, tokenizer: Plain, texts: list[str]) -> list[str]:
    """Decode what a tokenizer makes of texts."""
    made = adapters.get_tokenizer(**copy.deepcopy(tokenizer))
    return [str(made.decode(made.encode(text))) for text in texts]


def ids_of(tokens: Iterable[Any], source: str = "encode_iterable") -> list[int]:
    """Return ids as plain integers.

    Raises:
        TypeError: Something else is among them; the message says what, and how lists get there.
    """
    ids: list[int] = []
    for token in tokens:
        if not hasattr(token, "__index__"):
            is_list = isinstance(token, list)
            hint = "; `yield from` yields the ids in it one by one" if is_list else ""
            raise TypeError(f"{source} gave a {type(token).__name__} in place of an id{hint}")
        ids.append(int(token))
    return ids


def tokenizer_arguments(adapters: Any, tokenizer: Plain, text: str) -> Plain:
    """Make a tokenizer, use it, and name those of its arguments that are not what they were."""
    given = copy.deepcopy(tokenizer)
    made = adapters.get_tokenizer(**given)
    made.decode(made.encode(text))
    list(made.encode_iterable([text, text]))
    # The order of a list counts, and so does that of a vocabulary.
    return {"changed": [name for name in given if repr(given[name]) != repr(tokenizer[name])]}


def decode(adapters: Any, tokenizer: Plain, rows: list[list[int]]) -> list[str]:
    made = adapters.get_tokenizer(**copy.deepcopy(tokenizer))
    return [str(made.decode(row)) for row in rows]


def encode_chunks(adapters: Any, tokenizer: Plain, chunkings: list[list[str]]) -> list[list[int]]:
    """Encode texts that arrive in pieces; an empty list is a text that never arrives."""
    made = adapters.get_tokenizer(**copy.deepcopy(tokenizer))
    return [ids_of(made.encode_iterable(iter(chunks))) for chunks in chunkings]


def encode_interleaved(adapters: Any, tokenizer: Plain, chunkings: list[list[str]]) -> Plain:
    """Encode texts with one tokenizer in turns, id by id, after giving up a stream of each."""
    made = adapters.get_tokenizer(**copy.deepcopy(tokenizer))
    for abandoned in chunkings:
        next(iter(made.encode_iterable(iter(abandoned))), None)
    streams = [iter(made.encode_iterable(iter(chunks))) for chunks in chunkings]
    ids: list[list[int]] = [[] for _ in streams]
    going = set(range(len(streams)))
    while going:
        for place in sorted(going):
            token = next(streams[place], None)
            if token is None:
                going.remove(place)
            else:
                ids[place] += ids_of([token])
    afterwards = [ids_of(made.encode("".join(chunks)), "encode") for chunks in chunkings]
    return {"in_turns": ids, "afterwards": afterwards}


def encode_in_turns(adapters: Any, tokenizers: list[Plain], texts: list[str]) -> list[Any]:
    """Encode each text with each tokenizer in turn; a row of answers for each tokenizer."""
    made = [adapters.get_tokenizer(**copy.deepcopy(tokenizer)) for tokenizer in tokenizers]
    rows: list[list[list[int]]] = [[] for _ in made]
    for text in texts:
        for place, one in enumerate(made):
            rows[place].append(ids_of(one.encode(text), "encode"))
    return rows


def encode_sources(adapters: Any, tokenizer: Plain, text: str) -> dict[str, list[int]]:
    """Encode the lines of one text as they come from a list, a generator and an open file."""
    made = adapters.get_tokenizer(**copy.deepcopy(tokenizer))
    lines = text.splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        path.write_bytes(text.encode())
        with path.open(encoding="utf-8", newline="") as file:
            sources = {"a list": lines, "a generator": (line for line in lines), "a file": file}
            return {name: ids_of(made.encode_iterable(source)) for name, source in sources.items()}


def lazy_memory(adapters: Any, tokenizer: Plain, chunk: str, num_chunks: int) -> int | None:
    """Bytes by which a process grows while it encodes many chunks; None if it cannot be seen."""
    made = adapters.get_tokenizer(**copy.deepcopy(tokenizer))
    file = getattr(adapters, "__file__", None)
    if file is not None:
        # The grader's sandbox starts no program, but there this process does nothing else.
        with contextlib.suppress(PermissionError):
            given = {"tokenizer": tokenizer, "chunk": chunk, "num_chunks": num_chunks}
            return growth_elsewhere(Path(file).parents[1], given)
    return growth(made, chunk, num_chunks)


def growth_elsewhere(root: Path, given: Plain) -> int | None:
    """Measure in a fresh process, which has never held more than it needs."""
    script = Path(__file__).with_name("lazy_memory.py")
    finished = subprocess.run(
        [sys.executable, str(script), str(root)],
        input=ascii(given).encode("ascii"),
        capture_output=True,
        check=False,
    )
    if finished.returncode != 0:
        complaint = finished.stderr.decode("utf-8", "replace").strip()
        raise RuntimeError(complaint[-2000:])
    grown = finished.stdout.decode().split()
    return int(grown[-1]) if grown else None


def encode_stream(adapters: Any, tokenizer: Plain, line: str, num_lines: int) -> Plain:
    """Encode many lines and see how many lines the tokenizer was ahead of its own output."""
    made = adapters.get_tokenizer(**copy.deepcopy(tokenizer))
    ids_per_line = len(made.encode(line))
    read = 0

    def lines() -> Iterable[str]:
        nonlocal read
        for _ in range(num_lines):
            read += 1
            yield line

    stream = made.encode_iterable(lines())
    read_at_call = read
    written, furthest, kind = 0, 0, "int"
    for token in stream:
        kind = type(token).__name__
        written += len(ids_of([token]))
        furthest = max(furthest, read - written // ids_per_line)
    return {
        "kind": kind,
        "is_iterator": hasattr(stream, "__next__"),
        "read_at_call": read_at_call,
        "lines_ahead": furthest,
        "written": written,
    }


def train_bpe(
    adapters: Any,
    text: bytes,
    vocab_size: int,
    special_tokens: list[str],
    path_as: str = "path",
    options: dict[str, Any] | None = None,
) -> Plain:
    """Train on a file with exactly these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        path.write_bytes(text)
        given = list(special_tokens)
        vocab, merges = adapters.run_train_bpe(
            input_path=str(path) if path_as == "str" else path,
            vocab_size=vocab_size,
            special_tokens=given,
            **(options or {}),
        )
    unlike = unlike_the_contract(vocab, merges)
    if unlike:  # What means the same is read; that it is of another type is asked apart.
        try:
            vocab = {int(token): bytes(memoryview(piece)) for token, piece in vocab.items()}
            merges = [tuple([bytes(memoryview(part)) for part in merge]) for merge in merges]
        except (AttributeError, TypeError, ValueError):
            return {"strange": unlike, "unlike": unlike}
    seen = {"vocab": dict(vocab), "merges": list(merges), "changed": given != special_tokens}
    return {"strange": "", "unlike": unlike} | seen


def unlike_the_contract(vocab: Any, merges: Any) -> str:
    """Say what is not a dict[int, bytes] and a list[tuple[bytes, bytes]]."""
    if not isinstance(vocab, dict):
        return f"a vocabulary of type {type(vocab).__name__}, expected dict"
    if not isinstance(merges, list):
        return f"merges of type {type(merges).__name__}, expected list"
    parts = [part for merge in merges for part in merge]
    for what, values, kind in (
        ("an id", vocab.keys(), int),
        ("a token", vocab.values(), bytes),
        ("a merge", merges, tuple),
        ("a part of a merge", parts, bytes),
    ):
        for value in values:
            if not isinstance(value, kind):
                found = f"{what} of type {type(value).__name__} ({value!r:.40})"
                return f"{found}, expected {kind.__name__}"
    return ""


def train_bpe_in_parallel(
    adapters: Any, text: bytes, vocab_size: int, special_tokens: list[str], workers: list[int]
) -> list[Plain]:
    """Train with each number of workers, if there is a keyword for it; else once without."""
    for keyword in ("num_workers", "num_processes", "n_workers", "n_processes", "num_chunks"):
        try:
            return [
                train_bpe(adapters, text, vocab_size, special_tokens, options={keyword: count})
                for count in workers
            ]
        except TypeError as error:
            if "unexpected keyword" not in str(error):
                raise
    return [train_bpe(adapters, text, vocab_size, special_tokens)]


def encode_times(adapters: Any, tokenizer: Plain, texts: list[str], lazily: bool) -> list[float]:
    """CPU time of encoding each text, the shorter of two times, so that no hiccup counts."""
    made = adapters.get_tokenizer(**copy.deepcopy(tokenizer))

    def encode(text: str) -> None:
        if lazily:
            for _ in made.encode_iterable(iter(text.splitlines(keepends=True))):
                pass
        else:
            made.encode(text)

    def seconds(text: str) -> float:
        started, rounds = time.process_time(), 0
        # The clock of some systems advances by milliseconds.
        while rounds == 0 or time.process_time() - started < 0.05:
            encode(text)
            rounds += 1
        return (time.process_time() - started) / rounds

    return [min(seconds(text), seconds(text)) for text in texts]


def train_bpe_time(
    adapters: Any, text: bytes, vocab_size: int, special_tokens: list[str]
) -> dict[str, float]:
    """CPU time of training, and of counting the pairs of letters of the same text in Python."""
    count_s, started = one_count_s(text), time.process_time()
    train_bpe(adapters, text, vocab_size, special_tokens)
    return {"one_count_s": count_s, "training_s": time.process_time() - started}


def train_bpe_on_nothing(adapters: Any, text: bytes, special_tokens: list[str]) -> Plain | None:
    """Train on a text without any pair; None if it is refused."""
    train_bpe(adapters, b"ab cd", 257 + len(special_tokens), special_tokens)
    with contextlib.suppress(ValueError):
        return train_bpe(adapters, text, 300, special_tokens)
    return None
