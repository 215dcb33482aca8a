"""The calls of Azure Resource Manager as they leave, and the client that sends them: one call, one request."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from trainplan.providers.base import VendorRequest
from trainplan.providers.errors import CredentialsError, InstanceNotFoundError, MachineError, TransientError
from trainplan.workloads.extras import install_hint

if TYPE_CHECKING:
    from trainplan.providers.azure.settings import AzureSettings
    from trainplan.providers.cloud.server_time import ServerClock

SIGN_IN = "az login"
_SECONDS = 60.0
_SUBSCRIPTION = re.compile(r"(?:https://[^/]+)?/subscriptions/([^/?]+)")
_MACHINE = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/([^/]+)/providers/Microsoft\.Compute/virtualMachines/([^/?]+)"
)
_NOTHING_THERE = (401, 403, 404, 410)
"""Status of a signed address whose blob is gone, or whose signature has ended: asking again changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`path` begins with /subscriptions or is a whole address that Azure gave (of an operation, of a next page)."""

    method: str
    path: str
    api: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """`PUT virtualMachines`: the method, and the last word of what kind of thing it is about."""
        return f"{self.method} {kind_of(self.path)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """`headers` have small letters; `body` is JSON, None where there is none."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None

    @property
    def operation(self) -> str | None:
        """Where a long-running operation is asked about."""
        return self.headers.get("azure-asyncoperation") or self.headers.get("location")


class Arm(Protocol):
    """What is asked of Azure. `subscriptions/…` paths only; the subscription is part of the path."""

    def send(self, call: Call) -> Reply:
        """Send one request once. Raises TransientError where no answer came, CredentialsError where nobody is signed
        in.
        """
        ...

    def fetch(self, url: str) -> bytes:
        """What lies at an address that needs no sign-in (a signed one).

        Raises InstanceNotFoundError where nothing is there or its signature is not valid, and TransientError.
        """
        ...

    def person(self) -> str | None:
        """The id in the directory of whoever is signed in; None where the token does not tell."""
        ...


def recorded(call: Call) -> VendorRequest:
    """A call as it is journalled and shown."""
    parameters: dict[str, object] = {"path": call.path, "api-version": call.api}
    if call.query:
        parameters["query"] = dict(call.query)
    if call.body is not None:
        parameters["body"] = dict(call.body)
    return VendorRequest(service=namespace_of(call.path), operation=call.name, parameters=parameters)


def replayed(request: VendorRequest) -> Call:
    """A recorded call, to be sent byte for byte as it was."""
    values: Mapping[str, Any] = request.parameters
    return Call(
        method=request.operation.partition(" ")[0],
        path=values["path"],
        api=values["api-version"],
        query=values.get("query", {}),
        body=values.get("body"),
    )


def kind_of(path: str) -> str:
    """The last type in a path: `virtualMachines`, `resourceGroups`, or what is done to it (`deallocate`)."""
    parts = [part for part in path.partition("?")[0].split("/") if part]
    if "providers" in parts:
        last = len(parts) - 1 - parts[::-1].index("providers")
        rest = parts[last + 2 :]
        if len(rest) > 1 and rest[0].lower() == "locations":
            return rest[2] if len(rest) > 2 else rest[0]
        return rest[-1] if len(rest) % 2 else (rest[-2] if rest else "providers")
    return parts[-1] if len(parts) % 2 else parts[-2]


def namespace_of(path: str) -> str:
    """Microsoft.Resources where the path names none."""
    parts = path.split("/")
    if "providers" not in parts:
        return "Microsoft.Resources"
    return parts[len(parts) - parts[::-1].index("providers")]


class ArmClient:
    """azure-mgmt-compute: its operations for machines, its pipeline for what it has no operation for (groups, networks,
    rights, costs). Sign-in, claims challenges, certificates; no retries of its own.

    Made at the first call. `transport` is azure-core's own but in tests; `credential` is who signs in.
    """

    def __init__(
        self,
        settings: AzureSettings,
        *,
        credential: Callable[[], Any] | None = None,
        transport: Callable[[], Any] | None = None,
        clock: ServerClock | None = None,
    ) -> None:
        """`clock` hears the date of every answer, a refusal's too."""
        self._clock = clock
        self._settings = settings
        self._credential_of = credential or (lambda: credential_of(settings.environment, settings.authority))
        self._transport = transport
        self._lock = threading.Lock()
        self._client_set: tuple[Any, Any, Any] | None = None

    def send(self, call: Call) -> Reply:
        client_of, _, _ = self._clients()
        answer = _answered(lambda: _asked(client_of, call, self._settings.arm_endpoint), call.name)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        if self._clock is not None:
            self._clock.read_date(headers.get("date"))
        return Reply(
            status=answer.status_code,
            headers=headers,
            body=_json(answer.text()),
        )

    def fetch(self, url: str) -> bytes:
        _, anonymous, _ = self._clients()
        from azure.core.rest import HttpRequest

        answer = _answered(lambda: anonymous.send_request(HttpRequest("GET", url)), "a signed address")
        where = f"{url.partition('?')[0]}: {answer.status_code}"
        if answer.status_code in _NOTHING_THERE:
            raise InstanceNotFoundError(where)
        if answer.status_code != 200:
            raise TransientError(where, hint="try again")
        return bytes(answer.content)

    def person(self) -> str | None:
        _, _, credential = self._clients()
        token = _answered(lambda: credential.get_token(f"{self._settings.arm_endpoint}/.default"), "the sign-in")
        item = claims(token.token).get("oid")
        return item if isinstance(item, str) else None

    def _clients(self) -> tuple[Any, Any, Any]:
        with self._lock:
            if self._client_set is None:
                try:
                    self._client_set = self._new_clients()
                except ImportError as error:
                    raise MachineError(
                        f"Azure's libraries are not installed here: {error}", hint=install_hint("azure")
                    ) from error
            return self._client_set

    def _new_clients(self) -> tuple[Any, Any, Any]:
        from azure.core import PipelineClient
        from azure.core.pipeline import policies
        from azure.mgmt.compute import ComputeManagementClient
        from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy

        settings, credential = self._settings, self._credential_of()
        values: dict[str, Any] = {
            "connection_timeout": 10,
            "read_timeout": _SECONDS,
            **certificates(settings.environment),
        }
        if self._transport is not None:
            values["transport"] = self._transport()
        common = [policies.RequestIdPolicy(), policies.UserAgentPolicy(base_user_agent="trainplan")]
        # Azure's default policies would register resource providers by themselves, and repeat what failed.
        challenge = ARMChallengeAuthenticationPolicy(credential, f"{settings.arm_endpoint}/.default")
        signed = [*common, policies.CustomHookPolicy(), challenge]

        @cache
        def client_of(subscription: str) -> Any:
            return ComputeManagementClient(
                credential, subscription, base_url=settings.arm_endpoint, policies=signed, **values
            )

        return client_of, PipelineClient(settings.arm_endpoint, policies=common, **values), credential


def _asked(client_of: Callable[[str], Any], call: Call, endpoint: str) -> Any:
    """Azure's answer to one call, whatever its status. An operation puts its client's subscription into the address:
    it is that of the call, which may have been recorded under other settings. Raises azure-core's errors where there
    is no answer."""
    from azure.core.exceptions import HttpResponseError, IncompleteReadError
    from azure.core.rest import HttpRequest

    found = _SUBSCRIPTION.match(call.path)
    client = client_of(found[1] if found else "")
    operation = _operation_of(client.virtual_machines, call)
    if operation is None:
        query = {"api-version": call.api, **call.query} if call.api else dict(call.query)
        url = call.path if call.path.startswith("https://") else f"{endpoint}{call.path}"
        return client.send_request(HttpRequest(call.method, url, params=query or None, json=call.body))
    answers: list[Any] = []
    try:
        operation(api_version=call.api, raw_response_hook=lambda reply: answers.append(reply.http_response))
    except IncompleteReadError:
        raise
    except (HttpResponseError, ValueError):  # a refusal, whose code decides; an answer that is no JSON
        if not answers:
            raise
    return answers[-1]


def _operation_of(machines: Any, call: Call) -> Callable[..., object] | None:
    """azure-mgmt-compute's operation that sends this call about a machine; None for any other call. It is not followed
    further: who launches looks at the address that Azure gave."""
    where = _MACHINE.fullmatch(call.path)
    if where is None:
        return None
    match call.method:
        case "PUT":
            return partial(machines.begin_create_or_update, *where.groups(), call.body, polling=False)
        case "GET":
            return partial(machines.get, *where.groups(), expand=call.query.get("$expand"))
        case "DELETE":
            forced = True if call.query.get("forceDeletion") == "true" else None
            return partial(machines.begin_delete, *where.groups(), force_deletion=forced, polling=False)
        case _:
            return None


def credential_of(values: Mapping[str, str], authority: str | None) -> Any:
    """Return the credential: a service principal that the environment names, else whatever azure-identity finds here.

    `authority` is Azure's own but for a test double.
    """
    from azure.identity import ClientSecretCredential, DefaultAzureCredential

    where: dict[str, Any] = {"authority": authority, "disable_instance_discovery": True} if authority else {}
    names = [values.get(f"AZURE_{name}") for name in ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET")]
    if all(names):
        return ClientSecretCredential(*names, **where, **certificates(values))
    return DefaultAzureCredential(**where)


def certificates(values: Mapping[str, str]) -> dict[str, str]:
    """Return the file of trusted certificates that the environment names, as the library requests reads it."""
    value = values.get("REQUESTS_CA_BUNDLE")
    return {"connection_verify": value} if value else {}


def claims(token: str) -> Mapping[str, Any]:
    """What a token says of whoever has it; nothing for one that is no JSON Web Token. Its signature is not checked."""
    import base64
    import binascii

    try:
        body = token.split(".")[1]
        document = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, ValueError, binascii.Error):
        return {}
    return document if isinstance(document, dict) else {}


def _answered(ask: Callable[[], Any], what: str) -> Any:
    from azure.core import exceptions as sdk

    try:
        return ask()
    except sdk.ClientAuthenticationError as error:
        raise CredentialsError(f"there is no sign-in for Azure: {_first_line(error)}", hint=SIGN_IN) from error
    except (sdk.ServiceRequestError, sdk.ServiceResponseError, sdk.IncompleteReadError) as error:
        raise TransientError(
            f"Azure does not answer {what}: {_first_line(error)}", hint="check the network connection, then try again"
        ) from error
    except sdk.AzureError as error:
        raise TransientError(f"{what}: {_first_line(error)}", hint="try again", code=type(error).__name__) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _json(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return {"error": {"code": "", "message": text[:500]}}
