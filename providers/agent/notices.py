"""The cloud's word that the machine will be taken away: EC2, Google and Azure each have their own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from trainplan.providers.agent.clock import unix

if TYPE_CHECKING:
    from trainplan.providers.agent.requests import Access

GOOGLE_SECONDS = 30.0
"""Spot: 30 s, best effort (Google's documentation, in a copy of 2026)."""
AZURE_SECONDS = 30.0
_EVENTS = "/metadata/scheduledevents?" + urlencode({"api-version": "2020-07-01"})


@dataclass(frozen=True)
class Notice:
    """`at` is when the machine goes, in seconds since 1970; `event` is what Azure wants back."""

    at: float
    text: str
    event: str = ""


class Notices:
    """Asks the metadata service. Nothing it answers, or fails to answer, disturbs the training."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._token: dict[str, str] = {}
        self._name = ""

    def look(self) -> Notice | None:
        """A notice, None for none (or nobody to ask)."""
        ask = ASKS.get(self._access.boot["cloud"])
        try:
            return ask(self) if ask else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def acknowledge(self, notice: Notice) -> None:
        """Azure need not wait any longer. Only once everything is saved: it may take the machine at once."""
        if notice.event:
            body = json.dumps({"StartRequests": [{"EventId": notice.event}]}).encode()
            headers = {"Metadata": "true", "Content-Type": "application/json"}
            endpoint = self._access.end("metadata", "http://169.254.169.254")
            try:
                self._access.send("POST", endpoint + _EVENTS, headers, body, timeout=5.0)
            except OSError:
                return

    def _aws(self) -> Notice | None:
        # The rebalance recommendation is left alone: it comes early, often for nothing, and moving costs more.
        self._token = self._token or self._access.imds()
        status, body = self._access.metadata("/latest/meta-data/spot/instance-action", self._token)
        if status == 401:
            self._token = {}
        if status != 200:
            return None
        item = json.loads(body)
        return Notice(at=unix(item["time"]), text=f"EC2 takes the machine back ({item['action']})")

    def _google(self) -> Notice | None:
        flavour = {"Metadata-Flavor": "Google"}
        now = self._access.now()
        status, body = self._access.metadata("/computeMetadata/v1/instance/preempted", flavour)
        if status == 200 and body == "TRUE":
            return Notice(at=now + GOOGLE_SECONDS, text="Google takes the machine back")
        status, body = self._access.metadata("/computeMetadata/v1/instance/maintenance-event", flavour)
        if status == 200 and body == "TERMINATE_ON_HOST_MAINTENANCE":
            return Notice(at=now + 2 * GOOGLE_SECONDS, text="Google stops the machine for maintenance of its host")
        return None

    def _azure(self) -> Notice | None:
        header = {"Metadata": "true"}
        if not self._name:
            path = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
            status, body = self._access.metadata(path, header)
            self._name = body if status == 200 else ""
        status, body = self._access.metadata(_EVENTS, header)
        events = json.loads(body).get("Events", []) if status == 200 else []
        for event in events:
            ours = not self._name or self._name in event.get("Resources", [])
            if event.get("EventType") in ("Preempt", "Terminate") and ours:
                return self._azure_notice(event)
        return None

    def _azure_notice(self, event: dict[str, Any]) -> Notice:
        when = event.get("NotBefore") or ""
        # An event that has started says no time any more.
        at = parsedate_to_datetime(when).timestamp() if when else self._access.now() + AZURE_SECONDS
        return Notice(at=at, text=f"Azure takes the machine back ({event['EventType']})", event=str(event["EventId"]))


ASKS = {"aws": Notices._aws, "gcp": Notices._google, "azure": Notices._azure}
"""How a machine of each cloud asks."""
