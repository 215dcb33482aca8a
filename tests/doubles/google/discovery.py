"""Google's own descriptions of its APIs (discovery documents): what a request and a reply may look like.

They lie in the wheel of google-api-python-client. They tell names, types, enumerations and which fields only Google
writes; they say nothing of what the API does.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, unquote

# Parameters of every method, which no document lists for each of them.
_COMMON = frozenset(
    {"alt", "$alt", "prettyPrint", "$prettyPrint", "fields", "key", "quotaUser", "uploadType", "$.xgafv"}
)
_OUTPUT_ONLY = "[Output Only]"


class ViolationError(Exception):
    """Something that Google's description of the API does not allow."""


@dataclass(frozen=True, slots=True)
class Matched:
    """A method of an API, and what its path says."""

    method: Mapping[str, Any]
    path: Mapping[str, str]

    @property
    def id(self) -> str:
        return str(self.method["id"])


class Description:
    """One API, by the name of its document (`compute.v1`)."""

    def __init__(self, name: str) -> None:
        place = resources.files("googleapiclient") / "discovery_cache" / "documents" / f"{name}.json"
        self.name = name
        self._document: Mapping[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        self._schemas: Mapping[str, Any] = self._document["schemas"]
        self._prefix = f"/{self._document['servicePath']}"
        self._methods = [
            (str(method["httpMethod"]), _pattern(f"{self._document['servicePath']}{_path_of(method)}"), method)
            for method in _methods_of(self._document)
        ]

    @property
    def revision(self) -> str:
        return str(self._document["revision"])

    def methods(self) -> frozenset[str]:
        """The ids of all of them."""
        return frozenset(str(method["id"]) for _, _, method in self._methods)

    def match(self, verb: str, path: str) -> Matched | None:
        """None: the API has no such method."""
        if not path.startswith(self._prefix):
            return None
        for known, pattern, method in self._methods:
            if known == verb and (found := pattern.fullmatch(path)):
                return Matched(method, {name: unquote(value) for name, value in found.groupdict().items()})
        return None

    def check_request(self, matched: Matched, query: str, body: object) -> Mapping[str, str]:
        """The parameters of the query, by name. Raises ViolationError."""
        known = matched.method.get("parameters", {})
        for name, value in matched.path.items():
            _check_pattern(known.get(name, {}), value, f"{matched.id}: {name}")
        given = parse_qs(query, keep_blank_values=True)
        for name, values in given.items():
            if name not in _COMMON:
                _check_parameter(known.get(name), values, f"{matched.id}: {name}")
        missing = [name for name, row in known.items() if _is_missing(name, row, given)]
        if missing:
            raise ViolationError(f"{matched.id}: without {', '.join(missing)}")
        self._check_body(matched, body)
        return {name: values[-1] for name, values in given.items()}

    def check_reply(self, matched: Matched, body: object) -> None:
        """Raises ViolationError for what Google would not send."""
        if "response" in matched.method:
            self._check(matched.method["response"], body, f"reply to {matched.id}", sent=False)

    def check_value(self, schema: str, value: object, *, sent: bool) -> None:
        """A value of a named schema, `sent` by us or by Google. Raises ViolationError."""
        self._check({"$ref": schema}, value, schema, sent=sent)

    def _check_body(self, matched: Matched, body: object) -> None:
        wanted = matched.method.get("request")
        if wanted is None and body not in (None, {}):
            raise ViolationError(f"{matched.id}: takes no body")
        if wanted is not None:
            self._check(wanted, {} if body is None else body, str(wanted["$ref"]), sent=True)

    def _check(self, schema: Mapping[str, Any], value: object, where: str, *, sent: bool) -> None:
        if "$ref" in schema:
            schema = self._schemas[schema["$ref"]]
        kind = schema.get("type", "object")
        if kind == "object":
            self._check_object(schema, value, where, sent=sent)
        elif kind == "array":
            if not isinstance(value, list):
                raise ViolationError(f"{where}: {value!r} is no list")
            for number, item in enumerate(value):
                self._check(schema["items"], item, f"{where}[{number}]", sent=sent)
        elif kind != "any" and not (sent and _is_number_of(schema, value)):
            _check_plain(schema, value, where)

    def _check_object(self, schema: Mapping[str, Any], value: object, where: str, *, sent: bool) -> None:
        if not isinstance(value, dict):
            raise ViolationError(f"{where}: {value!r} is no object")
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, item in value.items():
            row = known.get(name, others)
            if row is None:
                raise ViolationError(f"{where}: there is no {name!r}")
            if sent and name in known and _only_google_writes(row):
                raise ViolationError(f"{where}: only Google writes {name!r}")
            self._check(row, item, f"{where}.{name}", sent=sent)


@cache
def description(name: str) -> Description:
    return Description(name)


def _methods_of(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from document.get("methods", {}).values()
    for resource in document.get("resources", {}).values():
        yield from _methods_of(resource)


def _path_of(method: Mapping[str, Any]) -> str:
    """The path with a name for each of its segments."""
    return str(method.get("flatPath") or method["path"])


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", f"/{path}")
    return re.compile(
        "".join(f"(?P<{part}>[^/:]+)" if number % 2 else re.escape(part) for number, part in enumerate(parts))
    )


def _only_google_writes(row: Mapping[str, Any]) -> bool:
    return bool(row.get("readOnly")) or str(row.get("description", "")).startswith(_OUTPUT_ONLY)


def _is_missing(name: str, row: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
    return bool(row.get("required")) and row.get("location") == "query" and name not in parameters


def _check_parameter(row: Mapping[str, Any] | None, values: list[str], where: str) -> None:
    if row is None or row.get("location") != "query":
        raise ViolationError(f"{where}: there is no such parameter")
    if len(values) > 1 and not row.get("repeated"):
        raise ViolationError(f"{where}: given more than once")
    for value in values:
        if row["type"] == "boolean" and value not in ("true", "false"):
            raise ViolationError(f"{where}: {value!r} is neither true nor false")
        if row["type"] == "integer" and not re.fullmatch(r"-?\d+", value):
            raise ViolationError(f"{where}: {value!r} is no whole number")
        _check_pattern(row, value, where)


def _check_pattern(row: Mapping[str, Any], value: str, where: str) -> None:
    if row.get("pattern") and not re.fullmatch(row["pattern"], value):
        raise ViolationError(f"{where}: {value!r} is not like {row['pattern']}")
    if row.get("enum") and value not in row["enum"]:
        raise ViolationError(f"{where}: {value!r} is none of {', '.join(row['enum'])}")


def _is_number_of(schema: Mapping[str, Any], value: object) -> bool:
    """Whether it is the number of a word that the schema lists, which Google takes for the word
    (https://protobuf.dev/programming-guides/json/: parsers accept names and numbers of enumerations)."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(schema.get("enum", ()))


def _check_plain(schema: Mapping[str, Any], value: object, where: str) -> None:
    kinds: Mapping[str, type | tuple[type, ...]] = {
        "string": str,
        "boolean": bool,
        "integer": int,
        "number": (int, float),
    }
    kind = str(schema["type"])
    if not isinstance(value, kinds[kind]) or (isinstance(value, bool) and kind != "boolean"):
        raise ViolationError(f"{where}: {value!r} is no {kind}")
    if isinstance(value, str):
        _check_text(schema, value, where)


def _check_text(schema: Mapping[str, Any], value: str, where: str) -> None:
    form = schema.get("format")
    if form in ("int64", "uint64") and not re.fullmatch(r"-?\d+", value):
        raise ViolationError(f"{where}: {value!r} is no whole number in text")
    if form == "byte":
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise ViolationError(f"{where}: {value[:20]!r} is not base64") from error
    _check_pattern(schema, value, where)
