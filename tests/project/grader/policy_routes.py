"""Ways to a forbidden operator, and honest ways past it: run as a program, each in a fork.

    python policy_routes.py < cases    # JSON: [[problem, source of a function `f`], ...]

Prints a JSON list: the error that `f()` ends with ("" if none) and every
forbidden call that was told of: operator, file, line.
"""

import json
import os
import sys
import textwrap
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[3]

# One per line of GRADING.md, section 4.1: problem, expression.
ROUTES = {
    "F.silu": ("silu", "F.silu(x)"),
    "aten": ("silu", "torch.ops.aten.silu(x)"),
    "torch._C._nn": ("silu", "torch._C._nn.silu(x)"),
    "importlib and getattr": (
        "silu",
        "getattr(__import__('importlib').import_module('torch.nn'), 'Si' + 'LU')()(x)",
    ),
    "a scripted function": ("silu", "torch.jit.script(scripted)(x)"),
    "a method": ("softmax", "x.softmax(-1)"),
    "torch.softmax": ("softmax", "torch.softmax(x, -1)"),
    "F.log_softmax": ("softmax", "F.log_softmax(x, -1)"),
    "F.cross_entropy": ("cross_entropy", "F.cross_entropy(x, torch.tensor([0, 1, 2]))"),
    "F.linear": ("linear", "F.linear(x, w)"),
    "nn.Linear": ("linear", "nn.Linear(4, 4)(x)"),
    "F.embedding": ("embedding", "F.embedding(ids, w)"),
    "F.rms_norm": ("rmsnorm", "F.rms_norm(x, (4,))"),
    "nn.RMSNorm": ("rmsnorm", "nn.RMSNorm(4)(x)"),
    "F.layer_norm": ("rmsnorm", "F.layer_norm(x, (4,))"),
    "F.scaled_dot_product_attention": (
        "scaled_dot_product_attention",
        "F.scaled_dot_product_attention(x, x, x)",
    ),
    "attention of torch._C._nn": (
        "scaled_dot_product_attention",
        "torch._C._nn.scaled_dot_product_attention(x, x, x)",
    ),
    "nn.MultiheadAttention": ("multihead_self_attention", "nn.MultiheadAttention(4, 2)(x, x, x)"),
}
MORE_ROUTES = {
    "softmax by attention": (
        "softmax",
        "F.scaled_dot_product_attention(x[None], w[None], torch.eye(4)[None], scale=1.0)",
    ),
    "rms_norm by a batch norm": (
        "rmsnorm",
        "torch._native_batch_norm_legit(x[None], None, None, True, 0.1, 1e-5)",
    ),
    "linear of oneDNN": (
        "linear",
        "torch.ops.mkldnn._linear_pointwise(x.detach(), w, None, 'none', [], '')",
    ),
    "linear by a convolution": ("linear", "torch.conv1d(x[..., None], w[..., None])"),
    "rms_norm by a weight norm": ("rmsnorm", "torch._weight_norm(x, w[:3, :1])"),
    "in place": ("silu", "F.silu(x.detach(), inplace=True)"),
    "half of a GLU": ("silu", "F.glu(torch.cat([x, x], -1))"),
    "without gradients": ("linear", "torch.no_grad()(lambda: F.linear(x, w))()"),
    "inference mode": ("linear", "torch.inference_mode()(lambda: F.linear(x, w))()"),
    "bfloat16": ("rmsnorm", "F.rms_norm(x.bfloat16(), (4,))"),
    "autocast": ("linear", "autocast(lambda: F.linear(x, w))"),
    "vmap": ("linear", "torch.func.vmap(lambda row: F.linear(row, w))(x)"),
    "vmap of attention": (
        "scaled_dot_product_attention",
        "torch.func.vmap(lambda y: F.scaled_dot_product_attention(y, y, y))(x[None, None])",
    ),
    "torch.func.grad": ("linear", "torch.func.grad(lambda y: F.linear(y, w).sum())(x)"),
    "a compiled function": ("silu", "torch.compile(F.silu, backend='eager')(x)"),
    "a sparse tensor": ("softmax", "torch.sparse.softmax(x.detach().to_sparse(), -1)"),
    "a nested tensor": (
        "softmax",
        "torch.softmax(torch.nested.nested_tensor([x.detach()]), -1)",
    ),
    "softmin": ("softmax", "F.softmin(x, -1)"),
    "a distribution's softmax": ("softmax", "torch.distributions.SoftmaxTransform()(x)"),
    "x.logsumexp": ("cross_entropy", "x.logsumexp(-1)"),
    "torch.special": ("softmax", "torch.special.log_softmax(x, -1)"),
    "the last of logcumsumexp": ("cross_entropy", "x.logcumsumexp(-1)[..., -1]"),
    "nll_loss": ("cross_entropy", "F.nll_loss(x, torch.tensor([0, 1, 2]))"),
    "F.normalize": ("rmsnorm", "F.normalize(x, dim=-1)"),
    "nn.Embedding": ("embedding", "nn.Embedding(4, 4)(ids)"),
    "torch's AdamW": ("adamw", "torch.optim.AdamW([w.requires_grad_()]).step()"),
    "a subclass of AdamW": ("adamw", "type('Mine', (torch.optim.AdamW,), {})([w])"),
    "AdamW made before": ("adamw", "old_adamw.step()"),
    "AdamW's step on a class of one's own": ("adamw", "old_step(old_adamw)"),
    "clip_grad_norm_": ("gradient_clipping", "torch.nn.utils.clip_grad_norm_([w], 1.0)"),
    "what a decorator wraps": (
        "gradient_clipping",
        "torch.nn.utils.clip_grad._get_total_norm.__wrapped__([w], 2.0, False, False)",
    ),
    "clip_grad_norm_ imported before": ("gradient_clipping", "old_clip([w], 1.0)"),
    "a scheduler": ("learning_rate_schedule", "torch.optim.lr_scheduler.LambdaLR(old_adamw, abs)"),
}
# The eight honest forms of GRADING.md, section 4.1, and others.
HONEST = {
    "x @ W.T": ("linear", "x @ w.T"),
    "einsum": ("linear", "torch.einsum('...i,oi->...o', x, w)"),
    "table[ids]": ("embedding", "w[ids]"),
    "x * sigmoid(x)": ("silu", "x * torch.sigmoid(x)"),
    "exp and sum": ("softmax", "torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)"),
    "rms by hand": ("rmsnorm", "x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)"),
    "log of a sum of exp": ("cross_entropy", "(x - x.amax()).exp().sum(-1).log()"),
    "autograd": ("transformer_lm", "(x @ w.T * torch.sigmoid(x)).sum().backward()"),
    "attention by hand": (
        "scaled_dot_product_attention",
        "(lambda s: s / s.sum(-1, keepdim=True))((x @ x.T - (x @ x.T).amax()).exp()) @ x",
    ),
    "index_select": ("embedding", "w.index_select(0, ids)"),
    "a vector's norm": ("rmsnorm", "x / x.norm(dim=-1, keepdim=True)"),
    "foreach": ("adamw", "torch._foreach_mul_([w], 0.5)"),
    "another problem's operator": ("silu", "torch.softmax(x, -1)"),
    "AdamW where it is not the problem": ("checkpointing", "old_adamw.step()"),
    "trunc_normal_": ("linear", "nn.init.trunc_normal_(w)"),
    "a parameter": ("linear", "x @ nn.Parameter(w).T"),
}

PREAMBLE = """
import torch, torch.nn as nn, torch.nn.functional as F
x = torch.randn(3, 4, requires_grad=True)
w = torch.randn(4, 4)
ids = torch.tensor([0, 2])
def autocast(f):
    with torch.autocast("cpu", torch.bfloat16):
        return f()
old_adamw = torch.optim.AdamW([w])
old_step = torch.optim.AdamW.step
old_clip = torch.nn.utils.clip_grad_norm_
"""


def main() -> None:
    sys.path.insert(0, str(ROOT))
    cases = json.load(sys.stdin)
    names: dict = {"scripted": scripted()}
    exec(PREAMBLE, names)
    answers = [in_a_fork(problem, source, names) for problem, source in cases]
    print(json.dumps(answers))


def scripted():
    import torch

    def silu(y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(y)

    return silu


def in_a_fork(problem: str, source: str, names: dict) -> list:
    reading, writing = os.pipe()
    if os.fork() == 0:
        from cs_grader.sandbox import blocked

        seen: dict[tuple, None] = {}
        blocked.forbid(problem, lambda *call: seen.update({call: None}))
        error = ""
        try:
            exec(compile(textwrap.dedent(source), "solution.py", "exec"), names)
            names["f"]()
        except BaseException as raised:
            error = f"{type(raised).__name__}: {raised}"
            # As a debugger or pytest would.
            for frame, _ in traceback.walk_tb(raised.__traceback__):
                dict(frame.f_locals)
        os.write(writing, json.dumps([error[:2000], list(seen)]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        text = file.read()
    os.wait()
    return json.loads(text) if text else ["the process died", []]


if __name__ == "__main__":
    main()
