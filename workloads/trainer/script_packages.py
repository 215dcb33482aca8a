"""The packages that a script of the person's own needs: installed once in a run directory, by their hashes."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainplan.workloads.pip_faults import PipFault, pip_fault
from trainplan.workloads.trainer.errors import BadInputError, TrainerError, UnreachableError
from trainplan.workloads.trainer.progress import complain

_PAUSES_SECONDS = (10.0, 30.0, 60.0)
"""Between tries, while the index is not reached; pip itself tries each file six times within some seconds."""
_PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off")
_EXACT = ("--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-warn-conflicts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installing:
    """`folder` gets the packages of the list `locked`, for the attempt `attempt`. `run` is a command's exit code,
    `wait` lets so many seconds pass; both may raise what ends the attempt."""

    folder: Path
    locked: str
    attempt: int
    run: Callable[[Sequence[str]], int]
    wait: Callable[[float], None]


def installed(installing: Installing) -> Path:
    """The folder of the packages.

    Raises BadInputError for what can never be installed, UnreachableError where the index is not reached, TrainerError
    for a full disk.
    """
    name = hashlib.sha256(installing.locked.encode()).hexdigest()[:16]
    folder = installing.folder / f"packages-{name}"
    if folder.is_dir():
        return folder
    partial = folder.with_name(f".{folder.name}.{installing.attempt}")
    partial.mkdir(parents=True, exist_ok=True)
    requirements, log = partial.with_suffix(".txt"), partial.with_suffix(".log")
    requirements.write_text(installing.locked, encoding="utf-8")
    command = [sys.executable, *_PIP, *_EXACT, "--log", str(log), "--target", str(partial), "-r", str(requirements)]
    for pause in (*_PAUSES_SECONDS, None):
        log.unlink(missing_ok=True)
        code = installing.run(command)
        if not code:
            break
        error, may_pass = _error(code, log)
        if pause is None or not may_pass:
            raise error
        complain(f"{error}; trying again in {pause:.0f} s")
        installing.wait(pause)
    partial.replace(folder)
    return folder


def _error(code: int, log: Path) -> tuple[TrainerError, bool]:
    """The error, and whether another try may do."""
    try:
        said = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        said = ""
    match pip_fault(said):
        case PipFault.DISK_FULL:
            why = "the disk is full: pip could not install what the script needs; free some space"
            return TrainerError(why), False
        case PipFault.NOT_TRUSTED:
            why = "the certificate of the package index is not trusted here: name your firm's (PIP_CERT), launch again"
            return UnreachableError(why), False
        case PipFault.UNREACHABLE:
            why = "the package index is not reached, so pip could not install what the script needs"
            return UnreachableError(why), True
        case PipFault.PACKAGES:
            why = f"pip could not install what the script needs (exit code {code}); the log says why"
            return BadInputError(why), False
