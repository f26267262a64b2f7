"""Programs behind no wall at all, started within milliseconds: forks of a process that has torch.

To import torch takes more than a second, and thirty entries start a hundred programs. `Forked`
stands in for subprocess.Popen where a command is Python: the server of multiprocessing, which has
imported what takes long and nothing of this project, forks and runs the program. Everything else is
as it is in a new process: module path, environment, folder, pipes, session.
"""

import multiprocessing
import os
import runpy
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

TESTS = Path(__file__).parents[3]
CONTEXT = multiprocessing.get_context("forkserver")
LONG = """numpy regex torch torch._dynamo einops jaxtyping tyro matplotlib.pyplot
    matplotlib.backends.backend_agg pytest"""
CONTEXT.set_forkserver_preload(LONG.split())


class Forked:
    """What wall.py uses of subprocess.Popen."""

    def __init__(self, command, *, stdin, stdout, stderr, cwd, env, **_others):
        program = next(i for i, word in enumerate(command) if word.endswith(".py"))
        ours, theirs = [], []
        for number, wanted in enumerate((stdin, stdout, stderr)):
            mine = None
            if wanted == subprocess.PIPE:
                mine, other = os.pipe()[:: 1 if number else -1]
                mine = os.fdopen(mine, "rb" if number else "wb")
            elif wanted == subprocess.DEVNULL:
                other = os.open(os.devnull, os.O_RDWR)
            else:
                other = os.dup(wanted.fileno())
            ours.append(mine)
            theirs.append(Connection(other))  # Only these are sent to the server.
        self.stdin, self.stdout, _ = ours
        self.process = CONTEXT.Process(target=become, args=(command[program:], cwd, env, theirs))
        self.process.start()
        self.pid = self.process.pid
        for end in theirs:
            end.close()

    def poll(self):
        return self.process.exitcode

    def wait(self):
        self.process.join()
        return self.process.exitcode


def become(argv, cwd, env, ends):
    """Run a program as a new process would."""
    os.setsid()
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin = os.fdopen(0, closefd=False)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.modules["torch"].set_num_threads(int(env["OMP_NUM_THREADS"]))
    others = [path for path in sys.path if not Path(path).is_relative_to(TESTS)]
    sys.path[:] = [*env["PYTHONPATH"].split(os.pathsep), *others]
    sys.argv[:] = argv
    runpy.run_path(sys.argv[0], run_name="__main__")
