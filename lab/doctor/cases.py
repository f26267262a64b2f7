"""Run the cases of the bank, each in a forked process, and keep what the doctor said of it."""

import atexit
import json
import multiprocessing
import os
import runpy
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import torch
from bank.patches import Patch, apply, read

from lab.doctor.texts import write_texts

HERE = Path(__file__).parent
FORK = multiprocessing.get_context("fork")  # what is forked need not import torch again
LIMIT_S, GRACE_S = 90, 30
"""Seconds after which a program is interrupted, and then those until it is killed."""


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
    ending: str = ""
    """Why there is no report, or only a part of one."""

    @property
    def program(self) -> str:
        """The name of its program's file."""
        return Path(self.patch.places[0][0]).stem

    @property
    def is_ill(self) -> bool:
        """Whether it is a fault."""
        return self.patch.kind != "healthy"

    @property
    def num_updates(self) -> int:
        """Updates that the program has made: it prints the loss of each."""
        return self.log.count(" loss ")


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
    write_texts(place / "programs")
    apply(case.patch.places, place)
    return place / case.patch.places[0][0]


def run_case(case: Case) -> Case:
    """Run the case in processes of its own; return it with what the first of them has seen.

    A program is interrupted at the limit, so that the doctor reports what it has found. That does
    not reach one that waits in C, such as for a partner that is dead: it is killed.
    """
    place = Path(tempfile.mkdtemp())  # a TemporaryDirectory is removed with what is done at exit
    write(case, place)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port, size = free.getsockname()[1], 2 if case.program == "ddp_gloo" else 1
    ranks = [
        FORK.Process(target=run_program, args=(case.program, place, rank, size, port))
        for rank in range(size)
    ]
    began = time.monotonic()
    for process in ranks:
        process.start()
    ranks[0].join(LIMIT_S + GRACE_S)
    for process in ranks:
        process.kill()
        process.join()
    report = place / "0.json"
    case.log = (place / "0.log").read_text()
    if report.exists():
        case.findings = json.loads(report.read_text())
    else:
        last = (case.log.splitlines() or [""])[-1]
        case.ending = f"no report: {last[-200:]}"
    if time.monotonic() - began > LIMIT_S:
        case.ending = f"ran into the limit of {LIMIT_S} s"
    shutil.rmtree(place)
    return case


def run_program(program: str, place: Path, rank: int, size: int, port: int) -> None:
    """Run a program as if by itself, and then what it registered to be done at its end."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(LIMIT_S)
    torch.set_num_threads(1)  # threads of a parallel region spin where other work has the cores
    os.chdir(place / "programs")
    os.environ |= {"DOCTOR_JSON": str(place / f"{rank}.json"), "RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": str(size), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    sys.argv = [f"{program}.py"]
    log = place / f"{rank}.log"
    with log.open("w", buffering=1) as file, redirect_stdout(file), redirect_stderr(file):
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except BaseException:
            traceback.print_exc()
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  a fork's end runs none
