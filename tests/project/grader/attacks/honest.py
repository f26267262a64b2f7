"""Right and unusual submissions: none loses anything, and nobody has to look at one."""

from attacks.attack import RIGHT, softmax_does

HELPER = """
def by_hand(x, dim):
    exps = torch.exp(x - x.amax(dim, keepdim=True))
    return exps / exps.sum(dim, keepdim=True)
"""


def honest(name, body, at_import=""):
    """Declare a right softmax."""
    softmax_does(name, body, at_import=at_import, seen=r"returned \(3,\)")


honest(
    "compiles the whole graph",
    "return by_hand(in_features, dim)",
    f"@torch.compile(fullgraph=True, dynamic=True){HELPER}",
)
honest(
    "compiles at each call",
    "return torch.compile(by_hand, mode='max-autotune')(in_features, dim)",
    HELPER,
)
honest(
    "compiles its module",
    """
layer = Layer()
layer.compile(fullgraph=True)
return torch.compile(layer)(in_features, dim)
""",
    f"""
{HELPER}

class Layer(torch.nn.Module):
    def forward(self, x, dim):
        return by_hand(x, dim)
""",
)
honest(
    "caches by what it was asked for",
    "return flipped(in_features.ndim, dim)(in_features)",
    "import functools\n\n@functools.cache\ndef flipped(ndim, dim):\n"
    "    return lambda x: softmax(x.movedim(dim, -1), -1).movedim(-1, dim)",
)
honest(
    "keeps all that it was ever given",
    f"SEEN.append(in_features.detach().clone())\n{RIGHT}",
    "SEEN = []",
)
honest(
    "keeps a pool of threads",
    "return POOL.submit(softmax, in_features, dim).result()",
    "from concurrent.futures import ThreadPoolExecutor\nPOOL = ThreadPoolExecutor(3)",
)
honest(
    "keeps a pool of processes",
    "assert pool().map(abs, [-1, 2]) == [1, 2]\nreturn softmax(in_features, dim)",
    "import functools, multiprocessing\n\n@functools.cache\ndef pool():\n"
    "    return multiprocessing.Pool(2)",
)
honest(
    "forks and has both processes return",
    f"import os\nif os.fork():\n    os.wait()\n{RIGHT}",
)
honest(
    "has its parts from a generator",
    """
parts = steps(in_features, dim)
next(parts)
return parts.send(in_features.amax(dim, keepdim=True))
""",
    """
def steps(x, dim):
    top = yield
    exps = torch.exp(x - top)
    yield exps / exps.sum(dim, keepdim=True)
""",
)
softmax_does(
    "imports for four seconds",
    RIGHT,
    at_import="import time\nuntil = time.monotonic() + 4\n"
    "while time.monotonic() < until:\n    pass",
)
honest(
    "computes in float64",
    "return softmax(in_features.double(), dim).to(in_features.dtype)",
)
honest(
    "computes in NumPy and has a backward of its own",
    "return Softmax.apply(in_features, dim)",
    """
import numpy as np

class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        values = x.detach().double().numpy()
        exps = np.exp(values - values.max(axis=dim, keepdims=True))
        y = torch.from_numpy(exps / exps.sum(axis=dim, keepdims=True)).to(x.dtype)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(ctx.dim, keepdim=True)), None
""",
)
honest(
    "maps over the rows",
    "flat = in_features.movedim(dim, -1)\nrows = flat.reshape(-1, flat.shape[-1])\n"
    "rows = torch.vmap(row)(rows) if rows.numel() else rows\n"
    "return rows.reshape(flat.shape).movedim(-1, dim)",
    "def row(x):\n    exps = torch.exp(x - x.amax())\n    return exps / exps.sum()",
)
honest(
    "scripts its own code",
    "return scripted(in_features, dim)",
    "@torch.jit.script\ndef scripted(x: torch.Tensor, dim: int) -> torch.Tensor:\n"
    "    exps = torch.exp(x - torch.amax(x, [dim], True))\n"
    "    return exps / torch.sum(exps, [dim], True)",
)
honest(
    "runs in an event loop",
    "return asyncio.run(later(in_features, dim))",
    "import asyncio\n\nasync def later(x, dim):\n"
    "    await asyncio.sleep(0)\n    return softmax(x, dim)",
)
honest(
    "logs each call to a file and to the terminal",
    f"logging.getLogger('lm').info('called with %s', in_features.shape)\n{RIGHT}",
    "import logging, pathlib\nlogging.basicConfig(level=logging.INFO)\n"
    "logging.getLogger('lm').addHandler(logging.FileHandler('calls.log'))",
)
honest(
    "changes the default type for a moment",
    "was = torch.get_default_dtype()\ntorch.set_default_dtype(torch.float64)\n"
    "try:\n    return softmax(in_features, dim)\nfinally:\n    torch.set_default_dtype(was)",
)
honest(
    "minds every warning",
    f"warnings.simplefilter('error')\n{RIGHT}",
    "import warnings",
)
honest(
    "writes beside its files and among temporary ones",
    f"""
import os, tempfile
for folder in () if CALLS else (os.getcwd(), tempfile.gettempdir()):
    CALLS.append(folder)
    os.makedirs(folder + "/runs")  # Unless another process has left it.
    os.makedirs(folder + "/closed/inner")
    os.chmod(folder + "/closed", 0)
{RIGHT}
""",
    "CALLS = []",
)
honest(
    "rewrites its own source",
    f"""
line = "# chan" + "ged"
assert SOURCE or line not in open(__file__).read()
SOURCE.append(1)
open(__file__, "a").write(line)
{RIGHT}
""",
    "SOURCE = []",
)
