"""Stands between the trainer and a script of the person's own: when either of the two has ended, all that the script
has started ends too.

Its arguments are the most processes that there may be at once, and the command. Its standard input is a pipe of the
trainer: `t` asks the script to end, `k` and the end of the pipe end it and all of its processes at once. The exit code
is the script's, 128 and the number for one that a signal ended. What the script prints passes through here, and is
written without what looks like a secret.
Standard library alone.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

from trainplan.workloads.trainer.descendants import adopt_orphans, descendants, end_all
from trainplan.workloads.trainer.printed_cover import PrintedCover, relay, secret_values

ASK, END = b"t", b"k"
FOLDER = "TRAINPLAN_SCRIPT_FOLDER"
"""A folder in which the script looks for modules, and this process does not; "": none."""
TOO_MANY_EXIT = 98
_POLL_SECONDS = 0.2
_LAST_OUTPUT_SECONDS = 10.0
"""For what is still to be written when the script and all of its processes have ended."""


def main(arguments: Sequence[str]) -> int:
    """The exit code of the command, once nothing of it is left."""
    most, command = int(arguments[0]), arguments[1:]
    if folder := os.environ.pop(FOLDER, ""):
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the trainer is asked, and asks the script
    source, printed = os.pipe()
    try:
        script = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, start_new_session=True,
            preexec_fn=_listen_again,
        )  # fmt: skip
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    finally:
        os.close(printed)
    cover = PrintedCover(secret_values(os.environ))
    # Beside the watch, which goes on where nobody takes the output.
    output = threading.Thread(target=relay, args=(source, sys.stdout.fileno(), cover), daemon=True)
    output.start()
    try:
        code = _see_it_end(script, most)
    finally:
        end_all(os.getpid())
        output.join(_LAST_OUTPUT_SECONDS)
    return 128 - code if code < 0 else code


def _listen_again() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _see_it_end(script: subprocess.Popen[bytes], most: int) -> int:
    pipe = sys.stdin.fileno()
    while True:
        ready, _, _ = select.select([pipe], [], [], _POLL_SECONDS)
        word = os.read(pipe, 1) if ready else None
        code = script.poll()
        if code is not None:
            return code
        if word == ASK:
            script.terminate()
        elif word is not None:  # END, or nobody holds the other end any more
            return _killed(script)
        elif len(descendants(os.getpid())) > most:
            sys.stderr.write(f"the script has more than {most} processes: it is ended\n")
            _killed(script)
            return TOO_MANY_EXIT


def _killed(script: subprocess.Popen[bytes]) -> int:
    """Its exit code; what it has started is ours from then on, and is ended by `main`."""
    script.kill()
    return script.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
