"""Data that somebody else keeps: how many bytes lie at a bucket's address or on the web."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trainplan.providers.errors import BadRequestError, PermissionDeniedError, TransientError
from trainplan.providers.registry import VENDORS
from trainplan.providers.stores import registry
from trainplan.providers.stores.bucket import Bucket, BucketMissingError, Entry
from trainplan.providers.stores.patience import Patience
from trainplan.workloads.addresses import shown_address

if TYPE_CHECKING:
    from trainplan.providers.base import ProviderSettings

_STORAGES = {one.storage.scheme: (one.name, one.storage) for one in VENDORS if one.storage}
_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAddress:
    """Where a bucket's address points: everything whose key begins with `prefix`."""

    provider: str
    bucket: str
    prefix: str
    account: str = ""


def bucket_address(url: str) -> BucketAddress:
    """`s3://bucket/prefix`, `gs://bucket/prefix`, `az://account/container/prefix`. Raises BadRequestError."""
    parts = urlsplit(url)
    path = parts.path.strip("/")
    vendor, storage = _STORAGES.get(parts.scheme, ("", None))
    account = ""
    name = parts.netloc
    if storage is not None and storage.has_account:
        account = name
        name, _, path = path.partition("/")
    if storage is None or not name:
        raise BadRequestError(
            f"{url!r} is no address of a bucket", hint="s3://bucket/…, gs://bucket/… or az://account/container/…"
        )
    return BucketAddress(provider=vendor, bucket=name, prefix=path, account=account)


def size_bytes(url: str, settings: ProviderSettings, patience: Patience | None = None) -> int:
    """How much there is to fetch, asked with this person's sign-in (https: with none).

    Raises BadRequestError where there is nothing or nobody can tell, and ProviderError.
    """
    patience = patience or Patience()
    if urlsplit(url).scheme in ("https", "http"):
        return patience(lambda: _web_bytes(url))
    there = bucket_address(url)
    with opened(there, settings) as bucket:
        total = sum(entry.size_bytes for entry in entries(bucket, there.prefix, patience))
    if not total:
        raise BadRequestError(f"{shown_address(url)} is empty or does not exist")
    return total


@contextmanager
def opened(there: BucketAddress, settings: ProviderSettings) -> Iterator[Bucket]:
    """The bucket of a place, asked with this person's sign-in. Raises BadRequestError for none, and ProviderError."""
    options = {**settings.options, "bucket": there.bucket, "account": there.account}
    with closing(registry.bucket(there.provider, replace(settings, options=options))) as bucket:
        try:
            yield bucket
        except BucketMissingError as error:
            raise BadRequestError(f"there is no bucket {there.bucket}", hint="look at the address") from error


def entries(bucket: Bucket, prefix: str, patience: Patience) -> Iterator[Entry]:
    """A folder's or one object's, not those of a neighbour whose name begins like it. Raises ProviderError."""
    after, last = "", False
    while not last:
        page = patience(partial(bucket.page, prefix, after))
        for entry in page.entries:
            if not prefix or entry.key == prefix or entry.key.startswith(f"{prefix}/"):
                yield entry
        after, last = page.more, not page.more


def _web_bytes(url: str) -> int:
    shown = shown_address(url)
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=_SECONDS) as answer:
            length = answer.headers.get("Content-Length")
    except urllib.error.HTTPError as error:
        with error:
            if error.code in (401, 403):
                raise PermissionDeniedError(f"{shown}: {error.code}", hint="it has to be open to everybody") from error
            if error.code == 429 or error.code >= 500:
                raise TransientError(f"{shown}: {error.code}", hint="try again") from error
            raise BadRequestError(f"{shown}: {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        raise TransientError(
            f"{shown} does not answer: {error}", hint="check the network connection, then try again"
        ) from error
    if length is None:
        raise BadRequestError(f"{shown} does not tell its size", hint="put the data into a bucket")
    return int(length)
