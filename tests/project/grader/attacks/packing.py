"""Submissions with odd files: links, zips, encodings, what is missing or does not parse.

What becomes of each single file of a zip is asked in test_grader_submissions.py.
"""

import os
import zipfile
from pathlib import Path

from attacks.attack import (
    ADAPTERS,
    FUNCTIONS,
    PACKAGE,
    adapters_of,
    changes,
    ends_with,
    has_files,
    softmax_does,
)

BOTH = ("silu", "softmax")


@changes("its adapters are a link", lost=BOTH, note="adapters.py: a link|missing")
def adapters_are_a_link(folder):
    adapters_of(folder).unlink()
    adapters_of(folder).symlink_to("/etc/passwd")


# --- zips (30, 31) ---


def zipped(folder, more=()):
    """Pack a submission, and files of one content with these names."""
    path = folder.with_name(f"{folder.name}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in filter(Path.is_file, folder.rglob("*")):
            archive.write(file, file.relative_to(folder).as_posix())
        for name in more:
            archive.writestr(name, "raise RuntimeError('this was not to be unpacked')\n")
    return path


def nothing_escaped(_result, folder):
    assert not Path("/tmp/attacks-escaped.py").exists()
    assert not list(folder.parent.glob("**/escaped.py"))


@changes("a zip with names that lead elsewhere", note="left out", check=nothing_escaped)
def names_that_lead_elsewhere(folder):
    names = "../escaped.py /tmp/attacks-escaped.py C:/escaped.py ..\\escaped.py a/../../b"
    return zipped(folder, names.split())


@changes("a damaged zip", lost=BOTH, note="cannot be read|damaged")
def damaged_zip(folder):
    path = zipped(folder)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + content[-200:])
    return path


@changes("a million files", lost=BOTH, note="cannot be read: more than")
def a_million_files(folder):
    # A tenth of it: as many as are read before it is given up.
    return zipped(folder, map(str, range(100_001)))


@changes("a zip in a zip", lost=BOTH, note="adapters.py is missing; there is ")
def a_zip_in_a_zip(folder):
    inner = zipped(folder)
    outer = folder.with_name(f"{folder.name}-outer.zip")
    with zipfile.ZipFile(outer, "w") as archive:
        archive.write(inner, "submission.zip")
    return outer.rename(inner)


@changes("nobody may read it")
def nobody_may_read_it(folder):
    if os.getuid() != 0:
        return  # Not even we could hand it in.
    for path in (folder / PACKAGE).iterdir():
        path.chmod(0o000)
    (folder / PACKAGE).chmod(0o500)
    adapters_of(folder).chmod(0o6777)


# --- what is missing, does not parse, or is written in another encoding (33 to 35) ---


@changes("without adapters", lost=BOTH, note="adapters.py is missing")
def without_adapters(folder):
    adapters_of(folder).rename(folder / "tests" / "adapter.py")


has_files(
    "one adapter is missing",
    {ADAPTERS: ends_with("del run_softmax\n")},
    lost=("softmax",),
    message="run_softmax",
)
has_files(
    "a parameter has another name",
    {ADAPTERS: ends_with("def run_softmax(x, axis):\n    return softmax(x, axis)\n")},
    lost=("softmax",),
    message="unexpected keyword",
)
softmax_does(
    "one adapter is not written",
    "raise NotImplementedError",
    lost=("softmax",),
    message="run_softmax",
)
softmax_does(
    "a package that is not installed and is needed",
    "return not_on_this_machine.softmax(in_features, dim)",
    at_import="import not_on_this_machine",
    lost=("softmax",),
    note="not_on_this_machine",
    message="not_on_this_machine",
)


def before(line, encoding="utf-8"):
    return lambda text: f"{line}\n{text}".encode(encoding)


def after(code):
    return lambda text: text.encode() + code


for name, change, note in (
    ("tabs and spaces", after(b"def f():\n    if 1:\n\treturn"), ": (Tab|Indentation)Error"),
    ("a circular import", before(f"from {PACKAGE}.layers import Linear"), "Error: .*circular"),
    (
        "Latin-1 that does not say so",
        before("X = '\u00e9'", "latin-1"),
        r"functional\.py|utf-8",
    ),
    ("UTF-16", before("", "utf-16"), r"functional\.py|null bytes|utf-8"),
    ("null bytes", after(b"\n\0\n"), r"functional\.py: line \d+: SyntaxError: .*null bytes"),
    ("brackets in brackets", after(b"\nx = " + b"-(" * 100_000), "during import|Error"),
    ("a package that is not installed", before("import not_on_this_machine"), r"\.py, line 1"),
    ("a byte order mark", before("", "utf-8-sig"), ""),
    ("lines end as on Windows", lambda text: text.replace("\n", "\r\n").encode(), ""),
    ("Latin-1 that says so", before("# coding: latin-1\n# \u00e9", "latin-1"), ""),
    ("a line of ten megabytes", after(b"\n# " + b"x" * 10_000_000 + b"\n"), ""),
):
    is_fatal = note and "line 1" not in note

    lost = {"lost": BOTH if is_fatal else ()}
    has_files(name, {FUNCTIONS: change}, note=note, any_policy="brackets" in name, **lost)

has_files(
    "null bytes in the adapters",
    {ADAPTERS: after(b"\n\0\n")},
    lost=BOTH,
    note=r"^tests/adapters\.py: line \d+: .*null bytes",
)
