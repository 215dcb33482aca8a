"""A bucket in Google Cloud Storage."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
from typing import TYPE_CHECKING, Any

from providers.errors import (
    BadRequestError,
    CredentialsError,
    MachineError,
    PermissionDeniedError,
    ProviderError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)
from providers.stores.bucket import RUNS, UNFINISHED_DAYS, BucketMissingError, Entry, Page, UploadLostError
from providers.stores.settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from providers.base import ProviderSettings
    from providers.stores.bucket import Part

_SIGN_IN = "gcloud auth application-default login"
_NOT_OURS = "name another bucket in the setting `bucket`"
_SECONDS = 60.0
_PAGE = 1000
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
    401: (CredentialsError, _SIGN_IN),
    403: (PermissionDeniedError, "ask whoever owns the project for docs/stores.md's permissions"),
    404: (BucketMissingError, ""),
    408: (TransientError, "try again"),
    409: (TransientError, "try again"),
    429: (ThrottledError, "wait a little"),
}


def make(settings: ProviderSettings) -> GcsBucket:
    """The bucket of these settings; `bucket`, `project`, `region`, `endpoint` and `keep_days` are options."""
    given = StoreSettings.of(settings, "gcp")
    with _translated("Google Cloud"):
        return _made(given)


def _made(given: StoreSettings) -> GcsBucket:
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.transport.requests import AuthorizedSession
    from google.cloud.storage import Client

    endpoint = given.endpoint or given.environment.get("STORAGE_EMULATOR_HOST") or None
    project = given.project or given.environment.get("GOOGLE_CLOUD_PROJECT") or None
    if endpoint is not None:  # what only speaks like Google knows nobody
        credentials, usual = AnonymousCredentials(), None
    else:
        credentials, usual = google.auth.default(scopes=["https://www.googleapis.com/auth/devstorage.full_control"])
    project = project or usual
    if project is None:
        raise BadRequestError("no Google Cloud project is named", hint="set `project`, or GOOGLE_CLOUD_PROJECT")
    client = Client(
        project=project, credentials=credentials, client_options={"api_endpoint": endpoint} if endpoint else None
    )
    return GcsBucket(client, AuthorizedSession(credentials), given, project)


class GcsBucket:
    """`providers.stores.bucket.Bucket` at Google. `session` sends the parts of large uploads."""

    provider = "gcp"

    def __init__(self, client: Any, session: Any, given: StoreSettings, project: str) -> None:
        self.session = session
        self._client = client
        self._project = project
        self._location = given.region or "us-central1"
        self.name = given.bucket or f"trainplan-{re.sub(r'[^a-z0-9-]', '-', project)}-{self._location}"
        self.ours = given.bucket is None
        self._keep_days = given.keep_days

    @property
    def uri(self) -> str:
        return f"gs://{self.name}"

    def make(self) -> None:
        """In one call: there is never a bucket that is only half as it should be."""
        with _translated(self.uri):
            if self._is_mine():
                return
            answer = self._answer("POST", "/storage/v1/b", self._wanted(), project=self._project)
            if answer.status_code == 409 and not self._is_mine():
                raise PermissionDeniedError(f"{self.uri} belongs to somebody else", hint=_NOT_OURS, code="conflict")
            if answer.status_code not in (200, 409):
                raise _said(answer, self.uri)

    def put(self, key: str, data: bytes) -> None:
        with _translated(f"{self.uri}/{key}"):
            self._blob(key).upload_from_string(data, content_type=_BYTES, checksum="md5", retry=None, timeout=_SECONDS)

    def get(self, key: str, start: int, size: int | None) -> bytes:
        from google.cloud.exceptions import NotFound

        if size == 0:
            return b""
        span = {} if start == 0 and size is None else {"start": start}
        end = {} if size is None else {"end": start + size - 1}
        with _translated(f"{self.uri}/{key}"):
            try:
                data = self._blob(key).download_as_bytes(**span, **end, retry=None, timeout=_SECONDS, checksum="md5")
            except NotFound:
                raise KeyError(key) from None
            except _past_the_end():
                return b""
        return bytes(data)

    def page(self, prefix: str, after: str) -> Page:
        with _translated(f"{self.uri}/{prefix}"):
            found = self._client.list_blobs(
                self.name,
                prefix=prefix,
                page_token=after or None,
                page_size=_PAGE,
                fields="items(name,size),nextPageToken",
                retry=None,
                timeout=_SECONDS,
            )
            rows = tuple(Entry(blob.name, int(blob.size)) for blob in next(found.pages, ()))
            return Page(rows, found.next_page_token or "")

    def delete(self, keys: Sequence[str]) -> None:
        from google.cloud.exceptions import NotFound

        for key in keys:
            with _translated(f"{self.uri}/{key}"), contextlib.suppress(NotFound):
                self._blob(key).delete(retry=None, timeout=_SECONDS)

    def begin(self, key: str, size_bytes: int) -> GcsUpload:
        with _translated(f"{self.uri}/{key}"):
            place = self._blob(key).create_resumable_upload_session(
                content_type=_BYTES, size=size_bytes, checksum=None, retry=None, timeout=_SECONDS
            )
        return GcsUpload(self.session, place, key, size_bytes)

    def resume(self, key: str, size_bytes: int, token: str) -> GcsUpload:
        return GcsUpload(self.session, token, key, size_bytes, resumed=True)

    def close(self) -> None:
        self._client.close()
        self.session.close()

    def _blob(self, key: str) -> Any:
        return self._client.bucket(self.name).blob(key)

    def _is_mine(self) -> bool:
        """Whether the project has a bucket of this name: one that only lets us in may be anybody's."""
        query = {"project": self._project, "prefix": self.name, "fields": "items(name)"}
        answer = self._answer("GET", "/storage/v1/b", None, **query)
        if answer.status_code != 200:
            raise _said(answer, self.uri)
        return any(row["name"] == self.name for row in answer.json().get("items", ()))

    def _answer(self, method: str, path: str, body: object, **query: str) -> Any:
        url = f"{self._client.api_endpoint}{path}"
        return self.session.request(method, url, params=query, json=body, timeout=_SECONDS)

    def _wanted(self) -> dict[str, object]:
        return {"name": self.name, "location": self._location, **bucket_settings(self._keep_days)}


_BYTES = "application/octet-stream"


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
        self._there = self._asked() if resumed else 0
        self._unsure = False

    def holds(self, part: Part) -> bool:
        if self._hashed == part.start:
            self._digest.update(part.data)
            self._hashed += len(part.data)
        return self._there >= self._hashed

    def send(self, part: Part) -> None:
        if self._unsure:
            self._there = self._asked()
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
            self._asked()
        told = (self._result or {}).get("md5Hash", "")
        if told != base64.b64encode(self._digest.digest()).decode():
            raise UploadLostError(f"{self._key}: what arrived is not what was sent")

    def _asked(self) -> int:
        return self._sent(b"", f"bytes */{self._size}")

    def _sent(self, data: bytes, span: str) -> int:
        """How many bytes are there now."""
        with _translated(self._key):
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
            raise _said(answer, self._key)


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


def _past_the_end() -> tuple[type[Exception], ...]:
    from google.api_core.exceptions import RequestRangeNotSatisfiable

    return (RequestRangeNotSatisfiable,)


@contextlib.contextmanager
def _translated(what: str) -> Iterator[None]:
    """Errors of Google's libraries as ours. `what` was asked for."""
    try:
        import requests
        from google.api_core import exceptions as api
        from google.auth import exceptions as auth
        from google.cloud.storage.exceptions import DataCorruption
    except ImportError as error:
        raise MachineError("google-cloud-storage is not installed here", hint="pip install 'trainplan[gcp]'") from error
    try:
        yield
    except api.GoogleAPICallError as error:
        if error.response is None:
            raise _error(int(error.code or 0), "", f"{what}: {error.message}") from error
        raise _said(error.response, what) from error
    except DataCorruption as error:
        raise TransientError(f"{what}: what arrived is not what was sent", hint="try again") from error
    except (auth.TransportError, requests.ConnectionError, requests.Timeout) as error:
        raise TransientError(f"{what} does not answer: {error}", hint="look at the network, then try again") from error
    except auth.GoogleAuthError as error:
        raise CredentialsError(f"nobody is signed in to Google Cloud: {error}", hint=_SIGN_IN) from error
    except requests.RequestException as error:
        raise TransientError(f"{what}: {error}", hint="try again") from error


def _said(answer: Any, what: str) -> ProviderError:
    """What a plain reply says went wrong."""
    try:
        said = answer.json()["error"]
        reason, message = str((said.get("errors") or [{}])[0].get("reason", "")), str(said["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        reason, message = "", str(answer.text)[:300]
    return _error(answer.status_code, reason, f"{what}: {message}")


def _error(status: int, reason: str, message: str) -> ProviderError:
    """A status and reason of Google as the error of ours that they call for."""
    kind, hint = _REASONS.get(reason) or _STATUSES.get(status) or (UnrecognizedError, "")
    if status >= 500:
        kind, hint = (ThrottledError if status == 503 else TransientError), "try again"
    return kind(message, hint=hint, code=reason or str(status))
