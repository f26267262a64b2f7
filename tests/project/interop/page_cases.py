"""Small runs of every form and their pages, for the tests of pages."""

import small_models

from cs_basics.interop.page_file import write_page
from cs_basics.run.checkpoint_file import write_checkpoint
from cs_basics.run.folder import RunFolder
from cs_basics.run.optimizer import make_optimizer
from cs_basics.run.tokenizer_folder import save_tokenizer
from cs_basics.settings.presets import PRESETS

CONTEXT = 128


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
    write_checkpoint(run.checkpoint_of(0), model, make_optimizer(model, config), 0)
    return run


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
