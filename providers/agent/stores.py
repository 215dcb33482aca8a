"""Which store a run directory is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.providers.agent.blob import BlobStore
from trainplan.providers.agent.gcs import GcsStore
from trainplan.providers.agent.s3 import S3Store
from trainplan.providers.agent.spec import SpecError

if TYPE_CHECKING:
    from trainplan.providers.agent.requests import Access
    from trainplan.providers.agent.store import Store


def open_store(access: Access) -> Store:
    """Return the store for the scheme of the run's address. Raises SpecError."""
    if access.scheme == "s3":
        return S3Store(access)
    if access.scheme == "gs":
        return GcsStore(access)
    if access.scheme == "azblob":
        return BlobStore(access)
    raise SpecError(f"boot.json: there is no store for {access.boot['run_uri']}")
