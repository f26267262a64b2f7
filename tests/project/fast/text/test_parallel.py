"""Work shared out among processes: in order, a little ahead, errors included."""

import os

import pytest
from processes import ROOT, python

from cs_basics.fast.text.parallel import MIN_BYTES_PER_WORKER, default_num_workers, map_in_order


@pytest.mark.parametrize("num_workers", [1, 2])
def test_results_come_in_order_and_tasks_are_drawn_only_a_little_ahead(num_workers):
    drawn = []
    results = map_in_order(abs, (drawn.append(i) or -i for i in range(100)), num_workers)
    assert [next(results) for _ in range(10)] == list(range(10))
    assert len(drawn) <= 10 + 2 * num_workers + 1
    assert list(results) == list(range(10, 100))


def test_an_error_in_a_worker_reaches_the_caller():
    with pytest.raises(TypeError):
        list(map_in_order(abs, ["not a number"] * 3, 2))


UNGUARDED = """
import sys, types
from cs_basics.fast.text import parallel
parallel.sys = types.SimpleNamespace(platform="darwin")  # where workers import the script
print(list(parallel.map_in_order(abs, [-1, -2], 2)))
"""
GUARDED = UNGUARDED.replace("print", 'if __name__ == "__main__": print')


@pytest.mark.parametrize(
    ("program", "said"),
    [(UNGUARDED, 'below `if __name__ == "__main__":`'), (GUARDED, "[1, 2]")],
    ids=["without a main guard", "with one"],
)
def test_a_script_that_workers_import_needs_a_main_guard(tmp_path, program, said):
    (tmp_path / "script.py").write_text(program)
    done = python(tmp_path / "script.py", env={**os.environ, "PYTHONPATH": str(ROOT)})
    # Not always the last line: Python's resource tracker, a process of its own, may speak after it.
    assert said in done.stdout + done.stderr


def test_number_of_workers_follows_the_text_and_the_machine_unless_given(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    sizes = [1000, 2 * MIN_BYTES_PER_WORKER, 10**12]
    assert [default_num_workers(None, size) for size in sizes] == [1, 2, 3]
    assert default_num_workers(3, 1000) == 3
    with pytest.raises(ValueError, match="num_workers=0"):
        default_num_workers(0, 1000)
