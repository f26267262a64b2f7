"""Run the cases of the bank, each in a forked process, and keep what the doctor said of it."""

import atexit
import json
import os
import re
import runpy
import shutil
import signal
import sys
import tempfile
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from bank.patches import Patch, apply, read

HERE = Path(__file__).parent
CASE_LIMIT_S = 300
LOGGED = re.compile(r"loss (\S+) norm (\S+)")


@dataclass
class Case:
    """A program with a change; running it fills in what is seen."""

    half: str
    """"dev" or "blind"; "" for a program as it is."""
    patch: Patch
    findings: list[dict[str, str]]
    """What the doctor reports, the most probable first."""
    log: str = ""
    """All that the program prints, and the error that ended it, if one did."""

    @property
    def program(self) -> str:
        """The name of its program's file."""
        return Path(self.patch.places[0][0]).stem

    @property
    def is_ill(self) -> bool:
        """Whether it is a fault."""
        return self.patch.kind != "healthy"

    @property
    def curves(self) -> list[list[float]]:
        """The losses, and the norms of the gradients, that the program prints."""
        return [[float(row[i]) for row in LOGGED.findall(self.log)] for i in (0, 1)]


def load() -> list[Case]:
    """Return the programs as they are, each of them a healthy case, and those of both halves."""
    same = "doctor.report()"
    cases = [
        Case("", Patch("healthy", "as it is", places=[[f"programs/{path.name}", same, same]]), [])
        for path in sorted(HERE.glob("programs/*.py"))
    ]
    for kind in ("faults", "healthy"):
        for file in sorted(HERE.glob(f"{kind}/*.txt")):
            cases += [Case(file.stem, patch, []) for patch in read(file)]
    return cases


def write(case: Case, place: Path) -> Path:
    """Write the programs into a folder, the change into one of them, and return its file."""
    shutil.copytree(HERE / "programs", place / "programs")
    apply(case.patch.places, place)
    return place / case.patch.places[0][0]


def run_case(case: Case) -> Case:
    """Run the case in this process, which serves no other; return it with what was seen.

    The program under torchrun runs in two processes; the findings are those of the first.
    """
    place = Path(tempfile.mkdtemp())  # a TemporaryDirectory is removed with what is done at exit
    write(case, place)
    os.chdir(place / "programs")
    second = -1
    if case.program == "ddp_gloo":
        port = str(20000 + os.getpid() % 20000)
        os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": "2"}
        second = os.fork()
    report, log = (place / f"{second == 0:d}.{suffix}" for suffix in ("json", "log"))
    os.environ |= {"RANK": f"{second == 0:d}", "DOCTOR_JSON": str(report)}
    run_program(f"{case.program}.py", log)
    if second == 0:
        os._exit(0)
    if second > 0:
        os.kill(second, signal.SIGKILL)
    case.log = log.read_text()
    missing = [{"cause": "no report", "seen": case.log[-200:]}]
    case.findings = json.loads(report.read_text()) if report.exists() else missing
    shutil.rmtree(place)
    return case


def run_program(name: str, log: Path) -> None:
    """Run a program as if by itself, and then what it registered to be done at its end."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(CASE_LIMIT_S)
    sys.argv = [name]
    with log.open("w") as file, redirect_stdout(file), redirect_stderr(file):
        try:
            runpy.run_path(name, run_name="__main__")
        except BaseException:
            traceback.print_exc()
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  os._exit would run none
