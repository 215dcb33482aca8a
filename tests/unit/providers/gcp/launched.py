"""A whole launch of each kind, from the preflight to the cleanup, by whoever has the client's roles."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders import LARGE_DATA
from tests.contract.gcp import Client
from tests.contract.harness import Ask, request, wait_for
from tests.contract.tpu import DiskClient, TpuClient, make_ready
from tests.doubles.google.iam import Iam
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import Scenario
from trainplan.pricing.offers import Market
from trainplan.providers.base import InstanceRef, InstanceState
from trainplan.providers.errors import PermissionDeniedError
from trainplan.providers.gcp.permissions import CLIENT_ROLES

if TYPE_CHECKING:
    from tests.doubles.google.server import GoogleServer

KINDS: dict[str, type[Client]] = {"machine": Client, "tpu": TpuClient, "tpu with a data disk": DiskClient}
GRANTED = frozenset(name for role in CLIENT_ROLES for name in role.permissions)


def launched(server: GoogleServer, kind: str, home: Path) -> set[str]:
    """The methods that were called; the calls themselves stay in the server's world."""
    client = KINDS[kind](Google(server.url), home)
    google = client.google
    google.reset(Scenario(trainer="named", disks_stay=True))
    make_ready(client)
    server.host.world.table(Iam).granted = GRANTED
    provider = client.provider()
    large = LARGE_DATA if KINDS[kind] is DiskClient else {}
    run = request(provider, Ask(run_id="r1", lasting=timedelta(hours=1), job=large))
    provider.preflight(run.offer)
    provider.refine([run.offer])
    provider.obtainability([replace(run.offer, market=Market.SPOT)])
    ref = provider.launch(run).ref
    provider.launch(run)
    wait_for(provider, ref, InstanceState.RUNNING)
    list(provider.logs(ref))
    provider.store(run.run_id).get("job.json")
    provider.stop(ref)
    google.sleep(5)
    provider.delete(ref)
    for _ in range(3):
        google.sleep(120)
        for owned in provider.list_owned(run.run_id):
            provider.delete(owned)
    provider.deleted_at(ref)
    provider.store(run.run_id).delete("")
    if kind == "machine":
        left = InstanceRef(provider="gcp", region="us-central1", id="gce-address/us-central1/left")
        with pytest.raises(PermissionDeniedError):
            provider.delete(left)  # no launch makes an address, so whoever launches may delete none
    provider.account.close()
    return {call.method for call in server.host.world.calls}
