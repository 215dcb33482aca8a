"""A call as it comes over the wire, as the SDK's caller wrote it: operation and parameters, by botocore's models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import determine_request_protocol
from moto.core.utils import get_service_model
from werkzeug.datastructures import EnvironHeaders, MultiDict

_MODELS = {"elasticloadbalancing": "elbv2", "monitoring": "cloudwatch", "servicequotas": "service-quotas"}
"""Where the name that is signed for is not that of the SDK."""
_LABEL = re.compile(r"\\\{(\w+)(\\\+)?\\\}")


class Route(NamedTuple):
    """How a REST service knows an operation: its method, its path, and what has to be in query and headers."""

    operation: str
    method: str
    path: re.Pattern[str]
    query: Mapping[str, str]
    required: frozenset[str]
    headers: frozenset[str]

    def meets(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        """Whether a request is one of this operation."""
        return (
            method == self.method
            and self.path.fullmatch(path) is not None
            and all(name in query and value in ("", query[name]) for name, value in self.query.items())
            and all(name in query for name in self.required)
            and all(name in headers for name in self.headers)
        )


def operation_of(service: str, environ: Mapping[str, Any], body: bytes) -> str:
    """The name of the operation. Raises LookupError for a request of none."""
    if target := environ.get("HTTP_X_AMZ_TARGET"):
        return str(target).rpartition(".")[2]
    if not routes(service):
        found = dict(parse_qsl(body.decode(errors="replace"))).get("Action") or environ["PATH_INFO"].rpartition("/")[2]
        return str(found)
    query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    given = environ["REQUEST_METHOD"], environ["PATH_INFO"], query, EnvironHeaders(environ)  # type: ignore[arg-type]
    fitting = [route for route in routes(service) if route.meets(*given)]  # type: ignore[arg-type]
    # Of several that fit, the one that asks for most of the request is meant.
    most = max(fitting, key=lambda route: len(route.query) + len(route.required) + len(route.headers))
    return most.operation


def parameters_of(service: str, operation: str, environ: Mapping[str, Any], body: bytes) -> dict[str, Any]:
    """What the caller gave, by the names that the SDK takes."""
    model: Any = get_service_model(_MODELS.get(service, service))
    headers = EnvironHeaders(environ)  # type: ignore[arg-type]
    protocol = determine_request_protocol(model, environ.get("CONTENT_TYPE"))
    values: MultiDict[str, str] = MultiDict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
    values.update(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    route = next((route for route in routes(service) if route.operation == operation), None)
    found = route.path.fullmatch(environ["PATH_INFO"]) if route else None
    parser: Any = PROTOCOL_PARSERS[protocol](model.operation_model(operation))
    told = parser.parse(
        {
            "body": body,
            "headers": headers,
            "method": environ["REQUEST_METHOD"],
            "url_params": {name: unquote(value) for name, value in (found.groupdict() if found else {}).items()},
            "url_path": environ["PATH_INFO"],
            "values": values,
        }
    )
    return {name: value for name, value in told.items() if value is not None and value != {}}


@cache
def routes(service: str) -> tuple[Route, ...]:
    """Every operation of a service that has paths; none of one that has not."""
    model: Any = get_service_model(_MODELS.get(service, service))
    if not str(model.metadata["protocol"]).startswith("rest"):
        return ()
    operations = [model.operation_model(name) for name in model.operation_names]
    # A deprecated one has the path of the one that has taken its place.
    return tuple(_route(operation) for operation in operations if not operation.deprecated)


def _route(operation: Any) -> Route:
    path, _, query = operation.http["requestUri"].partition("?")
    pattern = _LABEL.sub(lambda found: f"(?P<{found[1]}>{'.+' if found[2] else '[^/]+'})", re.escape(path))
    members = operation.input_shape.members if operation.input_shape else {}
    required = operation.input_shape.required_members if operation.input_shape else ()
    places: dict[str, set[str]] = {"querystring": set(), "header": set()}
    for name in required:
        at = members[name].serialization
        if at.get("location") in places:
            places[at["location"]].add(at["name"])
    return Route(
        operation=operation.name,
        method=operation.http["method"],
        path=re.compile(f"{pattern}/?"),
        query=dict(parse_qsl(query, keep_blank_values=True)),
        required=frozenset(places["querystring"]),
        headers=frozenset(places["header"]),
    )
