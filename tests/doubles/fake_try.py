"""A try of settings for tests: the command line and the files of the real one, in a moment.

The first argument says how it behaves: the most images that its memory takes at once, `hang`, or `crash` (with XLA).
A try of N parts trains at 100 * N images per second.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("behaviour")
    for option in ("--job", "--run-dir", "--attempt", "--data-dir", "--max-steps", "--max-seconds", "--as-try"):
        parser.add_argument(option)
    parser.add_argument("--until-steady", action="store_true")
    asked = parser.parse_args()
    folder = Path(asked.run_dir) / "attempts" / asked.attempt
    folder.mkdir(parents=True)
    job = json.loads(Path(asked.job).read_text())
    behaviour = asked.behaviour
    _event(folder, "start", device_count=1, device_kind="cpu", device_name="a processor", framework="tensorflow")
    if behaviour == "hang":
        sys.stdin.read()  # until whoever began it is gone, or kills it
    if behaviour == "crash" and job["xla"]:
        os.kill(os.getpid(), signal.SIGSEGV)
    if behaviour.isdigit() and job["global_batch_size"] // job["accumulate"] > int(behaviour):
        (folder / "status.json").write_text(json.dumps({"message": "ResourceExhaustedError: OOM when allocating"}))
        return 70
    beside = {"data_images_per_second": 105.0, "checkpoint_seconds": 0.5, "checkpoint_bytes": 4096}
    _event(folder, "phase", name="compile", seconds=1.5)
    _event(
        folder, "end", state="done", step=20, epoch=2, images_per_second=100.0 * job["accumulate"], half_width=0.01,
        windows=3, peak_memory_bytes=10**6, **(beside if asked.as_try == "full" else {}),
    )  # fmt: skip
    return 0


def _event(folder: Path, name: str, /, **fields: object) -> None:
    with (folder / "progress.jsonl").open("a") as file:
        file.write(json.dumps({"event": name, "time": "2026-11-26T12:00:00+00:00", **fields}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
