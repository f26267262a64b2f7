"""The norms benchmark: like is compared with like, and goals follow the times."""

import importlib
import json
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[3]
CPU = torch.device("cpu")


@pytest.fixture
def benchmarks(monkeypatch):
    """Import a module of scripts/maintain/benchmarks by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "maintain"))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


def results(contender, inputs, gradients):
    outputs = contender.function(*inputs)
    outputs = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
    given = torch.autograd.grad(outputs, [*inputs, contender.parameters[0]], gradients)
    return [*outputs, *given]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_contenders_compute_the_same(benchmarks, dtype):
    names = benchmarks("norm_contenders")
    x, gradient = (torch.randn(5, 64).to(dtype) for _ in range(2))
    found = {
        contender.name: results(contender, [x.clone().requires_grad_()], [gradient])
        for contender in names.norm_contenders(64, dtype, CPU, can_compile=False)
    }
    rms_norms = [found[name] for name in (names.OURS, names.FUSED, names.TORCH, names.LLAMA)]
    rms_norms += [found[names.LLAMA_PEER]] if names.LLAMA_PEER in found else []
    layer_norms = [found[names.LAYERNORM], found[names.TORCH_LAYERNORM]]
    tolerance = {"rtol": 1e-5, "atol": 1e-5}
    if dtype == torch.bfloat16:
        tolerance = {"rtol": 0.02, "atol": 0.05}
    for same in (rms_norms, layer_norms):
        for other in same[1:]:
            for a, b in zip(same[0], other, strict=True):
                torch.testing.assert_close(a, b, **tolerance)
    assert not torch.allclose(rms_norms[0][0], layer_norms[0][0], rtol=0.02)


def test_adding_and_normalising_gives_the_same_in_one_step_and_in_two(benchmarks):
    contenders = benchmarks("norm_contenders").add_norm_contenders(
        64, torch.float32, CPU, can_compile=False
    )
    tensors = [torch.randn(5, 64) for _ in range(4)]
    expected, *others = (
        results(contender, [t.clone().requires_grad_() for t in tensors[:2]], tensors[2:])
        for contender in contenders
    )
    assert len(others) == 1
    for other in others:
        for a, b in zip(expected, other, strict=True):
            torch.testing.assert_close(a, b)


def make_point(benchmarks, **changes):
    points = benchmarks("norm_points")
    fields = {
        "operation": points.NORM, "direction": points.FORWARD, "dtype": "float32",
        "num_rows": 4096, "d_model": 512, "contender": "RMSNorm, compiled",
        "elapsed_s": 2e-3, "copy_s": 1e-3, "tensor_bytes": 4096 * 512 * 4, "fits_cache": True,
    }  # fmt: skip
    return points.Point(**fields | changes)


def test_a_norm_as_fast_as_the_copy_has_a_share_of_one(benchmarks):
    assert make_point(benchmarks, elapsed_s=1e-3).share == pytest.approx(1)
    assert make_point(benchmarks, elapsed_s=2e-3).share == pytest.approx(0.5)
    points = benchmarks("norm_points")
    # Five passes in the time of five passes of the copy, which makes two.
    both = make_point(benchmarks, direction=points.BOTH, elapsed_s=2.5e-3)
    assert both.share == pytest.approx(1)
    fused = make_point(benchmarks, operation=points.ADD_NORM, elapsed_s=2e-3)
    assert fused.share == pytest.approx(1)


def test_the_copy_rate_counts_reading_and_writing(benchmarks):
    point = make_point(benchmarks, copy_s=1.0, tensor_bytes=3_000_000_000)
    assert point.copy_rate == pytest.approx(6)


@pytest.mark.parametrize(("elapsed_s", "met"), [(1.04e-3, True), (1.06e-3, False)])
def test_goals_follow_the_times(benchmarks, elapsed_s, met):
    norms, names = benchmarks("norms"), benchmarks("norm_contenders")
    both = benchmarks("norm_points").BOTH
    points = [
        make_point(benchmarks, direction=both, elapsed_s=elapsed_s),
        make_point(benchmarks, direction=both, contender=names.TORCH_COMPILED, elapsed_s=1e-3),
    ]
    (row,) = norms.goals(points, CPU)
    assert (row.met, row.goal) == (met, "at most 1.05 x")
    assert row.ratio == pytest.approx(elapsed_s / 1e-3)
    (elsewhere,) = norms.goals(points, torch.device("cuda"))
    assert (elsewhere.met, elsewhere.goal) == (None, None)


def test_the_subject_measures_draws_and_prints(benchmarks, script, monkeypatch, tmp_path):
    norms = benchmarks("norms")
    for name, value in (
        ("NUM_ROWS", (4, 1)),
        ("WIDTHS", (8, 16)),
        ("WIDTH_OF_ALL_ROWS", 16),
        ("GOAL_WIDTHS", (16,)),
        ("reason_not_to_compile", lambda _: "no compiler in this test"),
    ):
        monkeypatch.setattr(norms, name, value)
    monkeypatch.setattr(benchmarks("norm_points"), "BUDGET_S", 0.0)
    picture = tmp_path / "norms.png"
    result = script("maintain/bench", "norms", "--json", "--plot", picture)
    assert result.code == 0, result.err
    assert "left out: no compiler in this test" in result.err
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = json.loads(result.out)
    sizes = {(p["dtype"], p["num_rows"], p["d_model"]) for p in found["points"]}
    both = {(dtype, 4, width) for dtype in ("float32", "bfloat16") for width in (8, 16)}
    assert sizes == both | {("float32", 1, 16)}
    assert all(p["elapsed_s"] > 0 and p["share"] > 0 for p in found["points"])
    names = [row["name"] for row in found["rows"]]
    assert "norm, forward, float32, 4 x 16: RMSNorm (peer: LayerNorm)" in names

    text = script("maintain/bench", "norms").out
    assert "add + norm, forward + backward, bfloat16: milliseconds" in text
    assert "rows x d_model" in text


BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def test_tables_are_written_between_their_marks(benchmarks, tmp_path):
    points, writing = benchmarks("norm_points"), benchmarks("norm_document")
    names = benchmarks("norm_contenders")

    def point(contender, elapsed_s, operation=points.NORM, direction=points.BOTH):
        sizes = ("float32", 4096, 512, contender, elapsed_s, 1e-3, 4 * 4096 * 512, True)
        return points.Point(operation, direction, *sizes)

    measured = [
        point(names.OURS_COMPILED, 3e-3),
        point(names.TORCH_COMPILED, 4e-3),
        point(names.TORCH, 5e-3, direction=points.FORWARD),
    ]
    document = tmp_path / "norms.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    writing.write_tables(measured, document)
    text = document.read_text()
    assert text.startswith(f"before\n{BEGIN}\nMeasured on ")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    # Five passes in 3 ms, where a copy makes two in 1 ms.
    assert "| RMSNorm, compiled | - | - | - | 3 (83%) | - | - |" in text
    assert "| torch.nn.RMSNorm | 5 (20%) | - | - | - | - | - |" in text
    assert "| RMSNorm / torch.nn.RMSNorm | 0.75 | - | - | - | - | - |" in text
    document.write_text("no mark")
    with pytest.raises(ValueError, match="each once"):
        writing.write_tables(measured, document)
    assert document.read_text() == "no mark"


def test_a_document_is_for_norms_and_has_to_be_there(script, tmp_path):
    finished = script("maintain/bench", "tokenizer", "--document", tmp_path / "a.md")
    assert finished.code == 2
    assert "--document: tokenizer has no tables in a document" in finished.err
    finished = script("maintain/bench", "norms", "--document", tmp_path / "a.md")
    assert finished.code == 2
    assert "a.md is not a file" in finished.err
