"""Files by their names, for tests of what reads them."""

from pathlib import Path


def write_files(folder: Path, files: dict[str, str | bytes]) -> Path:
    """Write files, and the folders above them; return the folder in which they are."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
