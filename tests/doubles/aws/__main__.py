"""`python -m tests.doubles.aws`: serves on a free port of loopback, and prints it in a line of its own."""

from __future__ import annotations

import logging
import os
import sys
import threading

# Before moto is imported: its own images are many, and none is one of ours.
os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
os.environ["MOTO_ENABLE_AMI_VALIDATION"] = "true"


def main() -> None:
    from moto.moto_server.werkzeug_app import MotoRequestHandler
    from werkzeug.serving import make_server

    from tests.doubles.aws.server import Server

    class Handler(MotoRequestHandler):
        """Connections are kept, as the SDK expects it; nobody reads a log."""

        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def connection_dropped(self, error: BaseException, environ: object = None) -> None:
            """An answer that is to be lost: the client is not left waiting for it."""
            self.close_connection = True

        def log(self, *_: object) -> None:
            """Nothing."""

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = make_server("127.0.0.1", 0, Server(), threaded=True, request_handler=Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    threading.Thread(target=_until_alone, daemon=True).start()
    server.serve_forever()


def _until_alone() -> None:
    """Whoever started it holds the other end of stdin: it goes with them, however they go."""
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
