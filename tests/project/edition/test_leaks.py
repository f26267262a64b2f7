"""No file of the edition, of any kind, holds a body that a student is to write, or its like.

Its like is the same body under other names. What computes an answer in another way is not looked
for: a file that does is left out by name (make_starter.LEFT_OUT), such as the JavaScript of
interop/page/ is not. That one runs a trained model in a browser, and cannot train.
"""

import ast
import zipfile

from copies import copied, solutions


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
    assert {"docs/handout.md", "cs_basics/stories/plots.txt", "cs_basics/optim.py"} <= texts.keys()
    assert {place: found for place in texts if (found := copied(place, texts[place]))} == {}


def test_a_body_under_other_names_is_found(edition):
    given = (edition / "cs_basics" / "run" / "clock.py").read_text(encoding="utf-8")
    for name, _, node in solutions():
        twin = Renamed().visit(ast.parse(ast.unparse(node)))
        assert name in copied("clock.py", f"{given}\n\n{ast.unparse(twin)}\n"), name


class Renamed(ast.NodeTransformer):
    """Gives all local names others, and takes the docstring away."""

    def visit_FunctionDef(self, node):
        node.name, node.decorator_list = "other", []
        node.body = node.body[ast.get_docstring(node) is not None :]
        local = {arg.arg for arg in node.args.args}
        local |= {
            part.id
            for part in ast.walk(node)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in local:
                part.id = f"{part.id}_too"
            elif isinstance(part, ast.arg):
                part.arg = f"{part.arg}_too"
        return node


def test_a_body_in_a_text_is_found():
    for name, source, node in solutions():
        shown = "\n".join(source.splitlines()[node.lineno - 1 : node.end_lineno])
        if name.partition(".")[2] in {"learn_merges", "get_batch", "softmax"}:
            assert name in copied("docs/handout.md", f"For example:\n\n```\n{shown}\n```\n")
