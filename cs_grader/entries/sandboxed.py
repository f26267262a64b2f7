"""Starts a program with an entry's code in the sandbox that submissions are graded in.

The sandbox itself is trusted/sandbox.py: no network, no file but libraries and one folder, another
user. A training differs from a submission in what it needs: threads, a compiler, a folder to write.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from cs_grader.entries.entry import copy_code
from cs_grader.plain_text import one_line
from cs_grader.sandbox import confine
from cs_grader.trusted import sandbox
from cs_grader.trusted.sandbox import Stage, bare_stage

LIMITS = sandbox.Limits(
    memory_bytes=8 * 2**30, file_bytes=2 * 2**30, scratch_bytes=2 * 2**30, processes=256
)
THREADS = 2
"""Threads of matrix products, and processors of all that a program starts."""
TAIL_BYTES = 4000


def build_stage(root: Path, repository: Path, code: Path) -> Stage:
    """Fill an empty folder with all that a program of an entry may see.

    Args:
        root: The folder.
        repository: Where cs_basics and scripts are.
        code: What the entry has changed of cs_basics; need not exist.

    Raises:
        ValueError: See `copy_code`.
    """
    stage = bare_stage(root)
    shutil.copytree(Path(__file__).with_name("inside"), root / "inside")
    shutil.copytree(repository / "cs_basics", root / "code" / "cs_basics")
    shutil.copytree(
        repository / "scripts", root / "scripts", ignore=shutil.ignore_patterns("instructor")
    )
    copy_code(code, root / "code" / "cs_basics")
    out_of(stage).mkdir()
    return stage


def out_of(stage: Stage) -> Path:
    """The folder that a training may write to."""
    return stage.root / "out"


@contextlib.contextmanager
def running(
    isolation: str,
    stage: Stage,
    program: str,
    arguments: Sequence[str],
    output: IO[bytes],
    *,
    is_training: bool = False,
) -> Generator[subprocess.Popen[bytes]]:
    """Run a program in the sandbox, and kill it and all that it started at the end of the block.

    Args:
        isolation: "bubblewrap" or "process".
        stage: What it sees.
        program: Its place in the stage.
        arguments: The program's arguments.
        output: Receives what it prints; for a program that is not a training only the errors, since
            its stdin and stdout are pipes.
        is_training: Whether it may start programs, compile, and write to `out_of` the stage.
    """
    has_uid = isolation == "bubblewrap" and sandbox.has_real_root()
    settings = {
        "uid": sandbox.own_uid() if has_uid else None,
        "processes": LIMITS.processes,
        "memory_bytes": LIMITS.memory_bytes,
        "file_bytes": LIMITS.file_bytes,
        "may_start_programs": is_training,
    }
    python = [sandbox.interpreter(), "-P", "-s", "-B", f"{stage.root}/inside/launch.py"]
    command = sandbox.command(isolation, stage, LIMITS)
    variables = {
        "OMP_NUM_THREADS": str(THREADS),
        "MKL_NUM_THREADS": str(THREADS),
        "GOMP_SPINCOUNT": "10000",  # As scripts/process.py has it: a thread that waits sleeps soon.
        "PYTHONPATH": os.pathsep.join(f"{stage.root}/{name}" for name in ("code", "scripts", "")),
    }
    environment = sandbox.environment(stage, isolation) | variables
    if is_training:
        del environment["TORCH_COMPILE_DISABLE"]
    if command:
        out = str(out_of(stage))
        added = [word for pair in variables.items() for word in ("--setenv", *pair)]
        if is_training:
            added += ["--unsetenv", "TORCH_COMPILE_DISABLE", "--bind", out, out]
        command[-1:-1] = added
    if has_uid:
        os.chown(out_of(stage), sandbox.own_uid(), sandbox.own_uid())
    is_linux = sys.platform.startswith("linux")
    processors = sorted(os.sched_getaffinity(0))[:THREADS] if is_linux else []
    process = subprocess.Popen(
        [*command, *python, json.dumps(settings), f"{stage.root}/{program}", *arguments],
        stdin=subprocess.DEVNULL if is_training else subprocess.PIPE,
        stdout=output if is_training else subprocess.PIPE,
        stderr=output,
        cwd=stage.root,
        env=environment,
        start_new_session=True,
        preexec_fn=partial(_keep_to, processors),
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _keep_to(processors: Sequence[int]) -> None:
    """Prepare the process that becomes the sandbox: end with the verifier, use few processors."""
    confine.die_with_parent()
    if processors:
        os.sched_setaffinity(0, processors)


def last_line(output: IO[bytes]) -> str:
    """Return the last line that was printed, for a message."""
    output.seek(0, os.SEEK_END)
    output.seek(max(0, output.tell() - TAIL_BYTES))
    lines = output.read().decode("utf-8", "replace").strip().splitlines()
    return one_line(lines[-1]) if lines else "it printed nothing"
