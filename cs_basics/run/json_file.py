"""Small JSON files, read with a clear error if they are damaged."""

import json
import os
from pathlib import Path
from typing import Any

MAX_DESCRIPTION_BYTES = 100_000_000
"""Largest accepted size: three times the largest tokenizer.json known to us."""


def read_at_once(path: str | os.PathLike[str]) -> bytes:
    """Read a small file, and refuse one too large to be a description.

    Raises:
        OSError: The file is missing or cannot be read.
        ValueError: The file is larger than MAX_DESCRIPTION_BYTES.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"{path} does not exist")
    if (size := Path(path).stat().st_size) > MAX_DESCRIPTION_BYTES:
        raise ValueError(
            f"{path} has {size:,} bytes: it is damaged or something else, "
            f"at most {MAX_DESCRIPTION_BYTES:,} were expected"
        )
    return Path(path).read_bytes()


def read_json(path: str | os.PathLike[str]) -> Any:  # noqa: ANN401  JSON holds anything
    """Read a JSON file.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not JSON, or too large.
    """
    try:
        return json.loads(read_at_once(path).decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a JSON file: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None
