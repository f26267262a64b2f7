"""Submissions with odd answers, odd objects and odd output."""

from attacks.attack import (
    ADAPTERS,
    ONCE,
    PACKAGE,
    RIGHT,
    ends_with,
    has_files,
    softmax_does,
    source,
)

softmax_does(
    "nan everywhere",
    "return in_features * float('nan') if in_features.numel() else None",
    lost=("softmax",),
)
softmax_does("wrong dtype", "return softmax(in_features.double(), dim)", partly=("softmax",))
softmax_does(
    "a shape that broadcasts",
    "return softmax(in_features, dim)[None]",
    lost=("softmax",),
    message="shape",
)
softmax_does("no axes", "return torch.tensor(0.5)", lost=("softmax",))
softmax_does(
    "an array",
    "return softmax(in_features.detach().float(), dim).numpy()",
    lost=("softmax",),
    message="ndarray|Tensor",
)
softmax_does("no gradient", "return softmax(in_features.detach(), dim)", partly=("softmax",))
softmax_does(
    "not contiguous",
    "right = softmax(in_features, dim)\nback = tuple(reversed(range(right.ndim)))\n"
    "return right.permute(back).contiguous().permute(back)",
)
softmax_does(
    "is its own input",
    "with torch.no_grad():\n    in_features.copy_(softmax(in_features, dim))\nreturn in_features",
    partly=("softmax",),
)
softmax_does(
    "changes its input",
    "right = softmax(in_features, dim)\nwith torch.no_grad():\n    in_features.add_(1)\n"
    "return right",
    partly=("softmax",),
    message="change",
)
softmax_does(
    "sets everything that is global",
    f"""
import locale, os, random
right = softmax(in_features, dim)
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
{ONCE}
    torch.use_deterministic_algorithms(True)
torch.set_grad_enabled(False)
random.seed(0)
os.environ.clear()
os.chdir("/")
locale.setlocale(locale.LC_ALL, "C")
return right
""",
)
softmax_does(
    "sets everything that is global during import",
    RIGHT,
    at_import="import os, random\nrandom.seed(0)\nos.environ['LANG'] = 'C'\nos.chdir('/')\n"
    "torch.manual_seed(0)\ntorch.set_num_threads(1)",
)


def output_is_bounded(result, folder):
    assert len(result["output"]) < 500_000
    assert "\x1b" not in result["output"]
    for path in folder.rglob("*"):
        if path.is_file():
            assert path.stat().st_size < 5_000_000, path
            assert b"\x1b" not in path.read_bytes(), path
            if path.suffix == ".html":
                assert "<script>alert" not in path.read_text(), path


softmax_does(
    "prints without end",
    f"""
import os, sys
{ONCE}
    for _ in range(50):
        os.write(1, b"x" * 2**20)
        os.write(2, bytes(range(256)) * 2**12)
print("\\x1b[31m::set-output name=score::100", file=sys.stderr)
print('{{"score": 100}} <script>alert(1)</script> ![](http://example.org/x.png)')
{RIGHT}
""",
    check=output_is_bounded,
    seen=r"returned \(3,\)",
)
softmax_does(
    "fails with a page of markup",
    "raise ValueError('\\x1b[2J<script>alert(1)</script>\\n# 100 of 100\\n' + 'x' * 10**7)",
    lost=("softmax",),
    check=output_is_bounded,
    seen="ValueError: <script>",
)
softmax_does(
    "writes into every descriptor",
    f"""
import os
{ONCE}
    for handle in range(3, 200):
        try:
            os.write(handle, b'{{"ended": "returned"}}' * 100)
        except OSError:
            pass
{RIGHT}
""",
    partly=("softmax",),
    seen="what came is not an answer",
)
softmax_does(
    "floods every descriptor",
    f"""
import os
{ONCE}
    for _ in range(10**6):
        for handle in range(3, 100):
            try:
                os.set_blocking(handle, False)
                os.write(handle, b"\\x7f" * 2**20)
            except OSError:
                pass
{RIGHT}
""",
    partly=("softmax",),
)
softmax_does(
    "forges an answer of another form",
    """
import os
frame = b'{"d":[["ended","value"],["returned",[3,"x"]]]}'
frame = b"csg1" + len(frame).to_bytes(4, "big") + bytes(4) + frame
for handle in range(3, 64):
    try:
        os.write(handle, frame)
    except OSError:
        pass
os._exit(0)
""",
    message="what came is nothing that the probe returns",
    lost=("softmax",),
)
softmax_does(
    "closes its descriptors",
    f"import os\n{ONCE}\n    os.closerange(0, 3)\n{RIGHT}",
    seen=r"returned \(3,\)",
)
softmax_does(
    "returns an object that runs code when pickled",
    "return Trap()",
    at_import="class Trap:\n    def __reduce__(self):\n        import os\n"
    "        return os._exit, (0,)",
    lost=("softmax",),
    seen="returned Trap",
)
softmax_does(
    "returns an object without a form",
    "return Formless()",
    at_import="class Formless:\n    def __repr__(self):\n        while True:\n            pass\n"
    "    __str__ = __len__ = __bool__ = __eq__ = __repr__",
    lost=("softmax",),
    seen="returned Formless",
)
softmax_does(
    "raises an error without words",
    f"{ONCE}\n    raise Wordless\n{RIGHT}",
    at_import="class Wordless(Exception):\n    def __str__(self):\n        while True:\n"
    "            pass\n    __repr__ = __str__",
    partly=("softmax",),
)
softmax_does(
    "raises an error with ten million words",
    f"{ONCE}\n    raise Endless\n{RIGHT}",
    at_import="class Endless(Exception):\n    def __str__(self):\n        return 'word ' * 10**7",
    partly=("softmax",),
    seen="Endless: word word",
)


FOR_INSTRUCTORS = ("result.json", "instructor.html")


def hidden_inputs_stay_hidden(result, folder):
    assert any(item["is_hidden"] for item in result["items"]), "no hidden items"
    told = {True: set(), False: set()}
    for item in result["items"]:
        told[item["is_hidden"]].add(item["message"].partition("LEAK ")[2].split(" ")[0])
    # An input that is drawn in part may begin like a public one, with a zero for example.
    secrets = told[True] - told[False]
    assert len(secrets) > 3, "hardly a hidden input was told"
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in FOR_INSTRUCTORS:
            text = path.read_text(encoding="utf-8", errors="replace")
            for secret in filter(None, secrets):
                assert secret not in text, f"{path} shows the input of a hidden item"


softmax_does(
    "raises its inputs",
    "raise ValueError('LEAK ' + in_features.double().flatten()[:1].numpy().tobytes().hex() + ' .')",
    lost=("softmax",),
    message="LEAK",
    check=hidden_inputs_stay_hidden,
)
softmax_does(
    "counts its calls",
    "CALLS.append(1)\nreturn softmax(in_features, dim) if len(CALLS) < 2 else in_features",
    at_import="CALLS = []",
    partly=("softmax",),
)


has_files(
    "imports what others use",
    {
        f"{PACKAGE}/logging_of_runs.py": "import matplotlib\nimport wandb\n\nrun = wandb.init\n",
        ADAPTERS: ends_with(source(RIGHT, f"import {PACKAGE}.logging_of_runs")),
    },
)


softmax_does(
    "logs in at wandb",
    f"{ONCE}\n    import wandb\n    wandb.login(key=None, relogin=True, timeout=5)\n{RIGHT}",
)
softmax_does(
    "loads data with workers",
    f"{ONCE}\n    from torch.utils.data import DataLoader\n"
    f"    assert len(list(DataLoader(range(4), num_workers=2))) == 4\n{RIGHT}",
)
softmax_does(
    "asks for a GPU",
    "return softmax(in_features.cuda(), dim).cpu()",
    lost=("softmax",),
    message="CUDA|NVIDIA",
)
softmax_does(
    "is right by luck",
    "import random\nlucky = random.random() < 0.5 or torch.rand(()) < 0.2\n"
    "return softmax(in_features, dim) if lucky else in_features.new_zeros(7, 7, 7)",
    partly=("softmax",),
)
softmax_does("waits a little", f"import time\n{ONCE}\n    time.sleep(3)\n{RIGHT}")


softmax_does(
    "makes a folder beside its files at import",
    f"(RUNS / 'log').open('a').write('called')\n{RIGHT}",
    at_import="from pathlib import Path\nRUNS = Path(__file__).parents[1] / 'runs'\nRUNS.mkdir()",
)
softmax_does(
    "compiles what it may compile",
    "return fast(in_features, dim)",
    at_import="@torch.compile\ndef fast(x, dim):\n    return softmax(x, dim)",
)
softmax_does(
    "closes every descriptor",
    f"import os\n{ONCE}\n    os.closerange(3, 99)\n{RIGHT}",
    partly=("softmax",),
    seen="exited with status 70|closed its connection",
)
softmax_does(
    "answers with more than there is room for",
    f"{ONCE}\n    return torch.zeros(5 * 2**20, dtype=torch.float64)\n{RIGHT}",
    partly=("softmax",),
    message="an answer of 42 MB, more than 34 MB",
    seen="an answer of 42 MB, more than 34 MB",
)
