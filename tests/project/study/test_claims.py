"""The ledger: every row can come out otherwise, and other seeds give the verdicts of the page."""

import importlib
import re
from pathlib import Path

import pytest
import torch

from cs_basics.norms import LayerNorm, RMSNorm
from cs_basics.run.document import to_html, to_markdown
from cs_basics.study.claims import document, ledger
from cs_basics.study.claims.claim import FALSE, NOT_SEEN, TRUE
from cs_basics.study.claims.counting import kept_bytes, traffic
from cs_basics.study.claims.interval import interval_of
from cs_basics.study.claims.ledger import TOPICS, choose_entries, find_entries
from cs_basics.study.claims.program import numbers_from
from cs_basics.study.claims.row import Row, read_row
from cs_basics.study.claims.trainings import BASE, Trainings

ROOT = Path(__file__).parents[3]
ENTRIES = {entry.name: entry for entry in find_entries()}
EXACT = [
    name
    for name, entry in ENTRIES.items()
    if entry.claim.cost == "quick" and not entry.claim.is_timing and not entry.claim.needs
]
"""Rows that take no compiler and no quiet machine."""


def module(name):
    return importlib.import_module(f"cs_basics.study.claims.{name}")


def verdict_with(claim, *seeds, trainings=None):
    row = Row(claim=claim.name, code="")
    for seed in seeds[:1] if claim.is_exact else seeds:
        row = row.with_values(seed, ledger.measure(claim, seed, trainings), 0.1, "today", "here")
    return claim.verdict(row.intervals())


def on_the_page():
    """Return the verdicts of docs/claims.md by name."""
    lines = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8").splitlines()
    rows = [re.match(r'\| <a id="([\w-]+)"></a>', line) for line in lines]
    cells = [re.split(r"(?<!\\)\|", line) for line in lines]
    return {row[1]: cell[2].strip() for row, cell in zip(rows, cells, strict=True) if row}


def test_there_are_claims_of_every_topic_with_files_of_their_own():
    assert {entry.topic for entry in ENTRIES.values()} == set(TOPICS)
    assert len(ENTRIES) >= 60
    for name, entry in ENTRIES.items():
        assert re.fullmatch(r"[a-z0-9-]+", name), name
        assert entry.claim.says.endswith("."), name
        assert entry.claim.source, name
        if entry.topic == "errors":
            assert entry.claim.correct, name
            assert 2 <= len(entry.claim.program.splitlines()) <= 6, name


@pytest.mark.parametrize("name", EXACT)
def test_one_other_seed_gives_the_verdict_of_the_page(name):
    assert verdict_with(ENTRIES[name].claim, 7) == on_the_page()[name]


@pytest.mark.slow
@pytest.mark.compile
@pytest.mark.needs("g++")
def test_the_compiler_makes_the_kernels_of_the_page():
    entry = ENTRIES["one-kernel"]
    assert verdict_with(entry.claim, 0) == on_the_page()[entry.name]


class Unnormalised(RMSNorm):
    def forward(self, x):
        return x * self.weight


def batch_norm_everywhere():
    batch_norm = module("neighbours.batch_norm").BatchNorm
    return {name: batch_norm(16) for name in ("BatchNorm", "LayerNorm", "RMSNorm")}


CALLS = "norm_calls"
ATTACKS = [
    ("rmsnorm-shift", "forgets.scale_and_shift", "KINDS", {"rmsnorm": LayerNorm}, FALSE),
    ("gradient-orthogonal", "forgets.gradients", "RMSNorm", Unnormalised, FALSE),
    ("sphere", "forgets.relation", "RMSNorm", Unnormalised, FALSE),
    ("cast-and-gain", "rounding.order", "LlamaRMSNorm", RMSNorm, TRUE),
    ("batchnorm-couples", "neighbours.batch_norm", "norms", batch_norm_everywhere, FALSE),
    ("qk-norm-bounds", "neighbours.queries_and_keys", "RMSNorm", Unnormalised, FALSE),
    ("weights-grow", "depth.weights", "RMSNorm", Unnormalised, FALSE),
    ("pruning-couples", "neighbours.pruning", "RMSNorm", Unnormalised, FALSE),
    ("derived-backward-memory", CALLS, "FusedRMSNorm", RMSNorm, FALSE),
    ("one-statistic", CALLS, "RMSNorm", LayerNorm, FALSE),
]


@pytest.mark.parametrize(("name", "where", "what", "other", "verdict"), ATTACKS)
def test_a_verdict_follows_what_is_measured(monkeypatch, name, where, what, other, verdict):
    claim = ENTRIES[name].claim
    assert verdict_with(claim, 0, 1) != verdict
    monkeypatch.setattr(module(where), what, other)
    assert verdict_with(claim, 0, 1) == verdict


def test_eps_in_the_same_place_twice_makes_no_difference(monkeypatch):
    epsilon = module("rounding.epsilon")
    monkeypatch.setitem(epsilon.FORMS, "outside", epsilon.inside)
    assert verdict_with(ENTRIES["eps-place-values"].claim, 0) == NOT_SEEN
    assert verdict_with(ENTRIES["eps-place-at-zero"].claim, 0) == TRUE


def test_a_program_that_copies_is_no_error():
    claim = ENTRIES["float-aliasing"].claim
    copying = claim.program.replace("x.float()", "x.float().clone()")
    values = numbers_from(copying, "float32 x", "bfloat16 y")(0)
    row = Row(claim=claim.name, code="").with_values(0, values, 0, "", "")
    assert claim.verdict(row.intervals()) == TRUE


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    tiny = {"d_model": 32, "d_ff": 64, "num_layers": 2, "context_length": 16, "batch_size": 2}
    base = BASE.replace(**tiny, max_steps=4, warmup_steps=1, corpus_megabytes=0.1, eval_tokens=500)
    return Trainings(tmp_path_factory.mktemp("trainings"), base)


@pytest.mark.parametrize("name", ["mean-share", "logits-drift", "int8-per-tensor", "gains-move"])
def test_trained_models_are_looked_into(trainings, name):
    claim = ENTRIES[name].claim
    values = ledger.measure(claim, 0, trainings)
    assert all(value == value for value in values.values())
    assert set(claim.shown) <= set(values)
    assert verdict_with(claim, 0, trainings=trainings)


def test_a_training_is_made_once_and_not_for_other_settings(trainings):
    first = trainings.trained({"lr": 1e-3}, 5)
    made = len(trainings.seconds)
    assert trainings.trained({"lr": 1e-3}, 5).result == first.result
    assert len(trainings.seconds) == made
    other = Trainings(trainings.folder, trainings.base.replace(max_steps=5))
    with pytest.raises(ValueError, match="had other settings"):
        other.trained({"lr": 1e-3}, 5)


def test_the_interval_is_that_of_students_t():
    found = interval_of([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert (found.is_above(-0.5), found.is_above(0.0), found.is_below(4.0)) == (True, False, False)
    assert str(found) == "2 ± 2.5"
    assert str(interval_of([8.0])) == "8"


def test_a_row_is_kept_and_forgotten_when_its_file_changes(tmp_path):
    row = Row(claim="a", code="1").with_values(0, {"x": 1.0}, 0.5, "today", "here")
    row.write(tmp_path)
    assert read_row(tmp_path, "a", "1") == row
    assert read_row(tmp_path, "a", "2") == Row(claim="a", code="2")
    (tmp_path / "a.json").write_text('{"claim": "a"}')
    with pytest.raises(ValueError, match=r"a\.json is damaged: delete it"):
        read_row(tmp_path, "a", "1")


def test_a_rate_that_is_too_low_is_no_divergence():
    measured = {
        "pre-norm": (1.617, 1.258, 1.181, 1.385),
        "no norm": (1.562, 1.201, 1.16, 8.0),
    }
    values = {
        f"{kind}, {lr:g}": interval_of([loss])
        for kind, losses in measured.items()
        for lr, loss in zip((1e-3, 3e-3, 1e-2, 3e-2), losses, strict=True)
    }
    judge = ENTRIES["no-norm"].claim.verdict
    assert judge(values) == "true where lr > 0.01 (with norms: 0.03)"
    sound = {name: interval_of([1.2]) for name in values}
    assert judge(sound) == NOT_SEEN
    broken = {name: interval_of([8.0 if name[0] == "n" else 1.2]) for name in values}
    assert judge(broken) == TRUE


def test_names_choose_claims_files_and_folders():
    entries = list(ENTRIES.values())
    assert [e.name for e in choose_entries(entries, ("keepdim",))] == ["keepdim"]
    assert {e.topic for e in choose_entries(entries, ("depth",))} == {"depth"}
    assert {e.path.stem for e in choose_entries(entries, ("epsilon",))} == {"epsilon"}
    with pytest.raises(ValueError, match="did you mean eps-place-values"):
        choose_entries(entries, ("eps-place-v",))


def test_what_is_not_here_is_said(monkeypatch):
    monkeypatch.setattr(ledger, "NEEDS", {"": lambda: True, "a GPU": lambda: False})
    row = Row(claim="", code="")
    assert ledger.verdict_of(ENTRIES["gpu-torch"], row) == "not measured: needs a GPU"
    assert ledger.verdict_of(ENTRIES["bleu"], row).startswith("not measured: needs WMT")
    assert ledger.verdict_of(ENTRIES["warmup"], row) == "not measured yet"


def test_what_was_not_judged_is_not_counted_as_true():
    row = Row(claim="mean-share", code="").with_values(0, {"a": 1.0}, 0.1, "2026-01-02", "here")
    results = [document.Result(e, row) for e in ENTRIES.values() if not e.claim.is_exact][:2]
    assert all(result.verdict.startswith("not judged") for result in results)
    assert document.counted(results) == ["2 claims", "2 not measured"]


def test_the_page_shows_values_programs_and_pictures():
    results = []
    for name in ("keepdim", "eps-place-gradients", "rmsnorm-scale", "bleu"):
        entry, row = ENTRIES[name], Row(claim=name, code="")
        if name != "bleu":
            row = row.with_values(0, entry.claim.measure(0), 0.1, "2026-01-02", "a machine")
        results.append(document.Result(entry, row))
    blocks = document.blocks(results)
    markdown, page = to_markdown("t", blocks), to_html("t", blocks)
    for text in (markdown, page):
        assert "4 claims" in text
        assert "eps inside, RMS 1e-08: 316.2" in text
        assert "not measured: needs WMT" in text
        assert "2026-01-02, A, 1 seed" in text
    assert f"```\n{ENTRIES['keepdim'].claim.program}\n# -> [[1.0, " in markdown
    assert "](pictures/claims/eps-place-gradients.png)" in markdown
    assert '<a id="rmsnorm-scale"></a>RMSNorm is invariant' in markdown
    assert '<tr id="rmsnorm-scale"><td>RMSNorm is invariant' in page
    assert page.count("data:image/png;base64,") == 2  # All verdicts, and one claim's.


def test_links_of_the_explanation_lead_to_rows():
    text = (ROOT / "docs" / "norms.md").read_text(encoding="utf-8")
    names = re.findall(r"claims\.md#([\w-]+)", text)
    assert names
    headings = {heading.lower().replace(" ", "-") for heading in TOPICS.values()}
    assert set(names) <= set(on_the_page()) | headings


def test_traffic_counts_each_operation_and_what_it_reads_and_writes():
    x, row = torch.ones(8, 16), torch.ones(8, 1)
    counted = traffic(lambda: (x * 2).sum(dim=-1), x.numel())
    assert (counted.num_operations, counted.num_bytes) == (2, 3 * x.nbytes + 8 * 4)
    assert (counted.num_whole, counted.num_reductions) == (2, 1)
    assert traffic(lambda: x.view(4, 32).T).num_operations == 0
    # A repeated axis is read from the cache: 8 numbers, not 128.
    repeated = traffic(lambda: row.expand(8, 16) + x)
    assert repeated.num_bytes == 2 * x.nbytes + row.nbytes


def test_what_is_kept_for_the_backward_counts_once_and_parameters_do_not():
    x = torch.ones(8, 16, requires_grad=True)
    weight = torch.nn.Parameter(torch.ones(16))
    assert kept_bytes(lambda: x * x, []) == x.nbytes
    assert kept_bytes(lambda: x * weight, [weight]) == x.nbytes
    assert kept_bytes(lambda: x.exp().exp(), []) == 2 * x.nbytes
