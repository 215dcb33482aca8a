"""The worlds in which the contract of a run store is held: a folder, S3, Google Cloud Storage, Azure Blob Storage."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tests.doubles.azurite import ACCOUNT, ACCOUNT_KEY
from tests.doubles.proxy import Break, Fault, Proxy
from trainplan.providers.base import ProviderSettings, RunId
from trainplan.providers.local.store import FolderStore
from trainplan.providers.stores import registry
from trainplan.providers.stores.patience import Patience
from trainplan.providers.stores.pending_uploads import Unfinished
from trainplan.providers.stores.store import ObjectStore, run_store

if TYPE_CHECKING:
    from moto.server import ThreadedMotoServer

    from tests.doubles.gcs import GcsDouble
    from trainplan.providers.stores.bucket import Bucket

NOW = datetime(2026, 11, 21, tzinfo=UTC)


class Server(Protocol):
    """A store that answers on loopback, and how its vendor says no."""

    name: str
    url: str

    def options(self) -> dict[str, str]: ...

    def environment(self) -> dict[str, str]: ...

    def denied(self) -> Fault: ...

    def throttled(self) -> Fault: ...

    def signed_out(self) -> Fault: ...

    def drop_uploads(self, bucket: Bucket) -> None:
        """Forget every unfinished upload."""


class S3World:
    name = "aws"

    def __init__(self, server: ThreadedMotoServer) -> None:
        host, port = server.get_host_and_port()
        self.url = f"http://{host}:{port}"

    def options(self) -> dict[str, str]:
        return {"region": "eu-central-1", "bucket": f"b-{uuid.uuid4().hex[:12]}"}

    def environment(self) -> dict[str, str]:
        return {}

    def denied(self) -> Fault:
        return _xml(403, "AccessDenied")

    def throttled(self) -> Fault:
        return _xml(503, "SlowDown")

    def signed_out(self) -> Fault:
        return _xml(400, "ExpiredToken")

    def drop_uploads(self, bucket: Bucket) -> None:
        client: Any = bucket.client  # type: ignore[attr-defined]
        for row in client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", ()):  # type: ignore[attr-defined]
            client.abort_multipart_upload(Bucket=bucket.name, Key=row["Key"], UploadId=row["UploadId"])  # type: ignore[attr-defined]


class GcsWorld:
    name = "gcp"

    def __init__(self, double: GcsDouble) -> None:
        self.double = double
        self.url = double.url

    def options(self) -> dict[str, str]:
        return {"project": "a-project", "bucket": f"b-{uuid.uuid4().hex[:12]}"}

    def environment(self) -> dict[str, str]:
        return {}

    def denied(self) -> Fault:
        return _google(403, "forbidden")

    def throttled(self) -> Fault:
        return _google(429, "rateLimitExceeded")

    def signed_out(self) -> Fault:
        return _google(401, "authError")

    def drop_uploads(self, bucket: Bucket) -> None:
        self.double.world.sessions.clear()


class AzureWorld:
    name = "azure"

    def __init__(self, url: str) -> None:
        self.url = url

    def options(self) -> dict[str, str]:
        return {"account": ACCOUNT, "bucket": f"b-{uuid.uuid4().hex[:12]}"}

    def environment(self) -> dict[str, str]:
        return {"AZURE_STORAGE_KEY": ACCOUNT_KEY}

    def denied(self) -> Fault:
        return _azure(403, "AuthorizationPermissionMismatch")

    def throttled(self) -> Fault:
        return _azure(503, "ServerBusy")

    def signed_out(self) -> Fault:
        return _azure(403, "AuthenticationFailed")

    def drop_uploads(self, bucket: Bucket) -> None:
        """Its blocks cannot be dropped by hand; what is staged stays."""


class World:
    """One store in one of the worlds, behind a proxy that can break what passes."""

    def __init__(self, server: Server, proxy: Proxy, home: Path) -> None:
        self.server = server
        self.proxy = proxy
        self.name = server.name
        self.home = home
        self.options = server.options()
        self.slept: list[float] = []
        self._buckets: list[Bucket] = []

    def settings(self, **options: str) -> ProviderSettings:
        given = {**self.options, "endpoint": self.proxy.url, **options}
        return ProviderSettings(
            home=self.home,
            options={name: value for name, value in given.items() if value},
            environment=self.server.environment(),
            now=lambda: NOW,
        )

    def bucket(self, **options: str) -> Bucket:
        """As a newly started client makes it."""
        self._buckets.append(registry.bucket(self.name, self.settings(**options)))
        return self._buckets[-1]

    def close(self) -> None:
        for bucket in self._buckets:
            bucket.close()

    def store(self, run_id: str = "r1", **options: str) -> ObjectStore:
        return run_store(
            self.bucket(**options),
            RunId(run_id),
            unfinished=Unfinished(self.home / "uploads"),
            patience=Patience(sleep=self.slept.append),
        )

    def break_with(self, fault: Fault, **changes: object) -> Fault:
        for name, value in changes.items():
            setattr(fault, name, value)
        self.proxy.faults.append(fault)
        return fault


class FolderWorld:
    """A folder, which has neither bucket nor network."""

    name = "local"

    def __init__(self, home: Path) -> None:
        self.home = home

    def store(self, run_id: str = "r1") -> FolderStore:
        return FolderStore(self.home / "runs" / run_id)


def _xml(status: int, code: str) -> Fault:
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>as the test wants it</Message></Error>'
    return Fault(Break.REFUSED, status=status, headers={"Content-Type": "application/xml"}, body=body.encode())


def _google(status: int, reason: str) -> Fault:
    rows: Mapping[str, object] = {"code": status, "message": "no", "errors": [{"reason": reason, "message": "no"}]}
    body = json.dumps({"error": rows}).encode()
    return Fault(Break.REFUSED, status=status, headers={"Content-Type": "application/json"}, body=body)


def _azure(status: int, code: str) -> Fault:
    fault = _xml(status, code)
    fault.headers["x-ms-error-code"] = code
    return fault
