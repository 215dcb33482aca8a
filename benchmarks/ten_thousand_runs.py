"""What a long life costs: the size of the journal after many runs, and what commands take that look at all of them.

`python benchmarks/ten_thousand_runs.py make HOME [--runs N]` makes a state folder with N done runs, each a copy of one
that was planned for the ImageNet example on every cloud. `python benchmarks/ten_thousand_runs.py measure HOME` times
`plan status`, `plan history` (the newest and all) and `plan cleanup --dry-run` there as whole processes, the journal
evicted from the page cache before each, and exits with 1 where a limit is passed.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from trainplan.planner.planning.build_plan import PlanQuery, make_plan
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.records import request_record
from trainplan.planner.runs.proposal.proposal import MOST_TARGETS, rented
from trainplan.planner.runs.run import Attempt, Outcome, Phase, Run
from trainplan.planner.settings import Settings
from trainplan.providers.base import EndKind, InstanceRef, LaunchRequest, RunId, VendorRequest
from trainplan.workloads.jobfile import read_job

ROOT = Path(__file__).parent.parent
PLAN = Path(sys.executable).parent / "plan"
LARGEST_JOURNAL_MB = 55.0
LIMITS: dict[tuple[str, ...], tuple[float, float]] = {
    ("status",): (1.5, 120.0),
    ("history",): (0.5, 80.0),
    ("cleanup", "--dry-run", "--provider", "local"): (1.5, 120.0),
    ("history", "--all", "--csv"): (5.0, 250.0),
}
"""Seconds and MiB that a command may take."""
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
START_UP_BYTES = 11_300
"""The start-up text that a create on a cloud carries (providers/cloud/bootstrap.py)."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("make", "measure"))
    parser.add_argument("home", type=Path)
    parser.add_argument("--runs", type=int, default=10_000)
    options = parser.parse_args()
    if options.what == "make":
        make(options.home, options.runs)
        return 0
    return 0 if measure(options.home) else 1


def make(home: Path, runs: int) -> None:
    """A journal with one run written as a launch writes it, and copies of its rows."""
    home.mkdir(parents=True, exist_ok=True)
    settings = Settings(home=home)
    template = write_one(settings)
    with sqlite3.connect(settings.journal) as db:
        db.create_function("plan_blanks", 1, lambda number: f"{number:b}".replace("0", " ").replace("1", "\t"))
        for table in ("runs", "attempts", "events"):
            names = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[1] not in ("run_id", "id")]
            columns = ", ".join(names)
            db.executemany(
                f"INSERT INTO {table} (run_id, {columns}) SELECT ?, {columns} FROM {table} WHERE run_id = ?",
                ((f"250101-{number:08x}", template) for number in range(runs - 1)),
            )
        # Each run's placements are a text of their own: what a command remembers of equal texts is no figure.
        db.execute(
            "UPDATE runs SET targets = targets || plan_blanks(rowid) WHERE typeof(targets) = 'text' AND targets <> '[]'"
        )
    report_size(home)


def write_one(settings: Settings) -> RunId:
    """One run that succeeded on its first machine; returns its id."""
    job = read_job(ROOT / "examples" / "vgg16-imagenet.yaml")
    plan = make_plan(job, PlanQuery(every_placement=True, limit=MOST_TARGETS), settings, NOON)
    proposal = rented(plan)
    target = proposal.targets[0]
    run_id = RunId("241231-00000000")
    run = Run(
        run_id=run_id, job_name=job.name, job_digest=job.digest(), provider=target.offer.provider, phase=Phase.PLANNED,
        created_at=NOON, deadline=NOON + timedelta(days=3), model_folder="/home/me/model", targets=proposal.targets,
    )  # fmt: skip
    request = LaunchRequest(
        run_id=run_id, attempt=1, offer=target.offer, job=job, deadline=run.deadline,
        calls=(VendorRequest(service="compute", operation="insert", parameters={"script": "x" * START_UP_BYTES}),),
    )  # fmt: skip
    with Journal.open(settings.journal) as journal:
        journal.add_run(run, job.to_json(), proposal.record, NOON)
        attempt = Attempt(number=1, target=target, asked_at=NOON, sent_at=NOON, deadline=run.deadline)
        run = run.with_attempt(attempt).moved(Phase.LAUNCHING)
        journal.add_attempt(run, request_record(request), NOON)
        ref = InstanceRef(provider=target.offer.provider, region=target.offer.region, id=f"trainplan-{run_id}-1")
        run = run.with_attempt(replace(attempt, ref=ref))
        for phase in (Phase.BOOTING, Phase.RUNNING, Phase.COLLECTING, Phase.TEARING_DOWN, Phase.DONE):
            run = run.moved(phase)
            if phase is Phase.DONE:
                attempt = replace(run.attempts[-1], end=EndKind.DONE, ended_at=NOON, cleared=True)
                run = replace(run.with_attempt(attempt), outcome=Outcome.SUCCEEDED)
            journal.save(run, NOON)
        journal.save_receipt(run_id, receipt(run), NOON)
    return run_id


def receipt(run: Run) -> dict[str, object]:
    """A receipt with the fields of `trainplan.planner.runs.receipt.receipt.Receipt`."""
    return {
        "run_id": run.run_id, "job_name": run.job_name, "outcome": "succeeded", "message": None, "attempts": 1,
        "interruptions": 0, "lost_steps": 0, "estimated_seconds": 85_000.0, "actual_seconds": 86_400.0,
        "estimated_usd": 55.04, "actual_usd": 56.1, "estimated_images_per_second": 1_400.0, "basis": "modelled",
        "actual_images_per_second": 1_380.0, "steps": 450_000, "total_steps": 450_000, "accuracy": 0.71,
        "hold_out_images": 50_000, "framework": "tensorflow 2.20", "device": "A100", "phase_seconds": {"data": 900.0},
        "model_folder": run.model_folder,
    }  # fmt: skip


def measure(home: Path) -> bool:
    """Print seconds and memory of each command; whether all keep within their limits."""
    environment = os.environ | {"PLAN_HOME": str(home)}
    good = True
    for command, (longest_seconds, largest_mib) in LIMITS.items():
        evict(home)
        began = time.perf_counter()
        process = subprocess.Popen([PLAN, *command], env=environment, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds, mib = time.perf_counter() - began, usage.ru_maxrss / 1024
        processor = usage.ru_utime + usage.ru_stime
        figures = f"{seconds:.2f} s ({processor:.2f} s of a processor), {mib:.0f} MiB, exit {process.returncode}"
        sys.stdout.write(f"plan {' '.join(command)}: {figures}\n")
        good = good and seconds <= longest_seconds and mib <= largest_mib
    small = report_size(home) <= LARGEST_JOURNAL_MB
    return good and small


def evict(home: Path) -> None:
    """Take the journal out of the page cache, so that it is read from the disk."""
    for path in home.glob("journal.sqlite*"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def report_size(home: Path) -> float:
    megabytes = (home / "journal.sqlite").stat().st_size / 1e6
    sys.stdout.write(f"journal: {Decimal(megabytes):,.1f} MB\n")
    return megabytes


if __name__ == "__main__":
    raise SystemExit(main())
