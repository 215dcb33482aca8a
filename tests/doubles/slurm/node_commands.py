"""The commands of Slurm that a job's script calls on its node, for one rank: `srun`, `scancel`, `scontrol`, `squeue`.

The cluster keeps in a file what the controller has of the job: its state, and how often it was requeued."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def main(words: list[str]) -> int:
    """Be the command that the first word names."""
    folder = Path(os.environ["DOUBLE_FOLDER"])
    name, *rest = words
    if name == "srun":
        os.setpgid(0, 0)
        (folder / "step").write_text(str(os.getpid()))
        command = rest[next(index for index, word in enumerate(rest) if not word.startswith("--")) :]
        os.environ.update(SLURM_PROCID="0", SLURM_STEP_ID="0", SLURM_NTASKS="1", SLURM_STEP_NUM_TASKS="1")
        os.execvp(command[0], command)
    if name == "scancel":
        number = signal.SIGTERM if "--signal=TERM" in rest else signal.SIGKILL
        os.killpg(int((folder / "step").read_text()), number)
        return 0
    if name == "squeue":
        sys.stdout.write((folder / "name").read_text())
        return 0
    if rest[:3] == ["-o", "show", "job"]:
        state, restarts = Path(os.environ["DOUBLE_STATE"]).read_text().split()
        sys.stdout.write(
            f"JobId={rest[3]} JobName=x JobState={state} Reason=None Requeue=1 Restarts={restarts} BatchFlag=1\n"
        )
        return 0
    if rest[:1] == ["requeue"]:
        Path(os.environ["DOUBLE_STATE"]).write_text("PENDING 1")
        os.kill(os.getppid(), signal.SIGKILL)
        return 0
    if rest[:2] == ["show", "hostnames"]:
        sys.stdout.write(f"{rest[2]}\n")
        return 0
    if rest[:3] == ["-o", "show", "node"]:
        sys.stdout.write(f"NodeName={rest[3]} NodeAddr=127.0.0.1 NodeHostName=here State=ALLOCATED\n")
        return 0
    sys.stderr.write(f"{name}: this double does not know {rest}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
