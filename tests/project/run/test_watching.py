"""What watches a run tells what it sees, and never stops the run."""

import math
import re
import sys
import types
import xml.etree.ElementTree as ET

import pytest
import torch
from run_files import folder_of

from cs_basics.run import corpus, run, saving, trainer
from cs_basics.run.folder import RunFolder
from cs_basics.run.metrics import MetricsLog, read_metrics, read_samples
from cs_basics.run.report import INTERVAL_S, MAX_POINTS, Report, contents
from cs_basics.run.run import train_run
from cs_basics.run.trainer import Trainer
from cs_basics.run.wandb_sink import Wandb
from cs_basics.settings.presets import PRESETS

CONFIG = PRESETS["debug"][1]


def test_a_sample_that_fails_costs_neither_a_checkpoint_nor_the_run(
    tiny_config, monkeypatch, caplog
):
    def fail(*_, **__):
        raise TypeError("softmax() got an unexpected keyword argument 'dim'")

    monkeypatch.setattr("cs_basics.run.samples.write_story", fail)
    train_run(tiny_config.replace(num_samples=1, max_steps=4, eval_every=2, warmup_steps=1))
    assert [path.stem for path in folder_of(tiny_config).all_checkpoints()][-1] == "step-00000004"
    assert caplog.text.count("no sample: TypeError: softmax() got") == 3
    assert "# Samples" in folder_of(tiny_config).samples.read_text()


class FailingWandb(types.ModuleType):
    """A wandb of which one function fails, as it does without a disk, a network or its service.

    It does not if it is called with a mode that is spared.
    """

    def __init__(self, broken, spared=""):
        super().__init__("wandb")
        self.calls, self.given = [], {}

        def make(name):
            def call(*_, **given):
                self.calls.append(name)
                self.given[name] = given
                if name == broken and given.get("mode") != spared:
                    raise (SystemExit if broken == "log" else RuntimeError)(f"{name} is broken")
                return self

            return call

        for name in ("login", "init", "log", "finish", "Table", "Settings"):
            setattr(self, name, make(name))


@pytest.mark.parametrize("broken", ["init", "log", "finish", "Table", "Settings", "import"])
def test_wandb_may_fail_anywhere_and_is_told_of_once(tmp_path, monkeypatch, caplog, broken):
    fake = FailingWandb(broken)
    monkeypatch.setitem(sys.modules, "wandb", None if broken == "import" else fake)
    path = tmp_path / "metrics.jsonl"
    with Wandb("online", CONFIG, tmp_path) as wandb, MetricsLog(path) as log:
        log.add(wandb)
        for step in range(3):
            log.log({"step": step, "train/loss": 1.0})
        wandb.log_samples(["a story"])
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == 3
    assert caplog.text.count("wandb: not used any more") == 1
    # Where the service cannot be reached, the disk is tried.
    assert fake.calls.count(broken) == {"import": 0, "init": 2, "Settings": 2}.get(broken, 1)


@pytest.mark.parametrize("broken", ["init", "login"])
def test_without_a_network_a_run_is_kept_offline_and_its_end_says_how_to_send_it(
    tmp_path, monkeypatch, caplog, broken
):
    fake, folder = FailingWandb(broken, spared="offline"), tmp_path / "my run"
    monkeypatch.setitem(sys.modules, "wandb", fake)
    caplog.set_level("INFO")
    with Wandb("online", CONFIG, folder) as wandb:
        assert fake.given["init"]["mode"] == "offline"
        wandb.log({"step": 1})
    said = [record.message for record in caplog.records]
    assert said[0].startswith("wandb: connecting")
    assert said[1:] == [
        f"wandb: the run is kept offline: {broken} is broken",
        f"wandb: kept offline; `wandb sync '{folder}/wandb'/offline-run-*` sends it",
    ]


def test_what_wandb_is_sent_and_that_a_resumed_run_goes_on_under_its_id(tmp_path, monkeypatch):
    fake = FailingWandb(None)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for known in ("[0-9a-f]{8}", "a1b2c3d4"):
        with Wandb("online", CONFIG, tmp_path) as wandb:
            assert re.fullmatch(known, fake.given["init"]["id"])
            assert fake.given["init"]["resume"] == "allow"
            wandb.log({"step": 1})
            wandb.log_samples(["a story"])
        # As wandb names its folders.
        (tmp_path / "wandb" / "run-20261128_031523-a1b2c3d4").mkdir(parents=True, exist_ok=True)
    one = ["login", "Settings", "init", "log", "Table", "log", "finish"]
    assert fake.calls == one * 2


def test_a_run_leaves_a_report_with_all_that_it_is_watched_for(finished):
    folder = folder_of(finished)
    page = folder.report.read_text()
    samples = read_samples(folder.metrics)
    assert [step for step, _ in samples] == [5, 10, 15, 20]
    # A row writes the report: the sample of an evaluation has to be there before.
    lines = [line for line in folder.metrics.read_text().splitlines() if '"step": 10,' in line]
    assert ["sample" in line for line in lines if "sample" in line or "val/" in line] == [
        True,
        False,
    ]
    last = read_metrics(folder.metrics)[-1]
    for words in (
        "State: finished",
        f"<b>{last['final/loss']:.4f}</b>validation loss",
        f"<b>{last['final/bits_per_byte']:.4f}</b>bits per byte",
        "Step 10:",
        "Step 20:",
        "&#34;d_model&#34;: 32",
        "learning rate",
        "tokens/s",
        "</b>took",
        f"torch {torch.__version__}",
        "passes over the text",
    ):
        assert words in page
    assert page.count("<svg") == 1
    assert "refresh" not in page
    assert "</b>left" not in page
    pasted = folder.report.with_suffix(".md").read_text()
    for words in (
        "State: finished",
        f"| validation loss | {last['final/loss']:.4f} |",
        "| took | ",
        f"torch {torch.__version__.replace('_', chr(92) + '_')} |",
        "passes over the text |",
        "| wall clock | ",
        "Written at step 20:\n\n> ",
    ):
        assert words in pasted
    assert "step 15" not in pasted


@pytest.mark.usefixtures("no_pictures")
def test_the_report_says_what_the_time_went_to_before_a_resume_too(
    tiny_config, slow_down, monkeypatch
):
    monkeypatch.setattr(run, "_git_commit", lambda: "0123456789abcdef")
    slow_down(corpus, "look_at_text", 10.0)
    slow_down(corpus, "save_tokenizer", 60.0)
    slow_down(corpus, "encode_file", 5.0)
    slow_down(run, "Trainer", 8.0)
    slow_down(trainer, "make_updates", 30.0)
    slow_down(Trainer, "next_batch", 2.0)
    slow_down(Trainer, "sample", 3.0)
    slow_down(trainer, "evaluate", 4.0)
    slow_down(saving, "write_checkpoint", 1.0)
    slow_down(run, "write_samples", 7.0)
    config = tiny_config

    def wall_clock():
        pasted = folder_of(config).report.with_suffix(".md").read_text()
        assert "| commit | 0123456789ab |" in pasted
        return re.search(r"wall clock \| (.*) \|", pasted)[1]

    train_run(config)
    # Two texts; twenty updates, the first compiled; five evaluations, the last of the whole text.
    assert wall_clock() == (
        "looking at the text 20s, vocabulary 1m 00s, encoding 10s, "
        "building the model 8s, compiling and first update 32s, "
        "updates 38s, samples 19s, evaluating 20s, saving 4s"
    )
    train_run(config.replace(max_steps=25), resume=True)
    # The evaluation and the samples after the last checkpoint are made again, as is compiling.
    assert wall_clock() == (
        "looking at the text 20s, vocabulary 1m 00s, encoding 10s, "
        "building the model 16s, compiling and first update 1m 04s, "
        "updates 46s, samples 22s, evaluating 24s, saving 4s"
        "; resumed: preparing again is included, what came after the checkpoint is not"
    )


def test_the_report_of_a_run_whose_end_failed_says_why(tiny_config, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no room for stories")

    monkeypatch.setattr("cs_basics.run.run.write_samples", refuse)
    with pytest.raises(OSError, match="no room"):
        train_run(tiny_config)
    assert "State: no room for stories" in folder_of(tiny_config).report.read_text()


def test_the_report_of_a_run_that_goes_on_loads_itself_again(tmp_path, monkeypatch):
    now = 100.0
    monkeypatch.setattr("cs_basics.run.report.time", types.SimpleNamespace(monotonic=lambda: now))
    folder = RunFolder(tmp_path)
    with MetricsLog(folder.metrics) as log:
        report = Report(folder, CONFIG, log)
        log.add(report)
        log.log({"step": 1, "train/loss": 2.0})
        first = folder.report.read_bytes()
        assert b'http-equiv="refresh"' in first
        now += INTERVAL_S - 1
        log.log({"step": 2, "train/loss": 1.0})
        assert folder.report.read_bytes() == first, "too soon"
        now += 1
        log.log({"step": 3, "train/loss": 1.0})
        second = folder.report.read_bytes()
        assert second != first
        assert b'http-equiv="refresh"' in second
        report.write("finished")
        assert b'http-equiv="refresh"' not in folder.report.read_bytes()


def test_a_report_that_cannot_be_written_is_told_of_once(tmp_path, caplog):
    def fail(*_):
        raise ArithmeticError("no scale shows these losses")

    folder = RunFolder(tmp_path)
    with MetricsLog(folder.metrics) as log:
        report = Report(folder, CONFIG, log, fail)
        report.write("running")
        report.write("finished")
    assert caplog.text.count("report.html is not written: no scale") == 1


def test_a_sample_that_is_empty_is_said_to_be():
    (_, empty), (_, text) = contents([], [(1, "Once."), (2, "")])["samples"]
    assert text == "Once."
    assert empty.startswith("(Nothing: the model ended the story at once")


def test_the_report_escapes_everything_and_loads_nothing(tmp_path):
    hostile = "</p><script>alert(1)</script><img src=http:x>"
    folder = RunFolder(tmp_path / "<i>run")
    folder.path.mkdir()
    with MetricsLog(folder.metrics) as log:
        log.log_sample(1, hostile)
        report = Report(folder, CONFIG.replace(train_text=hostile, valid_text=hostile), log)
        report.write(hostile)
    page = folder.report.read_text()
    assert page.count("alert(1)") == 4
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    pasted = folder.report.with_suffix(".md").read_text()
    assert pasted.count("alert(1)") == 2
    assert not re.search(r"(?<!\\)<", pasted)
    assert not re.search(r"<(script|img|i)\b| src=\"| href=\"(?!#)", page)


def paths(rows, *counted):
    """The lines that the panels show: the letters of each path and its heights, from above."""
    svg = contents(rows, [], *counted)["curves"]
    ET.fromstring(svg)
    found = re.findall(r'<path d="([^"]*)" clip-path[^>]*stroke-width: 1.5', svg)
    steps = [re.findall(r"([ML]) \S+ (\S+)", path) for path in found]
    return [("".join(m for m, _ in each), [float(y) for _, y in each]) for each in steps]


def test_a_long_curve_is_thinned_and_goes_on_over_what_is_not_finite():
    losses = [float(step % 7) for step in range(2000)]
    losses[1000] = math.nan
    ((letters, _),) = paths([{"step": s, "train/loss": loss} for s, loss in enumerate(losses)])
    assert 100 < len(letters) <= MAX_POINTS
    assert letters.count("M") == 1


def test_high_first_losses_do_not_flatten_the_rest():
    losses = [100.0 if step < 5 else 1 + step / 1000 for step in range(100)]
    ((_, heights),) = paths([{"step": s, "train/loss": loss} for s, loss in enumerate(losses)])
    assert min(heights) < 0 < heights[-1] < 150


def test_the_entropies_of_the_text_are_lines_across_the_losses():
    curve, *lines = paths([{"step": s, "train/loss": 3 - s / 5} for s in range(11)], 2.5, 1.5)
    assert [letters for letters, _ in lines] == ["ML", "ML"]
    (one, same), (pair, _) = (heights for _, heights in lines)
    assert curve[1][0] < one == same < pair < curve[1][-1]


@pytest.mark.parametrize(
    "rows", [[], [{"step": 0, "optim/lr": 0.0}], [{"step": 1, "val/loss": 8.0}]]
)
def test_a_run_that_has_just_begun_has_a_picture_too(rows):
    paths(rows)
