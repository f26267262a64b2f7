"""No file of the edition, of any kind, holds a body that a student is to write, or its like.

Its like is the same body under other names. What computes an answer in another way is not looked
for: a file that does is left out by name (make_starter.LEFT_OUT), such as the JavaScript of
interop/page/ is not. That one runs a trained model in a browser, and cannot train.
"""

import zipfile

from copies import copied


def all_texts(folder):
    """Yield the text of every file by its place; of an archive, of each file in it."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        place = path.relative_to(folder).as_posix()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    yield f"{place}/{name}", archive.read(name).decode("latin-1")
        else:
            yield place, path.read_bytes().decode("utf-8")


def test_no_file_holds_a_body_of_the_solution(edition):
    texts = dict(all_texts(edition))
    assert {"docs/learn.md", "cs_basics/stories/plots.txt", "cs_basics/optim.py"} <= texts.keys()
    assert {place: found for place in texts if (found := copied(place, texts[place]))} == {}
