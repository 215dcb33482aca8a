"""What a rented machine's own program calls at Google: its run directory, and its end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trainplan.providers.agent.clock import Clock
from trainplan.providers.agent.end import End
from trainplan.providers.agent.gcs import GcsStore
from trainplan.providers.agent.processes import MachineProcesses
from trainplan.providers.agent.requests import Access, Reply, send

if TYPE_CHECKING:
    from tests.doubles.google.server import GoogleServer

_TOKEN = json.dumps({"access_token": "a-token", "expires_in": 3600}).encode()
_PART = 8 * 1024 * 1024


class Impatient(Clock):
    """Nobody waits."""

    def sleep(self, seconds: float) -> None:
        del seconds


def machine_calls(server: GoogleServer) -> set[str]:
    """The methods that such a program calls, by their ids in Google's descriptions."""
    server.host.world.bucket.buckets["a-bucket"] = {"name": "a-bucket", "project": "p"}
    server.host.world.bucket.objects["a-bucket"] = {}
    names = ("gcs", "compute", "tpu", "metadata")
    boot = {
        "cloud": "gcp",
        "run_uri": "gs://a-bucket/runs/r1",
        "region": "us-central1",
        "endpoints": dict.fromkeys(names, server.url),
    }
    access = Access(boot, _sent)
    store = GcsStore(access)
    for _ in range(2):
        store.put("attempts/1/status.json", b"{}")
    store.get("attempts/1/status.json")
    store.list("attempts")
    upload = store.begin("output/model.keras", _PART + 1)
    upload.part(0, b"m" * _PART, 0)
    upload.part(1, b"m", _PART)
    upload.finish()
    store.delete("attempts/1/status.json")
    for how in (
        {"kind": "gcp_delete", "project": "p", "zone": "us-central1-a", "name": "plan-r1-1"},
        {"kind": "tpu_delete", "project": "p", "zone": "us-central1-a", "queued_resource": "plan-r1-1"},
    ):
        assert not End(how, access, MachineProcesses(), Impatient())._deleted(), "there is no such machine"
    return {call.method for call in server.host.world.calls}


def _sent(method: str, url: str, *arguments: Any, **more: Any) -> Reply:
    """With a metadata service that knows who the machine is."""
    return (200, {}, _TOKEN) if "/computeMetadata/" in url else send(method, url, *arguments, **more)
