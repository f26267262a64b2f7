"""Run jobs inside an edition, each in a fork of one process that has imported what takes long.

python inside.py EDITION FOLDER < jobs.json > results.json

A job is {"argv": [...]} for a script; "changes" are places in what the student wrote: [file, old,
new].
"""

import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import shutil
import sys
import traceback
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from bank import patches

SLOW_TO_IMPORT = (
    "torch._dynamo", "matplotlib.figure", "matplotlib.backends.backend_agg", "tyro", "einops",
    "jaxtyping", "regex", "safetensors.torch",
)  # fmt: skip
for name in SLOW_TO_IMPORT:
    importlib.import_module(name)
gc.freeze()  # What is imported is no garbage: no fork looks for any in it.
# A whole tree that is installed would lend the edition what it leaves out.
sys.meta_path[:] = [finder for finder in sys.meta_path if "Editable" not in str(finder)]


def main(edition: Path, folder: Path) -> None:
    jobs = enumerate(json.load(sys.stdin))
    json.dump([in_fork(job, edition, folder / str(place)) for place, job in jobs], sys.stdout)


def in_fork(job, edition, folder):
    """Do a job in a process of its own."""
    folder.mkdir(parents=True)
    answer = folder / "answer.json"
    child = os.fork()
    if not child:
        code = 1
        try:
            answer.write_text(json.dumps(do(job, edition, folder)))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.waitpid(child, 0)
    return json.loads(answer.read_text()) if answer.exists() else {"code": -1}


def do(job, edition, folder):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        if changes := job.get("changes"):
            edition = shutil.copytree(edition, folder / "edition", symlinks=True)
            patches.apply(changes, edition)
        sys.path[:0] = [str(edition), str(edition / "scripts")]
        code = run_script(edition, *job["argv"])
    return {"out": out.getvalue(), "err": err.getvalue(), "code": code}


def run_script(edition, name, *arguments):
    """Run a script as the command line would."""
    script = edition / "scripts" / f"{name}.py"
    os.environ["PYTHONPATH"] = str(edition)
    os.chdir(edition)
    if name == "rehearse":
        spare()
    sys.argv = [str(script), *arguments]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as stop:
        return stop.code or 0
    return 0


def spare():
    """Leave out what takes a second and is no part of what is examined here, or Windows lacks."""
    for name in ("resource", "fcntl", "pwd", "grp", "termios"):
        sys.modules[name] = None
    # What is compiled runs uncompiled: the way to it is what counts, and a compiler takes a minute.
    importlib.import_module("torch._dynamo").config.disable = True
    importlib.import_module("cs_basics.interop.page_data").character_class = str
    importlib.import_module("cs_basics.run.trainer").matmul_rate = lambda *_: None


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
