"""Watch the lines of a submission handle text: what its variables hold, one after another."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from probes.lines import Watcher, root_of, text_of
from probes.model import Plain

MOST_CHANGES = 4000
MOST_ITEMS = 300
DEEPEST = 4
KINDS = (tuple, list, dict, str, bytes)


def traced_training(
    adapters: Any, text: bytes, vocab_size: int, special_tokens: list[str]
) -> Plain:
    """Train on a small text and see what variables held on the way.

    Returns:
        "merges", and "changes": a row [file, line, function, text, name, value] for each time that
        a line has changed a variable; the name is "" for what a function returned.
    """
    changes: list[list[Any]] = []
    root, held = root_of(adapters), dict[tuple[int, str], str]()

    def note(frame: FrameType, line: int, name: str, value: Any) -> None:
        shown = repr(value)
        if len(changes) >= MOST_CHANGES or held.get((id(frame), name)) == shown:
            return
        held[id(frame), name] = shown
        code = frame.f_code
        file, quoted = code.co_filename.removeprefix(root), text_of(code.co_filename, line)
        changes.append([file, line, code.co_name, quoted, name, plain_of(value)])

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        path.write_bytes(text)
        with Watcher(note, KINDS, looks_inside=True):
            _, merges = adapters.run_train_bpe(
                input_path=path, vocab_size=vocab_size, special_tokens=list(special_tokens)
            )
    return {"merges": [tuple(merge) for merge in merges], "changes": changes}


def plain_of(value: Any, depth: int = 0) -> Any:
    """Make plain data of what a variable holds; None of anything else, and of what is too large."""
    if isinstance(value, str | bytes | int):
        return value
    if depth > DEEPEST or not isinstance(value, list | tuple | set | frozenset | Mapping):
        return None
    if len(value) > MOST_ITEMS:
        return None
    if isinstance(value, Mapping):
        pairs = [[plain_of(k, depth + 1), plain_of(v, depth + 1)] for k, v in value.items()]
        return {"pairs": pairs}
    return [plain_of(one, depth + 1) for one in value]
