"""Checkpoints and results in a bucket that others may write: they are vouched for with a key of the run that is not in
the bucket."""

from __future__ import annotations

import hashlib
import hmac
import json
import re

from trainplan.providers.agent.schema import MANIFEST_BYTES, json_object

NAME = "vouched.json"
"""Beside the files of a checkpoint, and among those of an attempt that has trained to the end:
`{"files": {"NAME": "SHA-256 in hex"}, "hmac": "HMAC-SHA-256 in hex"}`."""
CHECKPOINT, ATTEMPT = "checkpoint", "attempt"
"""What a record is of: one of an attempt is none of a checkpoint, whatever its name."""
OUTPUT_MANIFEST = "output/manifest.json"
"""The file with the hashes of the results: for an attempt, this path and that of its progress are vouched for."""
MOST_BYTES = MANIFEST_BYTES
KEY = re.compile("[0-9a-f]{64}")
_SHA256 = re.compile("[0-9a-f]{64}")


class Vouching:
    """Signs and checks with the key of one run, in hex; "" for a run that began without one."""

    def __init__(self, key: str, run_id: str) -> None:
        self._key = key
        self._run_id = run_id

    @property
    def is_on(self) -> bool:
        """Whether there is a key to vouch with."""
        return bool(self._key)

    def record(self, name: str, files: dict[str, str], kind: str = CHECKPOINT) -> bytes:
        """What is stored for a checkpoint or attempt of this name; `files` has the SHA-256 of each of its files."""
        return json.dumps({"files": files, "hmac": self._hmac(kind, name, files)}, sort_keys=True).encode()

    def files(self, name: str, raw: bytes, kind: str = CHECKPOINT) -> dict[str, str] | None:
        """The hashes that are vouched for; None where the record is of another run, kind or name, or was changed."""
        record = json_object(raw, MOST_BYTES) or {}
        files, item = record.get("files"), record.get("hmac")
        if not isinstance(files, dict) or not isinstance(item, str) or not item.isascii():
            return None
        if not all(isinstance(value, str) and _SHA256.fullmatch(value) for value in files.values()):
            return None
        return files if hmac.compare_digest(item, self._hmac(kind, name, files)) else None

    def _hmac(self, kind: str, name: str, files: dict[str, str]) -> str:
        text = json.dumps([kind, self._run_id, name, sorted(files.items())])
        return hmac.new(bytes.fromhex(self._key), text.encode(), hashlib.sha256).hexdigest()


def attempt_path(attempt: int) -> str:
    """Where the record of an attempt lies in the run directory; unlike its results it stays there."""
    return f"attempts/{attempt}/{NAME}"


def progress_path(attempt: int) -> str:
    """Where the progress of an attempt lies in the run directory, and what it is called in the attempt's record."""
    return f"attempts/{attempt}/progress.jsonl"
