"""Write what a real Slurm replies to the commands of providers/slurm into tests/data/slurm/VERSION.json.

SLURM_CONF must lead to a cluster of two free nodes of one processor each, whose partition is called `two`. Takes half a
minute; its jobs sleep and are cancelled.

    python -P -m scripts.record_slurm_replies
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from planner.clock import SystemClock
from providers.slurm.offers import SINFO
from providers.slurm.reply import SQUEUE

CLOCK = SystemClock()
FOLDER = Path(__file__).parent.parent / "tests" / "data" / "slurm"
SLEEPS, FAILS, ENDS = "#!/bin/sh\nsleep 300\n", "#!/bin/sh\nexit 70\n", "#!/bin/sh\ntrue\n"
COMMENT = "--comment=trainplan-run=r1;trainplan-attempt=1;trainplan-deadline=2026-11-24T00:00:00%2B00:00"


def main() -> None:
    """Record every reply."""
    replies: list[dict[str, object]] = []

    def record(name: str, command: tuple[str, ...], data: str = "") -> str:
        process = subprocess.run(command, input=data, capture_output=True, text=True, check=False)
        if command[: len(SQUEUE)] == SQUEUE:  # other runs of this user are not part of the record
            process.stdout = "".join(line for line in process.stdout.splitlines(True) if "|trainplan-r1-" in line)
        entry = {"name": name, "command": command, "stdin": data, "exit_code": process.returncode}
        replies.append({**entry, "stdout": process.stdout, "stderr": process.stderr})
        return process.stdout.strip()

    def submit(name: str, script: str, *words: str) -> str:
        flags = ("--parsable", "--time=5", "--output=/dev/null", "--chdir=/", COMMENT, *words)
        return record(f"sbatch: {name}", ("sbatch", *flags), script)

    version = record("sbatch: version", ("sbatch", "--version")).split()[-1]
    record("sinfo", SINFO)
    record("squeue: no job", (*SQUEUE, "--name=trainplan-never-1"))
    running = submit("accepted", SLEEPS, "--job-name=trainplan-r1-1", "--partition=two", "--nodes=1-2")
    submit("too many nodes", SLEEPS, "--job-name=trainplan-r1-2", "--nodes=9")
    submit("ends", ENDS, "--job-name=trainplan-r1-3")
    CLOCK.sleep(6)
    submit("fails", FAILS, "--job-name=trainplan-r1-4")
    submit("no partition", SLEEPS, "--partition=nope")
    submit("no device", SLEEPS, "--gres=gpu:2")
    record("sbatch: test only", ("sbatch", "--test-only", "--partition=two", "--nodes=1", "--time=1"), SLEEPS)
    record("sbatch: test only, no partition", ("sbatch", "--test-only", "--partition=nope", "--time=1"), SLEEPS)
    record("squeue: running and waiting", SQUEUE)
    record("scancel: TERM to the steps", ("scancel", "--signal=TERM", running))
    record("scontrol: requeue", ("scontrol", "requeue", running))
    CLOCK.sleep(2)
    record("squeue: requeued", SQUEUE)
    record("scancel", ("scancel", running))
    record("scancel: an ended job", ("scancel", running))
    record("scancel: no such job", ("scancel", "999999"))
    subprocess.run(("scancel", "--name=trainplan-r1-2"), check=True)
    CLOCK.sleep(8)
    record("squeue: ended", SQUEUE)
    FOLDER.mkdir(parents=True, exist_ok=True)
    document = {"version": version, "recorded_on": CLOCK.now().date().isoformat(), "replies": replies}
    (FOLDER / f"{version}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
