"""A cluster in simulated time: jobs wait, begin, train, are preempted, requeued, ended and forgotten.

What it prints is as tests/data/slurm has it recorded, or as Slurm's pages say; what a job does is what
providers/slurm/data/job.sh does, which tests/contract runs for real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from tests.doubles.endings import is_sign_of_training
from tests.doubles.machine_command import measuring_in
from tests.doubles.slurm.job_life import Allocation, Fault, Job, Rules
from tests.doubles.slurm.shared_files import SharedFiles, script_name
from tests.faults.harness import EndedBy, Lived
from trainplan.providers.errors import CredentialsError, TransientError
from trainplan.providers.sim.catalogue import TYPES
from trainplan.providers.sim.training import EXIT_DEADLINE, EXIT_STOPPED, Write, images_per_second, newest_checkpoint
from trainplan.providers.sim.values import Course, Ending
from trainplan.providers.slurm.api import Completed
from trainplan.providers.slurm.queue import TEST_ONLY
from trainplan.providers.slurm.request import GRACE_SECONDS, MOST_LOSSES, PAUSE_SECONDS, SIGNAL_SECONDS

DIRECTORY = "/shared/trainplan"
THEIRS = "another-computer"
_TICK = timedelta(seconds=2)
"""How often the job's script looks at its deadline and for the mark to stop."""
_LOST = 137
_FINAL = (0, 65, 70, EXIT_DEADLINE, 77)
_SLURM = ("sbatch", "squeue", "scancel", "sinfo", "sacct", "test only")
_NO_CONTROLLER = "Unable to contact slurm controller (connect failure)"
_REFUSED = "sbatch: error: Batch job submission failed: "


def command_name(command: Sequence[str]) -> str:
    """What a command is called in scenarios and at points: Slurm's own name, or what a script of the store does."""
    words = command[2:] if command[0] == "env" else command
    if tuple(command[: len(TEST_ONLY)]) == TEST_ONLY or "--test-only" in command:
        return "test only"
    return words[0] if words[0] in _SLURM else script_name(command)


class SimulatedCluster:
    """One cluster. The same rules, commands and times give the same."""

    def __init__(self, rules: Rules, began: datetime) -> None:
        self.rules = rules
        self.now = self.began = began
        self.jobs: list[Job] = []
        self.files = SharedFiles(f"{DIRECTORY}/runs")
        self._calls = 0
        self._met = [0] * len(rules.faults)

    # --- commands ------------------------------------------------------------------------------------------------

    def run(self, command: Sequence[str], data: bytes) -> Completed:
        """Answer a client's command. Raises TransientError where the connection ends, CredentialsError where the login
        node lets nobody in."""
        name = command_name(command)
        self._calls += 1
        fault = self._fault(name, command)
        if fault is not None and fault.effect == "lost_request":
            raise TransientError(f"the cluster does not answer: the connection ended before {name}")
        if fault is not None and fault.effect == "denied":
            raise CredentialsError("the cluster does not let us in: Permission denied (publickey)")
        if fault is not None and fault.effect == "silent" and name in _SLURM:
            return Completed(exit_code=1, stderr=f"{name}: error: {_NO_CONTROLLER}\n")
        if fault is not None and fault.effect == "refused":
            return Completed(exit_code=1, stderr=f"{_REFUSED}{fault.text}\n")
        completed = self._answered(name, command, data)
        if fault is not None and fault.effect == "lost_reply":
            raise TransientError(f"the cluster does not answer: the connection ended after {name}")
        return completed

    def _answered(self, name: str, command: Sequence[str], data: bytes) -> Completed:
        words = command[2:] if command[0] == "env" else command
        match name:
            case "sinfo":
                lines = [f"{partition}|up|infinite|4|idle|4|16384|gpu:t4:1|(null)\n" for partition in self._partitions]
                return Completed(exit_code=0, stdout="".join(lines).encode())
            case "squeue":
                return Completed(exit_code=0, stdout="".join(self._lines(words)).encode())
            case "test only":
                now = int(self.now.timestamp())
                starts = f"sbatch: Job {len(self.jobs) + 1} to start at {now} using 1 processors on nodes n1\n"
                return Completed(exit_code=0, stdout=f"{now}\n".encode(), stderr=starts)
            case "sacct":
                return Completed(exit_code=1, stderr="Slurm accounting storage is disabled\n")
            case "sbatch" if (partition := self._partition(words)) not in self.rules.queue_seconds:
                why = f"sbatch: error: invalid partition specified: {partition}\n"
                return Completed(exit_code=1, stderr=f"{why}{_REFUSED}Invalid partition name specified\n")
            case "sbatch":
                return Completed(exit_code=0, stdout=f"{self.submit(tuple(words[1:]), data.decode())}\n".encode())
            case "scancel":
                numbers = {int(word) for word in words if word.isdigit()}
                for job in self.jobs:
                    if job.number in numbers:
                        self._cancel(job, EndedBy.COMMAND, "scancel")
                return Completed(exit_code=0)
            case _:
                self.tell()
                return self.files.sh(command, data, self.now)

    def _partition(self, words: Sequence[str]) -> str:
        named = [word.partition("=")[2] for word in words if word.startswith("--partition=")]
        return named[-1] if named else next(iter(self.rules.queue_seconds))

    @property
    def _partitions(self) -> Iterable[str]:
        return self.rules.queue_seconds

    def _lines(self, words: Sequence[str]) -> list[str]:
        names = {word.partition("=")[2] for word in words if word.startswith("--name=")}
        known = [job for job in self.jobs if not names or job.option("job-name") in names]
        age = timedelta(seconds=self.rules.min_job_age)
        return [job.line(self.now) for job in known if job.ended_at is None or self.now <= job.ended_at + age]

    def submit(self, words: tuple[str, ...], script: str) -> int:
        """Queue a job, and return its number."""
        job = Job(len(self.jobs) + 1, words, script, self.now, None)
        wait = self.rules.queue_seconds[self._partition(words)]
        job.begins_at = None if wait is None else self.now + timedelta(seconds=wait)
        self.jobs.append(job)
        return job.number

    def _fault(self, name: str, command: Sequence[str]) -> Fault | None:
        age = (self.now - self.began).total_seconds()
        for number, fault in enumerate(self.rules.faults):
            matches = fault.operation in ("*", name) or (fault.operation == "slurm" and name in _SLURM)
            place = not fault.partition or f"--partition={fault.partition}" in command
            if not matches or not place or not fault.after <= age < fault.until:
                continue
            if Random(f"{self.rules.seed}/{number}/{self._calls}").random() >= fault.chance:
                continue
            self._met[number] += 1
            if self._met[number] <= fault.skip:
                continue
            if fault.times is None or self._met[number] <= fault.skip + fault.times:
                return fault
        return None

    # --- time ----------------------------------------------------------------------------------------------------

    def advance(self, until: datetime) -> None:
        """Let time pass; everything that is due happens at its own instant."""
        while True:
            due = [(at, job.number, happens) for job in self.jobs for at, happens in self._due(job) if at <= until]
            if not due:
                break
            at, _, happens = min(due, key=lambda one: one[:2])
            self.now = max(self.now, at)
            happens()
        self.now = max(self.now, until)

    def tell(self) -> None:
        """Have everything written that the trainers have written by now."""
        for job in self.jobs:
            if (one := job.live) is not None and one.course is not None and one.told_until is not None:
                self._write(one, self.rules.trainer.writes(one.course, one.told_until, self.now))
                one.told_until = self.now

    def ledger(self) -> list[Lived]:
        """Every job and every allocation that ever was."""
        self.tell()
        return [row for job in self.jobs for row in job.lived(self.now, THEIRS)]

    def trains_until(self, run: str) -> datetime | None:
        """When the training of a run's live job ends by itself."""
        courses = [job.live.course for job in self.jobs if job.run == run and job.live is not None]
        ends = [self.rules.trainer.ends(course) for course in courses if course is not None]
        return next((ending.at for ending in ends if ending is not None), None)

    def _due(self, job: Job) -> list[tuple[datetime, Callable[[], None]]]:
        """What happens to a job next, one of these."""
        if job.waits:
            return [] if job.begins_at is None else [(job.begins_at, lambda: self._begin(job))]
        one = job.live
        if one is None:
            return []
        due: list[tuple[datetime, Callable[[], None]]] = [*self._incidents(job, one), *self._limits(job, one)]
        if one.course is None and one.trained_at is None:
            starts = one.again_at or one.began_at + timedelta(seconds=self.rules.start_seconds)
            due.append((starts, lambda: self._train(job, one)))
        if (ending := self._ending(one)) is not None:
            due.append((ending.at, lambda: self._trained(job, one, ending)))
        return due

    def _ending(self, one: Allocation) -> Ending | None:
        if one.course is None:
            return None
        if one.term_at is None:
            return self.rules.trainer.ends(one.course)
        return self.rules.trainer.stops(one.course, max(one.term_at, one.course.began_at))

    def _limits(self, job: Job, one: Allocation) -> list[tuple[datetime, Callable[[], None]]]:
        """The script's own watch, and Slurm's limit."""
        due: list[tuple[datetime, Callable[[], None]]] = []
        stop = self.files.written_at.get(self._path(job, "stop"))
        if stop is not None and one.stop_asked_at is None and self._path(job, "stop") in self.files.objects:
            pauses = one.again_at is not None and one.course is None
            asked = max(stop, one.began_at) + _TICK
            due.append((asked, lambda: self._finish(job, EXIT_STOPPED) if pauses else self._term(one, "stop")))
        if self.rules.script_timer_works:
            at = job.deadline + timedelta(seconds=GRACE_SECONDS) + _TICK
            due.append((max(at, one.began_at), lambda: self._by_its_script(job)))
        if self.rules.time_limit_works:
            limit = one.began_at + job.limit
            if one.term_at is None:
                due.append((limit - timedelta(seconds=SIGNAL_SECONDS), lambda: self._term(one, "limit")))
            due.append((limit, lambda: self._close(job, EndedBy.CLOUD_TIMER, "Slurm's time limit", "TIMEOUT")))
        return due

    def _incidents(self, job: Job, one: Allocation) -> Iterable[tuple[datetime, Callable[[], None]]]:
        for number, incident in enumerate(self.rules.incidents):
            if number in one.befell or (incident.attempt, incident.start) != (job.attempt, len(job.starts)):
                continue
            at = one.began_at + timedelta(seconds=incident.after)
            if not incident.event.startswith("preempt"):
                yield at, lambda number=number: self._befalls(job, one, number)  # type: ignore[misc]
                continue
            if one.taken_at is None:
                yield at, lambda: self._term(one, "taken")
            else:
                taken = one.taken_at + timedelta(seconds=self.rules.grace_seconds)
                yield taken, lambda number=number: self._befalls(job, one, number)  # type: ignore[misc]

    def _befalls(self, job: Job, one: Allocation, number: int) -> None:
        one.befell.add(number)
        match self.rules.incidents[number].event:
            case "preempt":
                self._requeue(job, EndedBy.PROVIDER, "preempted, and requeued")
            case "node_fail":
                self._requeue(job, EndedBy.PROVIDER, "its node failed; requeued")
            case "preempt_cancel":
                self._close(job, EndedBy.PROVIDER, "preempted", "PREEMPTED")
            case "node_gone":
                self._close(job, EndedBy.PROVIDER, "its node failed", "NODE_FAIL")
            case "lose_rank":
                self.tell()
                self._after_rank(job, one, _LOST)

    # --- what the job's script does ------------------------------------------------------------------------------

    def _begin(self, job: Job) -> None:
        job.waits = False
        one = Allocation(began_at=self.now)
        job.starts.append(one)
        owner = self._path(job, "slurm-job")
        if self.files.runs.find(job.run, "job.json") is None:
            self._close(job, EndedBy.AGENT, "there is no job.json", "FAILED", soon=True)
            return
        if owner not in self.files.objects:
            self.files.objects[owner] = f"{job.number}\n".encode()
            self.files.objects[self._path(job, "slurm-began")] = f"{self.now.timestamp():.0f}\n".encode()
        if int(self.files.objects[owner]) != job.number or self._path(job, "slurm-end") in self.files.objects:
            self._close(job, EndedBy.AGENT, "another job has the attempt, or it has ended", "COMPLETED", soon=True)
        elif self._path(job, "stop") in self.files.objects:
            self._finish(job, EXIT_STOPPED)
        elif self.now >= job.deadline:
            self._finish(job, EXIT_DEADLINE)

    def _train(self, job: Job, one: Allocation) -> None:
        job_json = self.files.runs.job_json(job.run)
        assert job_json is not None, "the run directory went while its job began"
        device = TYPES["t4.one"]
        measuring = measuring_in(job.values["measuring"].split())
        one.course = Course(
            run=job.run,
            attempt=job.attempt,
            job_json=job_json,
            device=device.device,
            device_count=device.device_count,
            images_per_second=images_per_second(job_json, device) * self.rules.throughput_factor,
            began_at=self.now,
            start_step=newest_checkpoint(self.files.runs.marks(job.run), job_json),
            deadline=job.deadline,
            max_steps=measuring.max_steps,
            until_steady=measuring.until_steady,
            try_settings=measuring.try_settings,
        )
        one.told_until = self.now
        self._write(one, self.rules.trainer.begins(one.course))

    def _trained(self, job: Job, one: Allocation, ending: Ending) -> None:
        assert one.course is not None
        self.tell()
        self._write(one, self.rules.trainer.finishes(one.course, ending))
        self._after_rank(job, one, ending.exit_code)

    def _after_rank(self, job: Job, one: Allocation, code: int) -> None:
        one.course = None
        asked = self._path(job, "stop") in self.files.objects
        if code in _FINAL or (asked and code in (EXIT_STOPPED, _LOST)):
            self._finish(job, code if code in _FINAL else EXIT_STOPPED)
        elif code == EXIT_STOPPED:
            self._requeue(job, EndedBy.PROVIDER, "stopped by the cluster; requeued")
        elif self.now >= job.deadline:
            self._finish(job, EXIT_DEADLINE)
        elif job.losses >= MOST_LOSSES:
            self._finish(job, _LOST)
        else:
            # Begun again from the last checkpoint, after a pause.
            one.again_at = self.now + timedelta(seconds=PAUSE_SECONDS * 4**job.losses)
            job.losses += 1

    def _finish(self, job: Job, code: int) -> None:
        one = job.live
        assert one is not None
        one.trained_at = self.now
        self.files.objects[self._path(job, "slurm-end")] = f"{code}\n".encode()
        final = "FAILED" if code else "COMPLETED"
        self._close(job, EndedBy.AGENT, f"its script ended with {code}", final, soon=True)

    def _by_its_script(self, job: Job) -> None:
        self.files.objects[self._path(job, "slurm-end")] = b"124\n"
        self._cancel(job, EndedBy.MACHINE_TIMER, "its script's deadline")

    # --- what Slurm does -----------------------------------------------------------------------------------------

    def _term(self, one: Allocation, why: str) -> None:
        """TERM to the job's step."""
        one.term_at = one.term_at or self.now
        if why == "stop":
            one.stop_asked_at = self.now
        elif why == "taken":
            one.taken_at = self.now

    def _cancel(self, job: Job, by: EndedBy, why: str) -> None:
        if job.waits:
            job.waits, job.final, job.ended_at = False, "CANCELLED", self.now
        elif job.live is not None:
            self._close(job, by, why, "CANCELLED")

    def _requeue(self, job: Job, by: EndedBy, why: str) -> None:
        self._close(job, by, why, "", soon=True)
        job.waits, job.ended_at, job.reason = True, None, "BeginTime"
        job.submitted_at = self.now
        job.begins_at = self.now + timedelta(seconds=self.rules.requeue_seconds)

    def _close(self, job: Job, by: EndedBy, why: str, final: str, *, soon: bool = False) -> None:
        """End its allocation; one that is killed bills until its node is clear."""
        one = job.live
        assert one is not None
        self.tell()
        one.course = None
        one.ended_at = self.now if soon else self.now + timedelta(seconds=self.rules.kill_seconds)
        one.ended_by, one.why = by, why
        job.final, job.ended_at = final, one.ended_at

    def _path(self, job: Job, name: str) -> str:
        return f"{job.run}/attempts/{job.attempt}/{name}"

    def _write(self, one: Allocation, writes: Iterable[Write]) -> None:
        course = one.course
        assert course is not None
        for write in writes:
            path = write.path or f"attempts/{course.attempt}/log/trainer.log"
            self.files.runs.write(course.run, path, write.data, append=write.append)
            if is_sign_of_training(path):
                one.progress_at = write.at

    def follow(self, rules: Rules) -> None:
        """Go on under other rules; its faults count anew."""
        self.rules = replace(rules, seed=self.rules.seed)
        self._met = [0] * len(rules.faults)
