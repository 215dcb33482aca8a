"""What Azure's own libraries and descriptions say a request may look like: nobody here wrote these rules."""

from __future__ import annotations

import enum
import importlib
import json
import re
import typing
from functools import cache
from typing import Any

if typing.TYPE_CHECKING:
    from pathlib import Path


class WireError(Exception):
    """A body that Azure would refuse, and where in it."""


class SdkModels:
    """The models of an installed azure-mgmt-* package: names, nesting, enumerations, kinds, what is read-only.

    They do not know what is required.
    """

    def __init__(self, package: str, model: str) -> None:
        self._kind = getattr(importlib.import_module(f"{package}.models"), model)

    def check(self, body: Any, where: str = "body") -> None:
        """Raises WireError."""
        _check_model(self._kind, body, where, reply=False)

    def check_reply(self, body: Any, where: str = "reply") -> None:
        """What only Azure sets may be there. Raises WireError for what the model does not have."""
        _check_model(self._kind, body, where, reply=True)


class Types:
    """Microsoft's type description of an API (Azure/bicep-types-az): it knows what is required as well."""

    REQUIRED, READ_ONLY = 1, 2

    def __init__(self, path: Path, resource: str) -> None:
        self._types = json.loads(path.read_text(encoding="utf-8"))
        wanted = f"{resource.lower()}@"
        (self._body,) = [
            known["body"]
            for known in self._types
            if known["$type"] == "ResourceType" and known["name"].lower().startswith(wanted)
        ]

    def check(self, body: Any, where: str = "body") -> None:
        """Raises WireError. The name, which is in the path, and the kind are put in."""
        whole = {**body, "name": "x", "type": "t", "apiVersion": "v"}
        self._object(self._type(self._body), whole, where, top=True)

    def _type(self, reference: dict[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = self._types[int(reference["$ref"].rpartition("/")[2])]
        return found

    def _value(self, kind: dict[str, Any], value: Any, where: str) -> None:
        if value is None:
            return
        match kind["$type"]:
            case "ObjectType" | "DiscriminatedObjectType":
                self._object(kind, value, where)
            case "ArrayType":
                _is(isinstance(value, list), where, value, "a list")
                for number, item in enumerate(value):
                    self._value(self._type(kind["itemType"]), item, f"{where}[{number}]")
            case "StringType":
                _is(isinstance(value, str), where, value, "text")
                _is(re.search(kind.get("pattern") or "", value) is not None, where, value, str(kind.get("pattern")))
            case "StringLiteralType":
                _is(value == kind["value"], where, value, repr(kind["value"]))
            case "UnionType":
                self._union(kind, value, where)
            case "IntegerType":
                right = isinstance(value, int) and not isinstance(value, bool)
                _is(right or where.endswith("maxPrice"), where, value, "a whole number")
            case "BooleanType":
                _is(isinstance(value, bool), where, value, "true or false")
            case _:
                pass

    def _union(self, kind: dict[str, Any], value: Any, where: str) -> None:
        """Enumerations are open (a new size is in none); here a known value is asked for, but for sizes."""
        literals = [one["value"] for one in map(self._type, kind["elements"]) if one["$type"] == "StringLiteralType"]
        _is(isinstance(value, str), where, value, "text")
        _is(not literals or value in literals or where.endswith(".vmSize"), where, value, f"one of {literals}")

    def _object(self, kind: dict[str, Any], value: Any, where: str, *, top: bool = False) -> None:
        _is(isinstance(value, dict), where, value, "an object")
        known = dict(kind.get("properties") or kind.get("baseProperties") or {})
        if "discriminator" in kind:
            chosen = kind["elements"].get(value.get(kind["discriminator"]))
            _is(chosen is not None, where, value.get(kind["discriminator"]), f"one of {list(kind['elements'])}")
            known |= self._type(chosen)["properties"]
        more = kind.get("additionalProperties")
        for name, item in value.items():
            inner = f"{where}.{name}"
            if top and name in ("id", "name", "type", "apiVersion"):
                continue
            if name in known:
                _is(not known[name].get("flags", 0) & self.READ_ONLY, inner, item, "left out: it is read-only")
                self._value(self._type(known[name]["type"]), item, inner)
            else:
                _is(bool(more), inner, item, "left out: there is no such property")
                self._value(self._type(more), item, inner)  # type: ignore[arg-type]
        missing = [name for name, row in known.items() if row.get("flags", 0) & self.REQUIRED and name not in value]
        _is(not missing, where, missing, "there: it is required")


def _check_model(kind: Any, value: Any, where: str, *, reply: bool) -> None:
    _is(isinstance(value, dict), where, value, "an object")
    fields = _fields(kind)
    for name, item in value.items():
        inner = f"{where}.{name}"
        _is(name in fields, inner, item, f"left out: {kind.__name__} has no such property")
        hint, visibility = fields[name]
        _is(reply or visibility != ["read"], inner, item, "left out: it is read-only")
        _check(hint, item, inner, reply=reply)


def _check(hint: Any, value: Any, where: str, *, reply: bool) -> None:
    origin, given = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union:
        _check_union([one for one in given if one is not type(None)], value, where, reply=reply)
    elif origin is list:
        _is(isinstance(value, list), where, value, "a list")
        for number, item in enumerate(value):
            _check(given[0], item, f"{where}[{number}]", reply=reply)
    elif origin is dict:
        _is(isinstance(value, dict), where, value, "an object")
        for name, item in value.items():
            _check(given[1], item, f"{where}.{name}", reply=reply)
    elif isinstance(hint, type) and hint.__module__.startswith("azure.mgmt."):
        _check_model(hint, value, where, reply=reply)
    elif hint in (str, bool, int):
        _is(type(value) is hint, where, value, hint.__name__)
    elif hint is float:
        _is(isinstance(value, (int, float)) and not isinstance(value, bool), where, value, "a number")


def _check_union(kinds: list[Any], value: Any, where: str, *, reply: bool) -> None:
    if value is None:
        return
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            right = value in [one.value for one in kind] or where.endswith(".vmSize")
            _is(right, where, value, f"one of {[one.value for one in kind]}")
            return
    if len(kinds) == 1:
        _check(kinds[0], value, where, reply=reply)


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, Any]]:
    """By their names on the wire: what they hold, and when they may be sent."""
    kind({})  # the fields are found when the first one is made
    hints = {}
    for base in (one for one in reversed(kind.__mro__) if one.__module__.startswith("azure.mgmt.")):
        module = vars(importlib.import_module(base.__module__))
        package = importlib.import_module(base.__module__.rpartition(".")[0])
        names = {**vars(typing), **module, "_models": package, "_types": package}
        for name, text in getattr(base, "__annotations__", {}).items():
            hints[name] = (text, names)
    found = {}
    for name, field in kind._attr_to_rest_field.items():
        text, names = hints[name]
        holder = type("Holder", (), {"__annotations__": {"it": text}})
        found[field._rest_name] = (typing.get_type_hints(holder, globalns=names)["it"], field._visibility)
    return found


def _is(right: bool, where: str, value: Any, expected: str) -> None:
    if not right:
        raise WireError(f"{where}: {value!r} should be {expected}")
