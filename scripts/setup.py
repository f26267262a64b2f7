"""Make .venv and install this project into it, as `make` does: python scripts/setup.py."""

import argparse
import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Make the environment with the Python that runs this."""
    options = argparse.ArgumentParser(description=__doc__)
    options.parse_args()
    if sys.version_info < (3, 11):  # noqa: UP036  says so before pip does
        options.error("Python 3.11 or newer is needed, such as: python3.12 scripts/setup.py")
    if Path(sys.prefix).resolve() == (ROOT / ".venv").resolve():
        options.error("this Python is that of .venv itself: use the one it was made with")
    if importlib.util.find_spec("ensurepip") is None:
        options.error("this Python has no ensurepip: install it (Debian, Ubuntu: python3-venv)")
    print("making .venv and installing PyTorch and the rest into it: some minutes", flush=True)
    venv.create(ROOT / ".venv", with_pip=True)
    python = ROOT / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = ["pip", "--disable-pip-version-check", "install", "--constraint", "constraints.txt"]
    installed = subprocess.run([python, "-m", *install, "--editable", ".[dev]"], cwd=ROOT)
    if installed.returncode:
        options.error("not everything could be installed; what pip says of it stands above")
    (ROOT / ".venv/installed").touch()  # For make.
    print(f"installed: run {python}")


if __name__ == "__main__":
    main()
