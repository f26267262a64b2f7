"""Forbidden operators raise by every route, and honest work does not notice."""

import os

import pytest
from forked_cases import answers_to
from processes import python
from report import RUBRIC

from cs_grader.sandbox.forbidden import FORBIDDEN, KERNELS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each route runs in a fork")

PREAMBLE = """
import einops, operator
import torch, torch.nn as nn, torch.nn.functional as F
import torch._inductor.decomposition, torch._refs.special  # The server has imported them.
from cs_grader.sandbox import blocked
x = torch.randn(3, 4, requires_grad=True)
w = torch.randn(4, 4)
ids = torch.tensor([0, 2])
scripted = torch.jit.script(nn.SiLU())
def autocast(f):
    with torch.autocast("cpu", torch.bfloat16):
        return f()
old_adamw = torch.optim.AdamW([w])
old_step = torch.optim.AdamW.step
old_clip = torch.nn.utils.clip_grad_norm_
"""
# A problem, and a way to an operator that does its work.
ROUTES = """
silu: F.silu(x)
silu: torch.ops.aten.silu(x)
silu: torch._C._nn.silu(x)
silu: getattr(__import__('importlib').import_module('torch.nn'), 'Si' + 'LU')()(x)
silu: scripted(x)
silu: F.silu(x.detach(), inplace=True)
silu: F.glu(torch.cat([x, x], -1))
silu: torch.compile(F.silu, backend='eager')(x)
softmax: x.softmax(-1)
softmax: torch.softmax(x, -1)
softmax: F.log_softmax(x, -1)
softmax: F.scaled_dot_product_attention(x[None], w[None], torch.eye(4)[None], scale=1.0)
softmax: torch.sparse.softmax(x.detach().to_sparse(), -1)
softmax: torch.softmax(torch.nested.nested_tensor([x.detach()]), -1)
softmax: F.softmin(x, -1)
softmax: torch.distributions.SoftmaxTransform()(x)
softmax: torch.special.log_softmax(x, -1)
softmax: operator.attrgetter('_refs.softmax')(torch)(x, -1)
softmax: torch._refs.special.softmax(x, -1)
softmax: torch._decomp.decomposition_table[torch.ops.aten._softmax.default](x, -1, False)
cross_entropy: torch._refs.logsumexp(x, -1)
silu: torch._refs.nn.functional.glu(torch.cat([x, x], -1))
silu: torch._decomp.decomposition_table[torch.ops.aten.silu.default](x)
rmsnorm: torch._refs._normalize(x, [1], 1e-5)
rmsnorm: torch._refs.native_layer_norm(x, [4], None, None, 1e-5)
cross_entropy: F.cross_entropy(x, torch.tensor([0, 1, 2]))
cross_entropy: x.logsumexp(-1)
cross_entropy: x.logcumsumexp(-1)[..., -1]
cross_entropy: F.nll_loss(x, torch.tensor([0, 1, 2]))
linear: F.linear(x, w)
linear: nn.Linear(4, 4)(x)
linear: torch.ops.mkldnn._linear_pointwise(x.detach(), w, None, 'none', [], '')
linear: torch.conv1d(x[..., None], w[..., None])
linear: torch.no_grad()(lambda: F.linear(x, w))()
linear: torch.inference_mode()(lambda: F.linear(x, w))()
linear: autocast(lambda: F.linear(x, w))
linear: torch.func.vmap(lambda row: F.linear(row, w))(x)
linear: torch.func.grad(lambda y: F.linear(y, w).sum())(x)
embedding: F.embedding(ids, w)
embedding: nn.Embedding(4, 4)(ids)
rmsnorm: F.rms_norm(x, (4,))
rmsnorm: nn.RMSNorm(4)(x)
rmsnorm: F.layer_norm(x, (4,))
rmsnorm: torch._native_batch_norm_legit(x[None], None, None, True, 0.1, 1e-5)
rmsnorm: F.rms_norm(x.bfloat16(), (4,))
rmsnorm: F.normalize(x, dim=-1)
rmsnorm: torch._weight_norm(x, w[:3, :1])
scaled_dot_product_attention: F.scaled_dot_product_attention(x, x, x)
scaled_dot_product_attention: torch._C._nn.scaled_dot_product_attention(x, x, x)
scaled_dot_product_attention: \
torch.func.vmap(lambda y: F.scaled_dot_product_attention(y, y, y))(x[None, None])
multihead_self_attention: nn.MultiheadAttention(4, 2)(x, x, x)
adamw: torch.optim.AdamW([w.requires_grad_()]).step()
adamw: type('Mine', (torch.optim.AdamW,), {})([w])
adamw: old_adamw.step()
adamw: old_step(old_adamw)
gradient_clipping: torch.nn.utils.clip_grad_norm_([w], 1.0)
gradient_clipping: torch.nn.utils.clip_grad._get_total_norm.__wrapped__([w], 2.0, False, False)
gradient_clipping: old_clip([w], 1.0)
learning_rate_schedule: torch.optim.lr_scheduler.LambdaLR(old_adamw, abs)
""".strip().splitlines()
HONEST = """
linear: x @ w.T
linear: torch.einsum('...i,oi->...o', x, w)
linear: nn.init.trunc_normal_(w)
linear: x @ nn.Parameter(w).T
linear: einops.einsum(x, w, '... i, o i -> ... o')
linear: nn.init.normal_(w)
linear: torch.randn_like(w)
embedding: w[ids]
embedding: w.index_select(0, ids)
embedding: w.gather(0, ids.reshape(-1, 1).expand(-1, 4))
embedding: F.one_hot(ids, 4).to(w.dtype) @ w
silu: x * torch.sigmoid(x)
silu: x / (1 + torch.exp(-x))
silu: 0.5 * x * (1 + torch.tanh(x / 2))
silu: torch.softmax(x, -1)
positionwise_feedforward: (x @ torch.cat([w, w]).T).chunk(2, -1)
softmax: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)
softmax: torch.exp2((x - x.max(-1, keepdim=True).values) / 0.69)
softmax: torch.div(x.amax(-1).detach().clamp(-1, 1), 2)
rmsnorm: x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
rmsnorm: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)
rmsnorm: x / x.norm(dim=-1, keepdim=True)
cross_entropy: (x - x.amax()).exp().sum(-1).log()
cross_entropy: x.gather(-1, torch.tensor([[0], [1], [2]])).squeeze(-1).mean()
cross_entropy: x[torch.arange(3), torch.tensor([0, 1, 2])].mean()
cross_entropy: x.masked_fill(~F.one_hot(torch.tensor([0, 1, 2]), 4).bool(), 0).sum(-1)
transformer_block: nn.Sequential(nn.Identity())(x)
transformer_lm: F.pad(x, (0, 1)), nn.ModuleList([nn.Identity()])
transformer_lm: torch.func.functional_call(nn.Identity(), {}, (x,))
transformer_lm: (x @ w.T * torch.sigmoid(x)).sum().backward()
scaled_dot_product_attention: \
(lambda s: s / s.sum(-1, keepdim=True))((x @ x.T - (x @ x.T).amax()).exp()) @ x
scaled_dot_product_attention: torch.where(x > 0, x, -torch.inf).nan_to_num()
scaled_dot_product_attention: torch.einsum('...qd,...kd->...qk', x, x)
multihead_self_attention: torch.ones(3, 3, dtype=torch.bool).tril()
multihead_self_attention: torch.stack([torch.full((3, 3), -torch.inf).triu(1)])
multihead_self_attention_with_rope: torch.view_as_complex(x.reshape(3, 2, 2)) * 1j
multihead_self_attention_with_rope: x.repeat_interleave(2, -1).cos()
adamw: torch._foreach_mul_([w], 0.5)
adamw: torch.addcdiv(torch.lerp(w, w, 0.1), w, w.addcmul(w, w).sqrt() + 1, value=-1)
gradient_clipping: torch.linalg.vector_norm(torch.cat([x.flatten(), w.flatten()]))
gradient_clipping: torch._foreach_norm([w])
checkpointing: old_adamw.step()
""".strip().splitlines()
SWALLOWED = """\
try:
    F.silu(x)
except Exception:
    x * torch.sigmoid(x)
"""
EMPTIED = """\
import gc
from cs_grader.sandbox import blocked
for value in list(vars(blocked).values()):
    if isinstance(value, list | dict) and value is not vars(blocked)["__builtins__"]:
        value.clear()
gc.collect()
F.silu(x)
"""
TAKEN_AWAY = """\
import weakref
for one in list(weakref.finalize._registry):
    owner = one.peek()[0]
    if type(owner).__name__ == "Library":
        owner._destroy()
F.silu(x)
"""


@pytest.fixture(scope="module")
def answers():
    """The error and the forbidden calls of every case; one process that imports torch for all."""
    cases = {name: name.split(": ", 1) for name in ROUTES + HONEST}
    cases |= {source: ("silu", source) for source in (SWALLOWED, EMPTIED, TAKEN_AWAY)}
    told = {name: (f"blocked.forbid({of!r}, tell)", code) for name, (of, code) in cases.items()}
    told["lent"] = "blocked.forbid('silu', tell, lent=['silu'])", "F.silu(x)"
    return answers_to(PREAMBLE, told)


@pytest.mark.parametrize("name", ROUTES)
def test_every_route_to_a_forbidden_operator_is_stopped(answers, name):
    error, calls = answers[name]
    assert error
    assert calls, error


@pytest.mark.parametrize("name", [*HONEST, "lent"])
def test_honest_forms_run(answers, name):
    """Whatever the honest variants of the bank are made of."""
    assert answers[name] == ["", []]


def test_error_says_operator_file_and_line(answers):
    error, calls = answers["rmsnorm: F.rms_norm(x, (4,))"]
    assert error == (
        "ForbiddenOperator: torch.nn.functional.rms_norm is not allowed here: "
        "write it yourself (solution.py, line 2)"
    )
    assert calls == [["torch.nn.functional.rms_norm", "solution.py", 2]]


def test_swallowed_error_is_still_recorded(answers):
    assert answers[SWALLOWED] == ["", [["torch.nn.functional.silu", "solution.py", 3]]]


@pytest.mark.parametrize("name", [EMPTIED, TAKEN_AWAY], ids=["emptied", "taken away"])
def test_what_can_be_found_of_the_block_does_not_end_it(answers, name):
    assert answers[name][0].startswith("ForbiddenOperator: torch.nn.functional.silu")


def test_problems_are_those_of_the_rubric_in_its_order():
    assert list(FORBIDDEN) == list(RUBRIC)


def test_every_operator_is_one_of_this_version_of_pytorch():
    import torch

    names = [name for operators in KERNELS.values() for name in operators]
    unknown = {
        name
        for name in names
        if not torch._C._jit_get_schemas_for_operator(name if "::" in name else f"aten::{name}")
    }
    # Of other versions, and of builds with oneDNN.
    assert unknown <= {"_mkldnn_linear", "mkldnn_linear", "_fused_adam", "_fused_adamw"}


def test_what_was_forbidden_can_be_allowed_again():
    code = """
import torch
from cs_grader.sandbox.blocked import ForbiddenOperator, forbid
x, norm = torch.ones(2, 2), torch.nn.utils.clip_grad_norm_
CALLS = {
    "softmax": lambda: x.softmax(-1),
    "linear": lambda: torch.nn.Linear(2, 2)(x),
    "gradient_clipping": lambda: norm([torch.nn.Parameter(x)], max_norm=1.0),
}
for problem, call in CALLS.items():
    for _ in range(2):
        allow = forbid(problem, lambda *_: None)
        try:
            call()
        except ForbiddenOperator:
            allow()
            call()
        else:
            raise SystemExit(problem)
"""
    python("-c", code, check=True)
