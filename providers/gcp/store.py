"""A bucket in Google Cloud Storage."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from trainplan.providers.errors import (
    BadRequestError,
    CredentialsError,
    PermissionDeniedError,
    ProviderError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)
from trainplan.providers.gcp.errors import SIGN_IN, session_errors
from trainplan.providers.stores.bucket import (
    RUNS,
    UNFINISHED_DAYS,
    BucketMissingError,
    Entry,
    ObjectPart,
    Page,
    UploadLostError,
)
from trainplan.providers.stores.regions import DEFAULT_REGIONS
from trainplan.providers.stores.settings import StoreSettings

if TYPE_CHECKING:
    from trainplan.providers.base import ProviderSettings

_NOT_OURS = "name another bucket in the setting `bucket`"
_SECONDS = 60.0
_PAGE = 1000
_ENDPOINT = "https://storage.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/devstorage.full_control"
_BYTES = "application/octet-stream"
_NOT_FOUND, _CONFLICT, _PAST_THE_END = 404, 409, 416
_PARTLY = 308
"""What a resumable upload answers while it is not whole."""

# Reason of Google -> (our error, what to do). Any other reason is judged by its status.
_REASONS: Mapping[str, tuple[type[ProviderError], str]] = {
    "rateLimitExceeded": (ThrottledError, "wait a little"),
    "userRateLimitExceeded": (ThrottledError, "wait a little"),
    "accountDisabled": (PermissionDeniedError, "the project needs a billing account that is open"),
    "UserProjectAccountProblem": (PermissionDeniedError, "the project needs a billing account that is open"),
    "accessNotConfigured": (PermissionDeniedError, "gcloud services enable storage.googleapis.com"),
}
_STATUSES: Mapping[int, tuple[type[ProviderError], str]] = {
    400: (BadRequestError, ""),
    401: (CredentialsError, SIGN_IN),
    403: (PermissionDeniedError, "ask whoever owns the project for docs/stores.md's permissions"),
    404: (BucketMissingError, ""),
    408: (TransientError, "try again"),
    409: (TransientError, "try again"),
    429: (ThrottledError, "wait a little"),
}


def make(settings: ProviderSettings) -> GcsBucket:
    """The bucket of these settings; `bucket`, `project`, `region`, `endpoint` and `keep_days` are options."""
    store_settings = StoreSettings.of(settings, "gcp")
    with session_errors("Google Cloud"):
        return _bucket_of(store_settings)


def _bucket_of(store_settings: StoreSettings) -> GcsBucket:
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.transport.requests import AuthorizedSession

    endpoint = store_settings.endpoint or store_settings.environment.get("STORAGE_EMULATOR_HOST") or None
    project = store_settings.project or store_settings.environment.get("GOOGLE_CLOUD_PROJECT") or None
    if endpoint is not None:  # another endpoint than Google's has no sign-in
        credentials, usual = AnonymousCredentials(), None
    else:
        credentials, usual = google.auth.default(scopes=[_SCOPE])
    project = project or usual
    if project is None:
        raise BadRequestError("no Google Cloud project is named", hint="set `project`, or GOOGLE_CLOUD_PROJECT")
    return GcsBucket(AuthorizedSession(credentials), endpoint or _ENDPOINT, store_settings, project)


class GcsBucket:
    """`trainplan.providers.stores.bucket.Bucket` at Google, by its JSON API: google-cloud-storage asks in the
    background for the bucket's own settings, which takes a permission that nobody else needs. `session` is
    google-auth's."""

    provider = "gcp"

    def __init__(self, session: Any, endpoint: str, store_settings: StoreSettings, project: str) -> None:
        self.session = session
        self._endpoint = endpoint.rstrip("/")
        self._project = project
        self._location = location_of(store_settings)
        self.name = bucket_name(store_settings, project)
        self.ours = store_settings.bucket is None
        self._keep_days = store_settings.keep_days

    @property
    def uri(self) -> str:
        return f"gs://{self.name}"

    def make(self) -> None:
        """Create the bucket with all its settings in one call, so that none exists with only some of them."""
        if self._is_mine():
            return
        document = {"name": self.name, "location": self._location, **bucket_settings(self._keep_days)}
        answer = self._ask("POST", "/storage/v1/b", {"project": self._project}, json=document)
        if answer.status_code == _CONFLICT and not self._is_mine():
            raise PermissionDeniedError(f"{self.uri} belongs to somebody else", hint=_NOT_OURS, code="conflict")
        if answer.status_code != _CONFLICT:
            _judge(answer, self.uri)

    def put(self, key: str, data: bytes) -> None:
        """The hash goes with it, and Google holds the bytes against it."""
        kind, body = _multipart({"name": key, "md5Hash": _md5(data)}, data)
        query = {"uploadType": "multipart", "fields": "generation"}
        answer = self._ask("POST", f"/upload{self._objects}", query, data=body, headers={"Content-Type": kind})
        _judge(answer, self._object_path(key))

    def get(self, key: str, start: int, size: int | None) -> bytes:
        if size == 0:
            return b""
        whole = start == 0 and size is None
        last = "" if size is None else start + size - 1
        headers = {} if whole else {"Range": f"bytes={start}-{last}"}
        answer = self._ask("GET", self._object(key), {"alt": "media"}, headers=headers)
        if answer.status_code == _NOT_FOUND:
            raise KeyError(key)
        if answer.status_code == _PAST_THE_END:
            return b""
        data = bytes(_judge(answer, self._object_path(key)).content)
        match = re.search(r"md5=([^,\s]+)", answer.headers.get("x-goog-hash", ""))
        if whole and match and match[1] != _md5(data):
            raise TransientError(
                f"{self._object_path(key)}: the stored data differs from what was sent", hint="try again"
            )
        return data

    def page(self, prefix: str, after: str) -> Page:
        query = {"prefix": prefix, "maxResults": str(_PAGE), "fields": "items(name,size),nextPageToken"}
        answer = self._ask("GET", self._objects, query | ({"pageToken": after} if after else {}))
        item = _json_of(answer, self._object_path(prefix))
        rows = tuple(Entry(row["name"], int(row["size"])) for row in item.get("items", ()))
        return Page(rows, item.get("nextPageToken", ""))

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            answer = self._ask("DELETE", self._object(key), {})
            if answer.status_code != _NOT_FOUND:
                _judge(answer, self._object_path(key))

    def begin(self, key: str, size_bytes: int) -> GcsUpload:
        headers = {"X-Upload-Content-Type": _BYTES, "X-Upload-Content-Length": str(size_bytes)}
        query = {"uploadType": "resumable"}
        answer = self._ask("POST", f"/upload{self._objects}", query, json={"name": key}, headers=headers)
        return GcsUpload(self.session, _judge(answer, self._object_path(key)).headers["Location"], key, size_bytes)

    def resume(self, key: str, size_bytes: int, token: str) -> GcsUpload:
        return GcsUpload(self.session, token, key, size_bytes, resumed=True)

    def close(self) -> None:
        self.session.close()

    @property
    def _objects(self) -> str:
        return f"/storage/v1/b/{self.name}/o"

    def _object(self, key: str) -> str:
        return f"{self._objects}/{quote(key, safe='')}"

    def _object_path(self, key: str) -> str:
        return f"{self.uri}/{key}"

    def _is_mine(self) -> bool:
        """Whether the project has a bucket of this name: one that only lets us in may be anybody's."""
        query = {"project": self._project, "prefix": self.name, "fields": "items(name)"}
        item = _json_of(self._ask("GET", "/storage/v1/b", query), self.uri)
        return any(row["name"] == self.name for row in item.get("items", ()))

    def _ask(self, method: str, path: str, query: Mapping[str, str], **more: Any) -> Any:
        with session_errors(self.uri):
            return self.session.request(method, f"{self._endpoint}{path}", params=query, timeout=_SECONDS, **more)


class GcsUpload:
    """A resumable upload. After a reply that did not come, Google is asked how much it has; the whole is checked by
    its MD5 at the end."""

    def __init__(self, session: Any, token: str, key: str, size_bytes: int, *, resumed: bool = False) -> None:
        self.token = token
        self._session = session
        self._key = key
        self._size = size_bytes
        self._digest = hashlib.md5()
        self._hashed = 0
        self._result: Any = None
        self._there = self._query_stored_bytes() if resumed else 0
        self._unsure = False

    def holds(self, part: ObjectPart) -> bool:
        if self._hashed == part.start:
            self._digest.update(part.data)
            self._hashed += len(part.data)
        return self._there >= self._hashed

    def send(self, part: ObjectPart) -> None:
        if self._unsure:
            self._there = self._query_stored_bytes()
        self._unsure = True
        end = part.start + len(part.data)
        while self._there < end:
            if self._there < part.start:  # it has lost what it had told of
                raise UploadLostError(f"{self._key}: Google has {self._there} bytes, not {part.start}")
            there = self._sent(part.data[self._there - part.start :], f"bytes {self._there}-{end - 1}/{self._size}")
            if there <= self._there:
                raise TransientError(f"{self._key}: Google took nothing of what was sent")
            self._there = there
        self._unsure = False

    def finish(self) -> None:
        if self._result is None:
            self._query_stored_bytes()
        reply = (self._result or {}).get("md5Hash", "")
        if reply != base64.b64encode(self._digest.digest()).decode():
            raise UploadLostError(f"{self._key}: the stored data differs from what was sent")

    def _query_stored_bytes(self) -> int:
        return self._sent(b"", f"bytes */{self._size}")

    def _sent(self, data: bytes, span: str) -> int:
        """How many bytes are there now."""
        with session_errors(self._key):
            answer = self._session.put(
                self.token, data=data, headers={"Content-Range": span}, timeout=_SECONDS, allow_redirects=False
            )
            if answer.status_code in (200, 201):
                self._result = answer.json()
                return self._size
            if answer.status_code == _PARTLY:
                last = answer.headers.get("Range", "").rpartition("-")[2]
                return int(last) + 1 if last else 0
            if answer.status_code in (404, 410):
                raise UploadLostError(f"{self._key}: Google has forgotten the upload")
            raise _error_of(answer, self._key)


def location_of(store_settings: StoreSettings) -> str:
    """Where a bucket of ours is made."""
    return store_settings.region or DEFAULT_REGIONS["gcp"]


def bucket_name(store_settings: StoreSettings, project: str) -> str:
    """The person's own, or one that the project alone has."""
    return store_settings.bucket or f"trainplan-{re.sub(r'[^a-z0-9-]', '-', project)}-{location_of(store_settings)}"


def bucket_settings(keep_days: int) -> dict[str, object]:
    """Private, nothing kept that was deleted, unfinished uploads dropped, runs deleted after `keep_days` (0: never)."""
    rules: list[dict[str, object]] = [
        {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": UNFINISHED_DAYS}}
    ]
    if keep_days:
        rules.append({"action": {"type": "Delete"}, "condition": {"age": keep_days, "matchesPrefix": [f"{RUNS}/"]}})
    return {
        "iamConfiguration": {
            "publicAccessPrevention": "enforced",
            "uniformBucketLevelAccess": {"enabled": True},
        },
        "softDeletePolicy": {"retentionDurationSeconds": "0"},
        "versioning": {"enabled": False},
        "lifecycle": {"rule": rules},
        "labels": {"trainplan": "1"},
    }


def _multipart(metadata: Mapping[str, str], data: bytes) -> tuple[str, bytes]:
    """The kind and the body of an upload whose metadata goes with it."""
    boundary = f"part-{hashlib.sha256(data).hexdigest()}"
    head = f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(metadata)}\r\n"
    head += f"--{boundary}\r\nContent-Type: {_BYTES}\r\n\r\n"
    return f"multipart/related; boundary={boundary}", head.encode() + data + f"\r\n--{boundary}--\r\n".encode()


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data).digest()).decode()


def _judge(answer: Any, what: str) -> Any:
    """The answer, where it is a success."""
    if not 200 <= answer.status_code < 300:
        raise _error_of(answer, what)
    return answer


def _json_of(answer: Any, what: str) -> Any:
    """The JSON of a success. Raises TransientError for what is none."""
    try:
        return _judge(answer, what).json()
    except ValueError as error:
        raise TransientError(f"{what}: the reply cannot be read: {error}", hint="try again") from error


def _error_of(answer: Any, what: str) -> ProviderError:
    """What a plain reply says went wrong."""
    try:
        value = answer.json()["error"]
        reason, message = str((value.get("errors") or [{}])[0].get("reason", "")), str(value["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        reason, message = "", str(answer.text)[:300]
    return _error(answer.status_code, reason, f"{what}: {message}")


def _error(status: int, reason: str, message: str) -> ProviderError:
    """A status and reason of Google as the error of ours that they call for."""
    kind, hint = _REASONS.get(reason) or _STATUSES.get(status) or (UnrecognizedError, "")
    if status >= 500:
        kind, hint = (ThrottledError if status == 503 else TransientError), "try again"
    return kind(message, hint=hint, code=reason or str(status))
