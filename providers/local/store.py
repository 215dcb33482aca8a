"""A run directory that is a folder of this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from trainplan.providers.agent.plain_file import NotPlainError, is_plain
from trainplan.providers.errors import MachineError
from trainplan.providers.local.inside import new_inside, open_inside, refuse_links, remove_inside
from trainplan.providers.stores.files import checked_path, copied, copied_bytes, unheard

_PARTIAL = ".partial"


class FolderStore:
    """Files under one folder. A file being written is not listed; it gets its name when it is whole.

    The container of a run writes into the same folder: links in it are followed neither to read nor to write.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, path: str, data: bytes) -> None:
        target = self._at(path)
        with _explained(target), new_inside(self.root, target) as file:
            file.write(data)

    def get(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        target = self._at(path)
        with _explained(target), self._opened(path) as file:
            file.seek(start)
            return file.read(-1 if size is None else size)

    def list(self, prefix: str = "") -> Sequence[str]:
        return list(self.sizes(prefix))

    def delete(self, prefix: str) -> None:
        folder = self._at(prefix) if prefix else self.root
        with _explained(folder), contextlib.suppress(FileNotFoundError):
            if prefix:
                remove_inside(self.root, folder)
            else:
                shutil.rmtree(self.root)

    def put_file(self, path: str, source: Path, moved: Callable[[int], None] = unheard) -> str:
        target = self._at(path)
        with _explained(source), source.open("rb") as read, new_inside(self.root, target) as file:
            return copied_bytes(read, file, moved)

    def get_file(self, path: str, target: Path, sha256: str = "", moved: Callable[[int], None] = unheard) -> str:
        with self._opened(path) as source:
            return copied(path, source, target, sha256, moved)

    def sizes(self, prefix: str = "") -> Mapping[str, int]:
        folder = self._at(prefix) if prefix else self.root
        with _explained(folder):
            return dict(sorted(self._files(folder)))

    def _opened(self, path: str) -> BinaryIO:
        """Raises KeyError where there is no such file: a link, and what lies behind one, is none."""
        try:
            return open_inside(self.root, self._at(path))
        except (FileNotFoundError, NotADirectoryError, NotPlainError):
            raise KeyError(path) from None

    def _files(self, folder: Path) -> Iterator[tuple[str, int]]:
        """Path and bytes of each plain file in the folder, or of the file that it is."""
        try:
            refuse_links(self.root, folder)
        except NotPlainError:
            return
        if is_plain(folder):
            yield folder.relative_to(self.root).as_posix(), folder.lstat().st_size
        for parent, _, names in os.walk(folder):
            for path in (Path(parent) / name for name in names if not name.endswith(_PARTIAL)):
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    stat_result = path.lstat()
                    if stat.S_ISREG(stat_result.st_mode):
                        yield path.relative_to(self.root).as_posix(), stat_result.st_size

    def _at(self, path: str) -> Path:
        return self.root / checked_path(path)


def write_whole(target: Path, data: bytes) -> None:
    """Write a file so that a reader sees all of it or what was there before, also after a crash."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=_PARTIAL, dir=target.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MachineError(
            f"{path}: {error.strerror or error}", hint="free some space, or give the folder back to your user"
        ) from error
