"""Small files that describe something, read with a clear error if they are damaged.

Test: pytest tests/project/scripts/test_damaged_files.py
"""

import json
import os
from pathlib import Path
from typing import Any

MAX_DESCRIPTION_BYTES = 100_000_000
"""Three times the largest tokenizer.json that is known to us."""


def read_at_once(path: str | os.PathLike[str]) -> bytes:
    """Read a file that describes something, and is therefore never large.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is so large that it must be something else.
    """
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
        ValueError: It is not JSON.
    """
    try:
        return json.loads(read_at_once(path).decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a JSON file: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None
