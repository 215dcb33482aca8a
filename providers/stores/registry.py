"""Whose object storage there is: a provider's name and where its bucket is made, imported when it is chosen."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from trainplan.providers.errors import BadRequestError
from trainplan.providers.registry import VENDORS
from trainplan.providers.stores.pending_uploads import Unfinished
from trainplan.providers.stores.store import ObjectStore, run_store

if TYPE_CHECKING:
    from trainplan.providers.base import ProviderSettings, RunId
    from trainplan.providers.stores.bucket import Bucket

FACTORIES = {one.name: one.storage.make for one in VENDORS if one.storage}


def bucket(name: str, settings: ProviderSettings) -> Bucket:
    """The bucket of this provider. Raises BadRequestError for one that has none, or options that are wrong."""
    if name not in FACTORIES:
        raise BadRequestError(f"{name!r} has no object storage", hint=f"known: {', '.join(FACTORIES)}")
    module, _, factory = FACTORIES[name].partition(":")
    make = cast("Callable[[ProviderSettings], Bucket]", getattr(import_module(module), factory))
    return make(settings)


def run_directory(name: str, settings: ProviderSettings, run_id: RunId) -> ObjectStore:
    """The directory of a run in this provider's bucket."""
    return run_store(bucket(name, settings), run_id, unfinished=_unfinished(settings))


def _unfinished(settings: ProviderSettings) -> Unfinished:
    return Unfinished(settings.home / "uploads")
