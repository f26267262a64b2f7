"""The folders that a sandbox is made of, with all that may be seen in it."""

import dataclasses
import shutil
from pathlib import Path

from cs_grader import inside


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The folders that a sandbox is made of; all but `scratch` are only read."""

    root: Path

    @property
    def submission(self) -> Path:
        """The clean copy of what was handed in."""
        return self.root / "submission"

    @property
    def examination(self) -> Path:
        """Probes, and what imports the adapters; no oracle, no rubric."""
        return self.root / "examination"

    @property
    def scratch(self) -> Path:
        """Temporary files, where the sandbox has no memory of its own for them."""
        return self.root / "scratch"


def set_the_stage(root: Path, tests: Path) -> Stage:
    """Copy into a new folder what the sandbox needs besides the submission.

    Args:
        root: An empty folder.
        tests: The folder of the examination.
    """
    stage = Stage(root=root)
    root.chmod(0o755)
    copy_inside(root)
    (stage.examination / "probes").mkdir(parents=True)
    shutil.copyfile(tests / "submission.py", stage.examination / "submission.py")
    for probe in sorted((tests / "probes").glob("*.py")):
        shutil.copyfile(probe, stage.examination / "probes" / probe.name)
    stage.scratch.mkdir()
    return stage


def copy_inside(root: Path) -> None:
    """Copy the package cs_grader.inside, whole, and nothing else of the grader."""
    (root / "cs_grader").mkdir()
    (root / "cs_grader" / "__init__.py").touch()
    source = Path(inside.__file__).parent
    shutil.copytree(
        source, root / "cs_grader" / "inside", ignore=shutil.ignore_patterns("__pycache__")
    )
