"""A reverse proxy on loopback that breaks what passes: other answers, lost replies, answers cut short."""

from __future__ import annotations

import http.client
import threading
from dataclasses import dataclass, field
from enum import Enum, auto
from urllib.parse import urlsplit

from tests.doubles.serving import QuickHandler, Serving

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "expect"}


class Break(Enum):
    """REFUSED: it answers by itself. LOST: what was asked is done, and the reply does not come. CUT: half of it comes.
    CLOSED: nothing is done, and no reply comes."""

    REFUSED = auto()
    LOST = auto()
    CUT = auto()
    CLOSED = auto()


@dataclass(slots=True)
class Fault:
    """Happens to the next `times` requests of this method whose path and query contain `part`, after `skip` others."""

    kind: Break
    method: str = ""
    part: str = ""
    times: int = 1
    skip: int = 0
    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    hits: int = 0

    def meets(self, method: str, path: str) -> bool:
        if self.times <= 0 or self.method not in ("", method) or self.part not in path:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        self.hits += 1
        return True


class Proxy(Serving):
    """`faults` are looked at in order, the first that meets a request breaks it. `seen` are (method, path?query)."""

    def __init__(self, upstream: str) -> None:
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str]] = []
        self.sent_bytes = 0
        self._lock = threading.Lock()
        proxy, there = self, urlsplit(upstream)
        assert there.hostname

        class Handler(_Handler):
            owner = proxy
            host = str(there.hostname)
            port = there.port or 80

        super().__init__(Handler)

    def count(self, method: str, part: str) -> int:
        return sum(1 for seen, path in self.requests if seen == method and part in path)

    def fault(self, method: str, path: str, size: int) -> Fault | None:
        with self._lock:
            self.requests.append((method, path))
            self.sent_bytes += size
            return next((fault for fault in self.faults if fault.meets(method, path)), None)


class _Handler(QuickHandler):
    owner: Proxy
    host: str
    port: int

    def do(self) -> None:
        body = self._chunks() if "chunked" in self.headers.get("Transfer-Encoding", "") else self._body()
        fault = self.owner.fault(self.command, self.path, len(body))
        if fault and fault.kind is Break.CLOSED:
            self._close()
        elif fault and fault.kind is Break.REFUSED:
            self._reply(fault.status, list(fault.headers.items()), fault.body)
        else:
            self._forward(body, fault)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do

    def _forward(self, body: bytes, fault: Fault | None) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        headers["Content-Length"] = str(len(body))
        connection = http.client.HTTPConnection(self.host, self.port, timeout=300)
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if fault and fault.kind is Break.LOST:
            self._close()
            return
        rows = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP]
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self._reply(answer.status, rows, data, cut=fault is not None, length=length)

    def _reply(
        self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut: bool = False, length: str | None = None
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self._close()

    def _close(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(2)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""
