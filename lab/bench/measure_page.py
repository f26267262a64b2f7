"""Measure the page of a run in headless Chromium: python -m lab.bench.measure_page RUN_DIR.

What share.py promises: the size of the file, how soon and how fast it writes, whether the page ever
stands still, and what int8 costs.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import browser
import programs  # pyright: ignore[reportMissingImports]
import torch
import tyro
from cli import run

from cs_basics.interop.page_data import rounded_to_int8
from cs_basics.run.evaluation import evaluate, make_loss_function
from cs_basics.run.folder import RunFolder
from cs_basics.run.token_file import open_token_file
from cs_basics.transformer import TransformerLM
from lab import ROOT
from lab.bench.measuring import Row, show
from lab.timing import machine

WATCH = """
    window.tasks = [];
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) tasks.push(entry.duration);
    }).observe({ type: "longtask", buffered: true });
    addEventListener("DOMContentLoaded", () => {
        const story = document.getElementById("story");
        new MutationObserver(() => { window.first ??= performance.now(); })
            .observe(story, { childList: true });
        document.getElementById("maxTokens").value = 200;
        document.getElementById("temperature").value = 1;
        document.getElementById("start").click();
    });
"""
STATUS = "document.querySelector('#write .status').textContent"


def main(run_dir: Annotated[Path, tyro.conf.Positional], max_tokens: int = 100_000) -> None:
    """Measure the page of a run in headless Chromium.

    Args:
        run_dir: The run folder.
        max_tokens: Tokens of the validation text on which the cost of int8 is measured.
    """
    folder = RunFolder(run_dir)
    model, rounded = folder.load_model(), folder.load_model()
    if reason := programs.why_not("chromium", "chromedriver"):
        raise ValueError(reason)
    rounded.load_state_dict(rounded_to_int8(model.state_dict()))
    with tempfile.TemporaryDirectory() as scratch, browser.Browser() as chromium:
        page = Path(scratch) / "page.html"
        script = ROOT / "scripts" / "share.py"
        command = [sys.executable, str(script), str(run_dir), "--out", str(page)]
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        elapsed_s, megabytes = time.perf_counter() - start, page.stat().st_size / 1e6
        rows = [at_most("share.py", elapsed_s, "s", 10), at_most("the file", megabytes, "MB", 8)]
        rows += in_use(chromium, page)
    int8 = cost(folder, model, rounded, max_tokens)
    rows.append(at_most("what int8 costs", int8, "bits/byte", 0.003))
    print(machine())
    show(rows)


def at_most(name: str, value: float, unit: str, limit: float) -> Row:
    """Return a row whose goal is a bound."""
    return Row(name, value, unit, None, f"at most {limit}", value <= limit)


def in_use(chromium: Any, page: Path) -> list[Row]:  # noqa: ANN401  tests have no types
    """Open the page, which writes at once, and look at the clock."""
    chromium.devtools("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    chromium.open(page)
    while "per second" not in chromium.run(f"return {STATUS}"):
        time.sleep(0.2)
    speed = chromium.run(f"return Number(/(\\d+) per second/.exec({STATUS})[1])")
    first, tasks = chromium.run("return [first, tasks]")
    longest = max(tasks, default=0.0)
    return [
        at_most("first token after opening", first / 1000, "s", 1.5),
        Row("writing", speed, "tokens/s", None, "at least 60", speed >= 60),
        at_most("longest task of the main thread (0: < 50)", longest, "ms", 100),
    ]


def cost(folder: RunFolder, model: TransformerLM, rounded: TransformerLM, max_tokens: int) -> float:
    """Return what int8 costs on the validation text, in bits per byte."""
    text = open_token_file(folder.tokens / "valid.bin")
    context_length = folder.read_config().model.context_length
    float_loss, int8_loss = (
        evaluate(
            make_loss_function(each, torch.float32), text, context_length, 8, torch.device("cpu"),
            max_tokens=max_tokens,
        ).bits_per_byte
        for each in (model, rounded)
    )  # fmt: skip
    return int8_loss - float_loss


if __name__ == "__main__":
    run(main)
