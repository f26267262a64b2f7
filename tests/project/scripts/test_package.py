"""scripts/package.py: what is in the zip, what is left out, and what is refused."""

import importlib
import os
import sys
import zipfile
from pathlib import Path

import pytest
from files import write_files
from processes import ROOT

sys.path.append(str(ROOT / "scripts"))
package = importlib.import_module("package")

CODE = "x = 1\n"


@pytest.fixture
def root(tmp_path):
    """A repository as it looks after some weeks."""
    files = {
        "pyproject.toml": "[project]\n",
        "README.md": "mine\n",
        "cs_basics/__init__.py": "",
        "cs_basics/layers.py": CODE,
        "cs_basics/data/vocabulary.py": CODE,
        "cs_basics/__pycache__/layers.cpython-311.pyc": "x",
        "cs_basics/data/contractions.json": "[]\n",
        "src/fast/lib.rs": "fn main() {}\n",
        "story-writer.html": "<p>\n",
        "story-writer/config.json": "{}\n",
        "story-writer/merges.txt": "a b\n",
        "tests/adapters.py": "from .glue import y\nimport tests.more\nimport math\n",
        "tests/glue.py": "y = 1\n",
        "tests/more.py": CODE,
        "tests/test_rmsnorm.py": CODE,
        "tests/oracles/model.py": CODE,
        "data/text.txt": "story\n",
        "runs/stories/config.json": "{}\n",
        ".venv/pyvenv.cfg": "",
        ".venv/lib.py": CODE,
        "env/pyvenv.cfg": "",
        "env/lib.py": CODE,
        ".git/config": "",
        "weights.pt": "x",
        "cs_basics.egg-info/PKG-INFO": "",
    }
    return write_files(tmp_path / "repository", files)


def names(out):
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() is None
        return set(archive.namelist())


def test_the_zip_holds_the_code_and_nothing_else(root, tmp_path, capsys):
    out = tmp_path / "submission.zip"
    package.main(out, root)
    packed = {
        "pyproject.toml",
        "README.md",
        "cs_basics/__init__.py",
        "cs_basics/layers.py",
        "cs_basics/data/vocabulary.py",
        "cs_basics/data/contractions.json",
        "src/fast/lib.rs",
        "tests/adapters.py",
        "tests/glue.py",
        "tests/more.py",
    }
    assert names(out) == packed
    shown, left_out = capsys.readouterr().out.split("left out:")
    assert all(place in shown for place in packed)
    for place in (
        "data",
        "runs",
        "env",
        "weights.pt",
        "tests/oracles",
        "tests/test_rmsnorm.py",
        "story-writer.html",
    ):
        assert f" {place}," in left_out.replace("\n", ",\n")


def test_packages_beside_the_adapters_are_in_the_zip(root, tmp_path):
    files = {
        "tests/adapters.py": "import tests.helpers.glue\nfrom toolbox import z\n",
        "tests/helpers/__init__.py": CODE,
        "tests/helpers/glue.py": "from .deep import y\n",
        "tests/helpers/deep.py": CODE,
        "tests/helpers/unused.py": CODE,
        "tests/toolbox/__init__.py": "from .inner import z\n",
        "tests/toolbox/inner.py": CODE,
    }
    write_files(root, files)
    package.main(tmp_path / "out.zip", root)
    packed = {name for name in names(tmp_path / "out.zip") if name.startswith("tests/")}
    assert packed == files.keys() - {"tests/helpers/unused.py"}


def test_a_module_that_does_not_parse_is_packed_and_named(root, tmp_path, capsys):
    write_files(root, {"cs_basics/layers.py": "x = (\n"})
    package.main(tmp_path / "out.zip", root)
    assert "cs_basics/layers.py" in names(tmp_path / "out.zip")
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.endswith("is wrong: cs_basics/layers.py, line 1: '(' was never closed")


def test_the_next_zip_is_the_same_and_without_the_last_one(root):
    out, zips = root / "submission.zip", set()
    for _ in range(2):
        package.main(out, root)
        zips.add(out.read_bytes())
        os.utime(root / "README.md", (1, 1))
    assert len(zips) == 1
    assert out.name not in names(out)


def test_links_and_large_files_are_left_out(root, tmp_path, capsys):
    (root / "cs_basics" / "passwords.py").symlink_to("/etc/passwd")
    (root / "cs_basics" / "linked").symlink_to(tmp_path)
    (root / "cs_basics" / "table.bin").write_bytes(bytes(package.MAX_FILE_BYTES + 1))
    package.main(tmp_path / "out.zip", root)
    assert not {"cs_basics/passwords.py", "cs_basics/table.bin"} & names(tmp_path / "out.zip")
    left_out = capsys.readouterr().out.partition("left out:")[2]
    assert left_out.partition("a link: ")[2].partition("\n")[0].count(",") == 1
    assert "too large for code" in left_out


def make_link(path):
    path.rename(path.with_name("elsewhere.py"))
    path.symlink_to("elsewhere.py")


@pytest.mark.parametrize(
    ("name", "spoil", "finding"),
    [
        ("adapters", Path.unlink, "is missing"),
        ("adapters", lambda path: path.write_text("def ("), "line 1: "),
        ("glue", lambda path: path.write_text("y = (\n"), r"line 1: '\(' was never closed"),
        ("glue", make_link, "which .* cannot be packed: a link"),
    ],
)
def test_what_no_grader_could_run_is_refused(root, tmp_path, name, spoil, finding):
    spoil(root / "tests" / f"{name}.py")
    with pytest.raises((OSError, ValueError), match=rf"tests/{name}\.py,? {finding}"):
        package.main(tmp_path / "out.zip", root)
    assert not (tmp_path / "out.zip").exists()


def test_too_much_code_is_refused(root, tmp_path, monkeypatch):
    monkeypatch.setattr(package, "MAX_BYTES", 50)
    with pytest.raises(ValueError, match="are too much"):
        package.main(tmp_path / "out.zip", root)
    assert list(tmp_path.glob("*.zip")) == []
