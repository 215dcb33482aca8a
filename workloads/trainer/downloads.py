"""The known sets that are fetched where they are used: MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import errno
import hashlib
import http.client
import shutil
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.workloads.data_folder.published import DAMAGE, set_in_files
from trainplan.workloads.job import DataName
from trainplan.workloads.trainer.errors import BadInputError, TrainerError, UnreachableError
from trainplan.workloads.trainer.folders import published_split
from trainplan.workloads.trainer.progress import complain

if TYPE_CHECKING:
    from trainplan.workloads.trainer.images import Split

_ANSWER_SECONDS = 60
_NEVER = threading.Event()
_PAUSES_SECONDS = (5.0, 15.0, 30.0)
_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG, errno.EISDIR})
_MAY_PASS = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Replies of a web server (RFC 9110, RFC 6585) that it may give for a while only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """One file as its publisher serves it, with the sum that its loader checks: None where it checks none. `without`:
    how a job does without it, for whoever has no network."""

    name: str
    origin: str
    sha256: str | None = None
    md5: str | None = None
    without: str = ""


_GOOGLE = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
_TORONTO = "https://www.cs.toronto.edu/~kriz/"
# Addresses and sums: keras.datasets of Keras 3.15.1, read 2026-11-21.
ARCHIVES: Mapping[DataName, tuple[Archive, ...]] = {
    DataName.MNIST: (
        Archive(
            name="mnist.npz",
            origin=f"{_GOOGLE}mnist.npz",
            sha256="731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
        ),
    ),
    DataName.FASHION_MNIST: tuple(
        Archive(name=name, origin=f"{_GOOGLE}{name}")
        for name in (
            "train-images-idx3-ubyte.gz",
            "train-labels-idx1-ubyte.gz",
            "t10k-images-idx3-ubyte.gz",
            "t10k-labels-idx1-ubyte.gz",
        )
    ),
    DataName.CIFAR10: (
        Archive(
            name="cifar-10-python.tar.gz",
            origin=f"{_TORONTO}cifar-10-python.tar.gz",
            sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        ),
    ),
    DataName.CIFAR100: (
        Archive(
            name="cifar-100-python.tar.gz",
            origin=f"{_TORONTO}cifar-100-python.tar.gz",
            sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
        ),
    ),
}


def fetched(
    name: DataName,
    data_dir: Path,
    archives: Mapping[DataName, tuple[Archive, ...]] = ARCHIVES,
    wait: Callable[[float], object] = _NEVER.wait,
) -> Split:
    """The set, from `data_dir`/NAME where its files lie already, else downloaded to there.

    Raises TrainerError where it can neither be found nor downloaded, or is damaged.
    """
    folder = data_dir / name.value
    files = [fetched_file(archive, folder, wait) for archive in archives[name]]
    try:
        return published_split(set_in_files(files))
    except DAMAGE as error:
        raise BadInputError(f"{name} in {folder} is damaged ({error}); delete that folder and start again") from error


def fetched_file(archive: Archive, folder: Path, wait: Callable[[float], object] = _NEVER.wait) -> Path:
    """The file in `folder`, downloaded to there where it is not yet; `wait` lets seconds pass between tries.

    Raises BadInputError where its publisher has no such file, UnreachableError where the publisher is not reached.
    """
    path = folder / archive.name
    if path.is_file() and _as_served(path, archive):
        return path
    unfinished = folder / f".{archive.name}.new"
    by_hand = f"put {archive.name} into {folder} and start again{archive.without and f', or {archive.without}'}"
    for pause in (*_PAUSES_SECONDS, None):
        try:
            _download(archive, unfinished)
            break
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and error.errno in _DISK:
                raise TrainerError(f"{unfinished} cannot be written: {error.strerror}") from error
            if isinstance(error, urllib.error.HTTPError) and error.code not in _MAY_PASS:
                raise BadInputError(f"{archive.origin} cannot be downloaded ({error}); {by_hand}") from error
            if pause is None:
                raise UnreachableError(f"{archive.origin} is not reached ({error}); {by_hand}") from error
            complain(f"{archive.origin} is not reached ({error}); trying again in {pause:.0f} s")
            wait(pause)
    if not _as_served(unfinished, archive):
        unfinished.unlink()
        which = "sha256" if archive.sha256 else "md5"
        raise BadInputError(
            f"{archive.origin} is not what its publisher vouches for ({which} differs); try again later"
        )
    return unfinished.replace(path)


def _download(archive: Archive, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with urllib.request.urlopen(archive.origin, timeout=_ANSWER_SECONDS) as reply, path.open("wb") as file:
        shutil.copyfileobj(reply, file)


def _as_served(path: Path, archive: Archive) -> bool:
    expected = archive.sha256 or archive.md5
    if expected is None:
        return True
    # The sum finds damage; that nobody changed the file at its publisher is what HTTPS is for.
    digest = hashlib.sha256() if archive.sha256 else hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: digest).hexdigest() == expected
