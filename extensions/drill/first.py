"""Machine A: launched twice with one token, trained to a checkpoint, stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from trainplan.extensions.drill.limits import NAME
from trainplan.extensions.drill.sheet import FailedError, SkippedError
from trainplan.extensions.drill.steps import MACHINES, Step
from trainplan.planner.runs.directory.run_directory import newest_checkpoint, status_of
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.providers.base import InstanceRef, InstanceState
from trainplan.providers.errors import InstanceNotFoundError, ProviderError
from trainplan.workloads.durations import format_duration

if TYPE_CHECKING:
    from trainplan.extensions.drill.tools import Tools


def try_first(tools: Tools) -> Run | None:
    """Try the steps of machine A. Return its ended run; None if it has no checkpoint for B."""
    try:
        return _launch_run(tools)
    except SkippedError as why:
        tools.sheet.leave_out(MACHINES["A"], str(why))
        return None


def _launch_run(tools: Tools) -> Run:
    limits, sheet = tools.limits, tools.sheet
    usd = limits.usd_first(tools.targets[0])
    tools.check_room(limits.first, usd)
    with sheet.step(Step.LAUNCH) as row:
        run = _launched(tools)
        row.append(f"{run.attempts[-1].tries + 1} create sent")
    ref = run.attempts[-1].ref
    assert ref is not None
    with sheet.step(Step.REPLAY) as row:
        _replayed(tools, run, ref)
        row.append("the same machine")
    with sheet.step(Step.RUN_DIRECTORY) as row:
        row.append(_read_back(tools, run))
    with sheet.step(Step.BOOT):
        _until(tools, run, lambda _: _runs(tools, ref), "the machine was not shown as running")
    with sheet.step(Step.AGENT) as row:
        run = _until(tools, run, lambda the_run: the_run.phase is Phase.RUNNING, "training did not begin")
        row.append(f"state {status_of(tools.store(run.run_id), 1).get('state', 'unknown')}")
    with sheet.step(Step.CHECKPOINT) as row:
        run = _until(tools, run, lambda the_run: _step_of(tools, the_run) > 0, "no checkpoint arrived")
        row.append(f"step {_step_of(tools, run)}")
    with sheet.step(Step.STOP) as row:
        run = _stopped(tools, run)
        row.append(f"stopped at step {_step_of(tools, run)}")
    return run


def _launched(tools: Tools) -> Run:
    limits = tools.limits
    usd = limits.usd_first(tools.targets[0])
    draft = tools.draft(limits.first, usd)
    make = tools.requests(lambda _: None)
    tools.runner.prepare(make(draft, 1, draft.targets[0]))
    return tools.launched(tools.record(draft, limits.first, usd), make)


def _replayed(tools: Tools, run: Run, ref: InstanceRef) -> None:
    again = tools.provider.launch(tools.request(run))
    if again.ref != ref:
        raise FailedError("the same create request returned another machine")
    # A list need not show the machine at once.
    until = tools.now() + tools.provider.listing_lag + tools.limits.end
    while True:
        machines = [owned.id for owned in tools.provider.list_owned(run.run_id) if owned.instance]
        if len(machines) > 1:
            raise FailedError(f"{len(machines)} machines are listed")
        if machines == [ref.id]:
            return
        if tools.now() > until:
            raise FailedError("another machine is listed" if machines else "the machine is not listed")
        tools.pause()


def _read_back(tools: Tools, run: Run) -> str:
    store = tools.store(run.run_id)
    paths = store.list()
    if "job.json" not in paths:
        raise FailedError("job.json is not listed")
    try:
        data = store.get("job.json")
        # Also in part, as a machine's progress is read while it grows.
        if json.loads(data)["name"] != NAME or store.get("job.json", start=1, size=8) != data[1:9]:
            raise FailedError("job.json was read back with other contents")
    except (KeyError, ValueError, TypeError):
        raise FailedError("job.json could not be read back") from None
    return f"{len(paths)} files"


def _runs(tools: Tools, ref: InstanceRef) -> bool:
    try:
        return tools.provider.get(ref).state in (InstanceState.RUNNING, InstanceState.STOPPING)
    except InstanceNotFoundError:
        return False


def _step_of(tools: Tools, run: Run) -> int:
    return newest_checkpoint(tools.store(run.run_id)) or 0


def _until(tools: Tools, run: Run, holds: Callable[[Run], bool], lacking: str) -> Run:
    """The run once it holds. Raises FailedError where the run has ended, or its deadline is too near."""
    last: timedelta = tools.limits.end
    began = tools.now()
    while True:
        run = tools.settled(run)
        if run.phase is Phase.DONE:
            raise FailedError(run.message or f"the run ended: {run.outcome}")
        if holds(run):
            return run
        # The rest of the time is for ending the machine before its deadline does.
        if tools.now() + last > run.deadline:
            raise FailedError(f"{lacking} within {format_duration(tools.now() - began)}{_says(tools, run)}")
        tools.pause()


def _says(tools: Tools, run: Run) -> str:
    """What the machine says of itself, where it says anything."""
    try:
        status = status_of(tools.store(run.run_id), run.attempts[-1].number)
    except ProviderError:
        return ""
    text = ", ".join(filter(None, (status.get("state"), status.get("message"))))
    return f"; it says: {text}" if text else ""


def _stopped(tools: Tools, run: Run) -> Run:
    before = _step_of(tools, run)
    run, _ = tools.runner.stop(run)
    state = status_of(tools.store(run.run_id), run.attempts[-1].number).get("state")
    # The machine has to say so itself: a run counts as stopped too where the command ended a machine that did not obey.
    if run.outcome is not Outcome.STOPPED or state != "stopped":
        raise FailedError(run.message or f"the run ended as {run.outcome}, its machine says {state}")
    if _step_of(tools, run) < before:
        raise FailedError("the newest checkpoint is older than before")
    return run
