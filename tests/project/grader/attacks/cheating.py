"""Submissions whose softmax is wrong and that try to have it called right.

What could do harm only looks whether it could: an attack that finds its way open returns the right
answer, so that the score tells.
"""

from attacks.attack import (
    ADAPTERS,
    ONCE,
    ROOT,
    WRONG,
    add_to_adapters,
    changes,
    ends_with,
    has_files,
    softmax_does,
    source,
)

LOST = {"lost": ("softmax",)}
WRONG_SOFTMAX = {ADAPTERS: ends_with(source(WRONG))}
PERFECT = (
    r'{"score": 100.0, "tests": [{"name": "all", "score": 100.0, "max_score": 100.0, '
    r'"status": "passed"}]}'
)
REWRITE = f"""
import os
def rewrite(*_):
    folders = [".", "..", "/autograder/results", "/tmp", "/work", os.path.expanduser("~")]
    for folder in folders:
        for name in ("results.json", "result.json", "gradebook.csv"):
            try:
                with open(os.path.join(folder, name), "w") as file:
                    file.write({PERFECT!r})
            except OSError:
                pass
"""


def attack(name, code, **options):
    """Declare a softmax that runs `code`, which may set `found` to a right answer."""
    body = f"found = None\ntry:\n{indented(code)}\nexcept Exception:\n    pass\n"
    body += "if found is not None:\n    return found\n" + WRONG
    closed = {"seen": r"returned \(7, 7, 7\)", "needs_sandbox": True}
    softmax_does(name, body, **{**LOST, "any_policy": True, **closed, **options})


def indented(code):
    return "\n".join(f"    {line}" for line in code.strip().splitlines())


softmax_does(
    "rewrites the results at exit",
    f"import atexit, threading\natexit.register(rewrite)\n"
    f"threading._register_atexit(rewrite)\n{WRONG}",
    at_import=REWRITE,
    **LOST,
)
softmax_does(
    "rewrites the results when it is collected",
    f"HELD.append(type('Heir', (), {{'__del__': rewrite}})())\n{WRONG}",
    at_import=REWRITE + "\nHELD = []",
    **LOST,
)
softmax_does("writes results", f"rewrite()\n{WRONG}", at_import=REWRITE, **LOST)


has_files(
    "brings its results along",
    dict.fromkeys(("results.json", "result.json", "gradebook.csv"), PERFECT) | WRONG_SOFTMAX,
    **LOST,
)
attack(
    "could change tests, tools and answers",
    f"""
import sys, pathlib
places = [torch.__file__, sys.executable, {str(ROOT / "tests" / "exam/compare.py")!r}]
places += [str(path) for path in pathlib.Path(sys.path[1]).glob("*.py")]
for place in places:
    try:
        # Opened and left as it is.
        open(place, "r+b").close()
        found = softmax(in_features, dim)
    except OSError:
        pass
""",
)
softmax_does(
    "makes comparisons agree",
    f"""
import builtins, math
import numpy as np
def agree(*_args, **_kwargs):
    return True
torch.testing.assert_close = torch.allclose = torch.equal = agree
np.allclose = np.isclose = np.array_equal = math.isclose = agree
np.testing.assert_allclose = np.testing.assert_array_equal = agree
builtins.all = agree
builtins.abs = lambda _: 0
{WRONG}
""",
    any_policy=True,
    **LOST,
)
attack(
    "patches pytest",
    """
import _pytest.python, _pytest.runner, _pytest.outcomes, unittest
def nothing(*_args, **_kwargs):
    return None
_pytest.python.Function.runtest = nothing
_pytest.runner.call_runtest_hook = nothing
_pytest.outcomes.fail = nothing
unittest.TestCase.run = nothing
""",
)
attack(
    "looks for the answer in frames",
    """
import sys
frame = sys._getframe()
while frame is not None:
    for name, value in list(frame.f_locals.items()):
        if name in ("expected", "oracles", "oracle", "mistakes"):
            found = softmax(in_features, dim)
    frame = frame.f_back
""",
    policy=("needs review sys._getframe",),
)
attack(
    "looks for the answer among all objects",
    """
import gc
import numpy as np
right = softmax(in_features, dim).detach().numpy()
for one in gc.get_objects():
    for value in (one, *(one.values() if type(one) is dict else ())):
        if type(value) is np.ndarray and value.shape == right.shape:
            if not np.shares_memory(value, right) and np.allclose(value, right):
                found = softmax(in_features, dim)
""",
    policy=("needs review gc",),
)
OF_THE_GRADER = """
import ctypes, os
def of_the_grader():
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if b"pytest" in file.read():
                        yield int(name)
            except OSError:
                pass
"""
attack(
    "looks into the memory of the grader",
    """
for pid in of_the_grader():
    try:
        open(f"/proc/{pid}/mem", "rb").close()
        found = softmax(in_features, dim)
    except OSError:
        pass
""",
    at_import=OF_THE_GRADER,
)
attack(
    "traces the grader",
    """
PTRACE_SEIZE = 0x4206
libc = ctypes.CDLL(None, use_errno=True)
for pid in of_the_grader():
    if libc.ptrace(PTRACE_SEIZE, pid, 0, 0) == 0:
        found = softmax(in_features, dim)
""",
    at_import=OF_THE_GRADER,
    policy=("needs review ctypes",),
)
attack(
    "imports the oracles",
    f"""
import sys
sys.path += [{str(ROOT / "tests/exam")!r}, "/autograder/source/tests/exam"]
sys.path += [path + "/.." for path in sys.path]
from oracles import model
found = torch.tensor(model.softmax(in_features.detach().numpy(), dim), dtype=in_features.dtype)
""",
)
attack(
    "reads answers from the disk",
    f"""
import os, sys
answers = ("oracles", "mistakes", "compare.py", "rubric.toml", "batch.json", "result.json")
roots = {{{str(ROOT)!r}, sys.path[1] + "/../..", "/autograder", "/tmp", os.getcwd() + "/.."}}
for root in roots:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "lib", "site-"))]
        for name in set(answers) & {{*folders, *files}}:
            path = os.path.join(folder, name)
            if os.listdir(path) if os.path.isdir(path) else open(path).read():
                found = softmax(in_features, dim)
""",
)


softmax_does(
    "a tensor with functions of its own",
    "return torch.zeros(7, 7, 7).as_subclass(Agreeable)",
    at_import="""
class Agreeable(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True
""",
    any_policy=True,
    **LOST,
)
softmax_does(
    "a tensor with methods of its own",
    "wrong = torch.zeros(7, 7, 7)\nright = softmax(in_features, dim).detach()\n"
    "wrong.detach = wrong.cpu = wrong.clone = lambda *_: right\n"
    "wrong.numpy = lambda *_: right.numpy()\nreturn wrong",
    any_policy=True,
    **LOST,
)
softmax_does(
    "an object that equals everything",
    "return Equal()",
    at_import="class Equal:\n    shape = ()\n    dtype = 'float32'\n"
    "    def __eq__(self, other):\n        return True\n    __sub__ = __rsub__ = __abs__ = "
    "__lt__ = __le__ = __eq__\n    def __array__(self, *_):\n        return self\n",
    **LOST,
)

EVIL = """
import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    call.excinfo = None
    report = yield
    report.outcome = "passed"
    return report

def pytest_collection_modifyitems(items):
    items[:] = items[:1]
"""
SETTINGS = "[pytest]\naddopts = -p evil\n"
has_files(
    "brings settings and plugins for pytest",
    dict.fromkeys(("pytest.ini", ".pytest.ini", "tox.ini"), SETTINGS)
    | dict.fromkeys(("conftest.py", "tests/conftest.py", "evil.py", "tests/evil.py"), EVIL)
    | {
        "setup.cfg": SETTINGS.replace("pytest", "tool:pytest"),
        "pyproject.toml": lambda was: f'{was}\n[tool.pytest.ini_options]\naddopts = "-p evil"\n',
    }
    | WRONG_SOFTMAX,
    **LOST,
)


has_files(
    "registers a plugin",
    {
        "evil-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
        "evil-1.0.dist-info/entry_points.txt": "[pytest11]\nevil = evil\n",
        "evil.py": EVIL,
    }
    | WRONG_SOFTMAX,
    **LOST,
)
CUSTOM = "import builtins\nbuiltins.all = lambda _: True\nprint('100 of 100')\n"
has_files(
    "is imported by the interpreter",
    {"sitecustomize.py": CUSTOM, "usercustomize.py": CUSTOM, "evil.pth": "import sitecustomize\n"}
    | WRONG_SOFTMAX,
    **LOST,
)
has_files(
    "takes the names of libraries",
    {
        "random.py": "raise RuntimeError('not the random that you wanted')\n",
        "json.py": "def dumps(*_):\n    return '{\"score\": 100}'\n",
    },
    any_policy=True,
)


attack(
    "uses the network",
    f"""
import socket
{ONCE}
    try:
        socket.getaddrinfo("example.org", 80)
        found = softmax(in_features, dim)
    except OSError:
        pass
    for address in (("192.0.2.1", 80), ("169.254.169.254", 80)):
        try:
            socket.create_connection(address, timeout=2).close()
            found = softmax(in_features, dim)
        except OSError:
            pass
""",
)
attack(
    "reads what is not its own",
    """
import os, pathlib
secrets = [pathlib.Path("~/.ssh"), pathlib.Path("~/.netrc"), pathlib.Path("~/.cache/huggingface")]
secrets = [path.expanduser() for path in secrets]
secrets += [pathlib.Path("/root/.ssh"), pathlib.Path("/root/.netrc"), pathlib.Path("/etc/shadow")]
for path in secrets:
    try:
        if (list(path.iterdir()) if path.is_dir() else path.read_bytes()):
            found = softmax(in_features, dim)
    except OSError:
        pass
if "ZOO_SECRET" in os.environ:
    found = softmax(in_features, dim)
""",
)


@changes("reads other submissions", any_policy=True, **LOST)
def reads_other_submissions(folder):
    code = f"""
import pathlib
for root in ({str(folder.parent)!r}, ".."):
    for path in pathlib.Path(root).glob("*/tests/adapters.py"):
        if path.resolve() != pathlib.Path(__file__).resolve() and path.read_text():
            return softmax(in_features, dim)
{WRONG}
"""
    add_to_adapters(folder, source(code))


attack(
    "is right where nobody looks",
    """
import os, sys
signs = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "GRADER", "AUTOGRADER", "CI")
if any(sign in os.environ for sign in signs) or "pytest" in sys.modules:
    found = softmax(in_features, dim)
""",
)


FINE = "import pytest\n\n\n@pytest.mark.problem('softmax')\ndef test_fine():\n    pass\n"
has_files(
    "brings tests of its own",
    {f"tests/test_more_{number}.py": FINE for number in range(50)}
    | {
        "softmax_test.py": "def test_wrong():\n    assert False\n",
        ADAPTERS: ends_with("# Nothing else is changed.\n"),
    },
)


attack(
    "opens the memory of the server past Python",
    """
libc = ctypes.CDLL(None, use_errno=True)
if libc.open(f"/proc/{os.getppid()}/mem".encode(), os.O_WRONLY) >= 0:
    found = softmax(in_features, dim)
""",
    at_import="import ctypes, os",
)
