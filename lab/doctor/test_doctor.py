"""The bank in small: every change fits its program; a fault and a healthy run of each program."""

import pytest
from bank.patches import Patch

from lab.doctor import cases
from lab.doctor.cases import Case, load, run_case, write

CASES = load()
FIRST = {(c.program, c.is_ill): c for c in reversed(CASES) if c.half}


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_change_fits_its_program(number, tmp_path):
    file = write(CASES[number], tmp_path)
    compile(file.read_text(), file, "exec")


@pytest.mark.parametrize("case", FIRST.values(), ids=lambda c: f"{c.program}: {c.patch.title}")
def test_a_case_runs_and_has_a_report(case):
    pytest.importorskip("cs_basics.study.doctor", reason="the doctor is not there yet")
    seen = run_case(case)
    assert seen.num_updates > 30, seen.log
    assert not seen.ending


def test_processes_that_wait_for_each_other_end_at_the_limit(monkeypatch):
    monkeypatch.setattr(cases, "LIMIT_S", 10)
    monkeypatch.setattr(cases, "GRACE_S", 2)
    step = "    optimizer.step()\n"
    wait = step + "    if rank == 1 and step == 20:\n        dist.recv(torch.zeros(1), 0)\n"
    place = ["programs/ddp_gloo.py", step, wait]
    seen = run_case(Case("", Patch("healthy", "both wait", places=[place]), []))
    assert seen.num_updates > 20
    assert seen.findings == []
    assert "limit" in seen.ending
