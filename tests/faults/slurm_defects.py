"""Planted defects of the part for Slurm: what careless software does with a queue, and with jobs that come back."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import trainplan.providers.slurm.provider as provider
import trainplan.providers.slurm.reply as reply
import trainplan.providers.slurm.request as request
from tests.faults.planting import of_the_engine, planting
from tests.faults.shared_defects import refused_without_an_answer, taken_as_whole
from trainplan.providers.base import LABEL_CLIENT, EndKind
from trainplan.providers.errors import CredentialsError, ProviderError
from trainplan.providers.slurm.api import Completed
from trainplan.providers.slurm.provider import SlurmProvider
from trainplan.providers.slurm.store import _GET, _GET_PART, ShellStore

# A job is found again by its name before it is submitted, and has one price, by which its deadline is the same whenever
# it is asked for; no partition refuses for want of room; and nothing stays when a job has ended. Its store is a folder
# of the cluster: no case has one that is silent while the cluster answers.
SLURM = of_the_engine(
    "a request is built anew for its replay",
    "a create that was cut off is never adopted",
    "a run is called done before it is torn down",
    "a refused placement is asked for ever",
    "an end without an answer of the store",
    "a store that does not answer is taken for an empty one",
)
defect = planting("slurm", SLURM)

defect("a submission without an answer is taken as refused")(refused_without_an_answer(SlurmProvider))
defect("a list that did not come is taken as empty")(taken_as_whole(SlurmProvider))


@defect("a login node that lets nobody in is taken as a job that is gone")
def _() -> None:
    look, read = SlurmProvider._instance, ShellStore._sh

    def shown(self: Any, name: Any) -> Any:
        try:
            return look(self, name)
        except CredentialsError:
            return None

    def answered(self: Any, *given: Any, **named: Any) -> Any:
        try:
            return read(self, *given, **named)
        except CredentialsError:
            return Completed(exit_code=66 if given[0] in (_GET, _GET_PART) else 0)

    SlurmProvider._instance = shown
    ShellStore._sh = answered


@defect("each submission has a name of its own")
def _() -> None:
    real, count = SlurmProvider.launch, itertools.count(1)

    def send(self: Any, asked: Any) -> Any:
        (call,) = asked.calls
        words = [
            f"{word}{next(count)}" if word.startswith("--job-name=") else word for word in call.parameters["arguments"]
        ]
        return real(self, replace(asked, calls=(replace(call, parameters={**call.parameters, "arguments": words}),)))

    SlurmProvider.launch = send


@defect("nobody looks for the job before it is submitted")
def _() -> None:
    real, look = SlurmProvider.launch, SlurmProvider._instance

    def send(self: Any, asked: Any) -> Any:
        shown = iter([None])
        SlurmProvider._instance = lambda *given: next(shown, look(*given))
        try:
            return real(self, asked)
        finally:
            SlurmProvider._instance = look

    SlurmProvider.launch = send
    SlurmProvider.leave_the_oldest = lambda *_: None


@defect("a controller that does not answer is taken for an empty queue")
def _() -> None:
    real = SlurmProvider._jobs

    def listed(self: Any, name: Any = None) -> Any:
        try:
            return real(self, name)
        except ProviderError:
            return []

    SlurmProvider._jobs = listed


@defect("jobs that wait are not listed")
def _() -> None:
    real = SlurmProvider.list_owned

    def listed(self: Any, run_id: Any = None) -> Any:
        jobs = {job.name.text for job in self._jobs() if job.waits}
        return [known for known in real(self, run_id) if known.id not in jobs]

    SlurmProvider.list_owned = listed


@defect("a job that is being cleared is taken for one that is gone")
def _() -> None:
    reply._END_STATES["COMPLETING"] = (EndKind.LOST, "it is being cleared")


@defect("a requeued job is taken for one that has ended")
def _() -> None:
    real = reply._job

    def shown(line: str) -> Any:
        job = real(line)
        again = job is not None and job.waits and job.reason == "BeginTime"
        return replace(job, state="NODE_FAIL") if again else job  # type: ignore[type-var]

    reply._job = shown


@defect("a delete of a job that waits does nothing")
def _() -> None:
    real = SlurmProvider.delete

    def deleted(self: Any, ref: Any) -> None:
        if not any(job.waits for job in self._jobs() if job.name.text == ref.id):
            real(self, ref)

    SlurmProvider.delete = deleted


@defect("the script does not hold the deadline")
def _() -> None:
    real = request._script

    def made(asked: Any, settings: Any) -> str:
        return real(replace(asked, deadline=asked.deadline + timedelta(days=30)), settings)

    request._script = made


@defect("Slurm's limit is a month")
def _() -> None:
    real = SlurmProvider.resolve

    def resolved(self: Any, asked: Any) -> Any:
        return replace(real(self, asked), resolution=request.SlurmResolution(time_minutes=43_200))

    SlurmProvider.resolve = resolved


@defect("labels without the client")
def _() -> None:
    real = request.labels_of
    request.labels_of = lambda asked: {key: text for key, text in real(asked).items() if key != LABEL_CLIENT}


@defect("an exit code is read as the end of a job that still waits")
def _() -> None:
    real = provider.instance

    def told(name: Any, jobs: Any, traces: Any) -> Any:
        return real(name, [job for job in jobs if not job.waits], traces)

    provider.instance = told
