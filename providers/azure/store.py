"""A container in Azure Blob Storage."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainplan.providers.azure.api import certificates, credential_of
from trainplan.providers.azure.names import account_of
from trainplan.providers.azure.settings import subscription_of
from trainplan.providers.errors import (
    BadRequestError,
    CredentialsError,
    MachineError,
    PermissionDeniedError,
    ProviderError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)
from trainplan.providers.stores.bucket import BucketMissingError, Entry, ObjectPart, Page, UploadLostError
from trainplan.providers.stores.settings import StoreSettings
from trainplan.workloads.extras import install_hint

if TYPE_CHECKING:
    from trainplan.providers.base import ProviderSettings

_SIGN_IN = "az login"
_ROLE = "give yourself the role Storage Blob Data Contributor on the storage account; it takes minutes to hold"
_PAGE = 1000  # blobs in one page of a list
_CONTAINER = "trainplan"

# Code of Blob Storage -> (our error, what to do). Any other code is judged by its status.
_ERRORS: Mapping[str, tuple[type[ProviderError], str]] = {
    "ContainerNotFound": (BucketMissingError, ""),
    "ContainerBeingDeleted": (TransientError, "try again in a minute"),
    "AuthenticationFailed": (CredentialsError, _SIGN_IN),
    "InvalidAuthenticationInfo": (CredentialsError, _SIGN_IN),
    "NoAuthenticationInformation": (CredentialsError, _SIGN_IN),
    "AuthorizationPermissionMismatch": (PermissionDeniedError, _ROLE),
    "AuthorizationFailure": (PermissionDeniedError, "the storage account's firewall blocks this computer"),
    "AccountIsDisabled": (PermissionDeniedError, "Azure has closed this storage account"),
    "ServerBusy": (ThrottledError, "wait a little"),
    "OperationTimedOut": (TransientError, "try again"),
    "InternalError": (TransientError, "try again"),
    "Md5Mismatch": (TransientError, "try again"),
    "InvalidBlockList": (UploadLostError, ""),
}
_STATUSES: Mapping[int, tuple[type[ProviderError], str]] = {
    400: (BadRequestError, ""),
    401: (CredentialsError, _SIGN_IN),
    403: (PermissionDeniedError, _ROLE),
    408: (TransientError, "try again"),
    429: (ThrottledError, "wait a little"),
}


def make(settings: ProviderSettings) -> BlobBucket:
    """The container of these settings: `account`, `bucket` and `endpoint` are options. The account is the one that
    set-up makes in the subscription where none is named; raises BadRequestError where neither is.
    """
    store_settings = StoreSettings.of(settings, "azure")
    account = store_settings.account or store_settings.environment.get("AZURE_STORAGE_ACCOUNT")
    subscription = subscription_of(settings)
    if not account and not subscription:
        raise BadRequestError(
            "no storage account is named",
            hint="set `account`, or AZURE_STORAGE_ACCOUNT, or `subscription` for the one that plan setup azure makes",
        )
    with _translated("Azure"):
        return _bucket_of(store_settings, account or account_of(str(subscription)), settings.options.get("authority"))


def _bucket_of(store_settings: StoreSettings, account: str, authority: str | None) -> BlobBucket:
    from azure.storage.blob import BlobServiceClient

    credential: Any
    if key := store_settings.environment.get("AZURE_STORAGE_KEY"):
        credential = {"account_name": account, "account_key": key}
    else:
        credential = credential_of(store_settings.environment, authority)
    url = (
        f"{store_settings.endpoint.rstrip('/')}/{account}"
        if store_settings.endpoint
        else f"https://{account}.blob.core.windows.net"
    )
    service = BlobServiceClient(
        url,
        credential=credential,
        retry_total=0,  # repeats are the store's (providers/stores/patience.py): the SDK's would multiply them
        connection_timeout=10,
        read_timeout=60,
        max_single_get_size=2**26,
        **certificates(store_settings.environment),
    )
    return BlobBucket(service, store_settings, account)


class BlobBucket:
    """`trainplan.providers.stores.bucket.Bucket` at Azure: a container, in an account that is there.

    Soft delete, versions and age limits are the account's: `plan setup azure` makes it so. Blocks that were never
    committed are dropped by Azure after a week.
    """

    provider = "azure"

    def __init__(self, service: Any, store_settings: StoreSettings, account: str) -> None:
        self._service = service
        self._container = service.get_container_client(store_settings.bucket or _CONTAINER)
        self.name = store_settings.bucket or _CONTAINER
        self.account = account
        self.ours = store_settings.bucket is None

    @property
    def uri(self) -> str:
        return f"azblob://{self.account}/{self.name}"

    def make(self) -> None:
        from azure.core.exceptions import ResourceExistsError

        with _translated(self.uri):
            try:
                self._container.create_container(metadata={"trainplan": "1"})
            except ResourceExistsError as error:
                # Another code means that the name cannot be used now, such as a container that is being deleted.
                if error.error_code != "ContainerAlreadyExists":
                    raise
                self._keep_private()

    def put(self, key: str, data: bytes) -> None:
        with _translated(f"{self.uri}/{key}"):
            self._container.upload_blob(
                key, data, overwrite=True, validate_content=True, content_settings=_checked(data), max_concurrency=1
            )

    def get(self, key: str, start: int, size: int | None) -> bytes:
        from azure.core.exceptions import HttpResponseError

        if size == 0:
            return b""
        length = {} if size is None else {"length": size}
        span = {} if start == 0 and size is None else {"offset": start, **length}
        with _translated(f"{self.uri}/{key}"):
            try:
                return bytes(self._container.download_blob(key, max_concurrency=1, **span).readall())
            except HttpResponseError as error:
                _let_go(error)
                if error.error_code == "BlobNotFound":
                    raise KeyError(key) from None
                # `start` is at or past the end of the blob: the protocol of stores returns b"" there.
                if error.error_code == "InvalidRange":
                    return b""
                raise

    def page(self, prefix: str, after: str) -> Page:
        with _translated(f"{self.uri}/{prefix}"):
            pages = self._container.list_blobs(name_starts_with=prefix, results_per_page=_PAGE).by_page(after or None)
            rows = tuple(Entry(blob.name, int(blob.size)) for blob in next(pages, ()))
            return Page(rows, pages.continuation_token or "")

    def delete(self, keys: Sequence[str]) -> None:
        from azure.core.exceptions import ResourceNotFoundError

        for key in keys:
            with _translated(f"{self.uri}/{key}"), contextlib.suppress(ResourceNotFoundError):
                self._container.delete_blob(key, delete_snapshots="include")

    def begin(self, key: str, size_bytes: int) -> BlobUpload:
        del size_bytes
        return BlobUpload(self._container.get_blob_client(key), f"{self.uri}/{key}", frozenset())

    def resume(self, key: str, size_bytes: int, token: str) -> BlobUpload:
        from azure.core.exceptions import ResourceNotFoundError

        del size_bytes, token
        blob = self._container.get_blob_client(key)
        with _translated(f"{self.uri}/{key}"):
            try:
                _, staged = blob.get_block_list("uncommitted")
            except ResourceNotFoundError:
                staged = []
            return BlobUpload(blob, f"{self.uri}/{key}", frozenset(_decoded(block.id) for block in staged))

    def close(self) -> None:
        self._service.close()

    def _keep_private(self) -> None:
        """Close a container that somebody has opened to the public, before anything is written."""
        if self.ours and self._container.get_container_properties().public_access is not None:
            self._container.set_container_access_policy(signed_identifiers={}, public_access=None)


class BlobUpload:
    """An upload in blocks, which a list of their ids completes.

    A block's id contains the hash of its bytes, so that a resumed upload knows which blocks Azure already has.
    """

    token = "blocks"

    def __init__(self, blob: Any, what: str, staged: frozenset[str]) -> None:
        self._blob = blob
        self._what = what
        self._staged = staged
        self._ids: dict[int, str] = {}
        self._digest = hashlib.md5()

    def holds(self, part: ObjectPart) -> bool:
        self._ids[part.number] = block_id(part)
        self._digest.update(part.data)
        return self._ids[part.number] in self._staged

    def send(self, part: ObjectPart) -> None:
        with _translated(self._what):
            self._blob.stage_block(block_id(part), part.data, length=len(part.data), validate_content=True)

    def finish(self) -> None:
        from azure.storage.blob import BlobBlock, ContentSettings

        with _translated(self._what):
            self._blob.commit_block_list(
                [BlobBlock(name) for _, name in sorted(self._ids.items())],
                content_settings=ContentSettings(content_md5=bytearray(self._digest.digest())),
            )


def block_id(part: ObjectPart) -> str:
    """Return the id of a part. Azure requires the same length for every part."""
    return f"{part.number:08}-{hashlib.sha256(part.data).hexdigest()[:32]}"


def _let_go(error: Any) -> None:
    """Close the connection of a refused download, which the SDK keeps open as if a body would follow."""
    with contextlib.suppress(AttributeError):
        error.response.internal_response.close()


def _decoded(name: str) -> str:
    """The id of a block as it was named. Some services return it in base64, others as it was named."""
    try:
        return base64.b64decode(name, validate=True).decode()
    except ValueError:
        return name


def _checked(data: bytes) -> Any:
    from azure.storage.blob import ContentSettings

    return ContentSettings(content_md5=bytearray(hashlib.md5(data).digest()))


@contextlib.contextmanager
def _translated(what: str) -> Iterator[None]:
    """Raise errors of Azure's libraries as ProviderErrors. `what` names the object of the call in messages."""
    try:
        from azure.core import exceptions as sdk
    except ImportError as error:
        raise _no_sdk() from error
    try:
        yield
    except ImportError as error:
        raise _no_sdk() from error
    except sdk.ClientAuthenticationError as error:
        raise _error(error, what) if error.status_code else _not_signed_in(error) from error
    except (sdk.ServiceRequestError, sdk.ServiceResponseError, sdk.IncompleteReadError) as error:
        raise TransientError(
            f"{what} does not answer: {error}", hint="check the network connection, then try again"
        ) from error
    except sdk.HttpResponseError as error:
        raise _error(error, what) from error
    except sdk.AzureError as error:
        raise UnrecognizedError(f"{what}: {error}", code=type(error).__name__) from error
    except ValueError as error:  # how the SDK refuses what it will not send
        raise BadRequestError(f"{what}: {error}") from error


def _no_sdk() -> ProviderError:
    return MachineError("azure-storage-blob is not installed here", hint=install_hint("azure"))


def _not_signed_in(error: Exception) -> ProviderError:
    return CredentialsError(f"there is no sign-in for Azure: {error}", hint=_SIGN_IN)


def _error(error: Any, what: str) -> ProviderError:
    """The ProviderError for an error of the SDK, by its code, else by its status."""
    reply = getattr(error, "error_code", None) or ""
    code, status = str(getattr(reply, "value", reply)), int(error.status_code or 0)
    # 503 is the status of ServerBusy, which is a ThrottledError above.
    if status >= 500:
        default: tuple[type[ProviderError], str] = (ThrottledError if status == 503 else TransientError, "try again")
    else:
        default = _STATUSES.get(status, (UnrecognizedError, ""))
    kind, hint = _ERRORS.get(code, default)
    message = str(error.message or error).partition("\n")[0]
    return kind(f"{what}: {message}", hint=hint, code=code or str(status))
