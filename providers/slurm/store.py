"""A run directory on the cluster's shared file system, through the shell that runs Slurm's commands."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trainplan.providers.errors import MachineError
from trainplan.providers.slurm.api import ANSWER_SECONDS, FILE_SECONDS, NO_STREAMS, Completed, Shell, Streams
from trainplan.providers.stores.files import checked_path, promised, sha256_of, unheard

_NO_FILE = 66
# `sync FILE` writes the file's data to the disk before it gets its name (coreutils 8.24 and later).
_PUT = """
mkdir -p "$(dirname "$1")" && cat >"$1.$2.partial" && sync "$1.$2.partial" && mv -f "$1.$2.partial" "$1" && exit 0
code=$?; rm -f "$1.$2.partial"; exit "$code"
"""
_GET = '[ -f "$1" ] && [ ! -L "$1" ] || exit 66; exec tail -c "+$2" -- "$1"'
_GET_PART = '[ -f "$1" ] && [ ! -L "$1" ] || exit 66; tail -c "+$2" -- "$1" | head -c "$3"'
_LIST = r'[ -d "$1" ] || exit 0; exec find "$1" -ignore_readdir_race -type f ! -name "*.partial" -printf "%s %P\0"'
_LISTINGS = 3
"""So often a listing is tried: find fails where a folder of a run that trains is renamed or deleted under it."""
_FIND_FAILED = 1


class ShellStore:
    """The files of one run below `root`. A file being written is not listed; it gets its name when it is whole."""

    def __init__(self, shell: Shell, root: str) -> None:
        self._shell = shell
        self._root = root

    def put(self, path: str, data: bytes) -> None:
        self._put(path, Streams(data=data), ANSWER_SECONDS)

    def get(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        words = (self._at(path), str(start + 1), *(() if size is None else (str(size),)))
        return self._checked(path, self._sh(_GET if size is None else _GET_PART, words)).stdout

    def list(self, prefix: str = "") -> Sequence[str]:
        return list(self.sizes(prefix))

    def delete(self, prefix: str) -> None:
        target = self._at(prefix) if prefix else self._root
        self._checked(prefix, self._sh('exec rm -rf -- "$1"', (target,), FILE_SECONDS))

    def put_file(self, path: str, source: Path, moved: Callable[[int], None] = unheard) -> str:
        try:
            digest, size = sha256_of(source), source.stat().st_size
        except OSError as error:
            raise MachineError(f"{source}: {error.strerror or error}", hint="see whether it can be read") from None
        self._put(path, Streams(source=source), FILE_SECONDS)
        moved(size)
        return digest

    def get_file(self, path: str, target: Path, sha256: str = "", moved: Callable[[int], None] = unheard) -> str:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
        try:
            completed = self._sh(_GET, (self._at(path), "1"), FILE_SECONDS, Streams(target=partial))
            self._checked(path, completed)
            digest = promised(path, sha256_of(partial), sha256)
            moved(partial.stat().st_size)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        return digest

    def sizes(self, prefix: str = "") -> Mapping[str, int]:
        wanted = checked_path(prefix) if prefix else ""
        reply = self._checked(prefix, self._listing())
        entries = (entry.partition(" ") for entry in reply.text.split("\0") if entry)
        sizes = {path: int(size) for size, _, path in entries}
        return {
            path: size
            for path, size in sorted(sizes.items())
            if not wanted or path == wanted or path.startswith(f"{wanted}/")
        }

    def _listing(self) -> Completed:
        for _ in range(_LISTINGS - 1):
            listed = self._sh(_LIST, (self._root,))
            if listed.exit_code != _FIND_FAILED:
                return listed
        return self._sh(_LIST, (self._root,))

    def has(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that are there, by one command."""
        words = [self._at(path) for path in paths]
        reply = self._sh('for path; do [ ! -e "$path" ] || printf "%s\\0" "$path"; done', words)
        shown = self._checked("", reply).text.split("\0")
        return {path for path, word in zip(paths, words, strict=True) if word in shown}

    def _put(self, path: str, streams: Streams, seconds: float) -> None:
        words = (self._at(path), secrets.token_hex(4))
        self._checked(path, self._sh(_PUT, words, seconds, streams))

    def _sh(
        self, script: str, words: Sequence[str], seconds: float = ANSWER_SECONDS, streams: Streams = NO_STREAMS
    ) -> Completed:
        return self._shell.run(("sh", "-c", script, "sh", *words), streams, seconds)

    def _checked(self, path: str, completed: Completed) -> Completed:
        if completed.exit_code == _NO_FILE:
            raise KeyError(path)
        if completed.exit_code:
            raise MachineError(
                f"{self._root}/{path}: {completed.stderr.strip() or f'exit code {completed.exit_code}'}",
                hint="see whether directory in [slurm] is on the shared file system, has room and is yours",
            )
        return completed

    def _at(self, path: str) -> str:
        return f"{self._root}/{checked_path(path)}"
