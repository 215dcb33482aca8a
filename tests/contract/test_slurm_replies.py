"""Replies of a real Slurm (scripts/record_slurm_replies.py): they are read, and the double gives the like of them."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.doubles.slurm.cluster import Cluster
from trainplan.providers.errors import BadRequestError
from trainplan.providers.slurm.api import Completed, Streams
from trainplan.providers.slurm.errors import error_of
from trainplan.providers.slurm.offers import node_groups
from trainplan.providers.slurm.queue import SACCT, past_waits, starts_in
from trainplan.providers.slurm.reply import slurm_jobs

(RECORD,) = (ROOT / "tests" / "data" / "slurm").glob("*.json")
REPLIES: dict[str, dict[str, Any]] = {
    one["name"]: one for one in json.loads(RECORD.read_text(encoding="utf-8"))["replies"]
}


def states(name: str) -> dict[str, str]:
    """The state of each job in a recorded list, by its name."""
    return {job.name.text: job.state for job in slurm_jobs(REPLIES[name]["stdout"])}


def test_lists_of_jobs_are_read() -> None:
    assert states("squeue: running and waiting") == {
        "trainplan-r1-1": "RUNNING", "trainplan-r1-2": "PENDING", "trainplan-r1-3": "PENDING",
        "trainplan-r1-4": "PENDING",
    }  # fmt: skip
    assert states("squeue: requeued")["trainplan-r1-1"] == "PENDING"
    assert states("squeue: ended")["trainplan-r1-3"] == "COMPLETED"
    assert states("squeue: ended")["trainplan-r1-4"] == "FAILED"
    assert states("squeue: ended")["trainplan-r1-1"] == "CANCELLED"
    assert states("squeue: no job") == {}


def test_a_job_that_waits_has_not_started_though_slurm_names_an_instant() -> None:
    jobs = {job.name.attempt: job for job in slurm_jobs(REPLIES["squeue: requeued"]["stdout"])}
    assert jobs[1].waits
    assert jobs[1].started_at is None
    assert {job.labels["trainplan-run"] for job in jobs.values()} == {"r1"}


def test_partitions_are_read() -> None:
    (group,) = node_groups(REPLIES["sinfo"]["stdout"])
    assert (group.partition, group.nodes, group.cpus, group.time_limit_minutes) == ("two", 2, 1, 60)


@pytest.mark.parametrize("name", ["sbatch: no partition", "sbatch: no device", "sbatch: test only, no partition"])
def test_refusals_are_recognized(name: str) -> None:
    reply = REPLIES[name]
    completed = Completed(exit_code=reply["exit_code"], stderr=reply["stderr"])
    assert isinstance(error_of(completed, "the job was not accepted"), BadRequestError)


@pytest.mark.parametrize(
    "name",
    ["sinfo", "squeue: no job", "sbatch: version", "sbatch: too many nodes", "sbatch: no partition",
     "sbatch: test only", "scancel: no such job", "test only: one node", "test only: no partition",
     "sacct: no accounting"],
)  # fmt: skip
def test_the_double_replies_as_slurm_does(tmp_path: Path, name: str) -> None:
    """Exit code, and both texts but for numbers."""
    reply = REPLIES[name]
    cluster = Cluster(tmp_path, is_full=True)
    given = cluster.run(reply["command"], Streams(data=reply["stdin"].encode()))
    assert given.exit_code == reply["exit_code"]
    assert without_numbers(given.text) == without_numbers(reply["stdout"])
    assert without_numbers(given.stderr) == without_numbers(reply["stderr"])


def test_the_wait_is_read_from_the_clusters_own_clock() -> None:
    reply = REPLIES["test only: one node"]
    completed = Completed(exit_code=0, stdout=reply["stdout"].encode(), stderr=reply["stderr"])
    instant = int(re.findall(r"start at (\d+)", reply["stderr"])[0])
    wait = starts_in(completed)
    assert wait == timedelta(seconds=instant - int(reply["stdout"]))
    assert wait > timedelta(minutes=5)


def test_waits_of_the_past_are_those_of_jobs_that_began() -> None:
    """Of the five recorded jobs one waits, and one was cancelled in the queue: its start is its end."""
    (reply,) = json.loads((RECORD.parent / "accounting" / RECORD.name).read_text(encoding="utf-8"))["replies"]
    assert len(reply["stdout"].splitlines()) == 5
    assert tuple(reply["command"][: len(SACCT)]) == SACCT
    waits = past_waits(Completed(exit_code=reply["exit_code"], stdout=reply["stdout"].encode()))
    assert waits == (timedelta(seconds=2), timedelta(seconds=6), timedelta(seconds=10))


def test_without_accounting_nothing_is_known_of_the_past() -> None:
    reply = REPLIES["sacct: no accounting"]
    assert past_waits(Completed(exit_code=reply["exit_code"], stderr=reply["stderr"])) is None


def test_the_double_lists_a_job_as_slurm_does(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, is_full=True)
    accepted = REPLIES["sbatch: too many nodes"]
    cluster.run(accepted["command"], Streams(data=accepted["stdin"].encode()))
    shown = cluster.run(REPLIES["squeue: running and waiting"]["command"]).text
    (recorded,) = (
        line for line in REPLIES["squeue: running and waiting"]["stdout"].splitlines() if "|trainplan-r1-2|" in line
    )
    assert without_numbers(shown.strip()) == without_numbers(recorded.replace("PartitionConfig", "Resources"))


def without_numbers(text: str) -> str:
    """The text with its numbers, times and nodes made alike."""
    return re.sub(r"n\[?[\d-]+\]?|processors?", "n", re.sub(r"\d[\d:T-]*", "0", text))
