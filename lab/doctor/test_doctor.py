"""The bank in small: every change fits its program; a fault and a healthy run of each program."""

import multiprocessing

import pytest

from lab.doctor.cases import load, run_case, write

CASES = load()
FIRST = {(c.program, c.is_ill): c for c in reversed(CASES) if c.half}


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_change_fits_its_program(number, tmp_path):
    file = write(CASES[number], tmp_path)
    compile(file.read_text(), file, "exec")


@pytest.mark.parametrize("case", FIRST.values(), ids=lambda c: f"{c.program}: {c.patch.title}")
def test_a_case_runs_and_has_a_report(case):
    pytest.importorskip("cs_basics.study.doctor", reason="the doctor is not there yet")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        seen = pool.apply(run_case, [case])
    assert len(seen.curves[0]) > 30, seen.log
    assert all(finding["cause"] != "no report" for finding in seen.findings)
