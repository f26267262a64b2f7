"""Every attack is seen for what it is, and costs what it should.

Here each that is one function is called once, and a few others each day are graded; `make zoo`
grades all, twice.
"""

import contextlib
import os
import re
import shutil
from pathlib import Path

import pytest
from attacks.asking import ISOLATIONS, call, connect, silu, words_of
from attacks.attack import load
from attacks.grading import complaints, graded, hand_in
from processes import until
from turns import todays

from cs_grader.sandbox.processes import descendants
from cs_grader.trusted import patience, watch

ATTACKS = load()
NUM_WORKERS = {"bubblewrap": 4, "process": 2}
CALLED = [which for which in ATTACKS if which.seen]
# Those that are graded within a few seconds, of each kind.
FAST_TITLES = """
exits-during-import asks-for-50-GB segmentation-fault writes-results
looks-for-the-answer-in-frames a-zip-with-names-that-lead-elsewhere
a-package-that-is-not-installed writes-into-every-descriptor SiLU-in-the-package
falls-back-where-it-is-caught is-right-where-nobody-looks two-candidates-take-turns
finds-what-another-process-has-left compiles-the-whole-graph
"""
FAST = [which for which in ATTACKS if which.title in FAST_TITLES.split()]


@pytest.fixture(scope="module", params=ISOLATIONS)
def connection(request, tmp_path_factory):
    made = connect(request.param, tmp_path_factory.mktemp("stage"), memory_bytes=2**30, idle_s=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patience, "DEFAULT_CPU_S", 2)
        patch.setattr(watch, "MORE_MEMORY", 0)
        assert words_of(silu(made)) == "returned (3,)"  # A worker's only test may be skipped.
        yield made
        made.patience = patience.Patience(2, 30)
    printed = made.close()
    assert "printed at import" in printed
    # The grader's own words are not the submission's.
    assert not re.search("BrokenPipeError|ConnectionResetError", printed)
    assert len(printed) < 300_000
    shutil.rmtree(made.stage.root)


def num_workers():
    """Processes in the sandbox: server and host, and bubblewrap's own."""
    workers = 0
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            workers += "worker.py" in Path(f"/proc/{pid}/cmdline").read_text()
    return workers


@pytest.mark.parametrize("which", CALLED, ids=lambda which: which.title)
def test_attack_is_seen_for_what_it_is_and_the_next_probe_runs(connection, which):
    if which.needs_sandbox and connection.isolation == "process":
        pytest.skip("a plain process does not withstand it")
    connection.patience = patience.Patience(2, 30)
    words = words_of(call(connection, which.module))
    assert re.match(which.seen, words, re.DOTALL), words
    assert len(words) < 4200
    assert "\x1b" not in words
    assert words_of(silu(connection)) == "returned (3,)"
    until(lambda: num_workers() == NUM_WORKERS[connection.isolation])
    assert len(connection.output.kept) <= 100_000


@pytest.mark.needs("bwrap")
@pytest.mark.slow
def test_some_of_the_fast_ones_are_graded_rightly(tmp_path):
    attacks = todays(FAST, 4)
    hand_in(attacks, tmp_path / "in")
    finished, found = graded(attacks, tmp_path / "in", tmp_path / "out")
    wrong = {which.title: complaints(which, found.get(which.title)) for which in attacks}
    wrong = {title: words for title, words in wrong.items() if words}
    told = "\n".join(f"{title}: {'; '.join(words)}" for title, words in wrong.items())
    assert not wrong, f"{told}\n{finished.stderr[-3000:]}"
    assert finished.returncode == 0, finished.stderr
