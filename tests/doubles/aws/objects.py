"""The objects in moto's S3, as a machine of the double reads and writes them."""

from __future__ import annotations

from typing import Any

ACCOUNT = "123456789012"


def get(bucket: str, key: str) -> bytes | None:
    """None where there is no such object or bucket."""
    if bucket not in _backend().buckets:
        return None
    found = _backend().get_object(bucket, key)
    return bytes(found.value) if found is not None else None


def put(bucket: str, key: str, data: bytes) -> None:
    """A machine does not make buckets: without one, nothing is written."""
    if bucket in _backend().buckets:
        _backend().put_object(bucket, key, data)


def names(bucket: str, prefix: str) -> list[str]:
    if bucket not in _backend().buckets:
        return []
    return sorted(name for name in _backend().buckets[bucket].keys if name.startswith(prefix))


def _backend() -> Any:
    from moto.s3.models import s3_backends

    return s3_backends[ACCOUNT]["aws"]
