"""Measure the page of a run in headless Chromium: python scripts/maintain/measure_page.py RUN_DIR.

What share.py promises: the size of the file, how soon and how fast it writes, whether the page ever
stands still, how near its logits are to PyTorch's, and what int8 costs.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

sys.path.append(str(Path(__file__).parents[1]))  # for cli.py
sys.path.append(str(Path(__file__).parents[2] / "tests" / "project"))  # for browser.py, programs.py

import browser  # pyright: ignore[reportMissingImports]
import numpy as np
import programs  # pyright: ignore[reportMissingImports]
import torch
import tyro
from benchmarks.measuring import Row
from cli import run

from cs_basics.fast.decoding import generate
from cs_basics.interop.page_data import rounded_to_int8
from cs_basics.run.evaluation import evaluate, make_loss_function
from cs_basics.run.folder import RunFolder
from cs_basics.run.token_file import open_token_file
from cs_basics.study.timing import machine
from cs_basics.transformer import TransformerLM

NUM_PROMPTS = 100
NUM_WRITTEN = 200
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
        page, exact = Path(scratch) / "page.html", Path(scratch) / "exact.html"
        rows = [Row("share.py", share(run_dir, page), "s", goal="at most 10")]
        share(run_dir, exact, "--exact")
        rows.append(Row("the file", page.stat().st_size / 1e6, "MB", goal="at most 8"))
        rows += in_use(chromium, page)
        rows += equality(chromium, page, rounded, "int8", 1e-3)
        rows += equality(chromium, exact, model, "float32", 1e-4)
    rows.append(cost(folder, model, rounded, max_tokens))
    print(f"\n{machine()}\n")
    for row in rows:
        goal = "" if row.goal is None else f"  {row.goal}"
        print(f"{row.name:44}{row.ours:>12,.4g}  {row.unit:<15}{goal}")


def share(run_dir: Path, out: Path, *flags: str) -> float:
    """Make the page and return the seconds it took."""
    script = Path(__file__).parents[1] / "share.py"
    start = time.perf_counter()
    command = [sys.executable, str(script), str(run_dir), "--out", str(out), *flags]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


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
        Row("first token after opening", first / 1000, "s", goal="at most 1.5"),
        Row("writing", speed, "tokens/s", goal="at least 60"),
        Row("longest task of the main thread (0: < 50)", longest, "ms", goal="at most 100"),
    ]


def equality(
    chromium: Any,  # noqa: ANN401
    page: Path,
    model: TransformerLM,
    name: str,
    tolerance: float,
) -> list[Row]:
    """Compare logits and a greedy text with those of PyTorch."""
    chromium.open(page)
    script = """
        const [name, request] = arguments, news = [];
        return glass.opened
            .then(() => glass.engine.ask(name, request, { onNews: (one) => news.push(one) }))
            .then((answer) => JSON.stringify(name === "write"
                ? news.filter((one) => one).map(({ id }) => id) : [...answer]));
    """
    random = np.random.default_rng(0)
    largest = 0.0
    for length in random.integers(1, 33, NUM_PROMPTS):
        text = random.integers(0, model.vocab_size, length).tolist()
        found = json.loads(chromium.run(script, "logits", {"text": text}))
        with torch.no_grad():
            logits = model(torch.tensor([text]))[0, -1]
        largest = max(largest, (logits - torch.tensor(found)).abs().max().item())
    prompt = [1, 2, 3]
    request = {
        "text": prompt, "maxTokens": NUM_WRITTEN, "seed": 0, "numDrawn": 0, "stopId": -1,
        "sampling": {"temperature": 0, "top_k": None, "top_p": None},
    }  # fmt: skip
    found = json.loads(chromium.run(script, "write", request))
    expected = list(generate(model, prompt, NUM_WRITTEN))
    same = next((i for i, pair in enumerate(zip(found, expected, strict=True)) if len({*pair}) > 1),
                len(expected))  # fmt: skip
    return [
        Row(f"{name}: logits of {NUM_PROMPTS} prompts, largest error", largest, "",
            goal=f"at most {tolerance}"),
        Row(f"{name}: greedy tokens that are equal", same, f"of {NUM_WRITTEN}"),
    ]  # fmt: skip


def cost(folder: RunFolder, model: TransformerLM, rounded: TransformerLM, max_tokens: int) -> Row:
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
    return Row("what int8 costs", int8_loss - float_loss, "bits per byte", goal="at most 0.003")


if __name__ == "__main__":
    run(main)
