"""A run directory in Azure Blob Storage, by its REST API."""

from __future__ import annotations

import base64
import hashlib
from email.utils import formatdate
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from trainplan.providers.agent.s3 import SignedStore
from trainplan.providers.agent.store import raise_for_status


class BlobStore(SignedStore):
    """Azure checks every body against the MD5 that is sent with it."""

    _range_header = "x-ms-range"

    def put(self, path: str, data: bytes) -> None:
        headers = {"x-ms-blob-type": "BlockBlob", "content-md5": md5(data)}
        self.call("PUT", self._access.url(path), path, headers, data)

    def _page(self, start: str, token: str, what: str) -> tuple[dict[str, int], str]:
        query = {"restype": "container", "comp": "list", "prefix": start, **({"marker": token} if token else {})}
        url = f"{self._access.bucket()}?{urlencode(query, quote_via=quote, safe='')}"
        page = ElementTree.fromstring(self.call("GET", url, what, {}).decode("utf-8-sig"))
        rows = page.iter("Blob")
        sizes = {row.findtext("Name", ""): int(row.findtext("Properties/Content-Length", "0")) for row in rows}
        return sizes, page.findtext("NextMarker") or ""

    def begin(self, path: str, size: int) -> BlobUpload:
        del size
        return BlobUpload(self, self._access.url(path), path)

    def call(self, method: str, url: str, what: str, headers: dict[str, str], body: bytes | None = None) -> bytes:
        status, _, text = self._ask(method, url, headers, body)
        raise_for_status(status, text, what)
        return text

    def _ask(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        dated = {"x-ms-date": formatdate(self._access.now(), usegmt=True), **headers}
        return super()._ask(method, url, dated, body)


class BlobUpload:
    """Blocks, then the list of them; blocks that no list names are dropped by Azure after a week."""

    def __init__(self, store: BlobStore, url: str, path: str) -> None:
        self._store = store
        self._url = url
        self._path = path
        self._blocks: dict[int, str] = {}

    def part(self, number: int, data: bytes, start: int) -> None:
        del start
        block = base64.b64encode(f"{number:08}".encode()).decode()
        url = f"{self._url}?comp=block&blockid={quote(block, safe='')}"
        self._store.call("PUT", url, self._path, {"content-md5": md5(data)}, data)
        self._blocks[number] = block

    def finish(self) -> None:
        rows = "".join(f"<Latest>{block}</Latest>" for _, block in sorted(self._blocks.items()))
        body = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{rows}</BlockList>'.encode()
        self._store.call("PUT", f"{self._url}?comp=blocklist", self._path, {"content-type": "application/xml"}, body)


def md5(data: bytes) -> str:
    """The MD5 of some bytes in base64, as `Content-MD5` has it."""
    return base64.b64encode(hashlib.md5(data).digest()).decode()
