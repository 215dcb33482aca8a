"""The usual command lines of `plan estimate`, read without typer: importing and asking it takes a fifth of the time.

Only what is beyond doubt is read here. Whatever else is typed (help, abbreviations, slips) is typer's to answer, and a
test holds the two together.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.cli.answer import Asked
from workloads.terms import Objective

if TYPE_CHECKING:
    from collections.abc import Sequence

_FLAGS = {
    "--all": "every",
    "--include-retired": "include_retired",
    "--check": "check",
    "--json": "as_json",
}
_VALUES = {
    "--model": "model",
    "--dataset": "dataset",
    "--epochs": "epochs",
    "--batch": "batch",
    "--provider": "provider",
    "--region": "region",
    "--device": "device",
    "--market": "market",
    "--deadline": "deadline",
    "--budget": "budget",
    "--objective": "objective",
    "--limit": "limit",
    "--explain": "explain_row",
    "--catalog": "catalog",
}
_REPEATED = frozenset({"provider", "region", "device", "market"})
_COUNTS = frozenset({"epochs", "batch", "limit", "explain_row"})


def read_plainly(arguments: Sequence[str]) -> Asked | None:
    """What was asked, from the words behind `plan estimate`; None where typer is to read them."""
    if "_PLAN_COMPLETE" in os.environ:  # a shell asks what could be typed
        return None
    given: dict[str, Any] = {}
    words = iter(arguments)
    try:
        for word in words:
            _take(word, words, given)
        return Asked(**given)
    except _NotPlain:
        return None


class _NotPlain(Exception):
    """Typer is to read this."""


def _take(word: str, words: Any, given: dict[str, Any]) -> None:
    """One option with its value, or the job file, out of the words into what is given."""
    if word in _FLAGS:
        given[_FLAGS[word]] = True
        return
    if not word.startswith("-"):
        if "job_file" in given or not word:
            raise _NotPlain
        given["job_file"] = Path(word)
        return
    option, equals, value = word.partition("=")
    name = _VALUES.get(option)
    value = value if equals else next(words, "")
    if name is None or not value or value.startswith("-"):
        raise _NotPlain
    if name in _REPEATED:
        given.setdefault(name, []).append(value)
    else:
        given[name] = _value(name, value)


def _value(name: str, text: str) -> object:
    if name == "catalog":
        return Path(text)
    if name == "objective":
        if text not in set(Objective):
            raise _NotPlain
        return Objective(text)
    if name in _COUNTS:
        if not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text) > 0):
            raise _NotPlain
        return int(text)
    return text
