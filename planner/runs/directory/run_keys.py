"""The key of a run, with which its machines vouch for checkpoints and results: made from a secret of this home, in no
bucket."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.errors import RunKeyError
from trainplan.providers.agent.signatures import Vouching
from trainplan.providers.registry import is_own

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Run

FILE = "run-keys.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class RunKeys:
    """The keys of the runs that a home has launched since its secret was made, on the first launch with one."""

    home: Path

    def key(self, run: Run) -> str:
        """64 hexadecimal digits, the same for every attempt of the run. Raises RunKeyError.

        "" for a run that began before the secret was made, and for one that this home has taken over: its
        checkpoints were vouched for with another key, or with none. The secret is made for a run's first attempt.
        """
        if run.taken_over or (run.attempts and not (self.home / FILE).exists()):
            return ""
        secret, since = self._secret(run.created_at)
        if run.created_at < since:
            return ""
        return hmac.new(secret, f"run {run.run_id}".encode(), hashlib.sha256).hexdigest()

    def vouching(self, run: Run) -> Vouching | None:
        """What the results of the run's machines are checked with; one that is off where the run has no key.

        None for a run on this computer or the person's own cluster: no agent runs there, and nobody else writes its run
        directory.
        Raises RunKeyError.
        """
        return None if is_own(run.provider) else Vouching(self.key(run), run.run_id)

    def _secret(self, since: datetime) -> tuple[bytes, datetime]:
        """The secret and since when there is one; made now, as of `since`, where there is none."""
        path = self.home / FILE
        try:
            if not path.exists():
                _make(path, since)
            item = json.loads(path.read_bytes())
            made_at = datetime.fromisoformat(item["since"])
            if item["format"] != _FORMAT or made_at.tzinfo is None:
                raise ValueError(item["format"])
            # With another secret, or another time, every checkpoint of a live run would be refused.
            checksum = _checksum(item["since"], item["secret"])
            if item.get("sha256", checksum) != checksum:
                raise ValueError("sha256")
            return bytes.fromhex(item["secret"]), made_at
        except OSError as error:
            raise RunKeyError(f"cannot read or write {path}: {error.strerror}", "set PLAN_HOME elsewhere") from None
        except (ValueError, KeyError, TypeError):
            raise RunKeyError(
                f"{path} is damaged", "remove it: runs that began before continue without a key of their own"
            ) from None


def _make(path: Path, since: datetime) -> None:
    """The file, whole from its first moment on. Where another process has made it meanwhile, that one stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    since_text, secret = since.isoformat(), secrets.token_hex(32)
    item = {"format": _FORMAT, "since": since_text, "secret": secret, "sha256": _checksum(since_text, secret)}
    text = json.dumps(item)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        _write(unfinished, text)
        with contextlib.suppress(FileExistsError):
            _give_name(unfinished, path, text)
    finally:
        unfinished.unlink(missing_ok=True)


def _checksum(since: str, secret: str) -> str:
    """Shows that the file is as it was written; of a random secret it tells nothing."""
    return hashlib.sha256(f"{since} {secret}".encode()).hexdigest()


def _give_name(unfinished: Path, path: Path, text: str) -> None:
    """Raises FileExistsError where the name is taken: neither of the two ways replaces a file."""
    try:
        os.link(unfinished, path)
    except FileExistsError:
        raise
    except OSError:
        _write(path, text)  # a file system without hard links, such as FAT: a reader may come before its one write


def _write(path: Path, text: str) -> None:
    """A new file that its owner alone may read. Raises FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
