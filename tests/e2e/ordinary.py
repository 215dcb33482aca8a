"""An ordinary person: an account without root, with a home of mode 0700, whose commands run under a umask."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.conftest import ROOT
from tests.contract.local import DOCKER_HOST, DOCKER_PROGRAM
from tests.doubles.waiting import until

NEEDED = ("useradd", "userdel", "setpriv", "unshare", "newuidmap")
_ACCOUNT = "trainplan-test"
# Python and this checkout may lie in a folder that is closed to others (/root): in a mount namespace of the command
# that folder is an empty one, with what is needed mounted where it was. $1: the closed folder, or nothing.
_OPENED = """
set -eu
closed=$1; shift
beside=
while [ "$1" != -- ]; do
    mkdir -p "$TRAINPLAN_STAGE/$1"; mount --rbind "$1" "$TRAINPLAN_STAGE/$1"; beside="$beside $1"; shift
done
shift
if [ -n "$closed" ]; then
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    for folder in $beside; do mkdir -p "$folder"; mount --rbind "$TRAINPLAN_STAGE/$folder" "$folder"; done
fi
while IFS='	' read -r file replaced; do mount --bind "$file" "$replaced"; done <"$TRAINPLAN_STAGE.replaced"
exec "$@"
"""


@dataclass(kw_only=True)
class Person:
    """`home` is their home folder; `environment` is what their commands have besides."""

    account: str
    home: Path
    uid: int
    gid: int
    stage: Path
    umask: int = 0o077
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, *words: str, umask: int | None = None) -> list[str]:
        """The words as a command line of root that runs them as the person."""
        closed = sorted({str(top) for path in _shown() if (top := _closed(path))})
        shown = [str(path) for path in _shown() if closed and path.is_relative_to(closed[0])]
        assert len(closed) <= 1, closed
        opened = ["unshare", "--mount", "sh", "-c", _OPENED, "opened", "".join(closed), *shown, "--"]
        groups = str(Path(DOCKER_HOST.removeprefix("unix://")).stat().st_gid) if _docker_is_there() else str(self.gid)
        reduced = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", f"--groups={groups}"]
        mask = f'umask {self.umask if umask is None else umask:04o}; cd; exec "$@"'
        return [*opened, *reduced, "sh", "-c", mask, "as-the-person", *words]

    def run(
        self, *words: str, seconds: float = 300, umask: int | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """A command of theirs to its end."""
        return subprocess.run(
            self.command(*words, umask=umask), env=self._variables(more), capture_output=True, text=True, check=False,
            timeout=seconds, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def plan(
        self, *words: str, seconds: float = 300, umask: int | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """`plan` with these words."""
        return self.run(*plan_words(*words), seconds=seconds, umask=umask, **more)

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        """A command of theirs that goes on beside the test."""
        return subprocess.Popen(
            self.command(*words), env=self._variables(more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def put(self, name: str, text: str) -> Path:
        """A file in their home."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        for made in (path, *(folder for folder in path.parents if folder.is_relative_to(self.home))):
            os.chown(made, self.uid, self.gid)
        path.chmod(0o600)
        return path

    def _variables(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = ("PIP_CERT", "PIP_DEFAULT_TIMEOUT", "PIP_INDEX_URL", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
        runtime = self.home / ".runtime"
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "HOME": str(self.home), "USER": self.account, "LOGNAME": self.account, "XDG_RUNTIME_DIR": str(runtime),
            "PATH": f"{self.home}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin", "DOCKER_HOST": DOCKER_HOST,
            "TRAINPLAN_STAGE": str(self.stage), **self.environment, **more,
        }  # fmt: skip

    def check(self, *words: str, stdin: IO[bytes] | None = None) -> str:
        """What a command of theirs prints. Raises CalledProcessError."""
        source = stdin or subprocess.DEVNULL
        command, variables = self.command(*words), self._variables({})
        return subprocess.run(
            command, env=variables, stdin=source, stdout=subprocess.PIPE, check=True, text=True
        ).stdout

    def replace(self, path: Path, text: str) -> None:
        """Their commands find this text in the place of a file of this checkout."""
        file = self.stage.with_name(path.name)
        file.write_text(text, encoding="utf-8")
        with self.stage.with_suffix(".replaced").open("a", encoding="utf-8") as table:
            table.write(f"{file}\t{path}\n")

    def wrongly_owned(self) -> list[str]:
        """What lies in their home and is not theirs; what Podman keeps of images apart."""
        images = self.home / ".local" / "share" / "containers"
        paths = (path for path in self.home.rglob("*") if not path.is_relative_to(images))
        return [str(path.relative_to(self.home)) for path in paths if path.lstat().st_uid != self.uid]


def plan_words(*words: str) -> list[str]:
    """`plan` of this checkout."""
    return [sys.executable, "-P", "-c", "from trainplan.planner.cli.main import main; main()", *words]


def missing() -> str:
    """What this machine lacks for an ordinary person; "" for nothing."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "root on Linux, to become another user"
    return next((program for program in NEEDED if shutil.which(program) is None), "")


@contextlib.contextmanager
def ordinary_person(account: str = _ACCOUNT) -> Iterator[Person]:
    """A person for as long as the block lasts; nothing of theirs is left."""
    top = Path(tempfile.mkdtemp(prefix="trainplan-person-"))
    top.chmod(0o711)
    home, stage = top / "home", top / "stage"
    stage.mkdir()
    stage.with_suffix(".replaced").touch()
    _run("useradd", "--create-home", "--home-dir", str(home), "--shell", "/bin/sh", account)
    entry = pwd.getpwnam(account)
    try:
        home.chmod(0o700)
        for folder in (home / ".runtime", home / "bin"):
            folder.mkdir(mode=0o700)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
        (home / "bin" / "docker").symlink_to(DOCKER_PROGRAM)
        os.chown(home / "bin" / "docker", entry.pw_uid, entry.pw_gid, follow_symlinks=False)
        person = Person(account=account, home=home, uid=entry.pw_uid, gid=entry.pw_gid, stage=stage)
        # Podman would take the slow driver where /dev/fuse is closed, as it is without udev.
        person.put(".config/containers/storage.conf", '[storage]\ndriver = "overlay"\n')
        yield person
    finally:
        _end_all_of(entry.pw_uid)
        _run("userdel", account)
        shutil.rmtree(top)


def _end_all_of(uid: int) -> None:
    """Podman keeps a process that holds its namespaces."""

    def are_gone() -> bool:
        numbers = list(_processes_of(uid))
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        return not numbers

    until(are_gone, "their processes end")


def _processes_of(uid: int) -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and folder.stat().st_uid == uid:
                yield int(folder.name)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def _shown() -> Sequence[Path]:
    """What a command of the person reads of this machine."""
    return list(dict.fromkeys((Path(sys.base_prefix), Path(sys.prefix), ROOT)))


def _closed(path: Path) -> Path | None:
    """The folder on the way to `path` that others may not go through; None: there is none."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)


def _docker_is_there() -> bool:
    return Path(DOCKER_HOST.removeprefix("unix://")).exists()
