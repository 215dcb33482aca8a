"""Write what a real Slurm replies to the commands of providers/slurm into tests/data/slurm/VERSION.json.

SLURM_CONF must lead to a cluster of two free nodes of one processor each, whose partition is called `two`. Takes half a
minute; its jobs sleep and are cancelled.

    python -m scripts.record_slurm_replies
    python -m scripts.record_slurm_replies accounting

`accounting` writes VERSION.json below tests/data/slurm/accounting: what sacct tells on a cluster with an accounting, as
`make slurm` sets it up. The other needs one without: AccountingStorageType=accounting_storage/none in its slurm.conf.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from trainplan.planner.clock import SystemClock
from trainplan.providers.slurm.offers import SINFO
from trainplan.providers.slurm.queue import SACCT, TEST_ONLY
from trainplan.providers.slurm.reply import SQUEUE

CLOCK = SystemClock()
FOLDER = Path(__file__).parent.parent / "tests" / "data" / "slurm"
EMPTY = "#!/bin/sh\n"
SLEEPS, FAILS, ENDS = "#!/bin/sh\nsleep 300\n", "#!/bin/sh\nexit 70\n", "#!/bin/sh\ntrue\n"
NAPS = "#!/bin/sh\nsleep 3\n"
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
    record("test only: one node", (*TEST_ONLY, "--partition=two", "--nodes=1", "--time=30", "--exclusive"), EMPTY)
    record("test only: no partition", (*TEST_ONLY, "--partition=nope", "--nodes=1", "--time=30", "--exclusive"), EMPTY)
    record("sacct: no accounting", (*SACCT, "--partition=two"))
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
    write(FOLDER, version, replies)


def main_of_accounting() -> None:
    """Record what sacct tells of two jobs that began, one that was cancelled in the queue, one that runs, and one that
    waits."""
    version = subprocess.run(("sbatch", "--version"), capture_output=True, text=True, check=True).stdout.split()[-1]
    sbatch = ("sbatch", "--parsable", "--time=5", "--nodes=2", "--output=/dev/null", "--chdir=/")
    for number, script in enumerate((NAPS, NAPS, SLEEPS, SLEEPS, SLEEPS), start=1):
        words = (*sbatch, f"--job-name=trainplan-r2-{number}")
        subprocess.run(words, input=script, capture_output=True, text=True, check=True)
    subprocess.run(("scancel", "--name=trainplan-r2-4"), check=True)
    CLOCK.sleep(20)
    command = (*SACCT, "--partition=two")
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    subprocess.run(("scancel", "--name=trainplan-r2-3,trainplan-r2-5"), check=True)
    reply = {"name": "sacct", "command": command, "stdin": "", "exit_code": process.returncode}
    write(FOLDER / "accounting", version, [{**reply, "stdout": process.stdout, "stderr": process.stderr}])


def write(folder: Path, version: str, replies: list[dict[str, object]]) -> None:
    """The record of one version."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"version": version, "recorded_on": CLOCK.now().date().isoformat(), "replies": replies}
    (folder / f"{version}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main_of_accounting() if "accounting" in sys.argv[1:] else main()
