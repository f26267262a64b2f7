"""Submissions with odd files: links, zips, encodings, what is missing or does not parse."""

import os
import socket
import zipfile
from pathlib import Path

from zoo.animal import PACKAGE, RIGHT, adapters_of, add_to_adapters, animal, define_softmax

BOTH = ("silu", "softmax")


# --- links and devices (29) ---


@animal(29, "its adapters are a link", lost=BOTH, note="adapters.py: a link|missing")
def adapters_are_a_link(folder):
    adapters_of(folder).unlink()
    adapters_of(folder).symlink_to("/etc/passwd")


@animal(29, "links and devices beside a right solution", note="a link|not a file")
def links_and_devices(folder):
    (folder / "etc").symlink_to("/etc")
    (folder / "again").symlink_to(folder)
    (folder / "nowhere").symlink_to("nowhere")
    os.mkfifo(folder / "pipe.py")
    where = Path.cwd()  # A socket's path must be short.
    os.chdir(folder)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket.py")
    finally:
        os.chdir(where)
    os.link(adapters_of(folder), folder / "tests" / "hard_link.py")


# --- zips (30, 31) ---


def zipped(folder, more=(), top=""):
    """Pack an animal; `more` are entries (name or ZipInfo, bytes)."""
    path = folder.with_name(f"{folder.name}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, top + file.relative_to(folder).as_posix())
        for entry, content in more:
            archive.writestr(entry, content)
    return path


def link_entry(name, target):
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o120777 << 16
    return entry, target


@animal(30, "a zip with names that lead elsewhere", note="left out")
def names_that_lead_elsewhere(folder):
    evil = b"raise RuntimeError('this was not to be unpacked')\n"
    names = ("../escaped.py", "/tmp/zoo-escaped.py", "C:/escaped.py", "..\\escaped.py", "a/../../b")
    return zipped(folder, [*((name, evil) for name in names), link_entry("etc", b"/etc")])


def nothing_escaped(_result, folder):
    assert not Path("/tmp/zoo-escaped.py").exists()
    assert not list(folder.parent.glob("**/escaped.py"))


@animal(30, "a zip with the same name twice", note="same name", check=nothing_escaped)
def the_same_name_twice(folder):
    text = adapters_of(folder).read_text()
    again = [("Tests/Adapters.py", text), ("tests/ADAPTERS.py", "raise RuntimeError\n")]
    return zipped(folder, again)


@animal(30, "a zip with a password", note="encrypted")
def with_a_password(folder):
    path = zipped(folder, [("secret.py", b"x = 1\n")])
    content = bytearray(path.read_bytes())
    # The flag of the last entry, in its own header and in the directory.
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.rindex(mark) + offset] |= 1
    path.write_bytes(content)
    return path


@animal(30, "a zip with control characters in a name", note="left out")
def control_characters(folder):
    return zipped(folder, [("bad\x1b[31mname.py", b""), ("tab\tname.py", b"")])


@animal(30, "a damaged zip", lost=BOTH, note="cannot be read|damaged")
def damaged_zip(folder):
    path = zipped(folder)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + content[-200:])
    return path


@animal(31, "a zip bomb beside a right solution", note="left out|MB")
def zip_bomb(folder):
    return zipped(folder, [("zeros.py", bytes(150 * 2**20))])


@animal(31, "a million files", lost=BOTH, note="cannot be read: more than")
def a_million_files(folder):
    # A tenth of it: as many as are read before it is given up.
    path = zipped(folder)
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(100_001):
            archive.writestr(zipfile.ZipInfo(f"many/{number}"), b"")
    return path


@animal(31, "a zip in a zip", lost=BOTH, note="adapters.py is missing; there is ")
def a_zip_in_a_zip(folder):
    inner = zipped(folder)
    outer = folder.with_name(f"{folder.name}-outer.zip")
    with zipfile.ZipFile(outer, "w") as archive:
        archive.write(inner, "submission.zip")
    inner.unlink()
    outer.rename(inner)
    return inner


@animal(31, "a zip as a Mac makes it")
def as_a_mac_makes_it(folder):
    more = [("__MACOSX/my work/tests/._adapters.py", b"\0\5\26\7"), ("my work/.DS_Store", b"\0")]
    return zipped(folder, more, top="my work/")


# --- modes (32) ---


@animal(32, "nobody may read it")
def nobody_may_read_it(folder):
    if os.getuid() != 0:
        return  # Not even we could hand it in.
    for path in (folder / PACKAGE).iterdir():
        path.chmod(0o000)
    (folder / PACKAGE).chmod(0o500)
    adapters_of(folder).chmod(0o6777)


# --- what is missing (33, 34) ---


@animal(33, "without adapters", lost=BOTH, note="adapters.py is missing")
def without_adapters(folder):
    adapters_of(folder).rename(folder / "tests" / "adapter.py")


@animal(33, "one adapter is missing", lost=("softmax",), message="run_softmax")
def one_adapter_is_missing(folder):
    add_to_adapters(folder, "del run_softmax\n")


@animal(33, "one adapter is not written", lost=("softmax",), message="run_softmax")
def one_adapter_is_not_written(folder):
    define_softmax(folder, "raise NotImplementedError")


@animal(33, "a parameter has another name", lost=("softmax",), message="unexpected keyword")
def a_parameter_has_another_name(folder):
    add_to_adapters(folder, "def run_softmax(x, axis):\n    return softmax(x, axis)\n")


@animal(34, "a syntax error", lost=BOTH, note=r"adapters\.py: line \d+: SyntaxError")
def a_syntax_error(folder):
    add_to_adapters(folder, "def broken(:\n")


@animal(34, "tabs and spaces", lost=BOTH, note=r"functional\.py: line \d+: (Tab|Indentation)Error")
def tabs_and_spaces(folder):
    path = folder / PACKAGE / "functional.py"
    path.write_text(path.read_text() + "\n\ndef f():\n    if 1:\n\treturn\n")


@animal(
    34,
    "a package that is not installed",
    note=rf"not_on_this_machine \({PACKAGE}/functional\.py, line 1\)",
)
def not_installed(folder):
    path = folder / PACKAGE / "functional.py"
    path.write_text("import not_on_this_machine\n" + path.read_text())


@animal(
    34,
    "a package that is not installed and is needed",
    lost=("softmax",),
    note="not_on_this_machine",
    message="not_on_this_machine",
)
def not_installed_and_needed(folder):
    define_softmax(
        folder,
        "return not_on_this_machine.softmax(in_features, dim)",
        "import not_on_this_machine",
    )


@animal(34, "a circular import", lost=BOTH, note=r"layers\.py: line \d+: ImportError: .*circular")
def a_circular_import(folder):
    path = folder / PACKAGE / "functional.py"
    path.write_text(f"from {PACKAGE}.layers import Linear\n" + path.read_text())


# --- encodings (35) ---


def rewrite(folder, change):
    path = folder / PACKAGE / "functional.py"
    path.write_bytes(change(path.read_text(encoding="utf-8")))


@animal(35, "a byte order mark")
def a_byte_order_mark(folder):
    rewrite(folder, lambda text: text.encode("utf-8-sig"))


@animal(35, "lines end as on Windows")
def lines_end_as_on_windows(folder):
    rewrite(folder, lambda text: text.replace("\n", "\r\n").encode())


@animal(35, "Latin-1 that says so")
def latin_1_that_says_so(folder):
    rewrite(folder, lambda text: f"# -*- coding: latin-1 -*-\n# é\n{text}".encode("latin-1"))


@animal(35, "Latin-1 that does not say so", lost=BOTH, note=r"functional\.py|utf-8")
def latin_1_that_does_not_say_so(folder):
    rewrite(folder, lambda text: f"NAME = 'é'\n{text}".encode("latin-1"))


@animal(35, "UTF-16", lost=BOTH, note=r"functional\.py|null bytes|utf-8")
def utf_16(folder):
    rewrite(folder, lambda text: text.encode("utf-16"))


@animal(35, "null bytes", lost=BOTH, note="null bytes")
def null_bytes(folder):
    rewrite(folder, lambda text: text.encode() + b"\n\0\n")


@animal(35, "a line of ten megabytes")
def a_line_of_ten_megabytes(folder):
    rewrite(folder, lambda text: text.encode() + b"\n# " + b"x" * 10_000_000 + b"\n")


@animal(35, "brackets in brackets", lost=BOTH, note="during import|Error", any_policy=True)
def brackets_in_brackets(folder):
    rewrite(folder, lambda text: text.encode() + b"\nx = " + b"-(" * 100_000 + b"\n")


@animal(35, "a chain that crashes a parser", any_policy=True)
def a_chain_that_crashes_a_parser(folder):
    # Beside the solution and never imported: only who reads all sources meets it.
    (folder / "chain.py").write_text("x = " + "-" * 200_000 + "1\n")
    define_softmax(folder, RIGHT)


# --- what real programs write, and what damage does to a zip ---


@animal(30, "a zip with backslashes from Windows")
def backslashes_from_windows(folder):
    path = folder.with_name(f"{folder.name}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                entry = zipfile.ZipInfo("homework\\" + "\\".join(file.relative_to(folder).parts))
                entry.create_system = 0
                archive.writestr(entry, file.read_bytes())
    return path


def changed(path, old, new):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    return path


@animal(30, "a zip with an entry without a name", note="empty or overlong name")
def entry_without_a_name(folder):
    path = zipped(folder, [("x", b"x = 1\n")])
    content = bytearray(path.read_bytes())
    # The only letter of the last name becomes an extra field.
    for mark, offset in ((b"PK\x03\x04", 26), (b"PK\x01\x02", 28)):
        place = content.rindex(mark) + offset
        content[place : place + 4] = b"\x00\x00\x01\x00"
    path.write_bytes(content)
    return path


@animal(30, "a zip packed in a way that nobody knows", note="cannot be unpacked")
def packed_in_an_unknown_way(folder):
    path = zipped(folder, [("more.py", b"x = 1\n")])
    content = bytearray(path.read_bytes())
    # The method of the last entry, in its own header and in the directory.
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.rindex(mark) + offset] = 99
    path.write_bytes(content)
    return path


@animal(30, "a zip with a name of no letters", lost=BOTH, note="this archive is damaged: Unicode")
def name_of_no_letters(folder):
    return changed(
        zipped(folder, [("mor\u00e9.py", b"x = 1\n")]), b"mor\xc3\xa9.py", b"mor\xff\xff.py"
    )
