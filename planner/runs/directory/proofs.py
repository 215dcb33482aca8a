"""What a run's machines vouch for, checked with the key of the run: results and progress of an attempt."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainplan.planner.errors import TrainingFailedError
from trainplan.planner.runs.directory.progress import MOST_BYTES as MOST_PROGRESS_BYTES
from trainplan.planner.runs.directory.progress import Story, story_of
from trainplan.providers.agent.schema import MANIFEST_BYTES
from trainplan.providers.agent.signatures import ATTEMPT, OUTPUT_MANIFEST, Vouching, attempt_path, progress_path
from trainplan.providers.agent.signatures import MOST_BYTES as MOST_RECORD_BYTES

if TYPE_CHECKING:
    from trainplan.providers.base import RunStore


@dataclass(frozen=True, slots=True)
class Vouched:
    """One attempt of a run, and the key that its machine was launched with."""

    vouching: Vouching
    attempt: int

    def manifest(self, store: RunStore) -> bytes:
        """The manifest of the output as the attempt's machine wrote it.

        Raises TrainingFailedError where it is another one, or nothing vouches for it, and KeyError where there is none.
        """
        data = store.get(OUTPUT_MANIFEST, size=MANIFEST_BYTES + 1)
        why = self._objection(store, OUTPUT_MANIFEST, data)
        if why:
            raise TrainingFailedError(
                f"the model was not brought home: {why}",
                "somebody else may have written to the run directory. What is there stays there, to be looked at; "
                "plan launch trains again from the newest checkpoint that the run's machine has stored",
            )
        return data

    def wrote(self, store: RunStore, manifest: bytes) -> bool:
        """Whether the attempt's machine has signed this manifest of the output. Raises ProviderError."""
        return not self._objection(store, OUTPUT_MANIFEST, manifest)

    def story(self, store: RunStore) -> tuple[Story, str]:
        """What the attempt has said, as its machine wrote it; else nothing, and in words why. Raises ProviderError."""
        path = progress_path(self.attempt)
        try:
            data = store.get(path, size=MOST_PROGRESS_BYTES)
        except KeyError:
            data = b""
        why = self._objection(store, path, data)
        return (Story(), why) if why else (story_of(_OneFileDirectory(path, data), self.attempt), "")

    def _objection(self, store: RunStore, path: str, data: bytes) -> str:
        """Say why these bytes are not used; "" where the attempt's machine has signed them."""
        record = attempt_path(self.attempt)
        try:
            raw = store.get(record, size=MOST_RECORD_BYTES + 1)
        except KeyError:
            return f"{record} is not there, which vouches for {path}"
        files = self.vouching.files(str(self.attempt), raw, ATTEMPT)
        if files is None:
            return f"{record} is not what the run's machine has written"
        if files.get(path) != hashlib.sha256(data).hexdigest():
            return f"{path} is not what the run's machine has written (its SHA-256 differs)"
        return ""


class _OneFileDirectory:
    """A run directory with one file, which nobody changes between the check and the reading."""

    def __init__(self, path: str, data: bytes) -> None:
        self._path = path
        self._data = data

    def put(self, path: str, data: bytes) -> None:
        raise NotImplementedError(path)

    def get(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        if path != self._path:
            raise KeyError(path)
        return self._data[start : None if size is None else start + size]

    def list(self, prefix: str = "") -> Sequence[str]:
        raise NotImplementedError(prefix)

    def delete(self, prefix: str) -> None:
        raise NotImplementedError(prefix)
