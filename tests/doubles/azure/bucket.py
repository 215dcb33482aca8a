"""A container in memory (trainplan.providers.stores.bucket.Bucket): its runs are the run directories of the double's
machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainplan.providers.errors import (
    CredentialsError,
    PermissionDeniedError,
    ProviderError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)
from trainplan.providers.stores.bucket import BucketMissingError, Entry, Page

if TYPE_CHECKING:
    from tests.doubles.azure.world import World

_RUNS = "runs/"
STORE_CALLS = {"put": "PutObject", "get": "GetObject", "list": "ListObjects", "delete": "DeleteObject"}
"""What the calls of a bucket are named in scenarios."""
_REFUSALS: dict[str, tuple[type[ProviderError], str, str]] = {
    "AuthorizationFailed": (PermissionDeniedError, "the store says AuthorizationFailed", "a test"),
    "ExpiredAuthenticationToken": (CredentialsError, "the store says ExpiredAuthenticationToken", "a test"),
    "TooManyRequests": (ThrottledError, "the store says TooManyRequests", "a test"),
    "AuthorizationPermissionMismatch": (
        PermissionDeniedError,
        "azblob://trainplantests/trainplan: This request is not authorized to perform this operation using this "
        "permission.",
        "give yourself the role Storage Blob Data Contributor on the storage account; it takes minutes to hold",
    ),
    "ContainerNotFound": (
        BucketMissingError,
        "azblob://trainplantests/trainplan: The specified container does not exist.",
        "",
    ),
    "InternalServerError": (
        TransientError,
        "azblob://trainplantests/trainplan: The server encountered an internal error. Please retry the request.",
        "try again",
    ),
    "NameNotResolved": (
        TransientError,
        "azblob://trainplantests/trainplan does not answer: trainplantests.blob.core.windows.net is not known",
        "check the network connection, then try again",
    ),
}


def refused(code: str) -> ProviderError:
    """The error that the real bucket (trainplan.providers.azure.store) raises for a code of the store's, in its
    words."""
    kind, message, hint = _REFUSALS.get(code, (UnrecognizedError, f"azblob://trainplantests/trainplan: {code}", ""))
    return kind(message, hint=hint, code=code)


@dataclass(frozen=True)
class MemoryBucket:
    """`ask(operation, key, data)` reaches the world, wherever it lives."""

    ask: Callable[[str, str, bytes], Any]
    provider: str = "azure"
    uri: str = "azblob://trainplantests/trainplan"
    ours: bool = False

    def make(self) -> None:
        """It is always there."""

    def put(self, key: str, data: bytes) -> None:
        self.ask("put", key, data)

    def get(self, key: str, start: int, size: int | None) -> bytes:
        found = self.ask("get", key, b"")
        if found is None:
            raise KeyError(key)
        data = bytes(found)[start:]
        return data if size is None else data[:size]

    def page(self, prefix: str, after: str) -> Page:
        rows = self.ask("list", prefix, b"")
        return Page(tuple(Entry(key, size) for key, size in rows), "")

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.ask("delete", key, b"")

    def begin(self, key: str, size_bytes: int) -> Any:
        raise UnrecognizedError("nothing so large is sent to the double")

    def resume(self, key: str, size_bytes: int, token: str) -> Any:
        return self.begin(key, size_bytes)

    def close(self) -> None:
        """Nothing is open."""


def carry_out(world: World, operation: str, key: str, data: bytes) -> Any:
    """What a bucket is asked, done in the world. The files of a run are those that its machines write and read."""
    run, _, path = key.removeprefix(_RUNS).partition("/")
    objects = world.life.physics.state.objects
    world.life.physics.tell(run)
    match operation:
        case "put":
            world.life.physics.files.write(run, path, data)
            if path == "control/stop":
                world.life.ask_to_stop(run)
            return None
        case "get":
            return objects.get(f"{run}/{path}")
        case "list":
            whole = key.removeprefix(_RUNS)
            return sorted((f"{_RUNS}{name}", len(held)) for name, held in objects.items() if name.startswith(whole))
        case _:
            objects.pop(f"{run}/{path}", None)
            return None
