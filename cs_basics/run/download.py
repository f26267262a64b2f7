"""Resumable HTTP downloads, verified if the server announces a checksum."""

import errno
import hashlib
import os
import re
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO

from cs_basics.run.progress import OnProgress

_BLOCK = 1 << 20
_TIMEOUT_S = 30.0
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _RememberHeaders(urllib.request.HTTPRedirectHandler):
    """Keeps the headers of every response, since a hub may announce the checksum in a redirect."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Follow the redirect and keep its headers."""
        self.headers.update({name.lower(): value for name, value in headers.items()})
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(url: str, path: Path, on_progress: OnProgress | None = None) -> None:
    """Download a file, resuming an earlier attempt.

    The bytes are written to `path` + ".part", which is renamed when size and SHA-256 match what the
    server announced (the latter in an ETag or X-Linked-ETag of 64 hexadecimal digits). A file that
    has changed since the earlier attempt is fetched from its beginning.

    Args:
        url: An http or https address.
        path: The file to write; its folder is made if missing.
        on_progress: Called with the number of bytes received.

    Raises:
        ConnectionError: The server cannot be reached, refuses, or closes the connection; the bytes
            received stay for the next attempt.
        OSError: The file cannot be written.
        ValueError: Size or checksum do not match; the file is deleted.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part, version = (path.with_name(path.name + end) for end in (".part", ".part.etag"))
    # Without a version there is no telling whether the rest would be of the same file.
    done = part.stat().st_size if part.exists() and version.exists() else 0
    redirects = _RememberHeaders()
    asked = {"Range": f"bytes={done}-", "If-Range": version.read_text()} if done else {}
    request = urllib.request.Request(url, headers=asked)
    try:
        with urllib.request.build_opener(redirects).open(request, timeout=_TIMEOUT_S) as response:
            headers = redirects.headers | {k.lower(): v for k, v in response.headers.items()}
            if response.status != 206:
                done = 0  # The whole file: it is new or another, or the server knows no ranges.
                tag = response.headers.get("ETag", "")
                version.unlink(missing_ok=True)
                if tag.startswith('"'):  # A weak one does not vouch for each byte.
                    version.write_text(tag)
            # Of this response alone: a redirect has a length of its own.
            length = response.headers.get("Content-Length")
            total = done + int(length) if length else 0
            _receive(response, part, done, total, on_progress)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # 416: nothing is left to send
            raise ConnectionError(
                f"{url}: the server answers {error.code} {error.reason}"
            ) from None
        headers = redirects.headers | {k.lower(): v for k, v in error.headers.items()}
        whole = re.fullmatch(r"bytes \*/(\d+)", headers.get("content-range", ""))
        total = int(whole[1]) if whole else done
    except (OSError, HTTPException) as error:
        if isinstance(error, OSError) and (error.filename or error.errno in _NO_ROOM):
            raise  # of the disk, not of the network
        reason = getattr(error, "reason", error)
        raise ConnectionError(f"{url} cannot be fetched: {reason}") from None
    version.unlink(missing_ok=True)
    _verify(part, total, headers)
    part.replace(path)


def _receive(
    response: HTTPResponse, part: Path, done: int, total: int, on_progress: OnProgress | None
) -> None:
    if on_progress is not None:
        on_progress("downloading", "bytes", done, total)
    with part.open("ab" if done else "wb") as file:
        while block := response.read(_BLOCK):
            file.write(block)
            done += len(block)
            if on_progress is not None:
                on_progress("downloading", "bytes", done, total)
        file.flush()
        os.fsync(file.fileno())
    if done < total:
        raise ConnectionError(f"the connection broke off after {done:,} of {total:,} bytes")


def _verify(part: Path, size: int, headers: dict[str, str]) -> None:
    size = int(headers.get("x-linked-size", size))
    if size and part.stat().st_size != size:
        found = part.stat().st_size
        part.unlink()
        raise ValueError(f"{part.name}: {found:,} bytes came, {size:,} were announced; start again")
    tag = headers.get("x-linked-etag", headers.get("etag", "")).strip('W/"')
    if re.fullmatch("[0-9a-f]{64}", tag):
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != tag:
            part.unlink()
            raise ValueError(f"{part.name}: SHA-256 is {digest}, announced was {tag}; start again")
