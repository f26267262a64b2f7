"""Downloads, against a server on this machine."""

import gzip
import hashlib
import http.server
import re
import threading

import pytest

from cs_basics.run.download import download

CONTENT = bytes(range(256)) * 5000


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT like a hub: a redirect that names the checksum, then the bytes."""

    breaks_after: int | None = None
    content, version = CONTENT, '"one"'
    checksum = hashlib.sha256(CONTENT).hexdigest()
    has_ranges = True

    def do_GET(self):
        if self.path == "/missing.txt":
            self.send_error(404)
            return
        if self.path == "/file.txt":
            self.send_response(302)
            self.send_header("X-Linked-ETag", f'"{self.checksum}"')
            self.send_header("X-Linked-Size", str(len(CONTENT)))
            self.send_header("Location", "/blob")
            self.end_headers()
            return
        start = 0
        wanted = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        is_same = self.headers.get("If-Range") == self.version != ""
        if wanted and self.has_ranges and is_same:
            start = int(wanted[1])
            if start >= len(CONTENT):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        self.server.starts.append(start)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        if self.version:
            self.send_header("ETag", self.version)
        self.end_headers()
        end = len(CONTENT) if self.breaks_after is None else start + self.breaks_after
        self.wfile.write(self.content[start:end])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    class FreshHandler(Handler):
        pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FreshHandler)
    server.starts = []
    server.handler = FreshHandler
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_broken_download_is_resumed(server, tmp_path, has_ranges):
    path = tmp_path / "file.txt"
    server.handler.breaks_after = 300_000
    server.handler.has_ranges = has_ranges
    with pytest.raises(ConnectionError, match=r"broke off|cannot be fetched"):
        download(f"{server.url}/file.txt", path)
    assert not path.exists()
    server.handler.breaks_after = None
    download(f"{server.url}/file.txt", path)
    assert path.read_bytes() == CONTENT
    assert server.starts == [0, 300_000 if has_ranges else 0]


@pytest.mark.parametrize("version", ['"two"', ""])
def test_what_has_changed_since_it_broke_off_is_fetched_anew(server, tmp_path, version):
    server.handler.breaks_after, server.handler.version = 300_000, '"one"' if version else ""
    server.handler.content = CONTENT[::-1]
    with pytest.raises(ConnectionError, match=r"broke off|cannot be fetched"):
        download(f"{server.url}/blob", tmp_path / "blob")
    server.handler.breaks_after, server.handler.version = None, version
    server.handler.content = CONTENT
    download(f"{server.url}/blob", tmp_path / "blob")
    assert (tmp_path / "blob").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["blob"]


def test_wrong_bytes_are_refused_and_deleted(server, tmp_path):
    server.handler.checksum = "0" * 64
    with pytest.raises(ValueError, match="SHA-256"):
        download(f"{server.url}/file.txt", tmp_path / "file.txt")
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_is_one_clear_error(server, tmp_path):
    with pytest.raises(ConnectionError, match="404"):
        download(f"{server.url}/missing.txt", tmp_path / "missing.txt")
    assert list(tmp_path.iterdir()) == []


def test_the_script_says_what_to_do_offline(refused, tmp_path):
    assert "Offline?" in refused(
        "download", "tinystories", "--out", tmp_path, "--mirror", "http://127.0.0.1:9/nothing"
    )
    assert list(tmp_path.iterdir()) == []


def test_the_script_fetches_what_is_not_there_yet(succeeds, server, tmp_path):
    (tmp_path / "TinyStoriesV2-GPT4-train.txt").write_text("mine")
    result = succeeds("download", "tinystories", "--out", tmp_path, "--mirror", server.url)
    assert "is there already" in result.out
    assert (tmp_path / "TinyStoriesV2-GPT4-train.txt").read_text() == "mine"
    assert (tmp_path / "TinyStoriesV2-GPT4-valid.txt").read_bytes() == CONTENT


def test_an_archive_that_was_put_there_by_hand_is_unpacked(refused, succeeds, tmp_path):
    for name in ("train", "valid"):
        (tmp_path / f"owt_{name}.txt.gz").write_bytes(gzip.compress(name.encode()))
    offline = ("download", "owt", "--out", tmp_path, "--mirror", "http://127.0.0.1:9/nothing")
    succeeds(*offline)
    assert (tmp_path / "owt_valid.txt").read_text() == "valid"
    (tmp_path / "owt_train.txt").unlink()
    (tmp_path / "owt_train.txt.gz").write_bytes(gzip.compress(CONTENT)[:-20])
    assert "owt_train.txt.gz is damaged" in refused(*offline)
    assert not list(tmp_path.glob("*.unfinished"))
