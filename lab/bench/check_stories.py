"""Let a model of the embedded corpus write stories: do they keep their hero, and everything else?

python -m lab.bench.check_stories runs/stories

Every sentence of a story must be one of its plot (cs_basics/stories/reading.py). A story keeps its
hero and object if these two are the same from beginning to end, and all else if every person,
animal and thing is. Of any other story, the place where it departs is shown.
"""

from pathlib import Path
from typing import Annotated

from process import keep_freed_memory  # isort: split

import tyro
from cli import run

from cs_basics.run.folder import RunFolder
from cs_basics.run.samples import SAMPLE_TOKENS, write_story
from cs_basics.stories.reading import read_story


def main(
    run_dir: Annotated[Path, tyro.conf.Positional], num_stories: int = 20, seed: int = 0
) -> None:
    """Write stories as a run writes its samples, and read each as the grammar would.

    Args:
        run_dir: The run folder.
        num_stories: Number of stories.
        seed: Seed of the first story; the others have the seeds that follow.
    """
    keep_freed_memory()
    folder = RunFolder(run_dir)
    model, tokenizer = folder.load_model("cpu"), folder.load_tokenizer()
    num_kept = num_all_kept = 0
    for number in range(num_stories):
        text = write_story(model, tokenizer, SAMPLE_TOKENS, seed + number, is_fast=True)
        reading, everything = read_story(text, keeps_all=False), read_story(text)
        num_kept, num_all_kept = num_kept + reading.is_whole, num_all_kept + everything.is_whole
        departs = "" if everything.is_whole else f": departs at {everything.rest[:60]!r}"
        print(f"{number + 1:3}  {reading.hero}, {reading.plot}{departs}")
    print(f"{num_kept} of {num_stories} keep their hero and object, {num_all_kept} all else")


if __name__ == "__main__":
    run(main)
