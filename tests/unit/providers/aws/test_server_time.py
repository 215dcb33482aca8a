"""The time of AWS, as the `Date` of its answers tells it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.doubles.aws.remote import Double
from tests.doubles.clock import NOON
from tests.unit.providers.aws.account_side import HOME, signed_in
from trainplan.providers.abilities import ServerTime
from trainplan.providers.aws.api import SdkApi
from trainplan.providers.aws.provider import make
from trainplan.providers.base import ProviderSettings
from trainplan.providers.cloud.server_time import ServerClock
from trainplan.providers.errors import ProviderError

LONG_AGO = NOON - timedelta(days=3650)
"""What this computer's clock says: the double's server sends today's date."""


@pytest.fixture
def double(aws_process: Double) -> Double:
    aws_process.reset()
    return aws_process


@pytest.mark.parametrize("refused", [False, True])
def test_every_answer_tells_the_time_a_refusal_too(
    double: Double, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in(monkeypatch)
    clock = ServerClock(lambda: LONG_AGO)
    api = SdkApi(HOME, double.url, clock)
    if refused:
        double.script(operation="GetCallerIdentity", code="ExpiredToken", status=403, times=1)
        with pytest.raises(ProviderError):
            api.call("sts", HOME, "GetCallerIdentity", {})
    else:
        api.call("sts", HOME, "GetCallerIdentity", {})
    api.close()
    assert clock.offset is not None
    assert clock.offset > timedelta(days=3000)


def test_before_its_first_answer_nobody_knows_the_time(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in(monkeypatch)
    options = {"region": HOME, "endpoint": double.url}
    provider = make(ProviderSettings(home=tmp_path, options=options, environment={}, now=lambda: LONG_AGO))
    assert isinstance(provider, ServerTime)
    assert provider.server_time_offset() is None
    provider.account.identity()
    assert (provider.server_time_offset() or timedelta(0)) > timedelta(days=3000)
    assert provider.rented.now() > LONG_AGO + timedelta(days=3000), "a machine's boot deadline is in AWS's time"
