"""The calls to AWS as this adapter makes them: each sent once, in a region, by the name that the vendor gives it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from trainplan.providers.aws.errors import translated
from trainplan.providers.aws.settings import FALLBACK_REGION

if TYPE_CHECKING:
    from trainplan.providers.cloud.server_time import ServerClock

CONNECTIONS = 16
"""So many calls may be under way at once: a listing goes through all regions in parallel."""
_CONNECT_SECONDS, _READ_SECONDS = 10, 60


class Api(Protocol):
    """What is asked: `ec2`, `sts`, `ssm`, `iam`, `scheduler`, `service-quotas`, and whatever a set-up needs."""

    @property
    def home(self) -> str:
        """The region of what is not in any other: identity, run directories, what stands in the account."""
        ...

    def call(self, service: str, region: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Send one call (`ec2`, `us-east-1`, `RunInstances`) once; the caller repeats it. Raises ProviderError."""
        ...


class SdkApi:
    """AWS through boto3, which is imported with the first call. `endpoint` is asked instead of AWS where it is given.

    Sign-in, profile and proxies are the SDK's own configuration.
    """

    def __init__(self, region: str | None, endpoint: str | None, clock: ServerClock | None = None) -> None:
        """`clock` hears the date of every answer, a refusal's too."""
        self._clock = clock
        self._region = region
        self._endpoint = endpoint
        self._session: Any = None
        self._clients: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    @property
    def home(self) -> str:
        if self._region is None:
            with translated("the AWS configuration"), self._lock:
                self._region = str(self._made_session().region_name or FALLBACK_REGION)
        return self._region

    def call(self, service: str, region: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        with translated(f"{service} {operation} in {region}"):
            from botocore import xform_name

            ask = getattr(self._client(service, region), xform_name(operation))
            return dict(ask(**parameters))

    def prepare(self, service: str, region: str) -> None:
        """Make ready to ask a service in a region; nothing is sent."""
        with translated(f"{service} in {region}"):
            self._client(service, region)

    def close(self) -> None:
        """Let go of the connections."""
        with self._lock:
            while self._clients:
                self._clients.popitem()[1].close()

    def _client(self, service: str, region: str) -> Any:
        """Clients may be used by several threads, but not made by them."""
        with self._lock:
            if (service, region) not in self._clients:
                from botocore.config import Config

                once = Config(
                    retries={"total_max_attempts": 1},
                    connect_timeout=_CONNECT_SECONDS,
                    read_timeout=_READ_SECONDS,
                    max_pool_connections=CONNECTIONS,
                )
                result = self._made_session().client(
                    service, region_name=region, endpoint_url=self._endpoint, config=once
                )
                result.meta.events.register("after-call", self._hear)
                self._clients[service, region] = result
            return self._clients[service, region]

    def _hear(self, http_response: Any, **_: Any) -> None:
        if self._clock is not None:
            self._clock.read_date(http_response.headers.get("Date"))

    def _made_session(self) -> Any:
        if self._session is None:
            import boto3

            self._session = boto3.Session()
        return self._session
