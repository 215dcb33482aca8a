"""A Google Cloud project on its first day: the doctor, the set-up and a launch, by the real command line.

`pytest --update-golden` on this module writes docs/clouds/gcp-transcripts.md anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Golden
from tests.contract.gcp_command import at_a_desk, leave
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import NEW_PROJECT, Scenario
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.planner.errors import ExitCode

pytestmark = pytest.mark.slow
JOB = "examples/digits-vgg.yaml"
DOCTOR, SET_UP = ("doctor", "gcp", JOB), ("setup", "gcp", "--yes")
LAUNCH = ("launch", JOB, "--provider", "gcp", "--yes")
PAGE = ROOT / "docs" / "clouds" / "gcp-transcripts.md"
HEAD = """# Google Cloud: the first day of a project

What the commands print, over the double of Google Cloud (docs/clouds/gcp.md) in the state of a project that was made
today: no GPU in any region, 8 vCPUs in each region and 12 in all, no network, every API off but those that Google
switches on itself, and what was just made is not known to other parts of Google for 75 seconds. Where these figures are
from: `NEW_PROJECT` in `tests/doubles/google/scenario.py`. A test writes this page and holds it against what is printed;
run ids and folders are replaced.

"""
SECTIONS = (
    ("Before the set-up", "Quotas come first, since they take longest.", DOCTOR),
    ("The set-up", "What an owner of the project does once.", SET_UP),
    ("After the set-up", "What can be launched while the request for GPUs is under way.", DOCTOR),
    ("The first launch", "One machine is asked for, and no placement whose quota is too small.", LAUNCH),
)
TAKES = "hours to days"
LINK = "https://console.cloud.google.com/iam-admin/quotas?project=a-project"


@pytest.fixture
def first_day(google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    at_a_desk(google, tmp_path, monkeypatch)
    (tmp_path / "examples").mkdir()
    (tmp_path / JOB).write_text((ROOT / JOB).read_text(encoding="utf-8"), encoding="utf-8")
    plan(*DOCTOR)  # imports Google's libraries, which may take longer than the doctor waits for a line
    google.reset(Scenario(**NEW_PROJECT))
    yield google
    leave()


def calls(google: Google, method: str) -> list[dict[str, Any]]:
    told = google.control("calls")
    assert told["violations"] == []
    return [call for call in told["calls"] if call["method"] == method]


def test_the_doctor_names_quotas_first_even_where_no_api_is_on(first_day: Google) -> None:
    said = plan(*DOCTOR)
    assert said.code == ExitCode.REFUSED
    gpus, fix, cpus, *_ = said.out.splitlines()
    assert gpus.startswith("unknown   GPUs: ")
    assert "GPUS_ALL_REGIONS 0" in gpus
    assert all(words in fix for words in ("plan setup gcp first", LINK, TAKES, "meanwhile processors launch"))
    assert cpus.startswith("unknown   vCPUs: ")
    assert said.out.splitlines()[-1].endswith(
        "(plan setup gcp switches it on, or gcloud services enable compute.googleapis.com)"
    )
    assert not calls(first_day, "serviceusage.services.batchEnable"), "a doctor changes nothing"


def test_the_set_up_works_though_everything_takes_its_time(first_day: Google) -> None:
    began = first_day.now()
    said = plan(*SET_UP)
    assert said.code == ExitCode.OK, said.err
    waited = (first_day.now() - began).total_seconds()
    assert waited >= NEW_PROJECT["settling_seconds"], "nothing was unknown: the double was kind"
    assert plan(*SET_UP).err == "gcp: everything is set up\n"


def test_the_doctor_then_says_what_to_ask_for_and_what_launches_meanwhile(first_day: Google) -> None:
    plan(*SET_UP)
    said = plan(*DOCTOR)
    assert said.code == ExitCode.OK
    gpus, fix, cpus, *_ = said.out.splitlines()
    assert gpus == "ok        GPUs: GPUS_ALL_REGIONS: 0 of 0 in use"
    assert all(words in fix for words in (LINK, TAKES, "meanwhile processors launch"))
    assert "e2-standard-8 is the largest" in cpus
    assert "the cheapest that this account can launch now for digits-vgg is " in said.out


def test_the_first_launch_asks_for_one_small_machine_and_trains_on_it(first_day: Google) -> None:
    plan(*SET_UP)
    said = plan(*LAUNCH)
    assert said.code == ExitCode.OK, said.err
    (insert,) = calls(first_day, "compute.instances.insert")
    assert re.search(r"/(e2|n1|n2|n2d|c2|c3)-standard-[248]$", insert["body"]["machineType"])
    assert not calls(first_day, "tpu.projects.locations.queuedResources.create")
    assert [row["id"] for row in first_day.control("ledger")["rows"] if row["left"]] == []


@pytest.mark.parametrize("market", ["on_demand", "spot"])
def test_a_gpu_is_refused_with_the_quota_before_anything_is_created(first_day: Google, market: str) -> None:
    plan(*SET_UP)
    said = plan(*LAUNCH, "--device", "T4", "--market", market)
    assert said.code == ExitCode.REFUSED
    assert "GPUS_ALL_REGIONS: 0, 1 are needed" in said.error
    assert "plan doctor gcp" in said.hint
    assert calls(first_day, "compute.instances.insert") == []


def test_the_page_shows_what_is_printed(first_day: Google, golden: Golden) -> None:
    page = HEAD
    for title, words, command in SECTIONS:
        page += f"## {title}\n{words}\n\n```\n{_transcript(command, plan(*command))}```\n\n"
    golden.check(PAGE, page.rstrip("\n") + "\n")


def _transcript(command: Sequence[str], result: CommandResult) -> str:
    """What was typed and printed, without what differs each time."""
    text = f"$ plan {' '.join(command)}\n{result.err}{result.out}"
    for pattern, instead in (
        (r" *epoch \d+/\d+, step [^\n]*\n", ""),  # how often a client looks hangs on the machine that it runs on
        (r"\d{6}-[0-9a-f]{8}", "261121-0badcafe"),
        (r"/\S+/(?=digits-vgg-)", "~/"),
        (r"\d[\d.]* [kM]B stored", "0.4 MB stored"),  # the agent's own size is in it
        (r"[ \t]+\n", "\n"),
    ):
        text = re.sub(pattern, instead, text)
    return text
