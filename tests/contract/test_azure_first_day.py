"""A new Azure subscription: 10 cores a region, none with accelerators, no resource provider registered, nothing set up.

The real command line goes from the doctor to the receipt, and docs/clouds/azure-transcripts.md is what it prints.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, Golden
from tests.contract.azure_command import at_a_desk, machines_asked_for
from tests.contract.first_day import JOB, Scene, bring_the_job, page_of
from tests.doubles.azure.client import Double
from tests.doubles.azure.rules import FIRST_DAY, SIZES
from trainplan.planner.errors import ExitCode

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "clouds" / "azure-transcripts.md"
LAUNCH = ("launch", JOB, "--provider", "azure", "--yes")
QUOTA_CODES = {"OperationNotAllowed", "QuotaExceeded"}
SIMULATED = (  # a boot takes as long as it takes
    (r"(?<=\n)(  (?:time|cost) +\S.*?) {2,}\S[^\n]*", r"\1        (simulated)"),
    (r"(?<=\n)(  billed +)\S[^\n]*", r"\1(simulated)"),
)
TITLE = """\
# Azure: the first day of a subscription

What the commands print over the double of Azure (docs/clouds/azure.md) in the state of a new pay-as-you-go
subscription: 10 cores in a region, none with accelerators, no resource provider registered, nothing set up.
`pytest --update-golden tests/contract/test_azure_first_day.py` writes this page, and the same test holds it. Run ids
and folders are replaced.
"""


SCENES = (
    Scene(
        "The doctor, before anything",
        "Quotas come first: they take longest. They cannot be read before Microsoft.Compute is registered.",
        ("doctor", "azure"),
        ExitCode.REFUSED,
    ),
    Scene(
        "The set-up",
        "Registration takes Azure some minutes, and so does the right to the container.",
        ("setup", "azure", "--yes"),
        ExitCode.OK,
    ),
    Scene(
        "The doctor, after the set-up",
        "What may be launched now, and where to ask for accelerators.",
        ("doctor", "azure"),
        ExitCode.OK,
    ),
    Scene("The first launch", "The cheapest placement is a machine of 2 cores.", LAUNCH, ExitCode.OK),
    Scene(
        "A GPU on the first day",
        "Nothing is created where the quota is known to be too small; `plan doctor azure` says where to ask for more.",
        (*LAUNCH, "--device", "T4"),
        ExitCode.REFUSED,
    ),
)


@pytest.fixture
def new(azure: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Double:
    azure.control("reset", first_day=True)
    at_a_desk(azure, tmp_path, monkeypatch)
    bring_the_job(tmp_path)
    return azure


def test_from_the_doctor_to_the_receipt_on_the_first_day(new: Double, golden: Golden) -> None:
    shown = [(scene, scene.typed()) for scene in SCENES]
    creates = machines_asked_for(new)
    (size,) = [create["properties"]["hardwareProfile"]["vmSize"] for create in creates]
    family, cores = SIZES[size]
    assert cores <= min(FIRST_DAY["limits"]["*", family], FIRST_DAY["limits"]["*", "cores"])
    assert not QUOTA_CODES & set(new.control("refusals"))
    assert not [row["kind"] for row in new.control("ledger") if row["left"]]
    golden.check(PAGE, page_of(TITLE, shown, *SIMULATED))
