"""A create that is sent twice to EC2, and what the SDK raises that no code of AWS's names."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from botocore import exceptions as sdk

from tests.contract.aws import Client, TimedAws
from tests.contract.harness import Ask, request
from tests.doubles.aws import remote
from tests.unit.providers.aws.account_side import signed_in
from trainplan.providers.aws.errors import translated
from trainplan.providers.base import InstanceState
from trainplan.providers.errors import InstanceNotFoundError, UnrecognizedError


@pytest.fixture
def double(aws_process: remote.Double, monkeypatch: pytest.MonkeyPatch) -> remote.Double:
    signed_in(monkeypatch)
    aws_process.reset()
    return aws_process


def test_a_replayed_create_whose_machine_no_look_up_shows_yet_is_answered_as_it_was(
    provider: TimedAws, double: remote.Double, tmp_path: Path
) -> None:
    """EC2 shows a new instance some time after it was made; the replay's own answer is what is known until then."""
    double.reset(listing_lag=60.0)
    asked = request(provider)
    made = provider.launch(asked)
    double.advance(double.now() + timedelta(seconds=10))
    with pytest.raises(InstanceNotFoundError):
        provider.get(made.ref)
    again = Client(double, tmp_path).provider()
    replayed = again.launch(asked)
    again.close()
    assert replayed.ref == made.ref
    assert replayed.state is InstanceState.PENDING
    assert replayed.launched_at == made.launched_at
    assert [row["kind"] for row in double.ask("ledger")].count("instance") == 1


@pytest.mark.parametrize(("hours", "machines"), [(23, 1), (25, 2)])
def test_a_token_is_forgotten_a_day_after_its_instance_has_gone(
    provider: TimedAws, double: remote.Double, hours: int, machines: int
) -> None:
    """Then the very same create makes another instance: whoever sends it late has to look first."""
    asked = request(provider, Ask(lasting=timedelta(hours=100)))
    made = provider.launch(asked)
    provider.delete(made.ref)
    double.advance(double.now() + timedelta(minutes=1))
    double.advance(double.now() + timedelta(hours=hours))
    again = provider.launch(asked)
    assert (again.ref == made.ref) is (machines == 1)
    assert [row["kind"] for row in double.ask("ledger")].count("instance") == machines
    assert provider.token_memory <= timedelta(hours=24)


@pytest.mark.parametrize("error", [sdk.UnknownServiceError(service_name="ec3", known_service_names=["ec2"]),
                                   sdk.PaginationError(message="no token")])  # fmt: skip
def test_what_the_sdk_raises_of_itself_is_told_and_never_swallowed(error: sdk.BotoCoreError) -> None:
    with pytest.raises(UnrecognizedError) as caught, translated("ec2 RunInstances"):
        raise error
    assert caught.value.code == type(error).__name__
    assert str(error) in caught.value.message
    assert caught.value.message.startswith("ec2 RunInstances: ")
    assert caught.value.__cause__ is error
