"""Google Cloud as the command line finds it on a computer whose time is the double's."""

from __future__ import annotations

import gc
import threading
import warnings
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.contract.gcp import DIGEST, PROJECT, TimedGcp
from tests.desk import a_desk
from trainplan.providers import registry
from trainplan.providers.gcp import store
from trainplan.providers.gcp.provider import GcpProvider, make
from trainplan.providers.gcp.tpu.provider import TpuMachines
from trainplan.providers.stores.patience import Patience
from trainplan.providers.stores.store import run_store

if TYPE_CHECKING:
    import pytest

    from tests.doubles.google.process import Google
    from trainplan.providers.base import ProviderSettings

FACTORY = f"{__name__}:make_provider"
DOUBLES: list[Google] = []


def make_provider(settings: ProviderSettings) -> TimedGcp:
    """What the registry calls: the adapter as it is, in the double's time. No registry of images is asked."""
    google = DOUBLES[-1]
    given: Any = make(replace(settings, now=google.now))
    opened, patience = cache(lambda: store.make(settings)), Patience(sleep=google.sleep)
    stores = cache(lambda run_id: run_store(opened(), run_id, patience=patience))
    ours = {"store": stores, "digest": lambda _: DIGEST, "now": google.now}
    parts = tuple(replace(part, rented=replace(part.rented, **ours), sleep=google.sleep) for part in given.parts)

    def let_go() -> None:
        _until_nobody_looks()
        if opened.cache_info().currsize:
            opened().close()
        for part in given.parts:
            if isinstance(part, TpuMachines):
                part.tasks.close()  # type: ignore[attr-defined]
                _let_go_of(part.tpu.__dict__.get("_client"))
            else:
                for client in list(part.api._clients.values()):
                    _let_go_of(client)

    known = {field.name: getattr(given, field.name) for field in fields(GcpProvider)}
    return TimedGcp(**{**known, "parts": parts, "stores": stores}, google=google, only="", let_go=let_go)


def _until_nobody_looks() -> None:
    """A doctor leaves looks behind that take too long or no longer matter, and the end of its process ends them with
    their connections; here they are waited for, since connections that are closed under them raise."""
    for thread in threading.enumerate():
        if thread.name.startswith("plan") or thread.name.endswith("(_answer)"):
            thread.join(timeout=300)


def leave() -> None:
    """At the end of a test: what commands have left behind is not told as a fault of the next one."""
    _until_nobody_looks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def _let_go_of(client: Any) -> None:
    """Of the connections of a client of Google's library, if one was made."""
    if client is not None:
        client.transport.close()


def at_a_desk(google: Google, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's computer with nothing but documented settings; the double knows everybody who calls."""
    a_desk(home, monkeypatch, PLAN_GCP_PROJECT=PROJECT, PLAN_GCP_ENDPOINT=google.url)
    monkeypatch.setitem(registry.FACTORIES, "gcp", FACTORY)
    monkeypatch.setattr(f"{__name__}.DOUBLES", [google])
