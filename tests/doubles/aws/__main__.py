"""`python -m tests.doubles.aws [FILE]`: serves on a free port of loopback, and prints it in a line of its own.

With FILE, it serves in one thread and shows its time in that file (tests/doubles/shown_time.py).
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from pathlib import Path

# Before moto is imported: its own images are many, and none is one of ours; no browser asks.
os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
os.environ["MOTO_ENABLE_AMI_VALIDATION"] = "true"
os.environ["MOTO_DISABLE_GLOBAL_CORS"] = "true"


def main() -> None:
    from tests.doubles import in_turn
    from tests.doubles.aws.server import Server
    from tests.doubles.aws.serving import serving
    from tests.doubles.shown_time import ShownTime

    shown = ShownTime(Path(sys.argv[1])) if sys.argv[1:] else None
    server = serving(Server(shown), threaded=shown is None)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    if shown is not None:
        gc.freeze()  # what a forked double does not collect, it shares
        in_turn.serve(server, sys.stdin.fileno())
        return
    threading.Thread(target=_until_alone, daemon=True).start()
    server.serve_forever()


def _until_alone() -> None:
    """Whoever started it holds the other end of stdin: it goes with them, however they go."""
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
