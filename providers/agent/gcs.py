"""A run directory in Google Cloud Storage, by its JSON API."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from trainplan.providers.agent.s3 import SignedStore, signed_request
from trainplan.providers.agent.store import AwayError, RefusedError, raise_for_status

if TYPE_CHECKING:
    from trainplan.providers.agent.requests import Access


class GcsStore(SignedStore):
    """What was written is held against the MD5 that the reply tells."""

    def put(self, path: str, data: bytes) -> None:
        status, _, body = self._ask("POST", self._upload_url(path, "media"), {}, data)
        raise_for_status(status, body, path)
        check_md5(body, hashlib.md5(data).digest(), path)

    def _address_read(self, path: str) -> str:
        return self._access.url(path) + "?alt=media"

    def _page(self, start: str, token: str, what: str) -> tuple[dict[str, int], str]:
        endpoint = self._access.end("gcs", "https://storage.googleapis.com")
        query = {
            "prefix": start,
            "fields": "items(name,size),nextPageToken",
            **({"pageToken": token} if token else {}),
        }
        url = f"{endpoint}/storage/v1/b/{self._access.store_name}/o?{urlencode(query, quote_via=quote)}"
        status, _, body = self._ask("GET", url, {})
        raise_for_status(status, body, what)
        page = json.loads(body)
        return {row["name"]: int(row["size"]) for row in page.get("items", [])}, page.get("nextPageToken", "")

    def begin(self, path: str, size: int) -> GcsUpload:
        headers = {"x-upload-content-length": str(size)}
        status, answered, body = self._ask("POST", self._upload_url(path, "resumable"), headers, b"")
        raise_for_status(status, body, path)
        return GcsUpload(self._access, answered["location"], path, size)

    def _upload_url(self, path: str, kind: str) -> str:
        endpoint = self._access.end("gcs", "https://storage.googleapis.com")
        name = f"{self._access.prefix}/{path}".strip("/")
        query = urlencode({"uploadType": kind, "name": name}, quote_via=quote, safe="")
        return f"{endpoint}/upload/storage/v1/b/{self._access.store_name}/o?{query}"


class GcsUpload:
    """A resumable upload. After a reply that did not come, Google is asked how much it has."""

    def __init__(self, access: Access, session: str, path: str, size: int) -> None:
        self._access = access
        self._session = session
        self._path = path
        self._size = size
        self._digest = hashlib.md5()
        self._hashed = 0
        self._unsure = False
        self._result = b"{}"

    def part(self, number: int, data: bytes, start: int) -> None:
        del number
        end = start + len(data)
        if self._hashed < end:
            self._digest.update(data)
            self._hashed = end
        there = self._committed() if self._unsure else start
        if there < end:
            self._unsure = True
            self._send(data[there - start :], f"bytes {there}-{end - 1}/{self._size}")
        self._unsure = False

    def finish(self) -> None:
        check_md5(self._result, self._digest.digest(), self._path)

    def _committed(self) -> int:
        status, headers = self._send(b"", f"bytes */{self._size}")
        if status != 308:
            return self._size
        return int(headers["range"].rpartition("-")[2]) + 1 if "range" in headers else 0

    def _send(self, data: bytes, span: str) -> tuple[int, dict[str, str]]:
        status, headers, body = signed_request(self._access, "PUT", self._session, {"content-range": span}, data)
        if status in (404, 410):
            raise RefusedError(f"{self._path}: Google has forgotten the upload")
        if status != 308:
            raise_for_status(status, body, self._path)
            self._result = body
        return status, headers


def check_md5(reply: bytes, digest: bytes, path: str) -> None:
    """Raises AwayError where Google has something else than was sent, so that it is sent again."""
    reply_body = json.loads(reply or b"{}").get("md5Hash")
    if reply_body is not None and base64.b64decode(reply_body) != digest:
        raise AwayError(f"{path}: the stored data differs from what was sent")
