"""A trainer that trains nothing: the command line and the files of the real one, in a twentieth of a second.

The job's name says how it behaves: `finish`, `wait` (until it is asked to end), `stubborn` (even then), `fail`,
`bad-job`, `greedy` (takes memory until it is killed), `dies` (as if killed from outside), `exit-N` (with code N, or
of signal N - 128).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

_SIGNALS = 128
"""What a shell adds to the number of the signal that ended a program."""


def main() -> int:
    parser = argparse.ArgumentParser()
    for option in ("--job", "--run-dir", "--attempt", "--data-dir", "--deadline-unix", "--max-steps"):
        parser.add_argument(option)
    parser.add_argument("--until-steady", action="store_true")
    asked = parser.parse_args()
    run_dir = Path(asked.run_dir)
    stop = threading.Event()
    name = json.loads(Path(asked.job).read_text())["name"]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None if name == "stubborn" else stop.set())
    sys.stdout.write(f"training {name}\n")
    sys.stdout.flush()
    _status(run_dir, asked.attempt, "running")
    return _behave(name, run_dir, asked.attempt, stop)


def _behave(name: str, run_dir: Path, attempt: str, stop: threading.Event) -> int:
    codes = {"finish": 0, "fail": 70, "bad-job": 65}
    if name == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if name.startswith("exit-"):
        code = int(name.removeprefix("exit-"))
        if code > _SIGNALS:
            if code != _SIGNALS + signal.SIGKILL:
                signal.signal(code - _SIGNALS, signal.SIG_DFL)
            os.kill(os.getpid(), code - _SIGNALS)
        return code
    if name == "greedy":
        blocks = []
        while True:
            blocks.append(b"x" * 20_000_000)
    if name in codes:
        if name == "finish":
            (run_dir / "output").mkdir(exist_ok=True)
            (run_dir / "output" / "manifest.json").write_text("[]")
        _status(run_dir, attempt, "done" if name == "finish" else "failed")
        return codes[name]
    while not stop.wait(0.05):  # woken now and then, so that a signal's handler runs
        pass
    _status(run_dir, attempt, "stopped")
    return 75


def _status(run_dir: Path, attempt: str, state: str) -> None:
    folder = run_dir / "attempts" / attempt
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".status.{os.getpid()}"
    partial.write_text(json.dumps({"state": state, "pid": os.getpid()}))
    partial.replace(folder / "status.json")


if __name__ == "__main__":
    sys.exit(main())
