"""Ways to damage a file: functions of its path and a source of randomness."""

import hashlib
import io
import json
import math
import os
import pickle
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from cs_basics.run.checkpoint_file import FOOTER_BYTES, FORMAT_VERSION, read_checkpoint

Damage = Callable[[Path, random.Random], None]

SPARSE_BYTES = 1 << 33
DEPTH = 100_000
TOKEN_HEADER_BYTES = 1024

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 256, 65_535, 65_536, 10**6, 10**9, 10**12, 2**31, 2**40,
    2**63, 2**64, 10**30, 10**400, -(10**30), 0.0, -0.5, 0.5, 1e-300, 1e300, math.nan, math.inf, "",
    "x", "\x00", "x" * 100_000, "\ud800", "../../x", "/", "<|endoftext|>", [], {}, [[]], [0],
    {"x": 0}, [None] * 1000,
]  # fmt: skip


def truncate(path: Path, rng: random.Random) -> None:
    """Cut the end off."""
    os.truncate(path, rng.randrange(path.stat().st_size or 1))


def empty(path: Path, _: random.Random) -> None:
    """Leave nothing in the file."""
    os.truncate(path, 0)


def flip_bits(path: Path, rng: random.Random) -> None:
    """Flip some bits, half of the time near the beginning, where headers are."""
    data = bytearray(path.read_bytes())
    end = min(len(data), 200) if rng.random() < 0.5 else len(data)
    for _ in range(rng.choice((1, 1, 3, 30))):
        if end:
            data[rng.randrange(end)] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def overwrite(path: Path, rng: random.Random) -> None:
    """Overwrite a part with noise, zeros or ones."""
    data = bytearray(path.read_bytes())
    start = rng.randrange(len(data) or 1)
    length = min(rng.choice((1, 8, 100, 5_000)), len(data) - start)
    noise = rng.choice((rng.randbytes(length), bytes(length), b"\xff" * length))
    data[start : start + length] = noise
    path.write_bytes(data)


def insert(path: Path, rng: random.Random) -> None:
    """Put noise in between, so that all that follows is displaced."""
    data = path.read_bytes()
    start = rng.randrange(len(data) + 1)
    path.write_bytes(data[:start] + rng.randbytes(rng.choice((1, 4, 100))) + data[start:])


def append(path: Path, rng: random.Random) -> None:
    """Put something behind the end."""
    data = path.read_bytes()
    path.write_bytes(data + rng.choice((b"\x00", b"\n", rng.randbytes(1000), data[:5000], b"}")))


def noise(path: Path, rng: random.Random) -> None:
    """Replace everything by noise."""
    path.write_bytes(rng.randbytes(rng.choice((1, 100, 10_000))))


def deep(path: Path, rng: random.Random) -> None:
    """Nest brackets deeper than any parser goes."""
    path.write_text(rng.choice(("[", '{"a":', "[[")) * DEPTH)


def folder_instead(path: Path, _: random.Random) -> None:
    """Put a folder in the place of the file."""
    path.unlink()
    path.mkdir()


def circular_link(path: Path, _: random.Random) -> None:
    """Put a link to itself in the place of the file."""
    path.unlink()
    path.symlink_to(path.name)


def missing(path: Path, _: random.Random) -> None:
    """Take the file away."""
    path.unlink()


def unreadable(path: Path, _: random.Random) -> None:
    """Take away the right to read (which does not stop root)."""
    path.chmod(0)


def huge(path: Path, _: random.Random) -> None:
    """Make the file some gigabytes long, on the disk as small as before."""
    os.truncate(path, SPARSE_BYTES)


def another_file(path: Path, rng: random.Random) -> None:
    """Put a healthy file of some other kind in its place."""
    world = next(folder for folder in path.parents if (folder / "text.txt").exists())
    others = [other for other in world.rglob("*") if other.is_file() and other != path]
    shutil.copy(rng.choice(sorted(others)), path)


def change_json(path: Path, rng: random.Random) -> None:
    """Change, take away, rename or add a value somewhere in a JSON file."""
    content = json.loads(path.read_text("utf-8"))
    path.write_text(_dumped(_changed(content, rng)), "utf-8")


def change_json_line(path: Path, rng: random.Random) -> None:
    """Change a value in a line of JSON, or tear the line apart."""
    lines = path.read_text("utf-8").splitlines()
    place = rng.randrange(len(lines))
    changed = _dumped(_changed(json.loads(lines[place]), rng))
    lines[place] = rng.choice((changed, changed[: len(changed) // 2], _dumped(rng.choice(VALUES))))
    path.write_text("\n".join(lines) + "\n", "utf-8")


def change_line(path: Path, rng: random.Random) -> None:
    """Repeat, swap, shorten or replace a line of text."""
    lines = path.read_text("utf-8").split("\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a] = rng.choice((lines[b], lines[a][:-1], lines[a] + " x", "x", "\u2603", lines[a] * 500))
    path.write_text("\n".join(lines), "utf-8")


def change_token_header(path: Path, rng: random.Random) -> None:
    """Let the header of a token file say something else."""
    data = path.read_bytes()
    magic, rest = data[:TOKEN_HEADER_BYTES].split(b"\n", 1)
    header = _dumped(_changed(json.loads(rest), rng)).encode()
    header = magic + b"\n" + header[: TOKEN_HEADER_BYTES - len(magic) - 1]
    path.write_bytes(header.ljust(TOKEN_HEADER_BYTES) + data[TOKEN_HEADER_BYTES:])


def change_ids(path: Path, rng: random.Random) -> None:
    """Put ids that no vocabulary has into a token file."""
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 100))):
        start = 2 * rng.randrange(TOKEN_HEADER_BYTES // 2, len(data) // 2)
        data[start : start + 2] = b"\xff\xff"
    path.write_bytes(data)


def change_safetensors(path: Path, rng: random.Random) -> None:
    """Let the header of a safetensors file say something else, and itself be as long as it says."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = _dumped(_changed(json.loads(data[8 : 8 + length]), rng)).encode()
    said = rng.choice((len(header), len(header), len(header), 2**40, 2**63, 0))
    path.write_bytes(struct.pack("<Q", said) + header + data[8 + length :])


def change_checkpoint(path: Path, rng: random.Random) -> None:
    """Write a checkpoint that is whole, but holds something else."""
    content = _checkpoint(path)
    part = rng.choice(list(content))
    content[part] = _changed(content[part], rng, TENSORS)
    _write(content, path)


def change_checkpoint_body(path: Path, rng: random.Random) -> None:
    """Damage what torch.save wrote, and let checksum and sizes fit the damage."""
    raw = path.read_bytes()
    size = json.loads(raw[-FOOTER_BYTES:])["state_bytes"]
    parts = [raw[:size], raw[size:-FOOTER_BYTES]]
    place, scratch = rng.randrange(2), path.with_name("part")
    scratch.write_bytes(parts[place])
    rng.choice((truncate, empty, flip_bits, overwrite, insert, append, noise))(scratch, rng)
    parts[place] = scratch.read_bytes()
    scratch.unlink()
    _seal(parts[0], parts[1], path)


def change_checkpoint_footer(path: Path, rng: random.Random) -> None:
    """Let the footer of a checkpoint be of another version, lie about sizes, or say anything."""
    raw = path.read_bytes()
    body, footer = raw[:-FOOTER_BYTES], json.loads(raw[-FOOTER_BYTES:])
    match rng.choice(("version", "sizes", "one size", "anything")):
        case "version":
            footer["cs_basics checkpoint"] = rng.choice((0, 1, 2, 4, -3, 3.0, "3", 10**400, [3]))
        case "sizes":
            # Their sum still fits, and so does the checksum.
            moved = rng.choice((1, 100, footer["progress_bytes"], len(body), 2**64))
            footer["state_bytes"] += moved
            footer["progress_bytes"] -= moved
        case "one size":
            footer[rng.choice(("state_bytes", "progress_bytes"))] = rng.choice(
                (0, -1, 2**40, 1e300)
            )
        case _:
            footer = _changed(footer, rng)
            if isinstance(footer, dict):
                footer.pop("more", None)  # Which would do no harm.
    path.write_bytes(body + _footer(footer))


def _footer(content: Any) -> bytes:
    return _dumped(content).encode().ljust(FOOTER_BYTES)


class _Malicious:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (  # pyright: ignore[reportDeprecated]  what an attacker would call
            "touch malicious-code-ran",
        )


def malicious(path: Path, rng: random.Random) -> None:
    """Put a pickle in its place that runs a program when it is loaded."""
    if rng.random() < 0.5:
        path.write_bytes(pickle.dumps(_Malicious()))
        return
    content = _checkpoint(path)
    content[rng.choice(("model", "optimizer", "progress"))] = _Malicious()
    _write(content, path)


def _checkpoint(path: Path) -> dict[str, Any]:
    """Return model, optimizer, iteration and progress of a checkpoint."""
    checkpoint = read_checkpoint(path)
    state = torch.load(io.BytesIO(checkpoint.state), weights_only=True)
    return {**state, "progress": checkpoint.progress}


def _write(content: dict[str, Any], path: Path) -> None:
    """Write a checkpoint as the library does."""
    state = {name: part for name, part in content.items() if name != "progress"}
    _seal(_saved(state), _saved(content["progress"]), path)


def _saved(content: Any) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def _seal(state: bytes, progress: bytes, path: Path) -> None:
    """Write a checkpoint whose checksum and sizes fit."""
    footer = {
        "cs_basics checkpoint": FORMAT_VERSION,
        "state_bytes": len(state),
        "progress_bytes": len(progress),
        "sha256": hashlib.sha256(state + progress).hexdigest(),
    }
    path.write_bytes(state + progress + _footer(footer))


TENSORS: list[Any] = [
    *(value for value in VALUES if value != "\ud800"),
    torch.zeros(1).expand(2**40),
    torch.zeros(1).expand(2**20, 2**20),
    torch.zeros(0),
    torch.tensor(1.0),
    torch.ones(3, 5, dtype=torch.int8),
    torch.ones(3, 5, dtype=torch.complex64),
    torch.full((32,), float("nan")),
    torch.zeros(3, 3).to_sparse(),
    torch.zeros(5, dtype=torch.bool),
    {0: torch.zeros(2)},
    {1: 2},
    [torch.zeros(2)] * 3,
]


def _changed(content: Any, rng: random.Random, values: list[Any] = VALUES) -> Any:
    """Return JSON-like content with a change at a random place, at any depth."""
    if not isinstance(content, dict | list) or not content or rng.random() < 0.1:
        return rng.choice(values)
    keys = list(content) if isinstance(content, dict) else range(len(content))
    key = rng.choice(list(keys))
    what = rng.random()
    if what < 0.1:
        del content[key]
    elif what < 0.15 and isinstance(content, dict):
        content[f"{key}x"] = content.pop(key)
    elif what < 0.2 and isinstance(content, list):
        content.append(rng.choice(values))
    elif what < 0.2 and isinstance(content, dict):
        content["more"] = rng.choice(values)
    else:
        content[key] = _changed(content[key], rng, values)
    return content


def _dumped(content: Any) -> str:
    return json.dumps(content)


ANY: list[Damage] = [
    truncate, empty, flip_bits, overwrite, insert, append, noise, folder_instead, circular_link,
    missing, another_file,
]  # fmt: skip
SMALL_ONLY: list[Damage] = [*ANY, huge, deep]
"""For files that are read at once: an endless text is a text."""
