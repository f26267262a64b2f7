"""The served page in a real browser: all views, answered by PyTorch as the worker answers them."""

import json
import re

import numpy as np
import pytest
import torch
from page_cases import (
    FORMS,
    MARKUP,
    ask,
    fill,
    make_run,
    open_page,
    save,
    shown,
    visit,
    write,
    write_valid_tokens,
)
from serve_cases import Served
from waiting import until

from cs_basics.interop.page_file import write_page
from cs_basics.interop.serve.inside import parts
from cs_basics.settings.run import END_OF_TEXT
from cs_basics.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(bpe):
    return Tokenizer(*bpe, [END_OF_TEXT, MARKUP])


@pytest.fixture(scope="module")
def run(texts, tokenizer, tmp_path_factory):
    """A run whose model writes markup every few tokens."""
    run = make_run(tmp_path_factory.mktemp("run") / "a <b>run", tokenizer)
    model = run.load_model()
    with torch.no_grad():
        model.lm_head.weight[tokenizer.encode(MARKUP)[0]] *= 10
    save(run, model, 0)
    write_valid_tokens(run, texts[1])
    return run


@pytest.fixture(scope="module")
def served(run):
    with Served(run) as server:
        yield server


@pytest.fixture
def page(chromium, served):
    chromium.resize(1200, 900)
    chromium.log_entries("browser")
    visit(chromium, served.url)
    return chromium


@pytest.mark.parametrize("form", FORMS)
def test_the_server_answers_what_the_worker_answers(chromium, tokenizer, tmp_path, form):
    run = make_run(tmp_path / "run", tokenizer, **FORMS[form])
    text = [7, 300, 41, 99, 12, 256, 3]
    names = parts(run.load_model())
    drawing = {"temperature": 0.9, "top_k": 50, "top_p": 0.95}
    greedy = {"temperature": 0, "top_k": None, "top_p": None}
    requests = [("look", {"text": text, "position": 4})]
    requests += [
        ("logits", {"text": text, "operations": {"off": [name], "scale": {}}}) for name in names
    ]
    for sampling, off, scale in ((greedy, [], {}), (drawing, names[::5], {"layers.0": 0.5})):
        about = {"text": text, "operations": {"off": off, "scale": scale}}
        requests += [(name, about) for name in ("logits", "loss", "rivals")]
        drawn = {"sampling": sampling, "seed": 2**31 + 5, "numDrawn": 2, "stopId": 5}
        requests.append(("write", {**about, "maxTokens": 90, **drawn}))
    open_page(chromium, run, tmp_path / "page.html", is_exact=True)
    here = [ask(chromium, name, **request) for name, request in requests]
    with Served(run) as served:
        visit(chromium, served.url)
        there = [ask(chromium, name, **request) for name, request in requests]
    for (name, _), mine, its in zip(requests, here, there, strict=True):
        assert_close(its[0], mine[0], name)
        if name == "write":  # others tell how far they are, or nothing
            assert_close(its[1], [one for one in mine[1] if one], name)


def assert_close(found, expected, place):
    """Compare what JSON holds: numbers by size, all else by equality."""
    if isinstance(expected, float) or isinstance(found, float):
        np.testing.assert_allclose(found, expected, atol=2e-4, rtol=1e-3, err_msg=place)
    elif place.endswith("rivals") and isinstance(expected, list):
        # Two that are as likely up to rounding may change places, also with one that is not shown.
        assert_close([p for _, p in found], [p for _, p in expected], f"{place}.likely")
        likely = dict(map(tuple, expected))
        for token, p in found:
            assert_close(p, likely.get(token, expected[-1][1]), f"{place}.{token}")
    elif isinstance(expected, list | dict):
        assert len(found) == len(expected), place
        keys = expected if isinstance(expected, dict) else range(len(expected))
        for key in keys:
            assert_close(found[key], expected[key], f"{place}.{key}")
    else:
        assert found == expected, place


def test_all_views_open_and_nothing_but_the_server_is_asked(page, served):
    story = write(page, prompt="Once", seed="7", maxTokens="30", temperature="0.9", top_p="")
    assert story
    assert "the server of this page computes" in shown(page, "#about")
    page.click("#tab-look")
    page.wait(lambda: shown(page, ".lens"))
    assert "looks most at" in shown(page, "#look")
    page.click("#tab-operate")
    page.wait(lambda: re.search(r"validation text: [\d.]+ nats", shown(page, "#losses")))
    page.click("[data-part='layers.0.ffn']")
    page.wait(lambda: "operated: " in shown(page, "#losses"))
    assert page.log_entries("browser") == []
    tried = page.run("""
        return fetch("http://localhost:" + arguments[0]).then(() => "sent", (error) => error.name)
    """, served.port)  # fmt: skip
    assert tried == "TypeError"
    refused = [entry["message"] for entry in page.log_entries("browser")]
    assert any("Content Security Policy" in message for message in refused)


def test_stopping_frees_the_place(page, served):
    # At temperature 0 this model goes on and on; drawn tokens may end a text before it is stopped.
    fill(page, maxTokens="5000", temperature="0")
    page.click("#start")
    until(lambda: any(served.batch.places))
    [text] = filter(None, served.batch.places)
    page.wait(lambda: shown(page, "#story"))
    page.click("#stop")
    until(served.is_idle)
    assert text.end == "gone"


def test_a_text_that_is_markup_stays_a_text(page):
    written = write(page, prompt=MARKUP, temperature="1", top_k="", top_p="", maxTokens="60")
    assert MARKUP in written
    page.run("document.querySelectorAll('#story span').forEach((token) => token.click())")
    for view in ("look", "operate", "write"):
        page.click(f"#tab-{view}")
    page.wait(lambda: shown(page, ".lens"))
    asked = page.run(
        "return glass.engine.ask(arguments[0], {}).catch((error) => glass.fail(error.message))",
        MARKUP,
    )
    assert asked is None
    assert shown(page, ".opening") == MARKUP
    assert page.run("return document.querySelectorAll('img, b, main script').length") == 0
    assert page.run("return document.title") == "a <b>run"


def test_what_the_server_refuses_is_one_line_in_the_page(chromium, run):
    with Served(run, max_seconds=0.3) as served:
        visit(chromium, served.url)
        story = write(chromium, maxTokens="5000", temperature="0")
        assert story
        assert "The server's time limit is reached." in shown(chromium, "#write .status")
        fill(chromium, top_k="1e12", temperature="1")
        failed = "return glass.engine.ask('rivals', { text: [5000] }).catch((e) => e.message)"
        assert chromium.run(failed).startswith("token id 5000 is not in [0, ")
    chromium.click("#start")
    chromium.wait(lambda: "is scripts/serve.py still running?" in shown(chromium, "#problem"))


def test_a_file_that_was_cut_says_so(chromium, run, tmp_path):
    write_page(run, tmp_path / "page.html")
    whole = (tmp_path / "page.html").read_text()
    line = "document.getElementById('incomplete')?.checkVisibility({ visibilityProperty: true })"
    for share in (0.3, 0.9):
        (tmp_path / "cut.html").write_text(whole[: int(share * len(whole))])
        chromium.open(tmp_path / "cut.html")
        chromium.wait(lambda: chromium.run(f"return {line}"))
        assert "This file is incomplete" in shown(chromium, "#incomplete")
    visit(chromium, (tmp_path / "page.html").as_uri())
    assert chromium.run(f"return {line} ?? 'gone'") == "gone"
    assert json.loads(chromium.run("return JSON.stringify(glass.data.name)")) == "a <b>run"
