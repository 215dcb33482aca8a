"""A run directory in the simulated cloud's object store."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from trainplan.providers.base import RunId, VendorRequest
from trainplan.providers.sim.api import Api, RefusedError
from trainplan.providers.sim.catalogue import PROVIDER
from trainplan.providers.sim.translate import translated
from trainplan.providers.sim.values import Code
from trainplan.providers.stores.files import checked_path


class SimStore:
    """The files of one run. Every call raises ProviderError where the cloud does not do it."""

    def __init__(self, api: Api, run_id: RunId) -> None:
        self._api = api
        self._run_id = run_id

    def put(self, path: str, data: bytes) -> None:
        request = put_object(self._run_id, path, data)
        self._call(request.operation, dict(request.parameters))

    def get(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        parameters = {"run": self._run_id, "path": checked_path(path), "start": start, "size": size}
        with translated():
            try:
                return b64decode(self._api.call("GetObject", parameters)["data"])
            except RefusedError as error:
                if error.code == Code.NO_OBJECT:
                    raise KeyError(path) from None
                raise

    def list(self, prefix: str = "") -> Sequence[str]:
        entries = self._call("ListObjects", {"run": self._run_id, "prefix": checked_path(prefix) if prefix else ""})
        return [str(path) for path in entries["paths"]]

    def delete(self, prefix: str) -> None:
        self._call("DeleteObjects", {"run": self._run_id, "prefix": checked_path(prefix) if prefix else ""})

    def _call(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        with translated():
            return self._api.call(operation, parameters)


def put_object(run_id: RunId, path: str, data: bytes) -> VendorRequest:
    """The call that writes a file. Raises BadRequestError for a path that leaves the run directory."""
    parameters = {"run": run_id, "path": checked_path(path), "data": b64encode(data).decode()}
    return VendorRequest(service=PROVIDER, operation="PutObject", parameters=parameters)
