"""The page in a real browser: its views, by mouse and keyboard, and what it must never do."""

import json
import re

import pytest
from page_cases import (
    fill,
    make_run,
    open_page,
    shown,
    visit,
    write,
)
from run_files import write_token_file
from small_models import FORMS, SIZES

from cs_basics.generate import Sampling, generate
from cs_basics.interop.page_book import book_lines
from cs_basics.interop.page_file import MAX_PARAMETERS, check_size, write_page
from cs_basics.interop.page_script import joined_script
from cs_basics.settings.model import ModelConfig
from cs_basics.settings.run import END_OF_TEXT
from cs_basics.tokenizer import Tokenizer
from cs_basics.variants.model import Transformer

MARKUP = "<img src=x onerror=\"document.title='owned'\">"
SPECIALS = [END_OF_TEXT, MARKUP, "</script><script>document.title='owned'</script>", "<!--"]


@pytest.fixture(scope="module")
def run(texts, bpe, tmp_path_factory):
    """A run whose model writes little but markup."""
    folder = tmp_path_factory.mktemp("<b>run") / "it's <b>bold"
    tokenizer = Tokenizer(*bpe, SPECIALS)
    run = make_run(folder, tokenizer)
    ids = tokenizer.encode(texts[1].read_text())[:100]
    write_token_file(run.tokens / "valid.bin", [(300, ids)], vocab_size=tokenizer.vocab_size)
    return run


@pytest.fixture(scope="module")
def file(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("elsewhere") / "page.html"
    write_page(run, out, with_code=True)
    return out


@pytest.fixture
def page(chromium, file):
    chromium.resize(1200, 900)
    chromium.open("/dev/null")
    visit(chromium, file.as_uri())
    return chromium


def look(page):
    page.click("#tab-look")
    page.wait("document.querySelector('.lens') !== null")


def test_it_writes_what_generate_writes_with_the_same_seed(page, run):
    written = write(page, prompt="Once", seed="7", maxTokens="30", temperature="0.9", top_p="")
    model, tokenizer = run.load_model(), run.load_tokenizer()
    # The page's weights are rounded; the first tokens of this seed are the same nevertheless.
    prompt = tokenizer.encode(f"{END_OF_TEXT}\nOnce")
    expected = list(generate(model, prompt, 30, Sampling(temperature=0.9), seed=7))
    assert written.startswith(tokenizer.decode(expected[:3]))
    assert page.run("return document.querySelectorAll('#story span').length") == 30
    assert page.log_entries("browser") == []


def test_a_rival_goes_on_from_there_and_the_tree_leads_back(page):
    first = write(page, prompt="Once", maxTokens="12", temperature="1")
    page.run("document.querySelectorAll('#story span')[4].click()")
    assert page.run("return document.querySelectorAll('#rivals button').length") in (10, 11)
    chosen = shown(page, "#rivals .chosen .token")
    page.run("document.querySelector('#rivals li:not(.chosen) button').click()")
    page.wait("document.querySelectorAll('#tree ul ul button').length === 2")
    assert shown(page, "#story") != first
    assert shown(page, "#rivals .chosen .token") != chosen
    page.run("document.querySelector('#tree ul ul button:not([aria-current])').click()")
    assert shown(page, "#story") == first
    # Its own token again: the same random numbers follow, hence the same text, and more of it.
    page.run("document.querySelectorAll('#story span')[4].click()")
    page.run("document.querySelector('#rivals .chosen button').click()")
    page.wait(lambda: len(shown(page, "#story")) > len(first))
    assert shown(page, "#story").startswith(first)


def test_a_long_story_lets_others_ask_and_can_be_stopped(page):
    fill(page, prompt="Once", maxTokens="5000", temperature="0")
    answered = """
        document.getElementById("start").click();
        const status = document.querySelector("#write .status");
        const look = () => glass.engine.ask("look", { text: [1, 2, 3], position: 1 });
        const count = () => document.querySelectorAll("#story span").length;
        return look().then(() => {
            const before = status.textContent;
            document.getElementById("stop").click();
            // What was under way before the worker answers once more has arrived.
            return look().then(() => {
                const written = count();
                return look().then(() => [before, status.textContent, count() - written, written]);
            });
        });
    """
    *said, written = page.run(answered)
    assert said == ["Writing\u2026", "Stopped.", 0]
    assert written < 5000


def test_a_text_that_is_markup_stays_a_text(page):
    assert write(page, prompt=MARKUP, maxTokens="40", temperature="5", top_k="", top_p="")
    assert shown(page, ".opening") == MARKUP
    page.run("document.querySelectorAll('#story span').forEach((token) => token.click())")
    look(page)
    page.click("#tab-operate")
    page.wait(lambda: "nats per token" in shown(page, "#losses"))
    page.click("#tab-write")
    page.run("glass.fail(arguments[0])", MARKUP)
    assert page.run("return document.querySelectorAll('img, b, main script').length") == 0
    assert page.run("return document.title") == "it's <b>bold"
    names = "return JSON.stringify([...glass.tokenizer.vocab.keys()].map((id) => "
    assert MARKUP in json.loads(page.run(names + "glass.tokenizer.name(id)))"))


def test_a_script_that_got_in_would_not_run_nor_a_picture_be_loaded(chromium, file, tmp_path):
    hole = "<script>document.title='owned'</script><img src=http://127.0.0.1:9/x onerror=alert(1)>"
    (tmp_path / "hole.html").write_text(file.read_text().replace("<main>", f"<main>{hole}", 1))
    visit(chromium, (tmp_path / "hole.html").as_uri())
    assert chromium.run("return document.title") == "it's <b>bold"
    refused = [entry["message"] for entry in chromium.log_entries("browser")]
    for what in ("inline script", "Loading the image 'http://127.0.0.1:9/x'"):
        assert any(what in message and "Content Security Policy" in message for message in refused)


BAD_SETTINGS = {
    "temperature": ("-1", "Temperature must be a number from 0 to 5, not -1."),
    "top_k": ("0.5", "Top-k must be an integer of at least 1, not 0.5."),
    "top_p": ("2", "Top-p must be a number from 0.01 to 1, not 2."),
    "seed": ("", "Seed must be an integer from 0 to 4294967295, not empty."),
    "prompt": ("a b c d " * 30, "this model reads at most 45: shorten it."),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_a_bad_setting_is_one_line(page, name):
    value, line = BAD_SETTINGS[name]
    fill(page, **{name: value})
    page.click("#start")
    assert shown(page, "#problem").endswith(line)
    assert page.run("return document.getElementById('problem').checkVisibility()")
    assert shown(page, "#story") == ""


def test_a_dropped_file_is_read_if_it_is_text(page):
    drop = """
        const files = new DataTransfer();
        files.items.add(new File([new Uint8Array(arguments[0])], "dropped.txt"));
        document.getElementById("form").dispatchEvent(
            new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
    """
    page.run(drop, [0xC3, 0x28])
    page.wait(lambda: shown(page, "#problem") == "dropped.txt is not UTF-8 text.")
    page.run(drop, list("caf\xe9".encode()))
    page.wait("document.getElementById('prompt').value === 'caf\xe9'")
    page.wait(lambda: shown(page, "#problem") == "")


def test_a_link_holds_the_settings(page):
    fill(page, prompt="The cat & the #hat", temperature="0.25", top_k="9", top_p="", seed="77")
    page.click("#link")
    address = page.run("return location.href")
    page.open("/dev/null")
    page.call("POST", "/url", {"url": address})
    held = "return ['prompt', 'temperature', 'top_k', 'top_p', 'seed'].map("
    held += "(id) => document.getElementById(id).value)"
    assert page.run(held) == ["The cat & the #hat", "0.25", "9", "", "77"]


def test_tabs_and_tokens_answer_to_the_keyboard(page):
    right, end = "\ue014", "\ue010"
    page.type("#tab-write", right)
    assert page.run("return document.activeElement.id") == "tab-look"
    page.wait("document.querySelector('.lens') !== null")
    chosen = "document.querySelector('#look .strip [aria-selected]')"
    before = page.run(f"return [...{chosen}.parentNode.children].indexOf({chosen})")
    page.type("#look .strip", right)
    assert page.run(f"return [...{chosen}.parentNode.children].indexOf({chosen})") == before + 1
    page.type("#look .strip", end)
    assert page.run(f"return {chosen}.nextSibling === null")
    unnamed = """
        return [...document.querySelectorAll("button, input, textarea, canvas.large, [tabindex]")]
            .filter((node) => !node.ariaLabel && !node.textContent.trim() && !node.labels?.length)
            .map((node) => node.outerHTML.slice(0, 80));
    """
    assert page.run(unnamed) == []


def test_merges_are_stepped_through_from_bytes_to_tokens(page):
    look(page)
    pieces = "document.querySelectorAll('#merges .piece').length"
    most = page.run(f"return {pieces}")
    for _ in range(40):
        page.run("document.querySelectorAll('#merges button')[1].click()")
    assert page.run(f"return {pieces}") < most
    assert " id" in shown(page, "#merges .soft")


def test_operating_changes_the_loss_and_back(page):
    def losses(words):
        page.wait(lambda: re.search(words, shown(page, "#losses")))
        return shown(page, "#losses")

    page.click("#tab-operate")
    before = losses(r"text: [\d.]+ nats per token")
    page.click("[data-part='layers.0.ffn']")
    after = losses(r"operated: [\d.]+ nats")
    first, second = re.findall(r"(\d\.\d+)", before)[0], re.search(r"operated: ([\d.]+)", after)[1]
    assert first != second
    page.click("#restore")
    page.wait(lambda: shown(page, "#losses") == before)


LINES = {
    "tokenizer", "merge", "block", "norm", "attention", "scores", "rope", "ffn", "softmax", "model",
    "loss", "sample",
}  # fmt: skip


def test_what_a_model_lacks_has_no_lines():
    bare = Transformer(ModelConfig(**SIZES, placement="none", positions="none"))
    assert set(book_lines(bare)) == LINES - {"norm", "rope"}


def test_lines_of_the_book_are_shown_where_they_are_computed(page):
    said = page.run("return [...document.querySelectorAll('figcaption')].map(f => f.textContent)")
    assert any(re.match(r"RMSNorm.forward in cs_basics/norms.py, line \d+", one) for one in said)
    assert any("CausalSelfAttention.forward in cs_basics/attention.py" in one for one in said)
    assert all(" in cs_basics/" in one for one in said)
    source = page.run("return glass.data.book.scores.source")
    assert set(page.run("return Object.keys(glass.data.book)")) == LINES
    assert source.startswith("def scaled_dot_product_attention(")


OUT_OF_SIGHT = """
    return [...document.querySelectorAll("button, input, select, textarea, summary")]
        .filter((control) => control.checkVisibility()
            && control.getBoundingClientRect().right > document.documentElement.clientWidth)
        .map((control) => control.outerHTML);
"""


def test_a_token_in_a_sentence_is_framed(page):
    look(page)
    page.click("#tab-operate")
    page.wait("document.querySelector('#operate h3 .token') !== null")
    sentences = page.run("""
        return [...document.querySelectorAll("p[aria-live], h3")]
            .map((sentence) => [sentence.textContent, [...sentence.querySelectorAll(".token")]
                .map((token) => getComputedStyle(token).borderTopWidth)]);
    """)
    (frames_of_look,) = [frames for text, frames in sentences if " looks most at " in text]
    (frames_of_next,) = [frames for text, frames in sentences if text.startswith("After ")]
    assert (frames_of_look, frames_of_next) == (["1px"] * 2, ["1px"])


def test_no_view_scrolls_sideways_on_a_phone(page):
    page.resize(390, 844)
    for view, sign in (("write", "#start"), ("look", ".lens"), ("operate", "[data-part]")):
        page.click(f"#tab-{view}")
        page.wait(f"document.querySelector('#{view} {sign}')?.checkVisibility()")
        assert page.run("return document.documentElement.scrollWidth") == 390, view
        assert page.run(OUT_OF_SIGHT) == [], view


@pytest.mark.parametrize("form", ["grouped, tied", "post-norm", "no norms, no positions"])
def test_all_views_open_for_other_forms_of_the_model(chromium, run, tmp_path, form):
    tokenizer = run.load_tokenizer(is_fast=False)
    other = make_run(tmp_path / "run", tokenizer, **FORMS[form])
    chromium.log_entries("browser")
    open_page(chromium, other, tmp_path / "page.html")
    look(chromium)
    chromium.click("#tab-operate")
    chromium.wait(lambda: "no validation text" in shown(chromium, "#losses"))
    assert chromium.log_entries("browser") == []
    assert chromium.run("return document.getElementById('problem').hidden")


def test_a_model_too_large_for_a_page_is_refused_in_one_line():
    check_size(MAX_PARAMETERS, is_exact=False)
    with pytest.raises(ValueError, match=r"at most 64,000,000 .*64,000,001: write with"):
        check_size(MAX_PARAMETERS + 1, is_exact=False)
    with pytest.raises(ValueError, match=r"16,000,000 parameters in float32.*leave out --exact"):
        check_size(MAX_PARAMETERS, is_exact=True)


def test_share_shows_the_code_if_it_is_asked_for(script, succeeds, run, tmp_path):
    out = tmp_path / "page.html"
    result = succeeds("share", run.path, "--out", out)
    assert f"{out}: {out.stat().st_size / 1e6:.1f} MB" in result.out
    assert "no Python (--with-code adds it)" in result.out
    assert "def forward" not in out.read_text(encoding="utf-8")
    script("share", run.path, "--out", out, "--with-code", "--overwrite")
    assert "def forward" in out.read_text(encoding="utf-8")


def test_modules_that_would_not_join_are_refused(tmp_path):
    def write(**modules):
        for name, text in modules.items():
            (tmp_path / f"{name}.js").write_text(text)

    write(a='import { b } from "./b.js";\nexport const a = b;\n', b="export const b = 1;\n")
    assert joined_script("a", tmp_path) == "// b.js\nconst b = 1;\n\n// a.js\nconst a = b;\n"
    for text, words in {
        "export const c = 1;": r"a\.js imports b, which b\.js does not export",
        "export const b = 1;\nconst a = 2;": "both declare a",
        "export default 1;\nexport const b = 1;": r"export default 1.*is of a form",
    }.items():
        write(b=f"{text}\n")
        with pytest.raises(ValueError, match=words):
            joined_script("a", tmp_path)


def test_a_run_ends_with_its_page_unless_told_otherwise(succeeds, trained, monkeypatch):
    page, report = trained / "page.html", trained / "report.html"

    def train_on(max_steps, *flags):
        resume = ("--run-dir", trained, "--resume", "--num-samples", 0, "--max-steps", max_steps)
        done = succeeds("train", "debug", *resume, *flags)
        assert page.exists() == ('href="page.html"' in report.read_text())
        return done.out

    assert "page.html" not in train_on(21, "--no-page")
    assert str(page) in train_on(22)
    page_file = "cs_basics.interop.page_file"
    with monkeypatch.context() as patch:
        patch.setattr(f"{page_file}.MAX_PARAMETERS", 1000)
        assert "page.html was not made: a page holds at most 1,000 parameters" in train_on(23)
    assert not page.exists(), "a page of older weights is left"

    def fails(_):
        raise AttributeError("a student's class has no such thing")

    monkeypatch.setattr(f"{page_file}.book_lines", fails)
    assert "page.html was not made: a student's class has no such thing" in train_on(24)
