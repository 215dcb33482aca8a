"""A cluster of one node: the commands that a client sends, answered as the real ones of Slurm 22.05 answer them
(tests/data/slurm has their recorded replies). A job's script runs for real, as a process of this machine; the commands
that it calls itself (srun, scancel, scontrol) are programs of node_commands.py, found first on its PATH.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from trainplan.providers.errors import TransientError
from trainplan.providers.slurm.api import ANSWER_SECONDS, NO_STREAMS, Completed, ShellHere, Streams
from trainplan.providers.slurm.queue import TEST_ONLY
from trainplan.providers.slurm.request import PAUSE_SECONDS

PAUSE = f"pause_seconds={PAUSE_SECONDS}"
"""Nobody waits for real: jobs begin again at once after a loss."""
NODE_COMMANDS = Path(__file__).parent / "node_commands.py"
PARTITIONS = ("two",)
_LIVES = ("PENDING", "RUNNING")
_SBATCH_REFUSED = "sbatch: error: Batch job submission failed: "
_NO_CONTROLLER = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


@dataclass
class Job:
    """`process` is the batch script; None while the job waits."""

    number: int
    arguments: tuple[str, ...]
    script: str
    submitted_at: datetime
    process: subprocess.Popen[bytes] | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    """When its end was first seen."""
    cancelled: bool = False
    restarts: int = 0
    state_file: Path | None = None
    """What node_commands.py reads of it, and writes where the script itself requeues it."""

    def option(self, name: str, default: str = "") -> str:
        values = [word.partition("=")[2] for word in self.arguments if word.startswith(f"--{name}=")]
        return values[-1] if values else default

    @property
    def state(self) -> str:
        if self.process is None:
            return "CANCELLED" if self.cancelled else "PENDING"
        code = self.process.poll()
        if code is None:
            return "RUNNING"
        if self.cancelled:
            return "CANCELLED"
        if self.state_file is not None and self.state_file.read_text().startswith("PENDING"):
            return "PENDING"
        return "COMPLETED" if code == 0 else "FAILED"


@dataclass
class Cluster:
    """`refuses` is what sbatch complains of, "" where it accepts; `is_silent`: the controller does not answer.
    `loses_reply`: the next sbatch takes effect, and its answer is lost. `is_full`: jobs wait.
    `starts_after_seconds` is what `sbatch --test-only` says a job would wait, `accounting` what sacct prints (None: it
    is disabled); `questions` are the words of both."""

    folder: Path
    jobs: list[Job] = field(default_factory=list)
    refuses: str = ""
    is_silent: bool = False
    loses_reply: bool = False
    is_full: bool = False
    starts_after_seconds: int = 0
    accounting: str | None = None
    questions: list[tuple[str, ...]] = field(default_factory=list)

    def run(
        self, command: Sequence[str], streams: Streams = NO_STREAMS, timeout_seconds: float = ANSWER_SECONDS
    ) -> Completed:
        """Answer a client's command; what is not Slurm's runs for real (trainplan.providers.slurm.api.Shell)."""
        words = list(command)
        if tuple(words[: len(TEST_ONLY)]) == TEST_ONLY and not self.is_silent:
            return self._test_only(words[len(TEST_ONLY) :])
        if words[0] == "sh" and "sbatch" in words[2]:
            return Completed(exit_code=1, stdout=b"0\n", stderr=f"allocation failure: {_NO_CONTROLLER}\n")
        if words[0] == "env":
            words = words[2:]
        commands = {"squeue": self._squeue, "sbatch": self._sbatch, "scancel": self._scancel, "sinfo": self._sinfo}
        commands["sacct"] = self._sacct
        if words[0] not in commands:
            return ShellHere(os.environ).run(command, streams, timeout_seconds)
        if self.is_silent:
            return Completed(exit_code=1, stderr=f"{words[0]}: error: {_NO_CONTROLLER}\n")
        return commands[words[0]](words[1:], streams)

    def submit(self, arguments: tuple[str, ...], script: str) -> int:
        """Queue a job, begin it where there is room, and return its number."""
        job = Job(number=len(self.jobs) + 1, arguments=arguments, script=script, submitted_at=_now())
        self.jobs.append(job)
        if not self.is_full:
            self._start(job)
        return job.number

    def end_all(self) -> None:
        """End the processes of all jobs."""
        for job in self.jobs:
            self._end(job)

    def _test_only(self, words: Sequence[str]) -> Completed:
        """The clock, and what `sbatch --test-only` prints with SLURM_TIME_FORMAT=%s."""
        self.questions.append(tuple(words))
        now = int(_now().timestamp())
        clock, partition = f"{now}\n".encode(), _partition(words)
        if partition not in PARTITIONS:
            complaint = f"sbatch: error: invalid partition specified: {partition}\n"
            refused = f"{complaint}allocation failure: Invalid partition name specified\n"
            return Completed(exit_code=1, stdout=clock, stderr=refused)
        starts = f"sbatch: Job 2 to start at {now + self.starts_after_seconds} using 1 processors on nodes n1"
        return Completed(exit_code=0, stdout=clock, stderr=f"{starts} in partition {partition}\n")

    def _sacct(self, words: Sequence[str], streams: Streams) -> Completed:
        del streams
        self.questions.append(tuple(words))
        if self.accounting is None:
            return Completed(exit_code=1, stderr="Slurm accounting storage is disabled\n")
        return Completed(exit_code=0, stdout=self.accounting.encode())

    def _sinfo(self, words: Sequence[str], streams: Streams) -> Completed:
        del words, streams
        return Completed(exit_code=0, stdout=b"two*|up|1:00:00|2|idle|1|6000|(null)|(null)\n")

    def _squeue(self, words: Sequence[str], streams: Streams) -> Completed:
        del streams
        wanted = {word.partition("=")[2] for word in words if word.startswith("--name=")}
        shown = [job for job in self.jobs if not wanted or job.option("job-name") in wanted]
        return Completed(exit_code=0, stdout="".join(map(_line, shown)).encode())

    def _sbatch(self, words: Sequence[str], streams: Streams) -> Completed:
        if "--version" in words:
            return Completed(exit_code=0, stdout=b"slurm-wlm 22.05.8\n")
        if self.refuses:
            return Completed(exit_code=1, stderr=f"{_SBATCH_REFUSED}{self.refuses}\n")
        partition = _partition(words)
        if partition not in PARTITIONS:
            complaint = f"sbatch: error: invalid partition specified: {partition}\n"
            return Completed(exit_code=1, stderr=f"{complaint}{_SBATCH_REFUSED}Invalid partition name specified\n")
        if "--test-only" in words:
            self.questions.append(tuple(words))
            starts = "sbatch: Job 2 to start at 2026-11-23T20:59:44 using 2 processors on nodes n[1-2] in partition two"
            return Completed(exit_code=0, stderr=f"{starts}\n")
        number = self.submit(tuple(words), streams.data.decode())
        if self.loses_reply:
            self.loses_reply = False
            raise TransientError("the answer was lost")
        return Completed(exit_code=0, stdout=f"{number}\n".encode())

    def _scancel(self, words: Sequence[str], streams: Streams) -> Completed:
        del streams
        numbers = {int(word) for word in words if word.isdigit()}
        for job in self.jobs:
            if job.number in numbers and job.state in _LIVES:
                job.cancelled = True
                self._end(job)
        return Completed(exit_code=0)

    def lose_slurmd(self, job: Job) -> subprocess.Popen[bytes]:
        """The daemon of its node died, and its script and ranks live on: Slurm requeues the job, which begins anew at
        once. Returns the script that lives on."""
        assert job.process is not None
        left = job.process
        job.restarts += 1
        self._start(job)
        return left

    def _start(self, job: Job) -> None:
        # Each start has files of its own, as each has a node.
        folder = self.folder / (f"{job.number}" if not job.restarts else f"{job.number}.{job.restarts}")
        job.state_file = self.folder / f"state.{job.number}"
        commands = folder / "bin"
        commands.mkdir(parents=True)
        job.state_file.write_text(f"RUNNING {job.restarts}")
        for name in ("srun", "scancel", "scontrol", "squeue"):
            program = commands / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} {NODE_COMMANDS} {name} "$@"\n', encoding="utf-8")
            program.chmod(0o755)
        (folder / "name").write_text(f"{job.option('job-name')}\n", encoding="utf-8")
        script = folder / "script"
        script.write_text(job.script.replace(PAUSE, "pause_seconds=0"), encoding="utf-8")
        environment = {
            **os.environ,
            "PATH": f"{commands}:{os.environ['PATH']}",
            "SLURM_JOB_ID": str(job.number),
            "SLURM_JOB_NUM_NODES": "1",
            "SLURM_JOB_NODELIST": "n1",
            "DOUBLE_FOLDER": str(folder),
            "DOUBLE_STATE": str(job.state_file),
            # Slurm sets it from the first requeue on.
            **({"SLURM_RESTART_COUNT": str(job.restarts)} if job.restarts else {}),
        }
        with Path(job.option("output")).open("ab") as log:
            job.process = subprocess.Popen(
                ["sh", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        job.started_at = _now()

    def _end(self, job: Job) -> None:
        """Kill the script, the step and the trainer: each is a process group of its own."""
        if job.process is None:
            return
        groups = [job.process.pid, *_numbers(self.folder.glob(f"{job.number}*/step"))]
        for group in groups:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                continue
        job.process.wait()


def _partition(words: Sequence[str]) -> str:
    return next((word.partition("=")[2] for word in words if word.startswith("--partition=")), PARTITIONS[0])


def _line(job: Job) -> str:
    started = f"{job.started_at.timestamp():.0f}" if job.started_at else "N/A"
    reason = "Resources" if job.state == "PENDING" else "None"
    nodes = re.sub(r"^1-", "", job.option("nodes", "1"))
    if job.state not in _LIVES:
        job.ended_at = job.ended_at or _now()
    ended = f"{job.ended_at.timestamp():.0f}" if job.ended_at else "N/A"
    cells = (
        *(str(job.number), job.option("job-name", "sbatch"), job.state, f"{job.submitted_at.timestamp():.0f}", started),
        *(ended, reason, nodes, job.option("comment", "(null)")),
    )
    return "|".join(cells) + "\n"


def _numbers(files: Iterable[Path]) -> list[int]:
    return [int(file.read_text()) for file in files if file.is_file()]


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  what is started here lives in real time
