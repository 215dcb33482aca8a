"""Google Cloud's double as a drill in this process meets it: every connection is closed when the drill is over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.contract.gcp import Client
from tests.faults.gcp import ALIVE, GcpCloud
from tests.faults.points import Pointed, Points

if TYPE_CHECKING:
    from tests.faults.harness import Ask
    from trainplan.providers.base import Provider


class ClosedGcp(GcpCloud):
    """Remembers what it has made for its clients."""

    def __init__(self, case: str) -> None:
        super().__init__(case)
        self._buckets: list[Any] = []
        self._apis: list[Any] = []

    def provider(self, ask: Ask, points: Points) -> Provider:
        def pointed(accounts: list[Any], adapter: Any) -> Any:
            accounts.append(adapter)
            return Pointed(adapter, points)

        return Client(
            self.google,
            Path(),
            api=lambda api: pointed(self._apis, api),
            bucket=lambda bucket: pointed(self._buckets, bucket),
            slept=lambda: ask(ALIVE),
        ).provider()

    def let_go(self) -> None:
        while self._buckets:
            self._buckets.pop().close()
        while self._apis:
            for client in list(self._apis.pop()._clients.values()):
                client.transport.close()
        super().let_go()
