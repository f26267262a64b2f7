"""The edition tells the from-scratch rule as the grader keeps it, before anything is handed in."""

import re
import shutil

import pytest
import report
from editions import plain_environment, with_answers
from processes import python

TESTS = (
    "tests/test_softmax.py",
    "tests/test_scaled_dot_product_attention.py",
    "tests/test_adamw.py",
)
OWN = "    scores = x.to(torch.promote_types(x.dtype, torch.float32))\n"


@pytest.fixture(scope="module")
def cheated(filled, tmp_path_factory):
    """An edition whose softmax and AdamW are PyTorch's."""
    folder = tmp_path_factory.mktemp("cheated") / "edition"
    shutil.copytree(filled, folder)
    path = folder / "cs_basics" / "functional.py"
    text = path.read_text(encoding="utf-8")
    assert text.count(OWN) == 1
    path.write_text(text.replace(OWN, "    return x.softmax(dim)\n"), encoding="utf-8")
    adapters = folder / "tests" / "adapters.py"
    text = adapters.read_text(encoding="utf-8")
    assert text.count("    return AdamW\n") == 1
    text = text.replace("    return AdamW\n", "    import torch\n\n    return torch.optim.AdamW\n")
    adapters.write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("filled", ["reference"], indirect=True)
def test_a_softmax_that_is_torchs_is_named_and_earns_what_the_grader_gives(cheated, answers, sit):
    rows = [*sit(with_answers(cheated, answers), *TESTS).values()]
    earned = report.points_of(rows)
    assert earned["softmax"] == 0
    assert report.forbidden_in("softmax", rows) == ["torch.softmax in functional.py:40"]
    # What is built from it does not pay once more.
    assert earned["scaled_dot_product_attention"] == pytest.approx(6)
    assert "    forbidden: torch.softmax in functional.py:40" in dict(report.table(rows))
    # The examination makes the optimizer, whose name stands in the adapters.
    assert earned["adamw"] == 0
    (said,) = report.forbidden_in("adamw", rows)
    assert said.startswith("torch.optim.AdamW in adapters.py:")


@pytest.mark.parametrize("filled", ["reference"], indirect=True)
def test_the_rule_is_read_first_and_alone(cheated):
    (cheated / "mine.py").write_text("import torch\n\nlast = torch.logsumexp\n")
    finished = python("scripts/rules.py", cwd=cheated, env=plain_environment())
    (cheated / "mine.py").unlink()
    assert finished.returncode == 1
    assert re.findall(r"^(.+\.py):\d+: (\S+) is not allowed", finished.stderr, re.MULTILINE) == [
        ("cs_basics/functional.py", "torch.Tensor.softmax"),
        ("mine.py", "torch.logsumexp"),
        ("tests/adapters.py", "torch.optim.AdamW"),
    ]
    makefile = (cheated / "Makefile").read_text(encoding="utf-8")
    assert "\nrules: $(INSTALLED)\n\t$(BIN)/python scripts/rules.py\n" in makefile
    assert "\ncheck: rules\n" in makefile


def test_the_commands_that_stand_for_make_work_in_a_fresh_edition(edition, tmp_path):
    fresh = shutil.copytree(edition, tmp_path / "fresh", symlinks=True)
    readme = (edition / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `make \w+` \| (.*) \|$", readme, re.MULTILINE)
    commands = [command for row in rows for command in re.findall(r"`([^`]+)`", row)]
    # What is red here says what is still to be written, and is examined elsewhere.
    quick = [
        one for one in commands if not re.match("make|python -m pytest|.*(train|watch).py", one)
    ]
    assert len(quick) == 6
    for command in quick:
        program, *arguments = command.split()
        tool = [] if program == "python" else ["-m", program]
        finished = python(*tool, *arguments, cwd=fresh, env=plain_environment())
        assert finished.returncode == 0, (command, finished.stdout + finished.stderr)
