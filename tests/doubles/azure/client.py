"""How tests start the double, and steer it."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests.conftest import ROOT
from tests.doubles.azure.bucket import MemoryBucket, refused
from tests.doubles.azure.rules import SUBSCRIPTION
from tests.doubles.hangs import HANGS_SECONDS

SERVICE_PRINCIPAL = {"AZURE_TENANT_ID": "tests", "AZURE_CLIENT_ID": "client", "AZURE_CLIENT_SECRET": "secret"}


class Double:
    """A double in a process of its own, in `folder`; ends with `close`."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.doubles.azure", str(folder)],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self.authority = folder / "authority.pem"
        context = ssl.create_default_context(cafile=str(self.authority))
        where = urlsplit(self.url)
        self._line = http.client.HTTPSConnection(
            str(where.hostname), where.port, context=context, timeout=HANGS_SECONDS
        )
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._line.close()
        self._process.communicate(timeout=300)

    @property
    def options(self) -> dict[str, str]:
        """Settings of the provider that lead to it."""
        return {
            "subscription": SUBSCRIPTION,
            "arm_endpoint": self.url,
            "authority": self.url,
            "account": "trainplantests",
        }

    @property
    def environment(self) -> dict[str, str]:
        """Of a command that signs in to it as a service principal."""
        return {**SERVICE_PRINCIPAL, "REQUESTS_CA_BUNDLE": str(self.authority)}

    def control(self, what: str, **steering: Any) -> Any:
        """See tests.doubles.azure.server."""
        with self._lock:
            self._line.request("POST", f"/control/{what}", json.dumps(steering))
            return json.loads(self._line.getresponse().read())

    def now(self) -> datetime:
        return datetime.fromisoformat(self.control("now")["now"])

    def sleep(self, seconds: float) -> None:
        self.control("advance", seconds=seconds)

    def bucket(self) -> MemoryBucket:
        """The container of its machines."""
        return MemoryBucket(self._bucket)

    def _bucket(self, operation: str, key: str, data: bytes) -> Any:
        told = self.control("bucket", operation=operation, key=key, data=base64.b64encode(data).decode())
        if "refused" in told:
            raise refused(told["refused"])
        held = told["held"]
        return base64.b64decode(held) if isinstance(held, str) else held
