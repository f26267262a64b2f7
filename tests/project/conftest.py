"""Fixtures for everything that is not examined: scripts, runs, files."""

import fcntl
import gc
import logging
import os
import re
import runpy
import shutil
import signal
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import browser
import missing_programs
import pytest
import torch
from hypothesis import settings
from processes import ROOT

from cs_basics.bpe import train_bpe
from cs_basics.run.run import train_run
from cs_basics.settings.presets import PRESETS
from cs_basics.settings.run import END_OF_TEXT
from cs_basics.stories.grammar import write_stories

# A script that starts the suite in the background has these ignored, for all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config):
    """Try a property on a hundred examples where slow tests run, and on forty where they do not."""
    num_examples = 40 if config.option.markexpr == "not slow" else 100
    # A shared machine stands still for longer than Hypothesis's 200 ms now and then.
    settings.register_profile("shared machine", deadline=None, max_examples=num_examples)
    settings.load_profile("shared machine")


def pytest_itemcollected(item):
    """Let a warning fail a test of this folder, and whatever asks for a browser need one."""
    item.add_marker(pytest.mark.filterwarnings("error"), append=False)
    if "chromium" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.needs("chromium", "chromedriver"))


def pytest_collection_finish():
    """Spare the collector what all tests have imported: each report of a run calls it."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    for marker in item.iter_markers("needs"):
        if reason := missing_programs.why_not(*marker.args):
            item.user_properties.append(("missing", reason))
            pytest.skip(reason)


@pytest.fixture(scope="module")
def chromium():
    """A browser without a window. Not for the whole session: tests of the grader end processes."""
    with browser.Browser() as opened:
        yield opened


@dataclass
class Finished:
    """How a script ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def script(monkeypatch, capfd):
    """Run a script in this process as the command line would, and return how it ended."""

    def call(name, *arguments):
        monkeypatch.setattr(sys, "argv", [f"scripts/{name}.py", *map(str, arguments)])
        path = ROOT / "scripts" / f"{name}.py"
        for folder in (ROOT / "scripts", path.parent):
            monkeypatch.syspath_prepend(str(folder))
        capfd.readouterr()
        code = 0
        logger = logging.getLogger()
        handlers, level = logger.handlers[:], logger.level
        num_threads = torch.get_num_threads()
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as stop:
            code = stop.code or 0
        finally:
            # A script lets messages go to the stdout that it has, which ends with this test.
            logger.handlers[:] = handlers
            logger.setLevel(level)
            torch.set_num_threads(num_threads)
        captured = capfd.readouterr()
        return Finished(code, captured.out, captured.err)

    return call


@pytest.fixture
def succeeds(script):
    """Run a script that has to do what it is told, and return how it ended."""

    def call(name, *arguments):
        done = script(name, *arguments)
        assert done.code == 0, done
        return done

    return call


@pytest.fixture
def refused(script):
    """Run a script that has to end with one line about an error, and return that line.

    Nothing but how far its work had come may stand above it.
    """

    def call(name, *arguments):
        done = script(name, *arguments)
        assert done.code == 2, done
        *others, line = done.err.splitlines()
        assert line.startswith("error: "), done.err
        assert all(re.match(r"[\w -]+: \d", other) for other in others), done.err
        return line

    return call


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Return a folder by its name, which the first process of the session that asks makes."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def folder(name, make):
        path = base / name
        with (base / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                unfinished = base / f"{name}.unfinished"
                shutil.rmtree(unfinished, ignore_errors=True)
                make(unfinished)
                unfinished.rename(path)
        return path

    return folder


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """A small training and a smaller validation text."""
    folder = tmp_path_factory.mktemp("texts")
    train, valid = folder / "train.txt", folder / "valid.txt"
    write_stories(train, 60_000, seed=1)
    # Each run predicts all of it several times, which took longer than its updates.
    write_stories(valid, 1_200, seed=2)
    return train, valid


@pytest.fixture(scope="session")
def of_texts(texts):
    """Flags that name them."""
    return ["--train-text", str(texts[0]), "--valid-text", str(texts[1])]


@pytest.fixture(scope="session")
def bpe(texts):
    """A vocabulary of 400 tokens and its merges."""
    return train_bpe(texts[0], 400, [END_OF_TEXT])


@pytest.fixture(scope="session")
def make_tiny_config(texts):
    """Say what a run of twenty updates is, by its folder."""

    def make(run_dir):
        return PRESETS["debug"][1].replace(
            train_text=texts[0],
            valid_text=texts[1],
            run_dir=run_dir,
            vocab_size=300,
            context_length=32,
            d_model=32,
            d_ff=64,
            batch_size=4,
            max_steps=20,
            warmup_steps=3,
            eval_every=5,
            num_samples=0,
            device="cpu",
            dtype="float32",
        )

    return make


@pytest.fixture(scope="session")
def finished(make_tiny_config, tmp_path_factory):
    """The configuration of a run that has made its twenty updates. Do not change its folder."""
    config = make_tiny_config(tmp_path_factory.mktemp("finished") / "run").replace(num_samples=1)
    train_run(config)
    return config


@pytest.fixture
def slow_down(monkeypatch):
    """Let the clock of runs stand still but for what a function, by its name, is said to take."""
    now = 0.0
    for module in ("clock", "speed"):
        time = SimpleNamespace(monotonic=lambda: now)
        monkeypatch.setattr(f"cs_basics.run.{module}.time", time)

    def arrange(owner, name, seconds):
        function = getattr(owner, name)

        def slow(*arguments, **named):
            nonlocal now
            now += seconds
            return function(*arguments, **named)

        monkeypatch.setattr(owner, name, slow)

    return arrange


@pytest.fixture
def no_pictures(monkeypatch):
    """Let runs draw nothing and sweep up nothing after it, which is most of so short a one."""
    monkeypatch.setattr("cs_basics.run.report.gc.collect", lambda: None)
    monkeypatch.setattr("cs_basics.run.report._draw", lambda *_: "")


@pytest.fixture
def trained(finished, no_pictures, tmp_path):  # noqa: ARG001
    """A copy of that run's folder."""
    return shutil.copytree(finished.run.run_dir, tmp_path / "run")


@pytest.fixture
def tiny_config(make_tiny_config, no_pictures, tmp_path):  # noqa: ARG001
    """A run of twenty updates, without samples and pictures."""
    return make_tiny_config(tmp_path / "run")
