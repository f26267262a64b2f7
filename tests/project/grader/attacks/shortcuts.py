"""Operators that are not allowed, attempts to use them unseen, and what only looks like one."""

from attacks.attack import ADAPTERS, FUNCTIONS, PACKAGE, RIGHT, ends_with, has_files, softmax_does

LOST = {"lost": ("softmax",)}
HERE = r"tests/adapters\.py:\d+"

for name, body, operator in (
    ("F", "import torch.nn.functional as F\nreturn F.softmax(in_features, dim)", "torch.softmax"),
    ("a method", "return in_features.softmax(dim)", "torch.softmax"),
    ("a module", "return torch.nn.Softmax(dim)(in_features)", "torch.nn.Softmax"),
    ("aten", "return torch.ops.aten._softmax(in_features, dim, False)", "torch.softmax"),
    (
        "getattr",
        "import importlib\nmodule = importlib.import_module('torch.nn.functional')\n"
        "return getattr(module, 'soft' + 'max')(in_features, dim)",
        "torch.softmax",
    ),
    ("log", "return torch.log_softmax(in_features, dim).exp()", "torch.log_softmax"),
    (
        "what PyTorch has written in Python",
        "import operator\n"
        "return operator.attrgetter('_re' + 'fs.soft' + 'max')(torch)(in_features, dim)",
        "torch.softmax",
    ),
    (
        "the table of what takes it apart",
        "from torch._decomp import decomposition_table\n"
        "op = torch.ops.aten._softmax.default\n"
        "return decomposition_table[op](in_features, dim, False)",
        "torch.softmax",
    ),
    (
        "torch._C",
        "return torch._C._nn.__dict__.get('softmax', torch._C._VariableFunctions.softmax)"
        "(in_features, dim)",
        "torch.softmax",
    ),
):
    more = ("needs review",) if name in ("getattr", "torch._C") else ()
    softmax_does(
        f"softmax by {name}",
        body,
        message=rf"{operator.replace('.', '[.]')} is not allowed",
        policy=(rf"forbidden {operator} {HERE}", *more),
        any_policy=True,
        **LOST,
    )


has_files(
    "SiLU by a scripted function",
    {
        ADAPTERS: ends_with(
            "@torch.jit.script\ndef scripted(x: torch.Tensor):\n"
            "    return torch.nn.functional.silu(x)\n\n\n"
            "def run_silu(in_features):\n    return scripted(in_features)\n"
        )
    },
    lost=("silu",),
    policy=(r"forbidden torch\.nn\.functional\.silu tests/adapters\.py:\d+",),
    message="silu",
)


def with_torchs_silu(text):
    assert "return x * torch.sigmoid(x)" in text
    return text.replace("return x * torch.sigmoid(x)", "return torch.nn.functional.silu(x)")


has_files(
    "SiLU in the package",
    {FUNCTIONS: with_torchs_silu},
    lost=("silu",),
    policy=(rf"forbidden torch\.nn\.functional\.silu {PACKAGE}/functional\.py:\d+",),
    message=r"torch\.nn\.functional\.silu is not allowed here.*functional\.py, line \d+",
)


softmax_does(
    "falls back where it is caught",
    f"try:\n    return torch.softmax(in_features, dim)\nexcept Exception:\n    {RIGHT}",
    policy=(rf"needs review torch\.softmax {HERE}",),
)
softmax_does(
    "hides it in exec",
    "import base64\nnames = {'torch': torch, 'x': in_features, 'd': dim}\n"
    "exec(base64.b64decode(b'eSA9IHRvcmNoLnNvZnRtYXgoeCwgZCk='), names)\nreturn names['y']",
    policy=("forbidden torch.softmax", rf"needs review builtins\.exec {HERE}"),
    **LOST,
)
softmax_does(
    "takes the block away by gc",
    """
import gc
for one in gc.get_objects():
    if type(one).__name__ == "Library":
        one._destroy()
return torch.softmax(in_features, dim)
""",
    # Whether the operator is free again is not what matters: a person is told.
    unsure=("softmax",),
    any_policy=True,
    policy=(rf"needs review gc\.get_objects {HERE}", rf"needs review _destroy {HERE}"),
)
softmax_does(
    "registers kernels of its own",
    "return softmax(in_features, dim)",
    at_import="import torch.library\n"
    "LIBRARY = torch.library.Library('student', 'DEF')\n"
    "LIBRARY.define('other(Tensor x) -> Tensor')",
    any_policy=True,
    policy=(rf"needs review torch\.library\.Library {HERE}",),
)
softmax_does(
    "compiles C++",
    "from torch.utils.cpp_extension import load_inline\n"
    "source = 'torch::Tensor f(torch::Tensor x, int64_t d) { return torch::softmax(x, d); }'\n"
    "module = load_inline('evil', source, functions=['f'])\nreturn module.f(in_features, dim)",
    policy=(rf"needs review torch\.utils\.cpp_extension\.load_inline {HERE}",),
    any_policy=True,
    **LOST,
)


softmax_does(
    "only looks forbidden",
    '''
"""As torch.softmax and F.softmax do; see torch.nn.functional.silu and nn.RMSNorm."""
# return torch.softmax(in_features, dim)
text = "torch.nn.functional.scaled_dot_product_attention"
gate = torch.sigmoid(in_features)
layer = Softmax(dim)
exp = layer(in_features) + 0 * gate.sum().nan_to_num() * len(text) * 0
return exp.to(in_features.dtype)
''',
    at_import='''
class RMSNorm(torch.nn.Module):
    """Not that of torch."""


class Softmax(torch.nn.Module):
    """Not that of torch either."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.scale = torch.nn.Parameter(torch.ones(()))

    def softmax(self, x):
        return softmax(x, self.dim)

    def forward(self, x):
        return self.softmax(x)
''',
)


softmax_does(
    "writes a backward of its own",
    "return Softmax.apply(in_features, dim)",
    at_import="""
class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        y = softmax(x, dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        # Arithmetic that no known solution of this problem does.
        return y * (g - (g * (1 - (1 - y))).sum(ctx.dim, keepdim=True)), None
""",
)


has_files(
    "uses torch's softmax where nobody examines",
    {
        FUNCTIONS: ends_with(
            "def difference(x):\n    return (torch.softmax(x, -1) - softmax(x, -1)).abs().max()\n"
        )
    },
)
