"""Grade submissions that lie in folders, in this process and in hardly a sandbox."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from processes import ROOT

from cs_grader.trusted import batch
from cs_grader.trusted.batch import Graded
from cs_grader.trusted.examination import Terms
from cs_grader.trusted.isolation import choose_isolation
from cs_grader.trusted.submissions import Submission


def grade(
    folders: Mapping[str, Path], out: Path, problems: tuple[str, ...], secret: str = ""
) -> Sequence[Graded]:
    """Grade folders by the names of their submissions; return what became of each."""
    terms = Terms(
        tests=ROOT / "tests",
        isolation=choose_isolation("process"),
        secret=secret,
        problems=problems,
    )
    given = [Submission(name, folder, name) for name, folder in folders.items()]
    return batch.grade(given, lambda one: out / one.name, terms, jobs=2)
