"""Fifty launches at once, each a process of its own, against one simulated cloud and one journal.

`python -m tests.faults.many FOLDER` prints one line, and ends with 1 where anything is not as it should be.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.builders import a_job
from tests.doubles.clock import NOON
from tests.faults.sim import QUICK, targets_of
from trainplan.planner.api import build
from trainplan.planner.cli.commands import status as status_command
from trainplan.planner.errors import PlanError
from trainplan.planner.home.client import own_client
from trainplan.planner.runs.directory.run_keys import RunKeys
from trainplan.planner.runs.execution.nobody import Nobody
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Outcome
from trainplan.planner.runs.runner import request_for
from trainplan.planner.settings import Settings
from trainplan.providers import registry
from trainplan.providers.base import ProviderSettings, RunId
from trainplan.providers.sim.cloud import Setup, SimCloud
from trainplan.providers.sim.provider import SimProvider
from trainplan.providers.sim.scenario import Scenario

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

RUNS, LOOKERS = 50, 4
# Time stands still until somebody sleeps, so every one of fifty sleepers may move it: the deadline is far away.
_LIMITS = {"deadline": "24h"}
_SCENARIO = Scenario.model_validate({**QUICK, "stock": RUNS, "quota": RUNS, "page_size": 20})


def main(folder: Path) -> int:
    settings = Settings(home=folder)
    os.environ["PLAN_HOME"] = str(folder)
    registry.FACTORIES["sim"] = f"{__name__}:make"
    Journal.open(settings.journal).close()
    job = a_job(epochs=3, checkpoint_every="20s", constraints=_LIMITS)
    work: list[Callable[[], None]] = [lambda number=number: _launch(number, settings, job) for number in range(RUNS)]  # type: ignore[misc]
    work += [_look_on] * LOOKERS
    broken = _all_at_once(work)
    ledger = SimCloud(folder / "sim", Setup(scenario=_SCENARIO, speed=0), lambda: NOON).ledger()
    wrong = [*(f"{broken} processes broke down",) * (broken > 0), *_wrong(settings, ledger)]
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    sys.stdout.write(f"runs {RUNS}, wrong {len(wrong)}\n")
    return 1 if wrong else 0


def make(settings: ProviderSettings) -> SimProvider:
    """What the registry calls in each process."""
    return _provider(settings.home)


def _provider(folder: Path) -> SimProvider:
    setup = Setup(scenario=_SCENARIO, speed=0)
    return SimProvider(_SCENARIO, SimCloud(folder / "sim", setup, lambda: NOON))


def _launch(number: int, settings: Settings, job: TrainingJob) -> None:
    provider = _provider(settings.home)
    with Journal.open(settings.journal) as journal:
        runner = build.runner(journal, settings, lambda _: None, "sim", Nobody())
        draft = runner.draft(job, targets_of("on_demand"), timedelta(hours=1), settings.home / f"model-{number}")
        run = replace(draft, run_id=RunId(f"261121-{number:08}"))
        runner.record(run, job, {})
        runner.follow(
            run,
            request_for(job, build.clock_of(provider), client=own_client(settings).id, key=RunKeys(settings.home).key),
        )


def _look_on() -> None:
    """`plan status` beside them, a few times."""
    for _ in range(3):
        try:
            status_command.command(name=None, watch=False, as_json=True)
        except PlanError as error:
            sys.stderr.write(f"{error.message}\n")


def _all_at_once(work: Iterable[Callable[[], None]]) -> int:
    """Each in a process of its own; how many of them did not come to their end."""
    started = [_started(one) for one in work]
    return sum(os.waitpid(process, 0)[1] != 0 for process in started)


def _started(work: Callable[[], None]) -> int:
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123  devnull is no path everywhere
            sys.stdout = nowhere
            work()
        status = 0
    except BaseException:  # noqa: BLE001  whatever it is, the parent is to hear of it
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def _wrong(settings: Settings, ledger: dict[str, Any]) -> list[str]:
    """What is not one run, one machine, one receipt each."""
    wrong = [f"left: {name}" for name in ledger["left"]]
    with Journal.open(settings.journal) as journal:
        runs = journal.runs()
        wrong += [f"{len(runs)} runs in the journal"] * (len(runs) != RUNS)
        for run in runs:
            told = ledger["runs"].get(run.run_id, {"instances": 0})
            receipts = _receipts(settings, run.run_id)
            if (run.outcome, len(run.attempts), told["instances"], receipts) != (Outcome.SUCCEEDED, 1, 1, 1):
                wrong.append(
                    f"{run.run_id}: {run.outcome} ({run.message}), {len(run.attempts)} attempts, "
                    f"{told['instances']} machines, {receipts} receipts"
                )
    return wrong


def _receipts(settings: Settings, run: str) -> int:
    with closing(sqlite3.connect(settings.journal)) as db:
        rows = db.execute("SELECT count(*) FROM events WHERE run_id = ? AND kind = 'receipt'", (run,))
        return int(rows.fetchone()[0])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
