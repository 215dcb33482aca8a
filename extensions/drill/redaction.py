"""Takes out of a text what tells whose account it was: ids, names, addresses, tokens. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PATTERNS: tuple[tuple[str, str], ...] = (
    ("private key", r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|$)"),
    ("address", r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+"),
    ("url", r"\b[a-z][a-z0-9+]{1,20}://[^\s\"'<>]+"),
    ("arn", r"\barn:[^\s\"',;]+"),
    (
        "path",
        r"/?(?:subscriptions|projects|resourceGroups|providers|home|Users|root|organizations|folders)/[^\s\"',;]+",
    ),
    ("path", r"[A-Za-z]:\\[^\s\"',;]+"),
    ("host", r"\b(?:[a-z0-9-]+\.)+(?:amazonaws\.com|googleapis\.com|windows\.net|azure\.com|internal|local)\b"),
    ("token", r"\b(?:Bearer|Basic)\s+\S+"),
    ("token", r"\beyJ[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)*"),
    ("token", r"\b(?:ya29\.|gh[a-z]_|sk-|xox[a-z]-|AIza)[A-Za-z0-9._-]{8,}"),
    ("token", r"(?i)\b(?:sig|signature|token|password|passwd|secret|key|credential)s?\s*[=:]\s*[^\s,;]+"),
    ("id", r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b"),
    ("id", r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"),
    ("id", r"\b(?:[a-z]{1,12}-)+[0-9a-f]{8,}\b"),
    ("run", r"\b\d{6}-[0-9a-f]{8}\b"),
    ("address", r"\b(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{0,4}\b"),
    ("address", r"(?:[0-9a-fA-F]{1,4}:)*::(?:[0-9a-fA-F]{1,4}:?)*"),
    ("address", r"\b\d{1,3}(?:\.\d{1,3}){3}\b"),
    ("number", r"(?<![\d.])\d(?:[ -]?\d){8,}\b"),
    ("token", r"\b[0-9a-fA-F]{16,}\b"),
    ("token", r"(?=[A-Za-z0-9+/_=-]*\d)(?=[A-Za-z0-9+/_=-]*[A-Za-z])[A-Za-z0-9+/_=-]{28,}"),
)
_COMPILED = tuple((f"[{kind}]", re.compile(pattern, re.DOTALL)) for kind, pattern in _PATTERNS)
LEAST_SECRET = 3
"""Shorter names are in too many words to be taken out of them."""
MOST_CHARACTERS = 400
_MOST_ROUNDS = 10
"""Marks beside what was left of a text may look like something once more."""


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without whatever looks like an id, an address, a path or a token, and without the named secrets.

    A mark in square brackets stands in the place of each. Doing it again changes nothing.
    """
    # The longest first: a shorter name inside a longer one would leave the rest of it.
    for secret in sorted({secret for secret in secrets if len(secret) >= LEAST_SECRET}, key=len, reverse=True):
        text = re.sub(re.escape(secret), "[name]", text, flags=re.IGNORECASE)
    for _ in range(_MOST_ROUNDS):
        before = text
        for mark, pattern in _COMPILED:
            text = pattern.sub(mark, text)
        text = text[:MOST_CHARACTERS]
        if text == before:
            return text
    return "[text]"


def is_clean(text: str) -> bool:
    """Whether nothing in it looks like a secret."""
    return redacted(text) == text
