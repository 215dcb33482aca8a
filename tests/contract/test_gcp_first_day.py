"""A Google Cloud project on its first day: the doctor, the set-up and a launch, by the real command line.

`pytest --update-golden` on this module writes docs/clouds/gcp-transcripts.md anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Golden
from tests.contract.first_day import JOB, Scene, bring_the_job, page_of
from tests.contract.gcp_command import at_a_desk, leave
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import NEW_PROJECT, Scenario
from tests.unit.planner.cli.command import plan
from trainplan.planner.errors import ExitCode

pytestmark = pytest.mark.slow
DOCTOR = ("doctor", "gcp", JOB)
PAGE = ROOT / "docs" / "clouds" / "gcp-transcripts.md"
TITLE = """# Google Cloud: the first day of a project

What the commands print, over the double of Google Cloud (docs/clouds/gcp.md) in the state of a project that was made
today: no GPU in any region, 8 vCPUs in each region and 12 in all, no network, every API off but those that Google
switches on itself, and what was just made is not known to other parts of Google for 75 seconds. Where these figures are
from: `NEW_PROJECT` in `tests/doubles/google/scenario.py`. A test writes this page and holds it against what is printed;
run ids and folders are replaced.
"""
BEFORE = Scene("Before the set-up", "Quotas come first, since they take longest.", DOCTOR, ExitCode.REFUSED)
SET_UP = Scene("The set-up", "What an owner of the project does once.", ("setup", "gcp", "--yes"), ExitCode.OK)
AFTER = Scene("After the set-up", "What can be launched while the request for GPUs is under way.", DOCTOR, ExitCode.OK)
LAUNCH = Scene(
    "The first launch",
    "One machine is asked for, and no placement whose quota is too small.",
    ("launch", JOB, "--provider", "gcp", "--yes"),
    ExitCode.OK,
)
TAKES = "hours to days"
LINK = "https://console.cloud.google.com/iam-admin/quotas?project=a-project"


@pytest.fixture
def first_day(google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    at_a_desk(google, tmp_path, monkeypatch)
    bring_the_job(tmp_path)
    plan(*DOCTOR)  # imports Google's libraries, which may take longer than the doctor waits for a line
    google.reset(Scenario(**NEW_PROJECT))
    yield google
    leave()


def calls(google: Google, method: str) -> list[dict[str, Any]]:
    told = google.control("calls")
    assert told["violations"] == []
    return [call for call in told["calls"] if call["method"] == method]


def test_from_the_doctor_to_the_receipt_on_the_first_day(first_day: Google, golden: Golden) -> None:
    before = BEFORE.typed()
    gpus, fix, cpus, *_ = before.out.splitlines()
    assert gpus.startswith("unknown   GPUs: ")
    assert all(words in fix for words in ("plan setup gcp first", LINK, TAKES, "meanwhile processors launch"))
    assert cpus.startswith("unknown   vCPUs: ")
    assert not calls(first_day, "serviceusage.services.batchEnable"), "a doctor changes nothing"

    began = first_day.now()
    made = SET_UP.typed()
    waited = (first_day.now() - began).total_seconds()
    assert waited >= NEW_PROJECT["settling_seconds"], "nothing was unknown: the double was kind"
    assert plan(*SET_UP.words).err == "gcp: everything is set up\n"

    after = AFTER.typed()
    gpus, fix, *_ = after.out.splitlines()
    assert gpus.startswith("unknown   GPUs: GPUS_ALL_REGIONS is 0: no GPU can be launched")
    assert all(words in fix for words in (LINK, TAKES, "meanwhile processors launch"))

    for market in ("on_demand", "spot"):
        said = plan(*LAUNCH.words, "--device", "T4", "--market", market)
        assert said.code == ExitCode.REFUSED
        assert "GPUS_ALL_REGIONS: 0, 1 are needed" in said.error
        assert "plan doctor gcp" in said.hint
    assert calls(first_day, "compute.instances.insert") == []

    launched = LAUNCH.typed()
    (insert,) = calls(first_day, "compute.instances.insert")
    assert re.search(r"/(e2|n1|n2|n2d|c2|c3)-standard-[248]$", insert["body"]["machineType"])
    assert not calls(first_day, "tpu.projects.locations.queuedResources.create")
    assert [row["id"] for row in first_day.control("ledger")["rows"] if row["left"]] == []
    shown = [(BEFORE, before), (SET_UP, made), (AFTER, after), (LAUNCH, launched)]
    golden.check(PAGE, page_of(TITLE, shown))
