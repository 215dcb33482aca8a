"""Container registries: the reading half of the OCI's distribution API, for several hosts on one server."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_MANIFEST = re.compile(r"^/v2/(.+)/manifests/([^/]+)$")
_BLOB = re.compile(r"^/v2/(.+)/blobs/(sha256:[0-9a-f]{64})$")


@dataclass(slots=True)
class Registry:
    """One host's images. `refuses` is a status that every request gets instead; `asked` are (method, path).

    Where `stalls` is set, layers are waited for until it is cleared by `let_go`.
    """

    refuses: int | None = None
    stalls: threading.Event | None = None
    manifests: dict[tuple[str, str], bytes] = field(default_factory=dict)
    blobs: dict[str, Path] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, folder: Path, tag: str = "latest") -> str:
        """An image as `podman save --format docker-dir` writes it; its digest."""
        manifest = (folder / "manifest.json").read_bytes()
        digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
        self.manifests[name, digest] = self.manifests[name, tag] = manifest
        for row in (described := json.loads(manifest))["layers"] + [described["config"]]:
            self.blobs[row["digest"]] = folder / row["digest"].removeprefix("sha256:")
        return digest

    def let_go(self) -> None:
        """Nobody waits any more."""
        if self.stalls is not None:
            self.stalls.set()
        self.stalls = None

    def answer(self, method: str, path: str) -> tuple[int, dict[str, str], bytes | Path]:
        """(status, headers, body); a body on the disk is a Path."""
        self.requests.append((method, path))
        if self.refuses is not None:
            return self.refuses, {}, _errors("TOOMANYREQUESTS", "You have reached your pull rate limit.")
        if path == "/v2/":
            return 200, {}, b"{}"
        if (found := _MANIFEST.match(path)) and (manifest := self.manifests.get((found[1], found[2]))):
            kind = json.loads(manifest)["mediaType"]
            digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
            return 200, {"Content-Type": kind, "Docker-Content-Digest": digest}, manifest
        if (found := _BLOB.match(path)) and (blob := self.blobs.get(found[2])):
            if self.stalls is not None:
                self.stalls.wait()
            return 200, {"Content-Type": "application/octet-stream", "Docker-Content-Digest": found[2]}, blob
        return 404, {}, _errors("MANIFEST_UNKNOWN", "manifest unknown")


class RegistryServer:
    """Serves `hosts`; which one is asked, the Host header says. `make` makes its socket where it is to be.

    With `certificate` (a file with key and chain) it speaks TLS.
    """

    def __init__(
        self,
        hosts: dict[str, Registry],
        certificate: Path | None = None,
        address: tuple[str, int] = ("127.0.0.1", 0),
        make: Callable[[Callable[[], ThreadingHTTPServer]], ThreadingHTTPServer] = lambda made: made(),
    ) -> None:
        class Handler(_Handler):
            table = hosts

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_: object) -> None:
                """A client that goes away in the middle is no news."""

        self._server = make(lambda: Server(address, Handler))
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            # The handshake is the handler's, so that a slow one keeps nobody waiting.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        scheme = "https" if certificate else "http"
        self.url = f"{scheme}://{address[0]}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 300
    table: dict[str, Registry]

    def do(self) -> None:
        host = str(self.headers.get("Host") or "").rpartition(":")[0] or str(self.headers.get("Host") or "")
        registry = self.table.get(host) or self.table.get(str(self.headers.get("Host") or ""))
        status, headers, body = (404, {}, b"") if registry is None else registry.answer(self.command, self.path)
        size = body.stat().st_size if isinstance(body, Path) else len(body)
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Docker-Distribution-Api-Version": "registry/2.0",
            **headers,
            "Content-Length": str(size),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if isinstance(body, Path):
            with body.open("rb") as file:
                shutil.copyfileobj(file, self.wfile, 1024 * 1024)
        else:
            self.wfile.write(body)

    do_GET = do_HEAD = do

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def _errors(code: str, message: str) -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message}]}).encode()
