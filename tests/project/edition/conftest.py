"""The student edition, made once for all processes of a test session, and filled in."""

import contextlib
import json
import shutil

import pytest
from editions import HERE, WRITERS, make_starter, plain_environment
from processes import python


@pytest.fixture(scope="session")
def edition(once):
    """The edition as it is handed out, but for the stored answers."""
    return once("edition", make_starter.build)


@pytest.fixture(scope="session")
def answers(once):
    """A folder with the stored answers to the whole examination."""

    def record(folder):
        folder.mkdir()
        make_starter.record_answers(folder / "stored_answers.npz")

    return once("answers", record)


@pytest.fixture(scope="session", params=["independent"])
def filled(request, edition, once):
    """The edition with what a student writes, and nothing else, in place."""

    def fill(folder):
        shutil.copytree(edition, folder)
        for module in make_starter.BLANK:
            written = WRITERS[request.param] / f"{module}.py"
            if written.exists():  # Who needs nothing of pretokenize.py leaves it as it was.
                shutil.copy(written, folder / "cs_basics")

    return once(f"filled-by-{request.param}", fill)


@pytest.fixture
def inside(tmp_path_factory):
    """Do jobs inside an edition (inside.py); return what came of each."""

    def do(edition, *jobs):
        program = (HERE / "inside.py", edition, tmp_path_factory.mktemp("jobs"))
        finished = python(*program, input=json.dumps(jobs), env=plain_environment())
        with contextlib.suppress(ValueError):
            return json.loads(finished.stdout)
        raise AssertionError(finished.stdout + finished.stderr)

    return do


@pytest.fixture
def sit(tmp_path):
    """Let an edition sit the examination; return the rows of the report by item."""

    def examine(folder, *arguments):
        report_file = tmp_path / "report.json"
        report_file.unlink(missing_ok=True)
        options = ["-p", "no:randomly", "-p", "no:xdist", "--quiet", "--exam-report", report_file]
        environment = plain_environment(folder)
        finished = python("-m", "pytest", *options, *arguments, cwd=folder, env=environment)
        assert report_file.exists(), finished.stdout + finished.stderr
        return {row["item"]: row for row in json.loads(report_file.read_text(encoding="utf-8"))}

    return examine
