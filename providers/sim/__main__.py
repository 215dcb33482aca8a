"""The simulated cloud's own process: `start HOME` leaves one behind, `serve HOME` is it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Start or serve the simulated cloud of a home. Returns the exit code."""
    action, home = arguments
    return start(Path(home)) if action == "start" else _serve(Path(home))


def start(home: Path) -> int:
    """Start the server where no signal of this terminal reaches it. It is a grandchild of the caller, so that nobody
    who lives has to reap it; what it complains of goes to server.log."""
    own: dict[str, object] = {"start_new_session": True}
    if sys.platform == "win32":
        own = {"creationflags": subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP}
    command = [sys.executable, "-P", "-m", "providers.sim", "serve", str(home)]
    with (home / "server.log").open("wb") as log:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **own)  # type: ignore[call-overload]
    return 0


def _serve(home: Path) -> int:
    from providers.sim.process import serve

    return serve(home)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
