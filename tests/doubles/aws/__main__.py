"""`python -m tests.doubles.aws`: serves on a free port of loopback, and prints it in a line of its own."""

from __future__ import annotations

import os
import sys
import threading

# Before moto is imported: its own images are many, and none is one of ours; no browser asks.
os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
os.environ["MOTO_ENABLE_AMI_VALIDATION"] = "true"
os.environ["MOTO_DISABLE_GLOBAL_CORS"] = "true"


def main() -> None:
    from tests.doubles.aws.server import Server
    from tests.doubles.aws.serving import serving

    server = serving(Server())
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
