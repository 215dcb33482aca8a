"""What every double that is a server in this process shares: it listens on loopback in threads, and stops."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class Listening(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """A doctor asks a dozen things at once; with the usual 5 a busy computer resets the connections of some."""


class Serving:
    """Listens on a free port of 127.0.0.1 as soon as it is made; `with` starts and ends it. `url` is its address."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = Listening(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class QuickHandler(BaseHTTPRequestHandler):
    """Keeps connections open, and does not mind a client that breaks one off."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the client's acknowledgement

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True
