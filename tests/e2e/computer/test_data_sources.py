"""Each cloud's user data by that cloud's own way: cloud-init knows its cloud by the firmware and asks its metadata."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.computer.computer import ARMED
from tests.e2e.computer.yard import ComputerYard, Rented
from tests.e2e.yard.machine import Machine
from tests.unit.providers.cloud.booted import CLOUDS, boot
from trainplan.providers.cloud.bootstrap import start_up

pytestmark = pytest.mark.e2e
SOURCES = {"aws": "DataSourceEc2", "gcp": "DataSourceGCE", "azure": "DataSourceAzure"}
ASKED = {
    "aws": ("GET", "/2021-03-23/user-data"),
    "gcp": ("GET", "/computeMetadata/v1/instance/attributes/"),
    "azure": ("GET", "/metadata/instance"),
}
FETCHES = "attempts/1/machine/agent.pyz"
"""start.sh says it, whose store does not answer here."""


@pytest.mark.parametrize("cloud", SOURCES)
def test_the_machine_takes_its_user_data_from_its_cloud(
    cloud: str, yard: ComputerYard, request: pytest.FixtureRequest
) -> None:
    now = datetime.now(UTC).replace(microsecond=0)  # noqa: TID251  it lives in the real time
    ends = {"boot_deadline": now + timedelta(hours=1), "deadline": now + timedelta(hours=2), "requested_at": now}
    text = start_up(boot(cloud=cloud, run_uri=CLOUDS[cloud], **ends))
    request.addfinalizer(yard.clear)
    rented = yard.boot(Machine(name="i-0123456789abcdef0", cloud=cloud, user_data=text))
    assert isinstance(rented, Rented)
    computer = rented.computer
    assert computer.says(ARMED), computer.text()[-5000:]
    assert computer.says(FETCHES), computer.text()[-5000:]
    status = json.loads(computer.run("cat /run/cloud-init/status.json"))["v1"]
    assert status["datasource"].startswith(SOURCES[cloud]), status
    assert [status[stage]["errors"] for stage in ("init-local", "init")] == [[], []], status
    assert ASKED[cloud] in rented.identity.requests, rented.identity.requests
