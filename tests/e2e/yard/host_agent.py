"""Azure's host agent (168.63.129.16): what a machine asks for when it is provisioned, and tells once it is ready."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.e2e.yard.network import HOST_AGENT, Network

# As cloud-init 22.4 reads it (cloudinit/sources/helpers/azure.py).
_GOAL_STATE = """<?xml version="1.0" encoding="utf-8"?>
<GoalState><Version>2012-11-30</Version><Incarnation>1</Incarnation><Container><ContainerId>yard</ContainerId>
<RoleInstanceList><RoleInstance><InstanceId>machine</InstanceId><State>Started</State></RoleInstance></RoleInstanceList>
</Container></GoalState>
"""


class HostAgent:
    """`reports` are what machines told it: that they are ready, or why not."""

    def __init__(self, network: Network) -> None:
        self.reports: list[str] = []

        class Handler(_Handler):
            report = self.reports.append

        self._server = network.serve(lambda: ThreadingHTTPServer((HOST_AGENT, 80), Handler))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    report: Callable[[str], None]

    def do_GET(self) -> None:
        self._answer(_GOAL_STATE if self.path == "/machine/?comp=goalstate" else "")

    def do_POST(self) -> None:
        type(self).report(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
        self._answer("")

    def _answer(self, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/xml; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""
