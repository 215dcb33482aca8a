"""Uploads under way, kept on disk: another process goes on where one was interrupted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The file as it was when its upload began; a changed file begins anew."""

    uri: str
    size_bytes: int
    changed_ns: int


class Unfinished:
    """The state of unfinished uploads: one small file per upload, readable by its owner alone: whoever has Google's
    token can finish the upload.

    Losing these costs time only, so that a disk that is full or read-only is no error.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def token(self, source: Source) -> str | None:
        """The token of an upload of this very file to this place."""
        try:
            document = json.loads(self._at(source.uri).read_text(encoding="utf-8"))
            same = (document["size_bytes"], document["changed_ns"]) == (source.size_bytes, source.changed_ns)
            return str(document["token"]) if same else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, source: Source, token: str) -> None:
        """Note the token with which the upload of this file is continued."""
        text = json.dumps(
            {"uri": source.uri, "size_bytes": source.size_bytes, "changed_ns": source.changed_ns, "token": token}
        )
        with _at_most_slower():
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._at(source.uri)
            path.unlink(missing_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)

    def forget(self, source: Source) -> None:
        """Remove the note: the upload is complete or lost."""
        with _at_most_slower():
            self._at(source.uri).unlink(missing_ok=True)

    def _at(self, uri: str) -> Path:
        return self._folder / f"{hashlib.sha256(uri.encode()).hexdigest()[:32]}.json"


def _at_most_slower() -> contextlib.AbstractContextManager[None]:
    return contextlib.suppress(OSError)
