"""A file from an open web address to the disk: continued where the server supports it, else started again."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any, Callable
from urllib.parse import urlsplit

from trainplan.providers.agent.plain_file import (
    finish_plain,
    is_plain,
    more_of_plain,
    new_plain,
    plain_folder,
    unfinished_name,
)
from trainplan.providers.agent.store import FIRST_PAUSE, LONGEST_PAUSE, Steps

PIECE_BYTES = 1024 * 1024
_SECONDS = 20.0
_LATER = (408, 425, 429)


class WebError(Exception):
    """The address will not give this, however often it is asked."""


Opens = Callable[[str, "dict[str, str]"], Any]
"""(address, headers) to an open answer. Raises OSError, urllib.error.HTTPError among them."""


class _NeverDown(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Follow a redirect from https to https only."""
        if urlsplit(newurl).scheme not in ("https", urlsplit(req.full_url).scheme):
            raise WebError(f"{_shown(req.full_url)} leads to {_shown(newurl)}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opens(url: str, headers: dict[str, str]) -> Any:
    """Past every proxy, as the machine's own calls are."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NeverDown)
    return opener.open(urllib.request.Request(url, headers=headers), timeout=_SECONDS)


def download(url: str, target: Path, size: int, top: Path, opens: Opens = opens) -> Steps[None]:
    """So many bytes to `target`, whole or not at all. While nobody answers it is tried again, with growing pauses.

    No link is followed from the folder `top` to the file.

    Raises WebError where there is nothing, or something of another size; OSError where the disk cannot be written.
    """
    unfinished = unfinished_name(target)
    with plain_folder(top, target.parent, make=True):
        pass  # made, and without links
    pause = FIRST_PAUSE
    while _there(unfinished) < size or not is_plain(unfinished):
        before = _there(unfinished)
        try:
            answer = _response(url, before, size, opens)
        except (OSError, http.client.HTTPException):
            yield pause
            pause = min(2 * pause, LONGEST_PAUSE)
            continue
        with answer:
            yield from _append(answer, top, unfinished, size)
        if _there(unfinished) > before:
            pause = FIRST_PAUSE
        else:
            yield pause
    if _there(unfinished) > size:
        unfinished.unlink()
        raise WebError(f"{_shown(url)} is larger than the {size} bytes it was said to have")
    finish_plain(top, target)


def _shown(url: str) -> str:
    """An address without user, password and query, which let one in: what is said here is kept in run directories."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _there(path: Path) -> int:
    return path.stat().st_size if is_plain(path) else 0


def _response(url: str, start: int, size: int, opens: Opens) -> Any:
    """The answer. Raises WebError, and OSError where it may be another one later."""
    headers = {"range": f"bytes={start}-"} if start else {}
    try:
        answer = opens(url, headers)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _LATER or error.code >= 500:
            raise OSError(f"{_shown(url)}: {error.code}") from error
        raise WebError(f"{_shown(url)} answers {error.code} {error.reason}; it has to be open to everybody") from error
    value = answer.headers.get("Content-Range" if answer.status == 206 else "Content-Length")
    total = (value or "").rpartition("/")[2]
    if total.isdigit() and int(total) != size:
        answer.close()
        raise WebError(f"{_shown(url)} has {total} bytes now, not {size}")
    return answer


def _append(answer: IO[bytes], top: Path, unfinished: Path, size: int) -> Steps[None]:
    """What comes, from where the server begins; an answer that is cut off leaves what came."""
    whole = getattr(answer, "status", 200) != 206
    with plain_folder(top, unfinished.parent, make=True) as folder, (
        new_plain(folder, unfinished.name) if whole else more_of_plain(folder, unfinished.name)
    ) as file:
        while file.tell() <= size:
            try:
                data = answer.read(PIECE_BYTES)
            except (OSError, http.client.HTTPException):
                return
            if not data:
                return
            file.write(data)
            yield 0.0
