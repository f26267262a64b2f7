"""Copies of submissions hold their files and nothing that could do harm."""

import csv
import dataclasses
import errno
import io
import json
import os
import stat
import zipfile
from pathlib import Path

import pytest
import sample_results
from files import write_files

from cs_grader.results.gradebook import gradebook_csv
from cs_grader.sandbox.workplace import remove
from cs_grader.trusted import batch, clean_copy, copying
from cs_grader.trusted.batch import _key_of, look_up
from cs_grader.trusted.clean_copy import RefusedError
from cs_grader.trusted.copying import copy_submission, own_names, python_files
from cs_grader.trusted.submissions import find_submissions, name_of, passed_over

FILES = {"tests/adapters.py": "import lm\n", "src/lm/__init__.py": "x = 1\n", "notes.txt": "hello"}


def write(folder, files=FILES):
    return write_files(folder, files)


def pack(path, files=FILES):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def names_in(folder):
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def copy_of(tmp_path):
    """Copy a submission; return which files are there beside FILES, and what was left out."""

    def call(source, *missing):
        copied = copy_submission(source, tmp_path / "copy")
        names = names_in(tmp_path / "copy")
        assert {*FILES} - names == {*missing}
        return names - {*FILES}, copied.left_out

    return call


# A blank that does not break, a joiner, marks above letters: people name folders so.
SCRIPTS = [
    "Lab\u00a01/",
    "\u0645\u06cc\u200c\u0631\u0648\u0645/",
    "\u0928\u092e\u0938\u094d\u0924\u0947/",
]


@pytest.mark.parametrize("top", ["", "homework-1/", "a/b/", *SCRIPTS])
@pytest.mark.parametrize("make", [pack, write])
def test_a_folder_and_a_zip_are_the_same_submission_in_any_script(tmp_path, top, make):
    whole = copy_submission(write(tmp_path / "whole"), tmp_path / "expected")
    source = make(tmp_path / "x.zip", {top + name: text for name, text in FILES.items()})
    copied = copy_submission(source, tmp_path / "copy")
    assert names_in(tmp_path / "copy") == set(FILES)
    assert (copied.left_out, copied.key) == ([], whole.key)


def test_the_key_is_of_names_and_contents(tmp_path):
    kinds = (FILES, FILES | {"notes.txt": "hallo"}, FILES | {"note.txt": "hello"})
    keys = {
        copy_submission(write(tmp_path / f"s{i}", files), tmp_path / f"c{i}").key
        for i, files in enumerate(kinds)
    }
    assert len(keys) == 3


JUNK = """.git/config __MACOSX/._x src/lm/__pycache__/a.pyc .DS_Store .venv/bin/python
    src/lm.egg-info/PKG-INFO __MACOSX/homework/tests/._adapters.py"""


@pytest.mark.parametrize("make", [pack, write])
def test_junk_is_left_behind_without_a_word(tmp_path, copy_of, make):
    assert copy_of(make(tmp_path / "s.zip", FILES | dict.fromkeys(JUNK.split(), ""))) == (set(), [])


def entry(**about):
    made = zipfile.ZipInfo("more.py")
    for name, value in about.items():
        setattr(made, name, value)
    return made


LEFT_OUT = {
    "../evil.py": "leads out of the submission",
    "a/../../evil.py": "leads out of the submission",
    "/etc/evil.py": "an absolute path",
    "C:/evil.py": "an absolute path",
    "a\\..\\..\\evil.py": "leads out of the submission",
    "a\x01b.py": "a name with control characters",
    "bad\x1b[31mname.py": "a name with control characters",
    "tab\tname.py": "a name with control characters",
    "a//b.py": "an empty or overlong name",
    "./a.py": "an empty or overlong name",
    "x" * 250 + ".py": "an empty or overlong name",
    "/".join("d" * 30) + "/x.py": "too deep",
    "tests/ADAPTERS.py": "the same name as tests/adapters.py",
    "Tests/other.py": "the same name as tests",
    "tests/adapters.py/x.py": "cannot be copied (File exists)",
    **{
        entry(external_attr=kind << 16): "a link or a device"
        for kind in (stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK)
    },
    # Its size may lie, too: whoever reads the first byte has it all in memory.
    **{
        entry(compress_type=method): "packed by another method than deflate"
        for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    },
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_an_entry_of_a_zip_that_could_do_harm_is_left_out(tmp_path, copy_of, name):
    others, (said,) = copy_of(pack(tmp_path / "x.zip", FILES | {name: "x"}))
    assert others == set()
    assert said.endswith(f": {LEFT_OUT[name]}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "x.zip"]


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [
        (6, b"\1", "x: encrypted"),
        (8, b"\x63", "x: packed by another method than deflate"),
        (26, b"\0\0\1\0", ": an empty or overlong name"),  # The name becomes an extra field.
    ],
)
def test_an_entry_that_was_tampered_with_is_left_out(tmp_path, copy_of, offset, value, reason):
    path = pack(tmp_path / "x.zip", FILES | {"x": "x"})
    data = bytearray(path.read_bytes())
    # In the last entry's own header, and in the directory.
    for place in (data.rindex(b"PK\3\4"), data.rindex(b"PK\1\2") + 2):
        data[place + offset : place + offset + len(value)] = value
    path.write_bytes(data)
    assert copy_of(path) == (set(), [reason])


def test_an_entry_that_cannot_be_unpacked_is_left_out(tmp_path, copy_of):
    path = pack(tmp_path / "x.zip", FILES)
    data = bytearray(path.read_bytes())
    place = data.index(b"notes.txt") + len("notes.txt")
    data[place : place + 3] = b"\xff\xff\xff"
    path.write_bytes(data)
    _, (said,) = copy_of(path, "notes.txt")
    assert said.startswith("notes.txt: cannot be unpacked")


@pytest.mark.parametrize(
    "damage",
    [
        lambda zipped: zipped[: len(zipped) // 2],
        lambda zipped: zipped.replace(b"mor\xc3\xa9", b"mor\xff\xff"),
    ],
    ids=["cut off", "a name of no letters"],
)
def test_a_damaged_zip_is_refused(tmp_path, copy_of, damage):
    path = pack(tmp_path / "x.zip", FILES | {"mor\u00e9.py": "x"})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RefusedError, match="this archive is damaged"):
        copy_of(path)


@pytest.mark.parametrize("make", [pack, write])
def test_compiled_code_is_left_out_whatever_its_name(tmp_path, copy_of, make):
    names = ("lm/fast.so", "weights.bin")
    source = make(tmp_path / "x.zip", FILES | dict.fromkeys(names, b"\x7fELF" + bytes(100)))
    others, left_out = copy_of(source)
    assert others == set()
    assert sorted(left_out) == [f"{name}: compiled code: hand in its source" for name in names]


def test_a_submission_that_is_a_link_or_a_pipe_is_one_that_cannot_be_read(tmp_path, copy_of):
    write(tmp_path / "in" / "ann")
    (tmp_path / "in" / "bob").symlink_to(tmp_path / "in" / "ann")
    os.mkfifo(tmp_path / "in" / "cyd.zip")
    os.mkfifo(tmp_path / "in" / "notes")
    found, _ = find_submissions(tmp_path / "in")
    assert [one.name for one in found] == ["ann", "bob", "cyd"]
    assert passed_over(tmp_path / "in") == ["notes"]
    for one in found[1:]:
        with pytest.raises(RefusedError, match="a link or a device: put the folder or the zip"):
            copy_of(one.source)


def test_links_and_pipes_in_a_folder_are_left_out_and_permissions_ordinary(tmp_path, copy_of):
    source = write(tmp_path / "s")
    (tmp_path / "secret.py").write_text("secret")
    (source / "link.py").symlink_to(tmp_path / "secret.py")
    (source / "loop").symlink_to(source)
    os.mkfifo(source / "pipe.py")
    (source / "notes.txt").chmod(0o4777)
    left_out = ["link.py: a link", "loop: a link", "pipe.py: not a file"]
    assert copy_of(source) == (set(), left_out)
    mode = (tmp_path / "copy" / "notes.txt").stat().st_mode
    assert stat.S_IMODE(mode) & 0o7133 == 0


def test_a_bomb_is_left_out(tmp_path, copy_of):
    source = pack(tmp_path / "x.zip", FILES | {"zeros.py": bytes(60 * 2**20)})
    assert copy_of(source) == (set(), ["zeros.py: 63 MB out of almost nothing"])


@pytest.mark.parametrize(
    ("limit", "value", "more", "reason"),
    [
        ("MAX_FILE_BYTES", 1000, {"large.py": os.urandom(2000)}, "larger than 0 MB"),
        ("MAX_SOURCE_BYTES", 3000, {"z.py": b"#" * 4000}, "more than 0 MB of source"),
        ("MAX_DATA_BYTES", 1000, {"z.pt": "x" * 1600}, "more than 0 MB besides the source"),
        ("MAX_DATA_FILES", 1, {"z.pt": "x"}, "more than 1 files besides the source"),
    ],
)
def test_what_is_beyond_a_limit_is_left_out(
    tmp_path, copy_of, monkeypatch, limit, value, more, reason
):
    monkeypatch.setattr(clean_copy, limit, value)
    (name,) = more
    assert copy_of(write(tmp_path / "s", FILES | more)) == (set(), [f"{name}: {reason}"])


def test_too_many_files_are_refused(tmp_path, copy_of, monkeypatch):
    monkeypatch.setattr(clean_copy, "MAX_FILES", 2)
    with pytest.raises(RefusedError, match="more than 2 files"):
        copy_of(write(tmp_path / "s"))


def test_a_directory_of_too_many_entries_is_refused_before_it_is_read(
    tmp_path, copy_of, monkeypatch
):
    pack(tmp_path / "a.zip", {f"{number}.py": "" for number in range(20)})
    monkeypatch.setattr(copying, "MAX_DIRECTORY_BYTES", 20 * 50)
    monkeypatch.setattr(zipfile, "ZipFile", None)  # would read all of it
    with pytest.raises(RefusedError, match="entries in the zip"):
        copy_of(tmp_path / "a.zip")


@pytest.mark.parametrize(
    ("written", "meant"), [(b"@bung1/", b"\x9abung1/"), (b"@bung1/", b"home\\1\\")]
)
def test_a_zip_of_windows_is_read(tmp_path, copy_of, written, meant):
    """An umlaut is a byte of a code page that is not named; some write backslashes."""
    path = pack(tmp_path / "x.zip", {f"{written.decode()}{n}": text for n, text in FILES.items()})
    path.write_bytes(path.read_bytes().replace(written, meant))
    assert copy_of(path) == (set(), [])


@pytest.mark.parametrize("make", [pack, write])
def test_a_name_with_accents_as_a_mac_writes_them_can_be_imported(tmp_path, copy_of, make):
    source = make(tmp_path / "x.zip", FILES | {"gro\u0308\u00dfe.py": ""})
    assert copy_of(source) == ({"gr\u00f6\u00dfe.py"}, [])


def test_a_folder_of_another_case_does_not_hide_the_adapters(tmp_path, copy_of):
    source = pack(tmp_path / "a.zip", {"Tests/old.py": ""} | FILES)
    assert copy_of(source) == (set(), ["Tests/old.py: the same name as tests"])


def test_a_full_disk_is_no_fault_of_the_submission(tmp_path, monkeypatch):
    opened = os.open

    def open_on_a_full_disk(path, flags, *mode, **settings):
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(path, flags, *mode, **settings)

    source = write(tmp_path / "s")
    monkeypatch.setattr(os, "open", open_on_a_full_disk)
    with pytest.raises(OSError, match="No space left"):
        copy_submission(source, tmp_path / "copy")


@pytest.mark.parametrize(
    ("other", "is_found"),
    [
        ("writeup.pdf", True),
        ("a/b/old/deeper/tests/adapters.py", True),
        ("code/other/tests/adapters.py", False),
    ],
)
def test_the_nearest_folder_with_adapters_is_the_submission(tmp_path, other, is_found):
    files = {f"code/project/{name}": text for name, text in FILES.items()}
    copy_submission(write(tmp_path / "s", files | {other: "x"}), tmp_path / "copy")
    assert (names_in(tmp_path / "copy") == set(FILES)) == is_found


# --- a folder of submissions ---

EXPORT = """---
submission_1001:
  :submitters:
  - :name: Ada L\u00f6velace
    :sid: '17'
    :email: ada@example.org
  - :name: "=cmd"
    :sid:
    :email: bob@example.org
  :created_at: 2026-01-02 03:04:05.000000000 Z
  :results: !ruby/hash:ActiveSupport::HashWithIndifferentAccess
    output: "\\e[31mno"
submission_1002:
  :submitters: []
"""


def test_names_and_addresses_of_an_export_from_gradescope_are_in_the_gradebook(tmp_path):
    write(tmp_path, {"submission_metadata.yml": EXPORT})
    for number in (1001, 1002, 1003):
        write(tmp_path / f"submission_{number}")
    found, _ = find_submissions(tmp_path)
    assert passed_over(tmp_path) == []
    batch.write_gradebook([batch.Graded(submission=one, fault="-") for one in found], tmp_path)
    with (tmp_path / "gradebook.csv").open(encoding="utf-8-sig") as file:
        rows = [(row["names"], row["addresses"]) for row in csv.DictReader(file)]
    known = ("Ada L\u00f6velace, =cmd", "ada@example.org, bob@example.org")
    assert rows == [known, ("", ""), ("", "")]


@pytest.mark.parametrize("text", ["", "- a\n", "a: b\n", "a: {b: c}\n", "a: [\n", b"\xff"])
def test_an_export_that_cannot_be_read_is_one_line(tmp_path, text):
    write(tmp_path / "submission_1001")
    write(tmp_path, {"submission_metadata.yml": text})
    with pytest.raises(ValueError, match=r"\.yml is not what Gradescope exports: [^\n]+$"):
        find_submissions(tmp_path)


def test_submissions_of_a_class_have_names_of_their_own(tmp_path, copy_of):
    write(tmp_path / "ann")
    for name in ("ann", "Bob <b>", "Gradebook.csv"):
        pack(tmp_path / f"{name}.zip")
    write(tmp_path, {"cy.tar.gz": "", "README.md": "not a submission"})
    found, is_batch = find_submissions(tmp_path)
    assert is_batch
    assert passed_over(tmp_path) == ["README.md"]
    names = [submission.name for submission in found]
    assert names == ["Bob _b_", "Gradebook.csv-2", "ann", "ann-2", "cy.tar.gz"]
    with pytest.raises(RefusedError, match=r"\.gz cannot be read: hand in a zip or a folder"):
        copy_of(found[-1].source)


def test_a_folder_that_cannot_be_read_stops_nobody_else(tmp_path, monkeypatch):
    write(tmp_path / "ann")
    write(tmp_path / "bob")
    exists = Path.exists

    def refuse(path):
        if "ann" in path.parts:
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", refuse)
    assert [submission.name for submission in find_submissions(tmp_path)[0]] == ["ann", "bob"]


def test_the_folders_of_moodle_hold_a_zip_each(tmp_path, copy_of):
    names = ["Ann_1_file_", "Bob_2_file_", "Cy_3_file_"]
    for name in names:
        (tmp_path / name).mkdir()
    pack(tmp_path / names[0] / "project.ZIP")
    pack(tmp_path / names[1] / "project.ZIP")
    (tmp_path / names[2] / "mine.zip").symlink_to(tmp_path / names[0] / "project.ZIP")
    found, is_batch = find_submissions(tmp_path)
    assert is_batch
    assert [submission.name for submission in found] == names
    assert found[2].source == tmp_path / names[2]  # Its link leads to the work of another.
    assert copy_of(found[0].source) == (set(), [])


def test_a_readme_beside_submissions_in_folders_of_their_own_does_not_make_them_one(tmp_path):
    for name in ("ann", "bob"):
        write(tmp_path / name / "homework")
    write(tmp_path, {"README.md": "not a submission"})
    found, is_batch = find_submissions(tmp_path)
    assert is_batch
    assert [submission.name for submission in found] == ["ann", "bob"]


def test_one_submission_is_told_from_a_folder_of_them(tmp_path):
    assert find_submissions(write(tmp_path / "ann"))[1] is False
    assert find_submissions(pack(tmp_path / "x.zip"))[1] is False
    (tmp_path / "empty").mkdir()
    for name, words in (
        ("empty", "holds no submission"),
        ("nothing", "does not exist"),
        ("ann/notes.txt", "neither a folder nor a zip"),
    ):
        with pytest.raises(ValueError, match=words):
            find_submissions(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.zip", "a"),
        ("../x", "x"),
        ("\x1b[31m", "__31m"),
        ("...", "submission"),
        ("m\u00fcller", "m\u00fcller"),
        ("mu\u0308ller", "m\u00fcller"),
        ("O'Brien \u0928\u092e\u0938\u094d.zip", "O'Brien \u0928\u092e\u0938\u094d"),
    ],
)
def test_names_are_fit_for_folders_and_tables(tmp_path, name, expected):
    assert name_of(tmp_path / name) == expected


ALIKE = [
    *(("Anna K", "Anna  K"), ("+x", "'+x"), ("e\u0301", "\u00e9"), ("x", "x.zip")),
    *(("Anna", "anna"), ("anna;k", "anna!k"), ("a" * 80 + "1", "a" * 80 + "2")),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_no_two_are_one_row_and_neither_gets_the_mark_of_the_other(tmp_path, one, other):
    """Whoever comes later may have the name that the first had when it was graded."""
    out = tmp_path / "out"
    hand_in = {name: pack if name.endswith(".zip") else write for name in (one, other)}
    hand_in[one](tmp_path / "in" / one)
    (first,), _ = find_submissions(tmp_path / "in")
    result = dataclasses.replace(sample_results.result([]), handed_in_as=one, key=_key_of(first))
    write_files(out, {f"{first.name}/result.json": result.to_json()})
    hand_in[other](tmp_path / "in" / other)
    both, _ = find_submissions(tmp_path / "in")
    graded = look_up(both, lambda of: out / of.name)
    table = gradebook_csv([], {who.name: "x" for who in both})
    rows = csv.DictReader(io.StringIO(table.removeprefix("\ufeff")))
    assert len({row["submission"].casefold() for row in rows}) == 2
    marks = {of.submission.handed_in_as for of in graded if of.result is not None}
    assert marks <= {one}


# --- source ---


def test_source_is_read_in_its_own_encoding(tmp_path):
    said = {
        "bom.py": (b"\xef\xbb\xbfx = 1\n", "x = 1\n"),
        "latin.py": (b"# coding: latin-1\nx = '\xe9'\n", "# coding: latin-1\nx = '\u00e9'\n"),
        "broken.py": (b"x = '\xff'\n", "x = '\ufffd'\n"),
        "unknown.py": (b"# coding: no-such-thing\n", "# coding: no-such-thing\n"),
    }
    folder = write(tmp_path / "s", {name: written for name, (written, _) in said.items()})
    (folder / "folder.py").mkdir()
    assert python_files(folder) == {name: read for name, (_, read) in said.items()}


@pytest.mark.parametrize("encoding", ["rot13", "punycode", "utf-7", "unicode_escape", "cp1252"])
def test_source_that_nobody_can_read_is_left_out(tmp_path, copy_of, encoding):
    source = write(tmp_path / "s", FILES | {"x.py": f"# coding: {encoding}\nx = 1\n"})
    others, left_out = copy_of(source)
    is_text = encoding == "cp1252"
    assert ("x.py" in others) == is_text
    assert is_text or left_out[0].startswith("x.py: written in ")


def test_modules_of_the_submission_are_known_as_far_as_an_argument_has_room(tmp_path):
    assert own_names(write(tmp_path)) == ["adapters", "lm", "src", "tests"]
    for number in range(2000):
        (tmp_path / f"{'a' * 30}{number}.py").touch()
    (tmp_path / f"{'b' * 190}.py").touch()
    assert len(json.dumps(own_names(tmp_path))) < 50_000


def test_a_folder_is_removed_however_deep_it_is(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    (top / "link").symlink_to(tmp_path)
    handle = os.open(top, os.O_RDONLY)
    for _ in range(1100):  # Deeper than Python calls itself, and longer than a path may be.
        os.mkdir("d" * 9, dir_fd=handle)
        below = os.open("d" * 9, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(os.open("file", os.O_CREAT, dir_fd=handle))
    os.fchmod(handle, 0)
    os.close(handle)
    (top / "closed" / "inner").mkdir(parents=True)
    (top / "closed" / "inner").chmod(0)
    (top / "closed").chmod(0)
    remove(top)
    assert list(tmp_path.iterdir()) == []
