"""The sink that sends metrics to Weights & Biases."""

import contextlib
import logging
import secrets
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Self

from cs_basics.run.metrics import Row, Sink
from cs_basics.settings.run import TrainConfig

Mode = Literal["disabled", "offline", "online"]

logger = logging.getLogger(__name__)

CONNECT_S = 15
"""Seconds after which a run that does not reach the service is kept offline."""


class Wandb(Sink):
    """Sends a run to Weights & Biases, until the first failure: that is logged and turns it off.

    A context manager: the run ends there, too, when the block is left.

    Args:
        mode: disabled: nothing is sent; offline: kept to be sent later; online.
        config: Settings of the run, which are sent.
        run_dir: Folder of the run: names the run for wandb and holds its local files.
    """

    def __init__(self, mode: Mode, config: TrainConfig, run_dir: Path) -> None:
        self._run: Any = None
        self._path = run_dir / "wandb"
        self._is_offline = False
        self._has_failed = False
        if mode != "disabled":
            self._guard(lambda: self._start(mode, config, run_dir))

    def log(self, row: Row) -> None:
        """Send a row."""
        if self._run is not None:
            self._guard(lambda: self._run.log(row, step=int(row["step"])))

    def log_samples(self, samples: list[str]) -> None:
        """Send the samples."""
        if self._run is not None:
            self._guard(lambda: self._send_samples(samples))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        exit_code = 0 if kind is None else 1
        if self._run is not None:
            self._guard(lambda: self._run.finish(exit_code=exit_code))
            if self._is_offline and not self._has_failed:
                kept = f"{shlex.quote(str(self._path))}/offline-run-*"
                logger.info("wandb: kept offline; `wandb sync %s` sends it", kept)
        if self._has_failed:
            # Otherwise the exit hook of wandb would fail likewise and print a traceback.
            with contextlib.suppress(Exception, SystemExit):
                import wandb

                wandb.teardown(exit_code=exit_code)

    def _guard(self, act: Callable[[], None]) -> None:
        """Call wandb; any error turns wandb off, but never stops the training."""
        try:
            act()
        except (Exception, SystemExit) as error:
            self._run, self._has_failed = None, True
            reason = " ".join(str(error).split()) or type(error).__name__
            logger.warning("wandb: not used any more (%.300s)", reason)

    def _start(self, mode: Mode, config: TrainConfig, run_dir: Path) -> None:
        import wandb

        # A run that was begun before goes on under its id, which its local files are named after.
        begun = sorted(self._path.glob("*run-*-*"))
        run_id = begun[-1].name.rpartition("-")[2] if begun else secrets.token_hex(4)

        def start(mode: Mode) -> None:
            self._run = wandb.init(
                project="cs_basics",
                id=run_id,
                resume="allow",
                name=run_dir.name,
                dir=run_dir,
                mode=mode,
                config=config.to_json(),
                settings=wandb.Settings(silent=True, console="off", init_timeout=CONNECT_S),
            )
            self._is_offline = mode == "offline"

        if mode == "online":
            logger.info("wandb: connecting, for %d s at most", CONNECT_S)
            try:
                if wandb.login(prompt=False):
                    start("online")
                    return
                reason = "nobody is logged in here (`wandb login`)"
            except Exception as error:
                reason = " ".join(str(error).split()) or type(error).__name__
            logger.warning("wandb: the run is kept offline: %.300s", reason)
        start("offline")

    def _send_samples(self, samples: list[str]) -> None:
        import wandb

        table = wandb.Table(columns=["story"], data=[[sample] for sample in samples])
        self._run.log({"samples": table})
