"""Wrong formulas and wrong numbers that are copied from page to page."""

from lab.claims.claim import Claim, true_if
from lab.claims.program import numbers_from
from lab.claims.sources import BA, CIRCULATES, ZHANG

MATRIX_FORM = """import torch; X, g = torch.randn(3, 3), torch.tensor([1.0, 2.0, 3.0])
print(torch.allclose(X * g, torch.diag(g) @ X), torch.allclose(X * g, X @ torch.diag(g)))"""

WORKED_EXAMPLE = """x = (1, 2, 3, 4); rms = (sum(v * v for v in x) / len(x)) ** 0.5
print(round(rms, 4), [round(v / rms, 4) for v in x])"""

LENGTH = """import torch; x = torch.tensor([1.0, 2.0, 3.0, 4.0])
print(round(x.norm().item(), 4), round(x.square().mean().sqrt().item(), 4))"""

DEVIATION = """import torch; x = torch.tensor([1.0, 2.0, 3.0, 4.0])
print(round(x.std(correction=0).item(), 4), round(x.square().mean().sqrt().item(), 4))"""

UNBIASED = """import torch; x = torch.tensor([1.0, 2.0, 3.0, 4.0])
y = torch.nn.LayerNorm(4, eps=0)(x)
print(torch.allclose(y, (x - x.mean()) / x.std()), torch.allclose(y, (x - 2.5) / 1.25**0.5))"""

KEEPDIM = """import torch; X = torch.tensor([[1.0, 1.0], [9.0, 9.0]])
rms = X.square().mean(-1).sqrt()
print((X / rms).tolist(), (X / rms[:, None]).tolist())"""

AUTHORS = """rms_norm, t5, llama = "1910.07467", "1910.10683", "2302.13971"  # arXiv ids: by date
print(t5 < rms_norm, rms_norm < t5 < llama)"""

CLAIMS = [
    Claim(
        name="matrix-form",
        says="With samples as rows, the gain is the product diag(g) X.",
        source=CIRCULATES,
        correct="It is X diag(g): the gain scales columns. diag(g) X scales the rows, that is, the "
        "samples.",
        shows="whether each product is X * g",
        program=MATRIX_FORM,
        measure=numbers_from(MATRIX_FORM, "diag(g) X", "X diag(g)"),
        verdict=lambda v: true_if(v["diag(g) X"].mean == 1),
        is_exact=True,
    ),
    Claim(
        name="worked-example",
        says="For x = [1, 2, 3, 4] the RMS is 2.5, 5.477 or 1.118 (numbers that are found).",
        source=CIRCULATES,
        correct="The squares are 1, 4, 9, 16, their mean is 7.5, the RMS is sqrt(7.5) = 2.7386. "
        "2.5 is the mean, 5.477 the length, 1.118 the standard deviation.",
        shows="RMS, and x / RMS",
        program=WORKED_EXAMPLE,
        measure=numbers_from(WORKED_EXAMPLE, "RMS", "x1", "x2", "x3", "x4"),
        verdict=lambda v: true_if(v["RMS"].mean in (2.5, 5.4772, 1.118)),
        is_exact=True,
    ),
    Claim(
        name="not-the-length",
        says="RMSNorm divides by the length of x (its L2 norm).",
        source=CIRCULATES,
        correct="By the length / sqrt(d): otherwise the output would shrink as d grows.",
        shows="length and RMS of [1, 2, 3, 4]",
        program=LENGTH,
        measure=numbers_from(LENGTH, "length", "RMS"),
        verdict=lambda v: true_if(v["length"].mean == v["RMS"].mean),
        is_exact=True,
    ),
    Claim(
        name="not-the-deviation",
        says="RMSNorm divides by the standard deviation.",
        source=CIRCULATES,
        correct="By the root mean square, which is larger wherever the mean is not 0.",
        shows="standard deviation and RMS of [1, 2, 3, 4]",
        program=DEVIATION,
        measure=numbers_from(DEVIATION, "standard deviation", "RMS"),
        verdict=lambda v: true_if(v["standard deviation"].mean == v["RMS"].mean),
        is_exact=True,
    ),
    Claim(
        name="unbiased-variance",
        says="LayerNorm is (x - x.mean()) / x.std() in PyTorch.",
        source=CIRCULATES,
        correct="Tensor.std divides by d - 1, LayerNorm by d: x.std(correction=0).",
        shows="whether each form is torch.nn.LayerNorm for [1, 2, 3, 4], eps = 0",
        program=UNBIASED,
        measure=numbers_from(UNBIASED, "x.std()", "x.std(correction=0)"),
        verdict=lambda v: true_if(v["x.std()"].mean == 1),
        is_exact=True,
    ),
    Claim(
        name="keepdim",
        says="x / x.square().mean(-1).sqrt() is RMSNorm.",
        source=CIRCULATES,
        correct="Without keepdim=True the RMS of vector i divides coordinate i of every vector; "
        "with as many vectors as coordinates nothing fails.",
        shows="[[1, 1], [9, 9]] normalised by it, then rightly",
        program=KEEPDIM,
        measure=numbers_from(
            KEEPDIM,
            *(f"{form} {i}" for form in ("without", "with") for i in ("11", "12", "21", "22")),
        ),
        verdict=lambda v: true_if(
            all(v[f"without {i}"].mean == v[f"with {i}"].mean for i in ("11", "12", "21", "22"))
        ),
        is_exact=True,
    ),
    Claim(
        name="authors",
        says="RMSNorm was proposed by the authors of T5 (or of Llama).",
        source=CIRCULATES,
        correct=f"By {ZHANG}. LayerNorm: {BA}. T5 (1910.10683) and Llama (2302.13971) use it.",
        shows="whether T5's paper is older than RMSNorm's, and whether RMSNorm, T5, Llama is the "
        "order",
        program=AUTHORS,
        measure=numbers_from(AUTHORS, "T5 before RMSNorm", "RMSNorm, T5, Llama"),
        verdict=lambda v: true_if(v["T5 before RMSNorm"].mean == 1),
        is_exact=True,
    ),
]
