"""Azure's double for these tests: `make_world` gives a client of it in a new world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.azure import AzureInItsTime, a_provider
from tests.contract.harness import Ask, request
from tests.doubles.azure.client import Double
from tests.faults.azure import an_offer
from trainplan.pricing.offers import Market

if TYPE_CHECKING:
    from trainplan.providers.base import LaunchRequest


@dataclass
class Client:
    """A client of a double whose world is as the test wants it."""

    azure: Double
    home: Path

    @cached_property
    def provider(self) -> AzureInItsTime:
        return self.another()

    def another(self, **options: Any) -> AzureInItsTime:
        """As a newly started command makes it."""
        return a_provider(self.home, self.azure, **options)

    def request(self, behaviour: str = "wait", market: Market = Market.ON_DEMAND, **changes: Any) -> LaunchRequest:
        """Looked up, on a machine with a T4 in eastus."""
        from dataclasses import replace

        bare = request(self.provider, Ask(behaviour=behaviour, **changes))
        return self.provider.resolve(replace(bare, offer=an_offer("eastus", market), resolution=None))

    def rules(self, **changes: Any) -> None:
        self.azure.control("rules", **changes)

    def script(self, operation: str, **fault: Any) -> None:
        self.azure.control("script", faults=[{"operation": operation, **fault}])

    def incident(self, event: str, after: str) -> None:
        self.azure.control("script", incidents=[{"event": event, "after": after}])

    def calls(self, method: str = "") -> list[str]:
        """What was asked, as method and path, oldest first."""
        found = [f"{call['method']} {call['path']}" for call in self.azure.control("calls")]
        return [call for call in found if call.startswith(method)]

    def remaining(self) -> list[str]:
        """Kinds of what is there of runs, by the double's own ledger."""
        return sorted(row["kind"] for row in self.azure.control("ledger") if row["left"])


@pytest.fixture
def make_world(azure: Double, tmp_path: Path) -> Callable[..., Client]:
    def made(**rules: Any) -> Client:
        azure.control("reset")
        if rules:
            azure.control("rules", **rules)
        return Client(azure, tmp_path)

    return made


@pytest.fixture
def world(make_world: Callable[..., Client]) -> Client:
    return make_world()
