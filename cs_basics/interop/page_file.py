"""A run as one HTML file that writes with its weights and shows what happens inside.

The page's own sources are in page/. The file holds everything that it needs, and a policy in its
head forbids it to load or send anything.
"""

import base64
import hashlib
import html
import json
from pathlib import Path
from typing import Any

from cs_basics.interop.llama_config import unlike_llama
from cs_basics.interop.llama_weights import check_names
from cs_basics.interop.page_book import book_lines
from cs_basics.interop.page_data import page_data, weights_data
from cs_basics.interop.page_script import PAGE, joined_script
from cs_basics.run.atomic import write_atomically
from cs_basics.run.folder import RunFolder, Which

MAX_PARAMETERS = 64_000_000
"""With more, a page would take a second per token, and browsers refuse texts of half a gigabyte."""


def write_page(
    run: RunFolder,
    out: Path,
    *,
    is_exact: bool = False,
    which: Which = "latest",
    with_code: bool = False,
) -> int:
    """Write the page of a run.

    Args:
        run: The run.
        out: The file; an existing one is replaced.
        is_exact: Keep the weights in float32 instead of int8: four times the size.
        which: The checkpoint.
        with_code: Show the lines of Python that compute what is seen.

    Returns:
        The size of the file in bytes.

    Raises:
        OSError: A file is missing or cannot be written.
        ValueError: A file of the run is damaged, the model is too large for a page, or it names its
            weights otherwise than the book does.
    """
    model = run.load_model(which=which)
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    check_size(num_parameters, is_exact=is_exact)
    config = run.read_config().model
    if not unlike_llama(config):  # The parts that Llama lacks have names of their own.
        check_names(model.state_dict(), config)
    places, weights = weights_data(model.state_dict(), is_exact=is_exact)
    book = book_lines(model) if with_code else {}
    # The book's own tokenizer class, so that the page can show the lines that encoded.
    tokenizer = run.load_tokenizer(is_fast=False)
    data = page_data(run, model, tokenizer)
    data |= {"book": book, "is_exact": is_exact, "places": places}
    page = to_page(data, weights).encode()
    write_atomically(out, page)
    return len(page)


def check_size(num_parameters: int, *, is_exact: bool) -> None:
    """Refuse a model that a page cannot hold.

    Raises:
        ValueError: It has too many parameters.
    """
    most = MAX_PARAMETERS // 4 if is_exact else MAX_PARAMETERS
    if num_parameters > most:
        instead = "leave out --exact, or " if is_exact and num_parameters <= MAX_PARAMETERS else ""
        raise ValueError(
            f"a page holds at most {most:,} parameters{' in float32' if is_exact else ''}, this "
            f"model has {num_parameters:,}: {instead}write with scripts/generate.py, or export it "
            "to GGUF"
        )


def to_page(data: dict[str, Any], weights: str) -> str:
    """Return the HTML of a page.

    Args:
        data: What the page knows, for JSON.
        weights: The weights in base64.
    """
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    script, worker = joined_script("main"), joined_script("worker")
    policy = "; ".join([
        "default-src 'none'", "base-uri 'none'", "form-action 'none'",
        f"style-src {_digest(style)}", f"script-src {_digest(script)}",
        "worker-src blob:",
    ])  # fmt: skip
    # With < escaped, no text can end the element that holds it; JSON reads \u003c as <.
    known = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "title": html.escape(data["name"]),
        "policy": html.escape(policy),
        "style": f"<style>{style}</style>",
        "data": f'<script type="application/json" id="data">{known}</script>',
        "worker": f'<script type="text/plain" id="worker">{worker}</script>',
        "weights": f'<script type="text/plain" id="weights">{weights}</script>',
        "script": f'<script type="module">{script}</script>',
    }
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    for name, content in parts.items():
        mark = f"<!-- {name} -->"
        if page.count(mark) != 1:
            raise ValueError(f"index.html holds {mark} {page.count(mark)} times")
        page = page.replace(mark, content)
    return page


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
