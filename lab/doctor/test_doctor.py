"""The bank in small: every change fits its program; a fault and a healthy run of each program."""

import multiprocessing
import shutil

import pytest
from bank.patches import apply

from lab.doctor.cases import HERE, load, run_case

CASES = load()
FIRST = {(c.program, c.patch.kind == "healthy"): c for c in reversed(CASES) if c.half}


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.program}: {c.patch.title}")
def test_a_change_fits_its_program(case, tmp_path):
    shutil.copytree(HERE / "programs", tmp_path / "programs")
    apply(case.patch.places, tmp_path)
    compile((tmp_path / case.patch.places[0][0]).read_text(), case.program, "exec")


@pytest.mark.parametrize("case", FIRST.values(), ids=lambda c: f"{c.program}: {c.patch.title}")
def test_a_case_runs_and_has_a_report(case):
    pytest.importorskip("cs_basics.study.doctor", reason="the doctor is not there yet")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        seen = pool.apply(run_case, [case])
    assert len(seen.curves[0]) > 30, seen.log
    assert all(finding["cause"] != "no report" for finding in seen.findings)
