"""What the Cloud TPU API and Cloud Tasks are asked: calls by name with JSON values, each sent once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from trainplan.providers.errors import TransientError
from trainplan.providers.gcp.errors import translated

if TYPE_CHECKING:
    from trainplan.providers.gcp.account import GcpAccount

Ask = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""An operation and its parameters to one answer."""
TPU, TASKS = "tpu", "cloudtasks"
"""The two services, by the first label of their addresses."""
SECONDS = 60.0
PAGE = 500
"""Rows of a list that are asked for at once."""
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Refused(Exception):
    """An answer that is not a success. `status` is a name of google.rpc.Code, `details` what came with it."""

    def __init__(self, status: str, message: str, details: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(status, message, tuple(details))
        self.status = status
        self.message = message
        self.details = tuple(details)


class Calls(Protocol):
    """One service. Raises Refused for what it answers, ProviderError where it does not answer or nobody is signed
    in."""

    def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """`parameters` and the answer are JSON values under the names of the service's REST interface. Of a list, one
        page."""
        ...


class TpuCalls:
    """The Cloud TPU API by google-cloud-tpu, over REST, without the library's own retries."""

    def __init__(self, account: GcpAccount) -> None:
        self._account = account

    def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        with translated(f"{TPU} {operation}"):
            from google.api_core.exceptions import GoogleAPICallError

            try:
                return self._sent(operation, parameters)
            except GoogleAPICallError as error:
                raise _refusal(error) from error

    def _sent(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        from google.cloud import tpu_v2
        from google.protobuf import json_format

        send = getattr(self._client, re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower())
        kind = getattr(tpu_v2, f"{operation}Request", None)
        if kind is None:  # what all of Google's services have: locations, operations
            answer = send(request=_snake(parameters), retry=None, timeout=SECONDS)
        else:
            request = kind()
            json_format.ParseDict(dict(parameters), kind.pb(request))
            answer = send(request=request, retry=None, timeout=SECONDS)
        return _plain(answer)

    @cached_property
    def _client(self) -> Any:
        from google.cloud import tpu_v2

        options = {"api_endpoint": self._account.address(TPU)}
        result = tpu_v2.TpuClient(credentials=self._account.credentials, transport="rest", client_options=options)
        self._account.heard_by(getattr(result.transport, "_session", None))
        return result


@dataclass(frozen=True, slots=True)
class _Method:
    verb: str
    path: str
    body: str = ""
    """Which parameter is the body, "*" for all that are not in the path."""


_TASKS: Mapping[str, _Method] = {
    "GetQueue": _Method("GET", "{name}"),
    "CreateTask": _Method("POST", "{parent}/tasks", "*"),
    "GetTask": _Method("GET", "{name}"),
    "ListTasks": _Method("GET", "{parent}/tasks"),
    "DeleteTask": _Method("DELETE", "{name}"),
}


class TasksCalls:
    """Cloud Tasks by its REST interface: five calls are not worth a library."""

    def __init__(self, account: GcpAccount) -> None:
        self._account = account

    def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        method = _TASKS[operation]
        path = method.path.format(**{key: value for key, value in parameters.items() if key in ("name", "parent")})
        rest = {key: value for key, value in parameters.items() if f"{{{key}}}" not in method.path}
        query, body = (None, rest) if method.body else (rest, None)
        with translated(f"{TASKS} {operation}"):
            url = f"{self._account.address(TASKS)}/v2/{path}"
            answer = self._session.request(method.verb, url, params=query, json=body, timeout=SECONDS)
            if not 200 <= answer.status_code < 300:
                raise refusal_of(answer.status_code, answer.text)
            return dict(answer.json()) if answer.content else {}

    def close(self) -> None:
        """Close the session, if one was opened."""
        if "_session" in self.__dict__:
            self._session.close()

    @cached_property
    def _session(self) -> Any:
        from google.auth.transport.requests import AuthorizedSession

        return AuthorizedSession(self._account.credentials, max_refresh_attempts=1)


def pages(ask: Ask, operation: str, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every page of a list. Raises what `ask` does, and TransientError for a page that comes again."""
    while True:
        page = ask(operation, request)
        yield page
        following = page.get("nextPageToken")
        if not following:
            return
        if following == request.get("pageToken"):
            raise TransientError(f"{operation}: the same page comes again", hint="look again")
        request = {**request, "pageToken": following}


def refusal_of(http_status: int, text: str) -> Refused:
    """What a reply's body says (https://cloud.google.com/apis/design/errors); without one, its HTTP status."""
    fallback = _STATUSES.get(http_status, "INTERNAL" if http_status >= 500 else "UNKNOWN")
    try:
        reply = json.loads(text)["error"]
        status = str(reply.get("status") or fallback)
        return Refused(status, str(reply.get("message", "")), [dict(row) for row in reply.get("details", ())])
    except (ValueError, KeyError, TypeError, AttributeError):
        return Refused(fallback, text[:300])


def _refusal(error: Any) -> Refused:
    """Return the error by the reply itself: the class of the exception says less."""
    response = getattr(error, "response", None)
    if response is not None and hasattr(response, "status_code"):
        return refusal_of(response.status_code, response.text)
    return Refused(_STATUSES.get(int(error.code or 0), "UNKNOWN"), str(error.message))


def _plain(answer: Any) -> dict[str, Any]:
    """A message, an operation or a page as JSON values."""
    from google.protobuf import json_format

    operation = getattr(answer, "operation", None)
    if operation is not None and hasattr(operation, "done"):
        return _operation(operation)
    if hasattr(answer, "done") and hasattr(answer, "HasField"):
        return _operation(answer)
    if hasattr(answer, "pages"):
        answer = next(iter(answer.pages))
    if hasattr(answer, "operations"):
        rows = [_operation(row) | {"metadata": _metadata(row)} for row in answer.operations]
        return {"operations": rows, "nextPageToken": answer.next_page_token}
    message = type(answer).pb(answer) if hasattr(type(answer), "pb") else answer
    return dict(json_format.MessageToDict(message))


def _operation(reply: Any) -> dict[str, Any]:
    """Return the operation without its metadata and result, which may have a type that this version does not know."""
    error = {"code": reply.error.code, "message": reply.error.message} if reply.HasField("error") else None
    return {"name": reply.name, "done": bool(reply.done), **({"error": error} if error else {})}


def _metadata(reply: Any) -> dict[str, Any]:
    """What an operation is about, and its times; empty where it has another form than this version knows."""
    from google.cloud import tpu_v2
    from google.protobuf import json_format

    known = tpu_v2.OperationMetadata.pb(tpu_v2.OperationMetadata())
    return dict(json_format.MessageToDict(known)) if reply.metadata.Unpack(known) else {}


def _snake(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): value for name, value in parameters.items()}
