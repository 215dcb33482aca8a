"""Addresses as they are shown: where something is, without what lets one in."""

from __future__ import annotations

import re
from typing import Any

_PARTS = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*://)(?P<user>[^/?#@\s]*@)?(?P<place>[^?#\s]*)(?P<rest>[?#]\S*)?")


def shown_address(text: str) -> str:
    """An address without user, password and query: `https://…@host/x.tar?…`. What is no address stays as it is.

    All of a query is left out: which of its values is a signature or a key is different at each vendor.
    """
    return _PARTS.sub(_shown, text)


def shown_values(values: Any) -> Any:
    """What a job says as JSON has it, with its addresses as they are shown."""
    if isinstance(values, dict):
        return {key: shown_values(value) for key, value in values.items()}
    if isinstance(values, list):
        return [shown_values(value) for value in values]
    return shown_address(values) if isinstance(values, str) else values


def _shown(match: re.Match[str]) -> str:
    user, rest = "…@" if match["user"] else "", "?…" if match["rest"] else ""
    return f"{match['scheme']}{user}{match['place']}{rest}"


_OBJECT = re.compile(r"(s3|gs|az)://\S(.*\S)?|https://\S+")
"""Names of objects may have blanks; an address of the web has none."""


def object_address(value: object) -> object:
    """An address without the blanks around it; anything but a text as it is.

    Raises:
        ValueError: it is no address of an object. The value is not repeated: it may hold a password.
    """
    if not isinstance(value, str):
        return value
    if not _OBJECT.fullmatch(value.strip()):
        blank = ", and one of the web has no blanks" if len(value.split()) > 1 else ""
        raise ValueError(f"is no address that begins with s3://, gs://, az:// or https://{blank}")
    return value.strip()
