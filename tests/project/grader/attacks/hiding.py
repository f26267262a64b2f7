"""Submissions that do where nobody looks what they may not do, or that keep others from looking."""

from attacks.attack import ADAPTERS, ONCE, RIGHT, ends_with, has_files, softmax_does, source

LOST = {"lost": ("softmax",)}
HERE = r"tests/adapters\.py:\d+"

IN_A_PROCESS = """
import multiprocessing
def work(queue, x, dim):
    queue.put(torch.softmax(x, dim).numpy())
"""
softmax_does(
    "softmax in a process that is spawned",
    """
context = multiprocessing.get_context("spawn")
queue = context.SimpleQueue()
process = context.Process(target=work, args=(queue, in_features.detach(), dim))
process.start()
process.join()
if process.exitcode:
    raise RuntimeError(f"the other process ended with {process.exitcode}")
return torch.tensor(queue.get())
""",
    at_import=IN_A_PROCESS,
    message="the other process ended with 1",
    policy=(rf"needs review torch\.softmax {HERE}|forbidden torch\.softmax {HERE}",),
    **LOST,
)
softmax_does(
    "spawns a process that does honest work",
    f"""
context = multiprocessing.get_context("spawn")
{ONCE}
    with context.Pool(2) as pool:
        assert pool.map(abs, [-1, 2]) == [1, 2]
{RIGHT}
""",
    at_import="import multiprocessing\nmultiprocessing.set_start_method('spawn')",
)
softmax_does(
    "softmax in a fresh interpreter",
    """
import subprocess, sys, tempfile
folder = tempfile.gettempdir()
torch.save((in_features.detach(), dim), f"{folder}/given")
code = f"import torch; x, d = torch.load('{folder}/given')\\n"
code += f"torch.save(torch.softmax(x, d), '{folder}/found')"
subprocess.run([sys.executable, "-c", code], check=True)
return torch.load(f"{folder}/found")
""",
    message="may start no other program here",
    policy=(rf"needs review subprocess.run {HERE}",),
    **LOST,
)
softmax_does(
    "softmax in a program that is started past Python's functions",
    """
import _posixsubprocess, os, sys, tempfile
folder = tempfile.gettempdir()
code = f"import torch; x, d = torch.load('{folder}/given')\\n"
code += f"torch.save(torch.softmax(x, d), '{folder}/found')"
torch.save((in_features.detach(), dim), f"{folder}/given")
reading, writing = os.pipe()
program = [os.fsencode(word) for word in (sys.executable, "-c", code)]
pid = _posixsubprocess.fork_exec(
    program, [program[0]], True, (writing,), None, None, -1, -1, -1, -1, -1, -1,
    reading, writing, False, False, -1, None, None, None, -1, None, False,
)
os.waitpid(pid, 0)
return torch.load(f"{folder}/found")
""",
    message="No such file",
    policy=("needs review _posixsubprocess",),
    any_policy=True,
    **LOST,
)
softmax_does(
    "loads a compiled file that it has written",
    f"""
import _ctypes, shutil, tempfile
loaded = shutil.copyfile(_ctypes.__file__, tempfile.gettempdir() + "/mine.so")
ctypes.CDLL(loaded)
{RIGHT}
""",
    at_import="import ctypes",
    message="compiled code of a submission is not loaded",
    policy=(rf"needs review compiled code {HERE}", "needs review ctypes.CDLL"),
    **LOST,
)


softmax_does(
    "takes the block away by what Python keeps of it",
    """
import weakref
for one in list(weakref.finalize._registry):
    owner = one.peek()[0]
    if type(owner).__name__ == "Library":
        getattr(owner, "_des" + "troy")()
return getattr(in_features, "soft" + "max")(dim)
""",
    message="torch.softmax is not allowed",
    policy=(rf"forbidden torch.softmax {HERE}",),
    **LOST,
)
softmax_does(
    "wipes out what was noted in its own memory",
    f"""
open("/proc/self/mem", "r+b", 0).close()
{RIGHT}
""",
    message="a submission may not open this here",
    policy=(rf"needs review the memory of a process {HERE}",),
    **LOST,
)


has_files(
    "keeps source in a data file",
    {
        "tests/data.txt": "def double(x):\n    return 2 * x\n",
        ADAPTERS: ends_with(
            source(
                "assert DATA.double(1) == 2\n" + RIGHT,
                "DATA = type(__spec__.loader)('data', __file__.replace('adapters.py', 'data.txt'))"
                ".load_module()",
            )
        ),
    },
    policy=(rf"needs review exec {HERE}",),
)
softmax_does(
    "writes source and imports it",
    "import written\nassert written.double(1) == 2\n" + RIGHT,
    at_import="with open(__file__.replace('adapters.py', 'written.py'), 'w') as file:\n"
    "    file.write('def double(x): return 2 * x')",
    policy=(rf"needs review exec {HERE}",),
)


REACH = """
def globals_of_probe():
    try:
        raise ValueError
    except ValueError as error:
        frame = getattr(error.__traceback__, "tb" + "_frame")
    while "changed" not in getattr(frame, "f" + "_globals"):
        frame = getattr(frame, "f" + "_back")
    return getattr(frame, "f" + "_globals")
"""
CHANGE = "right = softmax(in_features, dim)\nwith torch.no_grad():\n    in_features.add_(1)\n"
softmax_does(
    "changes its input and replaces the probe that would see it",
    f"{CHANGE}globals_of_probe()['changed'] = lambda *_: []\nreturn right",
    at_import=REACH,
    message="changed, which the examination uses, was replaced",
    any_policy=True,  # It reads frames: told since that is looked for.
    **LOST,
)
softmax_does(
    "changes its input and replaces the probe until that has looked",
    f"""
{CHANGE}
names = globals_of_probe()
seeing = names["changed"]
def blind(*_):
    names["changed"] = seeing
    return []
names["changed"] = blind
return right
""",
    at_import=REACH,
    message="changed its input in_features",
    any_policy=True,  # It reads frames: told since that is looked for.
    partly=("softmax",),
)
softmax_does(
    "changes its input and lets a timer find the probe that would see it",
    f"""
import os, signal
{CHANGE}
def find(_number, frame):
    while frame is not None:
        frame.f_globals.pop("changed", None)
        frame = getattr(frame, "f" + "_back")
signal.signal(signal.SIGALRM, find)
signal.setitimer(signal.ITIMER_REAL, 0.001)
while signal.getitimer(signal.ITIMER_REAL)[0]:
    pass
return right
""",
    message="changed",
    any_policy=True,
    **LOST,
)
softmax_does(
    "changes its input, and what is kept of it beside",
    f"""
import ctypes
{CHANGE}
size = in_features.untyped_storage().nbytes()
ctypes.memset(in_features.data_ptr() - size, 0, size) if size else None
names = globals_of_probe()
seeing = names["changed"]
def blind(*_):
    names["changed"] = seeing
    return []
names["changed"] = blind
return right
""",
    at_import=REACH,
    message="changed its input in_features",
    any_policy=True,
    partly=("softmax",),
)
softmax_does(
    "replaces what the probe works with, at import",
    f"{CHANGE}return right",
    at_import="torch.equal = lambda *_: True",
    message="torch.equal, which the examination uses, was replaced",
    policy=(r"needs review torch\.equal",),
    lost=("softmax", "silu"),
)
