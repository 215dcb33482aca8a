"""What looks like a secret, by the published rules of a scanner of secrets (data/secret_rules.json) and a few more."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FILE = Path(__file__).parent / "data" / "secret_rules.json"
_MORE = (
    # Keys that the rules do not know, as the services' own documentation has them (2026-11).
    ("azure-storage-account-key", ("accountkey",), 3.0, r"(?i:AccountKey)=([A-Za-z0-9+/]{86}==)"),
    ("azure-shared-access-signature", ("sig=",), 3.0, r"[?&]sig=([A-Za-z0-9%+/=]{40,})"),
    (
        "wandb-api-key", ("wandb",), 3.0,
        r"(?i:wandb[\w\s.\"'()\[\]-]{0,30}(?:=|:|\(|,)[\s\"']{0,3})([0-9a-f]{40}|wandb_v1_\w{40,})\b",
    ),
    ("authorization-header", ("bearer", "basic"), 3.0, r"\b(?i:bearer|authorization\W{1,4}basic) +([\w.+/=~-]{20,})"),
    ("password-in-an-address", ("://",), 0.0, r"\b[a-z][a-z0-9+.-]*://[^\s:/@\"'{}$<>]*:([^\s:/@\"'{}$<>…]+)@"),
    (
        "aws-secret-access-key", ("secret",), 4.0,
        r"(?i:aws\w{0,20}secret\w{0,20}[\"']?\s{0,3}(?:=|:)\s{0,3}[\"']?)([A-Za-z0-9/+]{40})\b",
    ),
)  # fmt: skip
_BEFORE = r"[\w.-]{0,50}?"
"""What published rules begin with: letters that may stand before the service's name. What is found without it is the
same; with it, each place of a long line is tried 50 times, or 2,500."""
_ALLOWED = re.compile(r"gitleaks:allow|pragma: allowlist secret")
"""In a line of a script whose secret is none; the second is detect-secrets' word for it."""
_NAME = re.compile(
    r"(^|[-_.])(pass(word|wd|phrase)s?|pwd|secrets?|credentials?|auth|\w*token"
    r"|((api|access|private|secret|account|encryption|signing|wandb|hf)[-_]?)keys?)$|^key$",
    re.IGNORECASE,
)
_OF_NAMES = ("pass", "pwd", "secret", "credential", "auth", "token", "key")
"""In every name that the one above finds, in lower case."""
_SURE = re.compile(r"pass|pwd|secret|credential|token|(api|access|private|account)[-_]?key", re.IGNORECASE)
_OF_TEXT = re.compile(
    r"(^|[-_.])(pad|eos|bos|unk|sep|cls|mask|special|image|start|end|pos|dist|initializer|placeholder|trigger|prompt)"
    r"[-_]?token$",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    r"\b([A-Za-z_][\w-]{0,60})[\"'\])]{0,3}\s{0,3}[=:]\s{0,3}[\"'](?=[^\"'\s]*\d)([\w+/=.~-]{20,200})[\"']"
)
"""A name and what a program gives it: `environ["API_KEY"] = "…"`, `login(key="…")`. Without a digit it is a text."""
_KEY_BEGINS, _KEY_ENDS = (re.compile(rf"-----{word}[ A-Z0-9_-]*PRIVATE KEY") for word in ("BEGIN", "END"))
_MOST_KEY_LINES = 200
_PIECE, _MOST_LOOKED_AT = 16 * 1024, 256 * 1024
_LEAST_CHARACTERS, _LEAST_BITS = 16, 2.5
"""Of a value whose name alone is no proof: --key image is none."""


class _Rule(NamedTuple):
    id: str
    words: tuple[str, ...]
    """Lower case; one of them stands in whatever the pattern finds."""
    bits: float
    """The least entropy of a character."""
    group: int
    pattern: str


_NAMED = _Rule("value-of-a-secrets-name", (), 3.0, 2, _ASSIGNED.pattern)


def secret_kinds(text: str) -> Iterator[str]:
    """The kinds of secrets that the text seems to hold, by the names of the rules."""
    for rule, _, _ in _found(text):
        yield rule.id


def may_hold_secrets(text: str) -> bool:
    """Whether a rule could find something in a text of many lines: False is sure, and quickly known."""
    words = " ".join(set(text.lower().split()))  # programs print the same words again and again
    return any(word in words for word in _few_words())


def secret_spans(text: str) -> list[tuple[int, int]]:
    """From where to where the text seems to hold a secret, in order, none within another."""
    return sorted((start, end) for _, start, end in _found(text))


def without_secrets(text: str) -> str:
    """The text with `…` in the place of whatever seems to be a secret, in its first 256 KiB: a training may print a
    line of megabytes, of which no person reads more."""
    if len(text) > _PIECE:
        ends = range(_PIECE, min(len(text), _MOST_LOOKED_AT) + _PIECE, _PIECE)
        return "".join(without_secrets(text[end - _PIECE : end]) for end in ends) + text[ends[-1] :]
    return covered(text, secret_spans(text))


def without_secret_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Names and texts without secrets; a text under a secret's name is one."""
    return {
        without_secrets(name): ("…" if names_a_secret(name, value) else without_secrets(value))
        if isinstance(value, str) else value
        for name, value in fields.items()
    }  # fmt: skip


def covered(text: str, spans: Sequence[tuple[int, int]], begin: int = 0) -> str:
    """The text from `begin` on, with `…` in the place of each of the spans, be it of the rest of one."""
    pieces = []
    for start, end in spans:
        if end > begin:
            pieces += [text[begin:start], "…"]
            begin = end
    return "".join([*pieces, text[begin:]])


class LineCover:
    """Covers secrets line by line, a private key of several lines too: `cover(line)` is the line to show."""

    def __init__(self) -> None:
        self._in_key = 0

    @property
    def is_in_key(self) -> bool:
        """Whether the next line is one of a private key."""
        return self._in_key > 0

    def __call__(self, line: str) -> str:
        """The line without secrets, given those before it."""
        return "…" if self.hides(line) else without_secrets(line)

    def hides(self, line: str) -> bool:
        """Whether the line, given those before it, is one of a private key."""
        if _KEY_BEGINS.search(line) and not _KEY_ENDS.search(line):
            self._in_key = _MOST_KEY_LINES
            return True
        if self._in_key:
            self._in_key = 0 if _KEY_ENDS.search(line) else self._in_key - 1
            return True
        return False


def secret_lines(source: str) -> Iterator[tuple[int, str]]:
    """The lines of a program that seem to hold a secret, by number, with its kind; not those that are marked as
    harmless."""
    lines = source.splitlines()
    begins = [0]
    for line in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    for rule, start, _ in _found(source):
        number = next(place for place, begin in enumerate(begins[1:], 1) if start < begin)
        if not _ALLOWED.search(lines[number - 1]):
            yield number, rule.id


def names_a_secret(name: str, value: str) -> bool:
    """Whether an argument or variable of this name and value seems to be a secret."""
    if not value or not _NAME.search(name) or _OF_TEXT.search(name):
        return False
    return bool(_SURE.search(name)) or (len(value) >= _LEAST_CHARACTERS and _bits(value) >= _LEAST_BITS)


def _found(text: str) -> list[tuple[_Rule, int, int]]:
    """Each rule that finds something, and from where to where; the values of one place once."""
    lower = text.lower()
    there = {word for word in _words() if word in lower}
    found: list[tuple[_Rule, int, int]] = []
    for rule in _rules() if there else ():
        if there.isdisjoint(rule.words):
            continue
        for match in _pattern(rule.pattern).finditer(text):
            groups = range(1, (match.re.groups or 0) + 1)
            group = rule.group or next((one for one in groups if match[one]), 0)
            start, end = match.span(group)
            taken = any(start < other_end and other_start < end for _, other_start, other_end in found)
            if not taken and _bits(match[group]) >= rule.bits:
                found.append((rule, start, end))
    for match in _ASSIGNED.finditer(text) if any(word in lower for word in _OF_NAMES) else ():
        start, end = match.span(2)
        taken = any(start < other_end and other_start < end for _, other_start, other_end in found)
        is_value = _SURE.search(match[1]) or match[2].isalnum()  # key = "images_per_second_2" is none
        if not taken and is_value and names_a_secret(match[1], match[2]) and _bits(match[2]) >= _NAMED.bits:
            found.append((_NAMED, start, end))
    return found


def _bits(text: str) -> float:
    """Shannon's entropy of a character."""
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())


@cache
def _rules() -> tuple[_Rule, ...]:
    rows = json.loads(_FILE.read_text(encoding="utf-8"))["rules"]
    published = [
        _Rule(one["id"], tuple(one["words"]), one["entropy"], one["group"], one["regex"].replace(_BEFORE, ""))
        for one in rows
    ]
    return (*published, *(_Rule(name, words, bits, 1, pattern) for name, words, bits, pattern in _MORE))


@cache
def _words() -> tuple[str, ...]:
    return tuple({word for rule in _rules() for word in rule.words})


@cache
def _few_words() -> tuple[str, ...]:
    """Those that stand in no other: where none of them is, no rule finds anything."""
    words = {*_words(), *_OF_NAMES}
    return tuple(word for word in words if not any(other in word for other in words - {word}))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)
