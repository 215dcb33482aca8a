"""A double's server in one thread: one request after the other, so that its process can be forked with all it knows.

`put_aside` keeps the state of the double, `take_up` goes back to it: what several tests have in common is played once.
"""

from __future__ import annotations

import os
import selectors
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from socketserver import TCPServer


def serve(server: TCPServer, stdin: int) -> None:
    """Answer what comes in, until `stdin` is closed: whoever started this process holds the other end of it.

    Requests are read as a whole, and nobody else is served meanwhile: for clients on this computer that wait for their
    answers.
    """
    turns = _Turns(server, stdin)
    while turns.next():
        pass


def put_aside() -> None:
    """In the answer to a request: the state is kept, and changes from here on can be undone by `take_up`.

    The process forks. The new one serves; the old one waits for its end and then answers the request of `take_up` in
    its place: both have the connection. May be called again before that.
    """
    assert threading.active_count() == 1, "a thread would be missing in the new process"
    process = os.fork()
    if process and os.waitpid(process, 0)[1] != 0:
        os._exit(1)  # the one that served has broken down, or nobody is there any more


def take_up() -> None:
    """In the answer to a request, on the connection on which `put_aside` was asked for: back to what it kept."""
    os._exit(0)


VERBS: dict[str, Callable[[], None]] = {"put_aside": put_aside, "take_up": take_up}
"""By the names under which they are asked for."""


class _Turns:
    """Connections are kept until either side closes them, as the server's own threads do it."""

    def __init__(self, server: TCPServer, stdin: int) -> None:
        self._server = server
        self._stdin = stdin
        self._ready = selectors.SelectSelector()  # its state is this process's own, also after a fork
        self._ready.register(server.socket, selectors.EVENT_READ)
        self._ready.register(stdin, selectors.EVENT_READ)

    def next(self) -> bool:
        """One event: whichever else is ready may have been served by a forked process when its turn comes."""
        key = self._ready.select()[0][0]
        if key.data is not None:
            self._answer(key.data)
        elif key.fd != self._stdin:
            self._accept()
        elif not os.read(self._stdin, 1024):
            return False
        return True

    def _accept(self) -> None:
        connection, address = self._server.get_request()
        handler: Any = object.__new__(self._server.RequestHandlerClass)  # type: ignore[arg-type]
        handler.request, handler.client_address, handler.server = connection, address, self._server
        handler.setup()
        self._ready.register(connection, selectors.EVENT_READ, handler)

    def _answer(self, handler: Any) -> None:
        handler.close_connection = True
        try:
            handler.handle_one_request()
        except ConnectionError:
            handler.close_connection = True
        if handler.close_connection:
            self._ready.unregister(handler.request)
            handler.finish()
            self._server.shutdown_request(handler.request)
