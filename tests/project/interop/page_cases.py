"""Small runs of every form and their pages, for the tests of pages and servers."""

import json

import small_models
from run_files import write_token_file

from cs_basics.interop.page_file import write_page
from cs_basics.run.checkpoint_file import write_checkpoint
from cs_basics.run.folder import RunFolder
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.tokenizer_folder import save_tokenizer
from cs_basics.settings.presets import PRESETS

FORMS = small_models.FORMS | {
    "part of a norm": {"norm": "partial-rmsnorm", "rope_theta": 500.0},
    "no bias": {"norm": "layernorm-no-bias"},
}
CONTEXT = 128
MARKUP = "<img src=x onerror=\"document.title='owned'\">"


def make_run(folder, tokenizer, **choices):
    """Write a run with random weights that are all far from what they are at the start."""
    sizes = {"context_length": 48, "vocab_size": tokenizer.vocab_size, **choices}
    model = small_models.small_model(seed=3, **sizes)
    config = PRESETS["debug"][1].replace(
        run_dir=folder, device="cpu", dtype="float32", **small_models.SIZES | sizes
    )
    run = RunFolder(folder)
    run.write_config(config)
    save_tokenizer(tokenizer, run.tokenizer)
    run.checkpoints.mkdir()
    save(run, model, 0)
    return run


def save(run, model, step):
    write_checkpoint(run.checkpoint_of(step), model, make_optimizer(model, run.read_config()), step)


def write_valid_tokens(run, text):
    """Give a run the beginning of a validation text."""
    tokenizer = run.load_tokenizer()
    write_token_file(
        run.tokens / "valid.bin", [(300, tokenizer.encode(text.read_text())[:100])],
        vocab_size=tokenizer.vocab_size,
    )  # fmt: skip


def ask(browser, name, **request):
    """Let the page's worker answer a request, and return the answer and the news before it."""
    script = """
        const [name, request] = arguments, news = [];
        return glass.opened
            .then(() => glass.engine.ask(name, request, { onNews: (one) => news.push(one) }))
            .then((answer) => JSON.stringify([ArrayBuffer.isView(answer) ? [...answer] : answer,
                                              news]));
    """
    answer, news = json.loads(browser.run(script, name, request))
    return answer, news


def visit(browser, url):
    """Open a page and wait for its model."""
    browser.call("POST", "/url", {"url": str(url)})
    browser.run("return glass.opened.then(() => true)")


def open_page(browser, run, path, **options):
    """Write a run's page, open it and wait for its model."""
    write_page(run, path, **options)
    visit(browser, path.as_uri())


def shown(page, selector):
    return page.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)


def fill(page, **values):
    for name, value in values.items():
        page.run("document.getElementById(arguments[0]).value = arguments[1]", name, value)


def write(page, **values):
    """Let the page write, and return the story."""
    fill(page, **values)
    page.click("#start")
    page.wait(lambda: "per second" in shown(page, "#write .status"))
    return shown(page, "#story")
