"""Boot scripts of each cloud, and a machine on which a script finds the programs that a test lets it find."""

from __future__ import annotations

import base64
import gzip
import shutil
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from trainplan.providers.cloud.bootstrap import Boot

NVIDIAS_KEY = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
HERE = "/usr/local/lib/trainplan"
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
_POSIX = (
    *("sh", "mkdir", "ln", "cat", "date", "echo", "sleep", "env", "touch", "rm", "mktemp", "wc", "base64", "gzip"),
)
CLOUDS = {"aws": "s3://bucket/plan/r1", "gcp": "gs://bucket/plan/r1", "azure": "azblob://account/box/plan/r1"}


def boot(**changes: Any) -> Boot:
    usual: dict[str, Any] = {
        "cloud": "aws",
        "run_uri": CLOUDS["aws"],
        "attempt": 1,
        "deadline": NOON + timedelta(hours=8),
        "boot_deadline": NOON + timedelta(minutes=30),
        "requested_at": NOON - timedelta(minutes=15),
        "agent_sha256": "a" * 64,
        "spec_sha256": "b" * 64,
        "region": "eu-west-1",
    }
    return Boot(**{**usual, **changes})


def files(text: str) -> dict[str, str]:
    """What cloud-init writes, by path."""
    found = {}
    for entry in yaml.safe_load(text)["write_files"]:
        content = entry["content"]
        packed = entry.get("encoding") == "gz+b64"
        found[entry["path"]] = gzip.decompress(base64.b64decode(content)).decode() if packed else content
    return found


class Machine:
    """A machine's file system below a folder, with stubs for its commands that write down how they were called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "stubs"
        self.bin.mkdir()
        (root / HERE.lstrip("/")).mkdir(parents=True)
        self.stub("timeout", 'while [ "${1#-}" != "$1" ]; do shift; done; shift; exec "$@"')
        for name in ("systemctl", "docker", "sync"):
            self.stub(name)

    def stub(self, name: str, action: str = "") -> None:
        path = self.bin / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.root}/calls"\n{action}\n')
        path.chmod(0o755)

    def run(self, script: str, *words: str) -> int:
        """Every place of the machine lies below the folder; only stubs, sh and what POSIX has can be called. What the
        script leaves running has ended too: the pipe is read until nobody holds it."""
        for place in ("/usr/local/lib/", "/etc/", "/var/lib/", "/proc/", "/sys/module/", "/dev/console"):
            script = script.replace(place, f"{self.root}{place}")
        path = f"{self.bin}:{self._posix()}"
        command = ["sh", "-c", script, "script", *words]
        ran = subprocess.run(command, env={"PATH": path}, timeout=300, check=False, stdout=subprocess.PIPE)
        return ran.returncode

    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def file(self, path: str) -> Path:
        found = self.root / path.lstrip("/")
        found.parent.mkdir(parents=True, exist_ok=True)
        return found

    def _posix(self) -> Path:
        """Links to what the scripts take from coreutils, and nothing else of this computer."""
        place = self.root / "posix"
        if not place.exists():
            place.mkdir()
            for name in _POSIX:
                found = shutil.which(name)
                assert found
                (place / name).symlink_to(found)
        return place


def hours_from_now(hours: float) -> datetime:
    return datetime.fromtimestamp(int(time.time()), tz=UTC) + timedelta(hours=hours)
