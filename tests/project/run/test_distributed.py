"""Several processes take the steps of one, and go on where any number of them stopped."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from processes import ROOT, run, until
from run_files import folder_of, rows_of

from cs_basics.optim import AdamW
from cs_basics.run.clock import Clock
from cs_basics.run.distributed import World
from cs_basics.run.evaluation import _own_batches
from cs_basics.run.folder import RunFolder, step_of
from cs_basics.run.metrics import MetricsLog, read_metrics
from cs_basics.run.run import train_run
from cs_basics.run.saving import Saving
from cs_basics.training import TrainingDivergedError

STEPS = 50


@pytest.fixture(scope="module")
def config(make_tiny_config, tmp_path_factory):
    """A run of fifty updates, whose blocks are given the values of the first one."""
    return make_tiny_config(tmp_path_factory.mktemp("runs") / "one").replace(
        num_layers=3, value_residual=True, head_bias=True, batch_size=8, max_steps=STEPS,
    )  # fmt: skip


@pytest.fixture(scope="module")
def alone(config):
    """The rows of the run in one process."""
    train_run(config)
    return rows_of(config)


def flags_of(config):
    """Return the flags that say a whole configuration."""
    flags = []
    for setting, value in config.settings().items():
        flag = setting.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{'no-' * (not value)}{flag}")
        elif value is not None:
            flags += [f"--{flag}", value]
    return flags


def command(config, num_restarts=0, num_processes=2):
    """Return how torchrun starts a run on some processes."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    torchrun += ["--nproc-per-node", num_processes, "--max-restarts", num_restarts]
    return [*map(str, [*torchrun, ROOT / "scripts/train.py", "debug", *flags_of(config)])]


def assert_same_curve(folder, wanted):
    names = ("step", "train/loss", "val/loss", "final/loss", "optim/grad_norm", "optim/lr")
    found, wanted = (
        [{name: row.get(name) for name in names} for row in rows]
        for rows in (read_metrics(folder.metrics), wanted)
    )
    assert found == [pytest.approx(row, abs=1e-4) for row in wanted]


@pytest.mark.slow
def test_two_processes_give_the_curve_of_one_which_goes_on_where_they_stopped(config, alone):
    other = config.replace(run_dir=config.run.run_dir.with_name("ddp"), grad_accum_steps=2)
    result = run(*command(other))
    assert result.returncode == 0, result.stderr
    assert "2 processes (ddp)" in result.stdout
    assert result.stdout.count("step     49") == 1, "one process speaks for all"
    folder = folder_of(other)
    assert_same_curve(folder, alone)
    folder.checkpoint_of(STEPS).unlink()
    train_run(other, resume=True)
    assert_same_curve(folder, alone)


@pytest.mark.slow
def test_two_processes_with_half_a_model_each_survive_the_death_of_one(config, alone):
    other = config.replace(run_dir=config.run.run_dir.with_name("fsdp"))
    folder = folder_of(other)
    log = other.run.run_dir.with_suffix(".log")
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command(other.replace(parallel="fsdp"), num_restarts=1),
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as torchrun,
    ):
        until(lambda: folder.all_checkpoints() or torchrun.poll() is not None, seconds=240)
        children = Path(f"/proc/{torchrun.pid}/task/{torchrun.pid}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)
        assert torchrun.wait(240) == 0, log.read_text()
    assert "going on from step " in log.read_text()
    assert_same_curve(folder, alone)
    # What they saved is the whole model.
    models = [folder_of(run).load_model() for run in (config, other)]
    for one, both in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(both, one, rtol=0, atol=1e-4)


def test_a_weight_that_is_infinite_in_another_process_ends_this_one_too(tmp_path):
    class WithOneThatIsBad(World):
        def sum(self, values):
            return [value + 1 for value in values]

    optimizer, clock = AdamW([torch.nn.Parameter(torch.ones(2))]), Clock(9, None)
    saving = Saving(RunFolder(tmp_path), optimizer, None, clock, WithOneThatIsBad(0, 2))
    with pytest.raises(TrainingDivergedError, match="step 3: the update made weights that are not"):
        saving.save(3, MetricsLog(None))
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("num_processes", [1, 2])
def test_without_a_folder_torchrun_is_refused(refused, monkeypatch, num_processes):
    """A single process, too: restarted, it would take the next free folder."""
    monkeypatch.setattr("cs_basics.run.distributed.ALONE", World(0, num_processes))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "a run")
    assert "torchrun's processes need --run-dir" in refused("train", "debug")


@pytest.mark.parametrize("run_id", ["mine", "another", "none"])
def test_a_restart_goes_on_with_the_run_that_torchrun_began_and_with_no_other(
    script, succeeds, config, monkeypatch, run_id
):
    begun = config.replace(run_dir=config.run.run_dir.with_name(f"begun-{run_id}"), max_steps=3)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none" if run_id == "none" else "mine")
    succeeds("train", "debug", *flags_of(begun), "--no-page")
    # It is restarted, or another is started there, refused, and then restarted.
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", run_id)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    if run_id == "none":  # Then the process that has started this one counts.
        monkeypatch.setattr("os.getppid", os.getpid)
    result = script("train", "debug", *flags_of(begun.replace(max_steps=5)), "--no-page")
    ended = result.code, step_of(folder_of(begun).all_checkpoints()[-1])
    if run_id == "mine":
        assert ended == (0, 5)
    else:
        assert ended == (2, 3)
        assert "already holds a run" in result.err


def test_a_model_that_cannot_be_shared_out_is_refused_before_anything_is_prepared(config):
    changed = config.replace(
        run_dir=config.run.run_dir.with_name("refused"),
        parallel="tp", value_residual=False, head_bias=False, num_kv_heads=1,
    )  # fmt: skip
    with pytest.raises(ValueError, match="cannot share out 1 heads among 2 processes"):
        train_run(changed, world=World(0, 2))
    assert not changed.run.run_dir.exists()


@pytest.mark.parametrize("number", ["2", None])
def test_a_process_for_which_there_is_no_gpu_is_refused_in_one_line(refused, monkeypatch, number):
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if number:
        monkeypatch.setenv("LOCAL_RANK", number)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    line = refused("train", "debug")
    assert f"LOCAL_RANK={number or ''} names none of the 2 GPUs" in line
    # On the CPU it joins the others, but for what torchrun should have said.
    monkeypatch.delenv("RANK", raising=False)
    assert "RANK expected, but not set" in refused("train", "debug", "--device", "cpu")


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_evaluation_deals_each_batch_to_one_process_and_keeps_them_in_step(count):
    dealt = [list(_own_batches(iter(range(count)), World(rank, 3))) for rank in range(3)]
    assert len({len(batches) for batches in dealt}) == 1
    counted = [batch for batches in dealt for batch, is_counted in batches if is_counted]
    assert sorted(counted) == list(range(count))
