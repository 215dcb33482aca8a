"""A line of Google's preflights and doctor that hangs is unknown, and hides no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.doubles.google.server import GoogleServer
from tests.doubles.limit import limit_after
from tests.unit.providers.gcp.account_side import Project, reset
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.base import PreflightState
from trainplan.providers.errors import TransientError
from trainplan.providers.gcp import doctor, preflight
from trainplan.providers.gcp.provider import GcpProvider, make

OK, UNKNOWN = PreflightState.OK, PreflightState.UNKNOWN


@pytest.fixture
def project(server: GoogleServer, tmp_path: Path) -> Project:
    reset(server)
    made = Project(server, tmp_path)
    made.set_up()
    return made


@pytest.fixture
def silent_at(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], GcpProvider]]:
    """A new command's provider, whose look-ups of paths that end like this hang until the test is over."""
    over = Event()

    def made(end: str) -> GcpProvider:
        provider = make(project.settings())
        ask = provider.account.ask

        def asked(method: str, service: str, path: str, *rest: Any) -> dict[str, Any]:
            if path.endswith(end):
                over.wait(600)
                raise TransientError("too late")
            return ask(method, service, path, *rest)

        monkeypatch.setattr(provider.account, "ask", asked)
        return provider

    yield made
    over.set()


@pytest.mark.parametrize(
    ("machine", "end", "silent"),
    [
        ("n1-standard-4+1xT4", "/billingInfo", "billing"),
        ("n1-standard-4+1xT4", "/regions/us-central1", "quota"),
        ("tpu-v3-8", "/consumerQuotaMetrics", "quota"),
        ("tpu-v3-8", "iam.gserviceaccount.com", "machine account"),
    ],
)
def test_the_preflight_waits_for_no_line_that_hangs(
    silent_at: Callable[[str], GcpProvider], machine: str, end: str, silent: str
) -> None:
    provider = silent_at(end)
    types, regions = frozenset({machine}), frozenset({"us-central1"})
    offer = provider.offers(OfferQuery(instance_types=types, regions=regions))[0]
    part = next(part for part in provider.parts if part.takes(offer))
    names = ["identity", "billing", *part.looks(offer)]
    checks = preflight.checks(provider.account, part, offer, limit_after(len(names) - 1))
    assert list(dict.fromkeys(check.name for check in checks)) == names
    silent_ones = [(check.name, check.state) for check in checks if check.detail == "no answer within 600 s"]
    assert silent_ones == [(silent, UNKNOWN)]


def test_the_doctor_waits_for_no_line_that_hangs(project: Project, silent_at: Callable[[str], GcpProvider]) -> None:
    names, standing = list(project.lines()), silent_at("/billingInfo").standing_resources
    assert standing is not None
    checks = doctor.examine(standing, limit_after(len(names) - 1))
    assert {check.name: check.state for check in checks} == dict.fromkeys(names, OK) | {"billing": UNKNOWN}
