"""`plan` at AWS, from the estimate to the receipt and nothing left: old GPUs and new ones, and what goes wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import ROOT, Golden
from tests.contract.aws_command import machines
from tests.doubles.aws import remote
from tests.doubles.aws.backends import OWN_IMAGE
from tests.transcripts import transcript
from tests.unit.planner.cli.command import CommandResult, plan

pytestmark = pytest.mark.slow
REGIONS = ("--region", "us-east-1", "--region", "us-west-2", "--region", "eu-west-1")


def receipt(result: CommandResult) -> dict[str, Any]:
    assert (result.code, result.error) == (0, ""), result.err
    return dict(json.loads(result.out))


KINDS = [
    ("K80", "on_demand", "p2.xlarge"),
    ("T4", "spot", "g4dn.xlarge"),
    ("V100-32GB", "on_demand", "p3dn.24xlarge"),
]


@pytest.mark.parametrize(("device", "market", "instance_type"), KINDS, ids=["-".join(row[:2]) for row in KINDS])
def test_from_the_estimate_to_the_receipt_with_nothing_left(
    double: remote.Double, monkeypatch: pytest.MonkeyPatch, device: str, market: str, instance_type: str
) -> None:
    old = device == "K80"
    double.reset(retired=[instance_type] if old else [])
    if instance_type.startswith(("p2", "p3")):
        monkeypatch.setenv("PLAN_AWS_IMAGE", OWN_IMAGE)
    words = ("--provider", "aws", "--device", device, "--market", market, *REGIONS)
    estimated = plan("estimate", "job.yaml", *words, "--json", *(("--include-retired",) if old else ()))
    first = estimated.json["candidates"][0]
    assert first["instance_type"] == instance_type
    ended = receipt(plan("launch", "job.yaml", *words, "--yes", "--json", *(("--allow-retired",) if old else ())))
    assert (ended["outcome"], ended["attempts"]) == ("succeeded", 1)
    (machine,) = machines(double)
    assert (machine["type"], machine["market"]) == (instance_type, market.replace("_", "-"))
    assert double.remaining() == []
    assert plan("cleanup", "--provider", "aws", "--dry-run", "--json").code == 0


@pytest.mark.parametrize(
    ("device", "instance_type", "successor", "code"),
    [("K80", "p2.xlarge", "g4dn", 3), ("V100", "p3.2xlarge", "g5", 4)],
)
def test_what_is_retired_is_not_launched_unless_it_is_named(
    double: remote.Double, device: str, instance_type: str, successor: str, code: int
) -> None:
    """V100s of P3dn are still there, and want an image of one's own."""
    words = ("--provider", "aws", "--device", device, "--market", "on_demand", "--region", "us-east-1")
    said = plan("launch", "job.yaml", *words, "--yes")
    assert said.code == code
    assert ("retired" if code == 3 else "no image of AWS has a driver") in said.error + said.hint
    assert machines(double) == []
    rows = plan("estimate", "job.yaml", *words, "--include-retired", "--json").json["candidates"]
    shown = next(row for row in rows if row["instance_type"] == instance_type)
    assert shown["lifecycle"]["state"] == "retired"
    assert shown["lifecycle"]["successor"].startswith(successor)


# --- what goes wrong, as a person sees it ------------------------------------------------------------------------

TRANSCRIPTS: dict[str, tuple[dict[str, Any], tuple[str, ...], int]] = {
    "no-stock-in-three-zones": (
        {
            "faults": [
                {"operation": "RunInstances", "code": "InsufficientInstanceCapacity", "status": 500, "times": 3,
                 "message": "There is no Spot capacity available that matches your request"}
            ]
        },
        ("--market", "spot", "--region", "us-east-1"),
        1,
    ),
    "no-quota-in-the-first-region": (
        {"quotas": [{"region": "us-east-1", "code": "L-DB2E81BA", "vcpus": 0}]},
        ("--market", "on_demand", "--region", "us-east-1", "--region", "eu-west-1"),
        1,
    ),
    "spot-reclaimed-twice": (
        {
            "incidents": [
                {"event": "reclaim", "attempt": 1, "after": 45},
                {"event": "reclaim", "attempt": 2, "after": 45},
            ]
        },
        ("--market", "spot", "--region", "us-east-1"),
        3,
    ),
    "credentials-expired": (
        {
            "faults": [
                {"service": "ec2", "code": "RequestExpired", "start": 40, "end": 150, "times": None,
                 "message": "Request has expired"},
                {"code": "ExpiredToken", "start": 40, "end": 150, "times": None,
                 "message": "The security token included in the request is expired"},
            ]
        },
        ("--market", "on_demand", "--region", "us-east-1"),
        1,
    ),
}  # fmt: skip


def test_a_machine_that_was_taken_and_found_no_room_is_no_machine(double: remote.Double) -> None:
    """EC2 bills from `running`; this one was never that."""
    double.reset(never_start=[1])
    words = ("--provider", "aws", "--device", "T4", "--market", "on_demand", "--region", "us-east-1")
    ended = receipt(plan("launch", "job.yaml", *words, "--yes", "--json"))
    assert (ended["outcome"], ended["attempts"], ended["interruptions"]) == ("succeeded", 2, 0)
    never, ran = machines(double)
    assert never["zone"] != ran["zone"]
    assert double.remaining() == []


def test_closed_regions_and_the_setting_regions_hold_from_the_estimate_to_the_cleanup(
    double: remote.Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS Control Tower denies two regions; one more is left out by the person, and may not be listed either."""
    double.reset(denied_regions=["af-south-1", "eu-west-1"])
    refused = {"code": "UnauthorizedOperation", "status": 403, "message": "no", "times": None}
    double.script(region="us-west-2", operation="ListSchedules", **refused | {"code": "AccessDeniedException"})
    double.script(region="us-west-2", service="ec2", **refused)
    words = ("--provider", "aws", "--device", "T4", "--market", "on_demand")
    stuck = plan("cleanup", "--provider", "aws", "--dry-run")
    assert stuck.code == 7, "what is refused in other words than the organisation's may hide something"
    monkeypatch.setenv("PLAN_AWS_REGIONS", "us-east-1,eu-west-1")
    placements = plan("estimate", "job.yaml", *words, "--json").json["candidates"]
    assert {row["region"] for row in placements} <= {"us-east-1", "eu-west-1"}
    ended = receipt(plan("launch", "job.yaml", *words, "--yes", "--json"))
    assert ended["outcome"] == "succeeded"
    (machine,) = machines(double)
    assert machine["region"] == "us-east-1"
    assert double.remaining() == []
    assert plan("cleanup", "--provider", "aws", "--dry-run").code == 0


def test_a_region_that_no_offer_has_is_no_setting(double: remote.Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_AWS_REGIONS", "us-eastt-1")
    said = plan("estimate", "job.yaml")
    assert said.code == 2
    assert "there is no region (setting `regions`) 'us-eastt-1'" in said.error
    assert "did you mean us-east-1?" in said.hint


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_what_a_person_sees_when_it_goes_wrong(double: remote.Double, golden: Golden, name: str) -> None:
    scenario, words, lived = TRANSCRIPTS[name]
    double.reset(images_per_second=40, **scenario)
    asked = ("job.yaml", "--provider", "aws", "--device", "T4", *words, "--yes", "--max-cost", "2")
    said = plan("launch", *asked)
    assert said.code == 0, said.err
    assert len(machines(double)) == lived
    assert double.remaining() == []
    text = transcript("launch " + " ".join(asked), said)
    golden.check(f"aws/transcript-{name}.txt", text)


@pytest.mark.parametrize(
    ("name", "until"),
    [
        ("no-stock-in-three-zones", "waiting for the trainer\n"),
        ("no-quota-in-the-first-region", "waiting for the trainer\n"),
        ("spot-reclaimed-twice", ""),
        ("credentials-expired", "receipt of tiny"),
    ],
)
def test_the_page_shows_what_is_seen(name: str, until: str) -> None:
    """One run to its end; of the others until nothing is new."""
    page = (ROOT / "docs" / "clouds" / "aws-transcripts.md").read_text(encoding="utf-8")
    text = (ROOT / "tests" / "golden" / "aws" / f"transcript-{name}.txt").read_text(encoding="utf-8")
    assert (text.partition(until)[0] if until else text) in page
