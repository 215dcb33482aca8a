"""An index of packages: a folder of wheels, served as pip asks for them (PEP 503)."""

from __future__ import annotations

import re
from html import escape
from http import HTTPStatus
from pathlib import Path

from tests.doubles.serving import QuickHandler


class PackageIndex:
    """`handler` is for a server, on loopback or in a cloud; `requests` are the paths that were asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.requests: list[str] = []

        class Handler(_Handler):
            index = self

        self.handler = Handler

    def answer(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        """(status, media type, body)."""
        self.requests.append(path)
        wheels = {file.name: file for file in self._folder.glob("*.whl")}
        if (found := re.fullmatch(r"/simple/([a-z0-9-]+)/", path)) and (
            names := [name for name in wheels if _normal(name.partition("-")[0]) == found[1]]
        ):
            links = "".join(f'<a href="/files/{escape(name)}">{escape(name)}</a>\n' for name in sorted(names))
            return HTTPStatus.OK, "text/html", f"<!DOCTYPE html><html><body>\n{links}</body></html>\n".encode()
        if path.startswith("/files/") and (file := wheels.get(path.removeprefix("/files/"))) is not None:
            return HTTPStatus.OK, "application/octet-stream", file.read_bytes()
        return HTTPStatus.NOT_FOUND, "text/plain", b"no such package\n"


class _Handler(QuickHandler):
    index: PackageIndex

    def do_GET(self) -> None:
        status, kind, body = self.index.answer(self.path)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
