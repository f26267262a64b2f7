"""Make .venv and install this project into it, where there is no make: python scripts/setup.py."""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Make the environment with the Python that runs this."""
    if sys.version_info < (3, 11):  # noqa: UP036  says so before pip does
        sys.exit("Python 3.11 or newer is needed, such as: python3.12 scripts/setup.py")
    venv.create(ROOT / ".venv", with_pip=True)
    python = ROOT / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = ["pip", "install", "--quiet", "--constraint", "constraints.txt"]
    subprocess.run([python, "-m", *install, "--editable", ".[dev]"], cwd=ROOT, check=True)
    print(f"installed: run {python}")


if __name__ == "__main__":
    main()
