"""The table of providers/cloud/propagation.py at Google Cloud: how the double's project begins for each pair."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tests.contract.gcp import Client
from tests.contract.gcp_command import at_a_desk
from tests.contract.tpu import make_ready
from tests.desk import TINY
from tests.doubles.google.scenario import NEW_PROJECT, Scenario, Unknown
from trainplan.providers.base import RunId
from trainplan.providers.stores.bucket import DATA

if TYPE_CHECKING:
    import pytest

    from tests.doubles.google.process import Google
    from trainplan.providers.cloud.propagation import Pair

_AT_COMPUTE = {"instances.insert", "objects.insert", "the machine's GetObject"}
_AT_TPU = {"queuedResources.create", "tasks.create"}
_DISK = "data disk"
_IMAGENET = """\
name: tiny
model: {layers: [8, M, 16, M], dense: [16], image_size: 16}
data: {name: imagenet}
epochs: 1
global_batch_size: 4096
"""
"""A job whose data needs a disk of its own on a TPU."""
_SHARDS = {"name": "imagenet", "shards": [{"name": "shard-00000.tar", "sha256": "0" * 64, "size_bytes": 1}]}
"""Calls of a launch, which finds what a set-up has just made. All others are a set-up's, of a project's first day."""
_WORDS = ("launch", "job.yaml", "--provider", "gcp", "--market", "on_demand", "--yes", "--max-cost", "5")
_LAUNCH = (*_WORDS, "--device", "T4", "--region", "us-central1", "--region", "us-east1")
_TPU = (*_WORDS, "--device", "TPU v3", "--region", "us-central1", "--region", "europe-west4")
_CREATES = {"compute.instances.insert": "zone", "tpu.projects.locations.queuedResources.create": "locationsId"}


class GcpScene:
    def __init__(self, google: Google, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._google = google
        self._home = home
        at_a_desk(google, home, monkeypatch)
        (home / "job.yaml").write_text(TINY)

    def begin(self, pair: Pair, seconds: float | None) -> None:
        rule = Unknown(resource=pair.resource, needed_by=pair.needed_by, seconds=seconds)
        if pair.needed_by in _AT_COMPUTE | _AT_TPU:
            self._google.reset(Scenario(unknown=(rule,)))
            client = Client(self._google, self._home)
            make_ready(client)
            if pair.resource == _DISK:
                (self._home / "job.yaml").write_text(_IMAGENET)
                sets = client.stores()(RunId("none")).beside(DATA)
                sets.put(f"{'a' * 64}/index.json", json.dumps(_SHARDS).encode())
        else:
            # Nothing else is new here but what the pair names.
            self._google.reset(Scenario(**{**NEW_PROJECT, "settling_seconds": 0.0}, unknown=(rule,)))

    def command(self, pair: Pair) -> Sequence[str]:
        if pair.resource == _DISK:
            return (*_TPU, "--max-cost", "50")
        if pair.needed_by in _AT_TPU:
            return _TPU
        return _LAUNCH if pair.needed_by in _AT_COMPUTE else ("setup", "gcp", "--yes")

    def now(self) -> datetime:
        return self._google.now()

    def refused_at(self) -> Sequence[datetime]:
        return [datetime.fromisoformat(text) for text in self._google.control("unmet")["at"]]

    def placements_asked(self) -> Sequence[str]:
        calls = self._google.control("calls")["calls"]
        return [call["path"][_CREATES[call["method"]]] for call in calls if call["method"] in _CREATES]

    def remaining(self) -> Sequence[str]:
        return [row["id"] for row in self._google.control("ledger")["rows"] if row["left"]]
