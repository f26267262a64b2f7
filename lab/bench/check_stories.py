"""Let a model of the embedded corpus write stories: do they keep their hero, and everything else?

python -m lab.bench.check_stories runs/stories

Every sentence of a story must be one of its plot (cs_basics/stories/reading.py). A story keeps its
hero and object if these two are the same from beginning to end, and all else if every person,
animal and thing is. Of any other story, the place where it departs is shown.
"""

import json
from pathlib import Path
from typing import Annotated, Literal

from process import keep_freed_memory  # isort: split

import tyro
from cli import print_result, run

from cs_basics.run.folder import RunFolder
from cs_basics.run.hardware import resolve_device
from cs_basics.run.samples import SAMPLE_TOKENS, SAMPLING, write_story
from cs_basics.stories.reading import read_story

SHOWN = 60


def main(
    run_dir: Annotated[Path, tyro.conf.Positional],
    num_stories: int = 20,
    seed: int = 0,
    max_tokens: int = SAMPLE_TOKENS,
    checkpoint: Literal["latest", "best"] = "latest",
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Write stories as a run writes its samples, and read each as the grammar would.

    Args:
        run_dir: The run folder.
        num_stories: Number of stories.
        seed: Seed of the first story; the others have the seeds that follow.
        max_tokens: Largest number of tokens in a story; one that is cut off does not count.
        checkpoint: latest, or best: the one with the lowest validation loss.
        as_json: Print one line of JSON, texts included.
    """
    for name, value in {"num_stories": num_stories, "max_tokens": max_tokens}.items():
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    keep_freed_memory()
    folder = RunFolder(run_dir)
    model = folder.load_model(resolve_device("auto"), checkpoint)
    tokenizer = folder.load_tokenizer()
    rows: list[dict[str, object]] = []
    for number in range(num_stories):
        text = write_story(model, tokenizer, max_tokens, seed + number, is_fast=True)
        reading, everything = read_story(text, keeps_all=False), read_story(text)
        rows.append(
            {
                "is_kept": reading.is_whole,
                "is_all_kept": everything.is_whole,
                "plot": reading.plot,
                "rest": reading.rest,
                "text": text,
            }
        )
        if not as_json:
            rest = " ".join(reading.rest.split())[:SHOWN]
            told = f"departs after {reading.end} characters: {rest}"
            if reading.is_whole:
                told = "kept" if everything.is_whole else "kept, but not all else"
            print_result(f"{number + 1:3}  {reading.hero}, {reading.plot}: {told}")
    num_kept, num_all_kept = (
        sum(row[name] is True for row in rows) for name in ("is_kept", "is_all_kept")
    )
    if as_json:
        settings = {"temperature": SAMPLING.temperature, "top_p": SAMPLING.top_p, "seed": seed}
        counts = {"num_kept": num_kept, "num_all_kept": num_all_kept}
        print_result(json.dumps({**counts, **settings, "stories": rows}))
    else:
        print_result(
            f"{num_kept} of {num_stories} stories keep their hero and object, "
            f"{num_all_kept} all else"
        )


if __name__ == "__main__":
    run(main)
