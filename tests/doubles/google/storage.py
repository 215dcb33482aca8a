"""Google Cloud Storage's JSON API in the same server: tests/doubles/gcs.py over the world's bucket."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.doubles import gcs

if TYPE_CHECKING:
    from tests.doubles.google.world import World

_UPLOAD = re.compile(r"^/upload/storage/v1/b/[^/]+/o$")
_MEDIA = re.compile(r"^(?:/download)?/storage/v1/b/[^/]+/o/.+$")


def method_of(request: gcs.Request) -> str | None:
    """The id of a method that Google's description has no path for (what is sent and fetched whole), else None."""
    if _UPLOAD.match(request.path):
        return "storage.objects.insert"
    if request.method == "GET" and request.query.get("alt") == "media" and _MEDIA.match(request.path):
        return "storage.objects.get"
    return None


def answered(world: World, request: gcs.Request) -> gcs.Answer:
    try:
        return gcs.answered(world.bucket, request)
    except gcs.RefusedError as error:
        return error.status, {"Content-Type": "application/json"}, error.body
