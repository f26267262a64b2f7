"""An entry behind the real wall: what its code looks for is nowhere."""

import dataclasses
import subprocess
import tempfile

import pytest
from cheats import plant_code
from tiny import ROOT, Workshop, write

from cs_grader.entries import wall

LOOK = """
    for place in (Path({valid!r}), *Path("/").glob("tmp/**/valid.txt")):
        if place.is_file() and place != config.data.valid_text:
            return place, place
    if config.data.train_text is not None"""


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_behind_the_wall_the_validation_text_is_nowhere(succeeds, tmp_path):
    """Code that trains on it if it finds it leads to the figure of honest code."""
    shop = Workshop(tmp_path, subprocess.Popen)
    entry = shop.make("honest")
    look = LOOK.format(valid=str(shop.paths["valid"]))
    plant_code(entry, "run/corpus.py", "\n    if config.data.train_text is not None", look)
    texts = [f"--{role}-text={path}" for role, path in shop.paths.items()]
    result = succeeds("instructor/verify", entry, *texts, "--leaderboard", tmp_path / "board.md")
    claimed = shop.examine(entry).entry.bits_per_byte
    assert f"ok          re-run            {claimed:.4f} when run again" in result.out


def test_memory_behind_the_wall_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(wall, "LIMITS", dataclasses.replace(wall.LIMITS, memory_bytes=2**28))
    code = tmp_path / "code"
    code.mkdir()
    stage = tmp_path / "stage"
    stage.mkdir()
    stage = wall.build_stage(stage, ROOT, code)
    write(stage.root / "hoard.py", "print(len(bytearray(2**29)))")
    with (
        tempfile.TemporaryFile() as output,
        wall.running("process", stage, "hoard.py", [], output, threads=1) as process,
    ):
        assert process.wait(60) != 0
        assert wall.last_line(output) == "MemoryError"
