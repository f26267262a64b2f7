"""Programs that a machine may lack: a test marked `needs("g++")` is skipped where it is missing."""

import functools
import os
import shutil

import torch

from cs_basics.fast.compilation import reason_not_to_compile
from cs_grader.trusted import isolation

PACKAGES = {
    "g++": "g++",
    "bwrap": "bubblewrap",
    "chromium": "chromium",
    "chromedriver": "chromium-driver",
}
"""The Debian package of each program."""
TRIALS = {
    "g++": lambda: reason_not_to_compile(torch.device("cpu")),
    "bwrap": lambda: isolation.why_not("bubblewrap"),
}
"""What says why a program that is there does not work."""


@functools.cache
def why_not(*programs):
    """Say which of these programs are missing and how to get them, or why one fails; or ""."""
    missing = [program for program in programs if not is_there(program)]
    if missing:
        packages = " ".join(PACKAGES[program] for program in missing)
        return f"{' and '.join(missing)} not installed (Debian: apt-get install {packages})"
    reasons = [(program, TRIALS[program]()) for program in programs if program in TRIALS]
    return "; ".join(f"{program} does not work here: {why}" for program, why in reasons if why)


def is_there(program):
    named = os.environ.get("CXX", program) if program == "g++" else program
    return shutil.which(named) is not None
