"""Wrong code that is copied from page to page, and what is wrongly said of models."""

from lab.claims.claim import Claim, true_if
from lab.claims.program import numbers_from
from lab.claims.sources import CIRCULATES

ALIASING = """import torch; x, y = torch.ones(1), torch.ones(1, dtype=torch.bfloat16)
x.float().add_(1), y.float().add_(1); print(x.item(), y.item())"""

IN_PLACE = """import torch; torch.manual_seed(0)
for dtype in (torch.float32, torch.bfloat16):
    x, residual = torch.randn(999, 64, dtype=dtype), 5 * torch.randn(999, 64, dtype=dtype)
    total = x.float().add_(residual.float()); residual = total.to(dtype)
    total.mul_(torch.rsqrt(total.square().mean(-1, keepdim=True)))
    print(round(residual.square().mean().sqrt().item(), 1))"""

BATCH_FIRST = """import torch; x = torch.randn(4, 10, 8); y = x.clone(); y[1] += 1  # another sample
for first in (False, True):
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=first)
    print((layer(x, x, x)[0] - layer(y, y, y)[0])[0].abs().max().item() > 1e-6)"""

ENCODER = """import torch; x = torch.randn(4, 10, 8); y = x.clone(); y[1] += 1  # another sample
for first in (False, True):
    layer = torch.nn.TransformerEncoderLayer(8, 2, dropout=0.0, batch_first=first)
    print((layer(x) - layer(y))[0].abs().max().item() > 1e-6)"""

GEMMA = """import inspect, transformers as t, transformers.models.gemma2.modeling_gemma2 as two
import transformers.models.gemma3.modeling_gemma3 as three
print(*("q_norm" in inspect.getsource(c) for c in (two.Gemma2Attention, three.Gemma3Attention)),
      *(c().attn_logit_softcapping is not None for c in (t.Gemma2Config, t.Gemma3TextConfig)))"""

TORCH_EPS = """import torch; norms = [torch.nn.RMSNorm(4, eps) for eps in (None, 1e-5)]
x = torch.full((4,), 1e-3)
print(torch.nn.RMSNorm(4).eps is None, *(round(norm(x)[0].item(), 3) for norm in norms))"""

FLOAT16_EPS = """import torch; eps = torch.tensor(1e-8, dtype=torch.float16)
print(eps.item(), torch.rsqrt(torch.zeros((), dtype=torch.float16) + eps).item())"""

CLAIMS = [
    Claim(
        name="float-aliasing",
        says="x.float() is a copy, so the norm may work in place on it.",
        source="circulates with inference engines: x = x.float(); x.mul_(...)",
        correct="Of a float32 tensor, x.float() is x itself: the residual stream is overwritten. "
        "Only narrower inputs are copied.",
        shows="x (float32) and y (bfloat16), both 1, after .float().add_(1)",
        program=ALIASING,
        measure=numbers_from(ALIASING, "float32 x", "bfloat16 y"),
        verdict=lambda v: true_if(v["float32 x"].mean == 1),
        is_exact=True,
    ),
    Claim(
        name="in-place-stream",
        says="The engines' add + norm in place works in every dtype.",
        source="circulates with inference engines",
        correct="In float32 the sum, the new residual stream and the normalised result are one "
        "tensor (float and to return what they are given): the stream comes out normalised, and no "
        "error is raised. The conversion has to copy (lab/norms/add_rms_norm.py).",
        shows="RMS of the new residual stream, which should be about 5",
        program=IN_PLACE,
        measure=numbers_from(IN_PLACE, "float32", "bfloat16"),
        verdict=lambda v: true_if(abs(v["float32"].mean - v["bfloat16"].mean) < 0.5),
        is_exact=True,
    ),
    *(
        Claim(
            name=name,
            says=f"{layer} takes (batch, sequence, features).",
            source="circulates in examples that forget batch_first=True",
            correct="Its default is (sequence, batch, features): with batch-first data it attends "
            "across the samples of the batch, and nothing fails.",
            shows="whether the first sample's output changes with the second sample",
            program=program,
            measure=numbers_from(program, "default", "batch_first=True"),
            verdict=lambda v: true_if(v["default"].mean == 0),
            is_exact=True,
        )
        for name, layer, program in (
            ("batch-first-attention", "torch.nn.MultiheadAttention", BATCH_FIRST),
            ("batch-first-encoder", "torch.nn.TransformerEncoderLayer", ENCODER),
        )
    ),
    Claim(
        name="gemma-qk-norm",
        says="Gemma 2 introduced QK-norm.",
        source=CIRCULATES,
        correct="Gemma 2 caps its logits (soft-capping); Gemma 3 put QK-norm in its place. QK-norm "
        "is older than both (Henry et al. 2020, arXiv:2010.04245).",
        shows="QK-norm and soft-capping in transformers' Gemma 2 and Gemma 3",
        program=GEMMA,
        measure=numbers_from(
            GEMMA, "Gemma 2: QK-norm", "Gemma 3: QK-norm", "Gemma 2: cap", "Gemma 3: cap"
        ),
        verdict=lambda v: true_if(v["Gemma 2: QK-norm"].mean == 1),
        is_exact=True,
        needs="transformers",
    ),
    Claim(
        name="torch-eps",
        says="torch.nn.RMSNorm has eps = 1e-5, as LayerNorm has.",
        source=CIRCULATES,
        correct="Its default is None, which means the machine epsilon of the dtype: 1.2e-7 in "
        "float32. Llama's weights want their own eps given.",
        shows="whether it is None; output for x = 0.001 by default and with 1e-5",
        program=TORCH_EPS,
        measure=numbers_from(TORCH_EPS, "is None", "by default", "with 1e-5"),
        verdict=lambda v: true_if(v["by default"].mean == v["with 1e-5"].mean),
        is_exact=True,
    ),
    Claim(
        name="float16-eps",
        says="eps = 1e-8 protects from division by zero in float16.",
        source=CIRCULATES,
        correct="The smallest float16 above 0 is 6e-8: 1e-8 becomes 0 unless the sum is formed in "
        "float32.",
        shows="eps in float16, and rsqrt(0 + eps)",
        program=FLOAT16_EPS,
        measure=numbers_from(FLOAT16_EPS, "eps", "rsqrt(0 + eps)"),
        verdict=lambda v: true_if(v["eps"].mean > 0),
        is_exact=True,
    ),
]
