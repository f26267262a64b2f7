"""Copies of submissions hold their files and nothing that could do harm."""

import csv
import errno
import json
import os
import shutil
import stat
import unicodedata
import zipfile
from pathlib import Path

import pytest

from cs_grader.sandbox.workplace import remove
from cs_grader.trusted import batch, clean_copy, copying
from cs_grader.trusted.clean_copy import RefusedError
from cs_grader.trusted.copying import copy_submission, own_names, python_files
from cs_grader.trusted.submissions import find_submissions, name_of, passed_over

FILES = {"tests/adapters.py": "import lm\n", "src/lm/__init__.py": "x = 1\n", "notes.txt": "hello"}


def write(folder, files=FILES):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return folder


def pack(path, entries):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def copied_files(folder):
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("top", ["", "homework-1/", "a/b/"])
@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_a_folder_and_a_zip_are_the_same_submission(tmp_path, top, kind):
    whole = copy_submission(write(tmp_path / "whole"), tmp_path / "expected")
    entries = {top + name: content for name, content in FILES.items()}
    path = tmp_path / "x.zip"
    source = pack(path, entries) if kind == "zip" else write(tmp_path / "x", entries)
    copied = copy_submission(source, tmp_path / "copy")
    assert copied_files(tmp_path / "copy") == set(FILES)
    assert copied.left_out == []
    assert copied.key == whole.key


def test_the_key_is_of_names_and_contents(tmp_path):
    keys = {
        copy_submission(write(tmp_path / f"s{i}", files), tmp_path / f"c{i}").key
        for i, files in enumerate(
            [FILES, FILES | {"notes.txt": "hallo"}, {**FILES, "note.txt": "hello"}]
        )
    }
    assert len(keys) == 3


def test_junk_is_left_behind_without_a_word(tmp_path):
    junk = {
        ".git/config": "",
        "__MACOSX/._x": "",
        "src/lm/__pycache__/a.pyc": "",
        ".DS_Store": "",
        ".venv/bin/python": "",
        "src/lm.egg-info/PKG-INFO": "",
    }
    copied = copy_submission(write(tmp_path / "s", FILES | junk), tmp_path / "copy")
    assert copied_files(tmp_path / "copy") == set(FILES)
    assert copied.left_out == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../evil.py", "leads out of the submission"),
        ("a/../../evil.py", "leads out of the submission"),
        ("/etc/evil.py", "an absolute path"),
        ("C:/evil.py", "an absolute path"),
        ("a\\..\\..\\evil.py", "leads out of the submission"),
        ("a\x01b.py", "a name with control characters"),
        ("a//b.py", "an empty or overlong name"),
        ("./a.py", "an empty or overlong name"),
        ("x" * 250 + ".py", "an empty or overlong name"),
        ("/".join("d" * 30) + "/x.py", "too deep"),
        ("tests/ADAPTERS.py", "the same name as tests/adapters.py"),
        ("Tests/other.py", "the same name as tests"),
        ("tests/adapters.py/x.py", "cannot be copied (File exists)"),
    ],
)
def test_a_name_that_could_do_harm_is_left_out(tmp_path, name, reason):
    source = pack(tmp_path / "x.zip", FILES | {name: "x"})
    copied = copy_submission(source, tmp_path / "copy")
    assert copied_files(tmp_path / "copy") == set(FILES)
    assert len(copied.left_out) == 1
    assert copied.left_out[0].endswith(reason)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "x.zip"]


@pytest.mark.parametrize("packed", [True, False])
def test_compiled_code_is_left_out_whatever_its_name(tmp_path, packed):
    extension = b"\x7fELF" + bytes(100)
    folder = write(tmp_path / "s", FILES)
    for name in ("lm/fast.so", "weights.bin"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(extension)
    source = Path(shutil.make_archive(str(tmp_path / "x"), "zip", folder)) if packed else folder
    copied = copy_submission(source, tmp_path / "copy")
    assert sorted(copied.left_out) == [
        f"{name}: compiled code: hand in its source" for name in ("lm/fast.so", "weights.bin")
    ]
    assert copied_files(tmp_path / "copy") == set(FILES)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_a_link_or_device_in_a_zip_is_left_out(tmp_path, kind):
    path = pack(tmp_path / "x.zip", FILES)
    with zipfile.ZipFile(path, "a") as archive:
        entry = zipfile.ZipInfo("tests/more.py")
        entry.external_attr = (kind | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    copied = copy_submission(path, tmp_path / "copy")
    assert copied.left_out == ["tests/more.py: a link or a device"]
    assert copied_files(tmp_path / "copy") == set(FILES)


def test_a_submission_that_is_a_link_or_a_pipe_is_one_that_cannot_be_read(tmp_path):
    write(tmp_path / "in" / "ann")
    (tmp_path / "in" / "bob").symlink_to(tmp_path / "in" / "ann")
    os.mkfifo(tmp_path / "in" / "cyd.zip")
    os.mkfifo(tmp_path / "in" / "notes")
    found, _ = find_submissions(tmp_path / "in")
    assert [one.name for one in found] == ["ann", "bob", "cyd"]
    assert passed_over(tmp_path / "in") == ["notes"]
    for one in found[1:]:
        with pytest.raises(RefusedError, match="a link or a device: put the folder or the zip"):
            copy_submission(one.source, tmp_path / "copy")


def test_links_and_pipes_in_a_folder_are_left_out(tmp_path):
    source = write(tmp_path / "s")
    (tmp_path / "secret.py").write_text("secret")
    (source / "link.py").symlink_to(tmp_path / "secret.py")
    (source / "loop").symlink_to(source)
    os.mkfifo(source / "pipe.py")
    copied = copy_submission(source, tmp_path / "copy")
    assert copied.left_out == ["link.py: a link", "loop: a link", "pipe.py: not a file"]
    assert copied_files(tmp_path / "copy") == set(FILES)


def test_permissions_are_ordinary_again(tmp_path):
    source = write(tmp_path / "s")
    (source / "notes.txt").chmod(0o4777)
    copy_submission(source, tmp_path / "copy")
    mode = (tmp_path / "copy" / "notes.txt").stat().st_mode
    assert stat.S_IMODE(mode) & 0o7133 == 0


def test_a_bomb_is_left_out(tmp_path):
    source = pack(tmp_path / "x.zip", FILES | {"zeros.py": bytes(60 * 2**20)})
    copied = copy_submission(source, tmp_path / "copy")
    assert copied.left_out == ["zeros.py: 63 MB out of almost nothing"]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_python_unpacks_at_once_is_left_out(tmp_path, method):
    """Its size may lie, too: whoever reads the first byte has it all in memory."""
    path = pack(tmp_path / "x.zip", FILES)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("zeros.py", bytes(2**20), compress_type=method)
    copied = copy_submission(path, tmp_path / "copy")
    assert copied.left_out == ["zeros.py: packed by another method than deflate"]
    assert copied_files(tmp_path / "copy") == set(FILES)


def test_a_size_that_lies_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(clean_copy, "MAX_FILE_BYTES", 1000)
    source = pack(tmp_path / "x.zip", FILES | {"large.py": os.urandom(2000)})
    copied = copy_submission(source, tmp_path / "copy")
    assert copied.left_out == ["large.py: larger than 0 MB"]
    assert copied_files(tmp_path / "copy") == set(FILES)


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(clean_copy, "MAX_FILES", 2)
    with pytest.raises(RefusedError, match="more than"):
        copy_submission(write(tmp_path / "s"), tmp_path / "copy")


def test_data_does_not_take_the_room_of_the_source(tmp_path, monkeypatch):
    monkeypatch.setattr(clean_copy, "MAX_DATA_BYTES", 1000)
    source = write(tmp_path / "s", FILES | {f"a_{n}.pt": "x" * 600 for n in range(3)})
    copied = copy_submission(source, tmp_path / "copy")
    assert copied.left_out == [f"a_{n}.pt: more than 0 MB besides the source" for n in (1, 2)]
    assert copied_files(tmp_path / "copy") == {*FILES, "a_0.pt"}


def test_many_files_of_data_do_not_refuse_the_source(tmp_path, monkeypatch):
    monkeypatch.setattr(clean_copy, "MAX_DATA_FILES", 3)
    source = write(tmp_path / "s", FILES | {f"a_{n}.pt": "x" for n in range(5)})
    copied = copy_submission(source, tmp_path / "copy")
    assert copied.left_out == [
        f"{name}: more than 3 files besides the source"
        for name in ("a_3.pt", "a_4.pt", "notes.txt")
    ]
    assert {name for name in FILES if name.endswith(".py")} <= copied_files(tmp_path / "copy")


@pytest.mark.parametrize("make", [pack, write])
@pytest.mark.parametrize(
    "folder",
    ["Lab\u00a01", "\u0645\u06cc\u200c\u0631\u0648\u0645", "\u0928\u092e\u0938\u094d\u0924\u0947"],
)
def test_names_in_any_script_are_copied(tmp_path, make, folder):
    """A blank that does not break, a joiner, marks above letters: people name folders so."""
    source = make(tmp_path / "x.zip", {f"{folder}/{name}": text for name, text in FILES.items()})
    assert copy_submission(source, tmp_path / "copy").left_out == []
    assert copied_files(tmp_path / "copy") == set(FILES)


def test_a_zip_in_the_code_page_of_a_country_is_read(tmp_path):
    """Windows packs a folder with an umlaut as byte 0x9A, and does not say which code page."""
    path = pack(tmp_path / "x.zip", {f"@bung1/{name}": text for name, text in FILES.items()})
    path.write_bytes(path.read_bytes().replace(b"@bung1", b"\x9abung1"))
    assert copy_submission(path, tmp_path / "copy").left_out == []
    assert copied_files(tmp_path / "copy") == set(FILES)


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
    ("others", "is_found"),
    [
        ({"writeup.pdf": "x"}, True),
        ({"a/b/old/deeper/tests/adapters.py": "x"}, True),
        ({"code/other/tests/adapters.py": "x"}, False),
    ],
)
def test_the_nearest_folder_with_adapters_is_the_submission(tmp_path, others, is_found):
    files = {f"code/project/{name}": text for name, text in FILES.items()}
    copy_submission(write(tmp_path / "s", files | others), tmp_path / "copy")
    assert (copied_files(tmp_path / "copy") == set(FILES)) == is_found


@pytest.mark.parametrize("make", [pack, write])
def test_a_name_with_accents_as_a_mac_writes_them_can_be_imported(tmp_path, make):
    decomposed = {f"{unicodedata.normalize('NFD', 'größe')}.py": ""}
    copy_submission(make(tmp_path / "x.zip", FILES | decomposed), tmp_path / "copy")
    assert copied_files(tmp_path / "copy") == {*FILES, "größe.py"}


def test_a_damaged_zip_is_refused(tmp_path):
    path = pack(tmp_path / "x.zip", FILES)
    data = bytearray(path.read_bytes())
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(RefusedError, match="this archive is damaged"):
        copy_submission(path, tmp_path / "copy")


def test_an_entry_that_cannot_be_unpacked_is_left_out(tmp_path):
    path = pack(tmp_path / "x.zip", FILES)
    data = bytearray(path.read_bytes())
    place = data.index(b"notes.txt") + len("notes.txt")
    data[place : place + 3] = b"\xff\xff\xff"
    path.write_bytes(data)
    copied = copy_submission(path, tmp_path / "copy")
    assert len(copied.left_out) == 1
    assert copied.left_out[0].startswith("notes.txt: cannot be unpacked")


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
    (tmp_path / "submission_metadata.yml").write_text(EXPORT, encoding="utf-8")
    for number in (1001, 1002, 1003):
        write(tmp_path / f"submission_{number}")
    found, _ = find_submissions(tmp_path)
    assert passed_over(tmp_path) == []
    out = tmp_path / "out"
    out.mkdir()
    batch.write_gradebook(
        [batch.Graded(submission=one, result=None, fault="none") for one in found], out
    )
    with (out / "gradebook.csv").open(encoding="utf-8") as file:
        rows = {row["submission"]: (row["names"], row["addresses"]) for row in csv.DictReader(file)}
    assert rows == {
        "submission_1001": ("Ada L\u00f6velace, =cmd", "ada@example.org, bob@example.org"),
        "submission_1002": ("", ""),
        "submission_1003": ("", ""),
    }


@pytest.mark.parametrize("text", ["", "- a\n", "a: b\n", "a: {b: c}\n", "a: [\n", "\udcff"])
def test_an_export_that_cannot_be_read_is_one_line(tmp_path, text):
    write(tmp_path / "submission_1001")
    file = tmp_path / "submission_metadata.yml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=r"\.yml is not what Gradescope exports: [^\n]+$"):
        find_submissions(tmp_path)


def test_submissions_of_a_class_have_names_of_their_own(tmp_path):
    write(tmp_path / "ann")
    pack(tmp_path / "ann.zip", FILES)
    pack(tmp_path / "Bob <b>.zip", FILES)
    pack(tmp_path / "Gradebook.csv.zip", FILES)
    (tmp_path / "cy.tar.gz").touch()
    (tmp_path / "README.md").write_text("not a submission")
    found, is_batch = find_submissions(tmp_path)
    assert is_batch
    assert passed_over(tmp_path) == ["README.md"]
    names = [submission.name for submission in found]
    assert names == ["Bob _b_", "Gradebook.csv-2", "ann", "ann-2", "cy.tar.gz"]
    with pytest.raises(RefusedError, match=r"\.gz cannot be read: hand in a zip or a folder"):
        copy_submission(found[-1].source, tmp_path / "copy")


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


def test_the_folders_of_moodle_hold_a_zip_each(tmp_path):
    for name in ("Ann_1_file_", "Bob_2_file_"):
        (tmp_path / name).mkdir()
        pack(tmp_path / name / "project.ZIP", FILES)
    (tmp_path / "Cy_3_file_").mkdir()
    (tmp_path / "Cy_3_file_" / "mine.zip").symlink_to(tmp_path / "Ann_1_file_" / "project.ZIP")
    found, is_batch = find_submissions(tmp_path)
    assert is_batch
    assert [submission.name for submission in found] == ["Ann_1_file_", "Bob_2_file_", "Cy_3_file_"]
    assert found[2].source == tmp_path / "Cy_3_file_"  # Its link leads to the work of another.
    copy_submission(found[0].source, tmp_path / "copy")
    assert copied_files(tmp_path / "copy") == set(FILES)


def test_a_readme_beside_submissions_in_folders_of_their_own_does_not_make_them_one(tmp_path):
    for name in ("ann", "bob"):
        write(tmp_path / name / "homework")
    (tmp_path / "README.md").write_text("not a submission")
    found, is_batch = find_submissions(tmp_path)
    assert is_batch
    assert [submission.name for submission in found] == ["ann", "bob"]


def test_results_do_not_lie_among_the_submissions(script, tmp_path):
    for name in ("ann", "bob"):
        write(tmp_path / name)
    result = script("instructor/grade", tmp_path, "--out", tmp_path / "results")
    assert result.code == 2
    assert result.err == (
        f"error: --out {tmp_path / 'results'} lies among the submissions: choose another folder\n"
    )


def test_one_submission_is_told_from_a_folder_of_them(tmp_path):
    assert find_submissions(write(tmp_path / "ann"))[1] is False
    assert find_submissions(pack(tmp_path / "x.zip", FILES))[1] is False
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no submission"):
        find_submissions(tmp_path / "empty")
    with pytest.raises(ValueError, match="does not exist"):
        find_submissions(tmp_path / "nothing")
    with pytest.raises(ValueError, match="neither a folder nor a zip"):
        find_submissions(tmp_path / "ann" / "notes.txt")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.zip", "a"),
        ("../x", "x"),
        ("\x1b[31m", "__31m"),
        ("...", "submission"),
        ("m\u00fcller", "m\u00fcller"),
        ("mu\u0308ller", "m\u00fcller"),
        (
            "O'Brien \u0928\u092e\u0938\u094d\u0924\u0947.zip",
            "O'Brien \u0928\u092e\u0938\u094d\u0924\u0947",
        ),
    ],
)
def test_names_are_fit_for_folders_and_tables(tmp_path, name, expected):
    assert name_of(tmp_path / name) == expected


def test_source_is_read_in_its_own_encoding(tmp_path):
    folder = write(tmp_path / "s", {"bom.py": "\ufeffx = 1\n"})
    (folder / "latin.py").write_bytes(b"# coding: latin-1\nx = '\xe9'\n")
    (folder / "broken.py").write_bytes(b"x = '\xff'\n")
    (folder / "unknown.py").write_bytes(b"# coding: no-such-thing\n")
    (folder / "folder.py").mkdir()
    files = python_files(folder)
    assert files["bom.py"] == "x = 1\n"
    assert "\u00e9" in files["latin.py"]
    assert "\ufffd" in files["broken.py"]
    assert "no-such-thing" in files["unknown.py"]


@pytest.mark.parametrize("encoding", ["rot13", "punycode", "utf-7", "unicode_escape", "cp1252"])
def test_source_that_nobody_can_read_is_left_out(tmp_path, encoding):
    source = write(tmp_path / "s", FILES | {"x.py": f"# coding: {encoding}\nx = 1\n"})
    copied = copy_submission(source, tmp_path / "copy")
    is_text = encoding == "cp1252"
    assert ("x.py" in copied_files(tmp_path / "copy")) == is_text
    assert is_text or copied.left_out[0].startswith("x.py: written in ")


def test_a_folder_is_removed_however_deep_it_is(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    (top / "link").symlink_to(tmp_path)
    handle = os.open(top, os.O_RDONLY)
    for _ in range(3000):  # Deeper than Python calls itself, and longer than a path may be.
        os.mkdir("dd", dir_fd=handle)
        below = os.open("dd", os.O_RDONLY, dir_fd=handle)
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


def test_a_directory_of_too_many_entries_is_refused_before_it_is_read(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(20):
            archive.writestr(f"{number}.py", b"")
    monkeypatch.setattr(copying, "MAX_DIRECTORY_BYTES", 20 * 50)
    monkeypatch.setattr(zipfile, "ZipFile", None)  # would read all of it
    with pytest.raises(RefusedError, match="entries in the zip"):
        copy_submission(tmp_path / "a.zip", tmp_path / "copy")


def test_source_beyond_a_limit_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(clean_copy, "MAX_SOURCE_BYTES", 3000)
    (tmp_path / "s").mkdir()
    for name in ("a.py", "b.py", "c.txt"):
        (tmp_path / "s" / name).write_bytes(b"#" * 2000)
    copied = copy_submission(tmp_path / "s", tmp_path / "copy")
    assert (copied.num_files, len(copied.left_out)) == (2, 1)
    assert copied.left_out[0].endswith("MB of source")


def test_a_folder_of_another_case_does_not_hide_the_adapters(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("Tests/old.py", b"")
        archive.writestr("tests/adapters.py", b"")
    copied = copy_submission(tmp_path / "a.zip", tmp_path / "copy")
    assert copied.left_out == ["Tests/old.py: the same name as tests"]
    assert (tmp_path / "copy" / "tests" / "adapters.py").exists()


def test_own_names_have_room_in_an_argument(tmp_path):
    for number in range(2000):
        (tmp_path / f"{'a' * 30}{number}.py").touch()
    (tmp_path / f"{'b' * 190}.py").touch()
    assert len(json.dumps(own_names(tmp_path))) < 50_000


def test_modules_of_the_submission_are_known(tmp_path):
    assert own_names(write(tmp_path / "s")) == ["adapters", "lm", "src", "tests"]
