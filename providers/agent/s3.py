"""A run directory in S3, by its REST API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from trainplan.providers.agent.store import AwayError, DeniedError, RefusedError, raise_for_status

if TYPE_CHECKING:
    from trainplan.providers.agent.requests import Access


class SignedStore(ABC):
    """What the clouds' stores have in common: a file is read, deleted and listed by signed requests for addresses."""

    _range_header = "range"

    def __init__(self, access: Access) -> None:
        self._access = access

    def get(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        last = "" if size is None else str(start + size - 1)
        headers = {} if start == 0 and size is None else {self._range_header: f"bytes={start}-{last}"}
        status, _, body = self._ask("GET", self._address_read(path), headers)
        if status == 416:
            return b""
        raise_for_status(status, body, path, reads=True)
        return body

    def list(self, prefix: str) -> dict[str, int]:
        root = self._access.prefix.strip("/")
        start = f"{root}/{prefix}".strip("/") + "/"
        counts: dict[str, int] = {}
        token = ""
        while True:
            page, token = self._page(start, token, prefix)
            counts.update((key[len(root) + 1 if root else 0 :], size) for key, size in page.items())
            if not token:
                return counts

    def delete(self, path: str) -> None:
        status, _, body = self._ask("DELETE", self._access.url(path), {})
        if status != 404:
            raise_for_status(status, body, path)

    @abstractmethod
    def _page(self, start: str, token: str, what: str) -> tuple[dict[str, int], str]:
        """Bytes by key of what begins with `start`, and the token of the next page, "" after the last."""

    def _address_read(self, path: str) -> str:
        return self._access.url(path)

    def _ask(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        return signed_request(self._access, method, url, headers, body)


class S3Store(SignedStore):
    """S3 checks every body against the SHA-256 in the signature, and shows an object only when it is whole."""

    def put(self, path: str, data: bytes) -> None:
        self.call("PUT", self._access.url(path), path, body=data)

    def _page(self, start: str, token: str, what: str) -> tuple[dict[str, int], str]:
        request = {"list-type": "2", "prefix": start, **({"continuation-token": token} if token else {})}
        url = f"{self._access.bucket()}/?{urlencode(request, quote_via=quote, safe='')}"
        page = ElementTree.fromstring(self.call("GET", url, what)[1])
        rows = page.findall("{*}Contents")
        sizes = {row.findtext("{*}Key", ""): int(row.findtext("{*}Size", "0")) for row in rows}
        return sizes, page.findtext("{*}NextContinuationToken", "")

    def begin(self, path: str, size: int) -> S3Upload:
        del size
        url = self._access.url(path)
        _, body = self.call("POST", url + "?uploads=", path)
        return S3Upload(self, url, path, ElementTree.fromstring(body).findtext("{*}UploadId", ""))

    def call(
        self, method: str, url: str, what: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> tuple[dict[str, str], bytes]:
        status, answered, text = self._ask(method, url, headers or {}, body)
        raise_for_status(status, text, what)
        return answered, text


class S3Upload:
    """A multipart upload; what is never finished is dropped by the bucket's lifecycle rule."""

    def __init__(self, store: S3Store, url: str, path: str, upload_id: str) -> None:
        self._store = store
        self._url = url
        self._path = path
        self._id = quote(upload_id, safe="")
        self._tags: dict[int, str] = {}
        self._finishing = False

    def part(self, number: int, data: bytes, start: int) -> None:
        del start
        url = f"{self._url}?partNumber={number + 1}&uploadId={self._id}"
        headers, _ = self._store.call("PUT", url, self._path, body=data)
        self._tags[number + 1] = headers["etag"]

    def finish(self) -> None:
        rows = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
            for number, tag in sorted(self._tags.items())
        )
        body = f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>".encode()
        asked_before, self._finishing = self._finishing, True
        try:
            _, text = self._store.call("POST", f"{self._url}?uploadId={self._id}", self._path, body=body)
        except RefusedError:
            # Finished the time before, when the reply was lost: then the object is there and the upload is not.
            if asked_before and self._store.get(self._path, 0, 1):
                return
            raise
        # S3 may answer 200 and tell of a failure in the body.
        if b"<Error>" in text:
            raise AwayError(f"{self._path}: {text[:300].decode(errors='replace')}")


def signed_request(
    access: Access, method: str, url: str, headers: dict[str, str], body: bytes | None = None
) -> tuple[int, dict[str, str], bytes]:
    """The reply of a store; refused credentials are fetched anew for the next call. Raises AwayError, DeniedError."""
    try:
        status, answered, text = access.call(method, url, headers, body)
    except (OSError, ValueError, KeyError) as error:
        raise AwayError(f"{url.partition('?')[0]}: {error}") from error
    if status in (401, 403) or (status == 400 and b"ExpiredToken" in text):
        access.forget()
        kind = DeniedError if status == 403 else AwayError
        raise kind(f"{url.partition('?')[0]}: {status} {text[:300].decode(errors='replace')}")
    return status, answered, text
