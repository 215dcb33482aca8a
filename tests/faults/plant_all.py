"""Plants every defect of every provider, one by one, in this process: each has to change something that is there, into
something that takes the same calls. Prints what is wrong, and last how many were planted.

What only shows where a defect is at work (an exception out of it, code that no launch reaches) shows in
`python -m tests.faults --defects all`: whoever breaks down by itself, or is not noticed, is not caught.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.faults.clouds import NAMES
from tests.faults.planted import defects_of

if TYPE_CHECKING:
    from tests.faults.defects import Defect

_MISSING = object()
_BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Change:
    """One attribute of a module or class that a defect has set."""

    owner: Any
    name: str
    before: Any
    after: Any

    @property
    def where(self) -> str:
        return f"{getattr(self.owner, '__module__', '')} {self.owner.__name__}.{self.name}".strip()

    def undo(self) -> None:
        if self.before is _MISSING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.before)


def wrong_with(defect: Defect) -> list[str]:
    """In words, what is wrong with the changes of a defect, which are undone."""
    owners = list(_owners())
    before = {id(owner): dict(vars(owner)) for owner in owners}
    tables = {id(table): _copied(table) for owner in owners for table in vars(owner).values() if _is_table(table)}
    try:
        defect.plant()
    except Exception as error:  # noqa: BLE001  whatever it is, it is told
        return [f"{type(error).__name__} {error}"]
    finally:
        changes = [change for owner in owners for change in _changes(owner, before[id(owner)])]
        mutated = [table for owner in owners for table in before[id(owner)].values() if id(table) in tables]
        mutated = [table for table in mutated if _copied(table) != tables[id(table)]]
        for change in changes:
            change.undo()
        for table in mutated:
            table.clear()
            table.update(tables[id(table)])
    if not changes and not mutated:
        return ["it changes nothing"]
    return [text for change in changes if (text := _wrong(change))]


def _owners() -> Iterator[Any]:
    """The product's modules and classes."""
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] == "trainplan":
            yield module
            yield from (one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == name)


def _changes(owner: Any, before: Mapping[str, Any]) -> Iterator[Change]:
    for name, after in list(vars(owner).items()):
        if not name.startswith("__") and before.get(name, _MISSING) is not after:
            yield Change(owner, name, before.get(name, _MISSING), after)


def _is_table(value: Any) -> bool:
    return type(value) in (dict, set)


def _copied(table: Any) -> Any:
    return type(table)(table)


def _wrong(change: Change) -> str:
    """A name that is new has nobody who asks for it; a function has to take whatever calls the real one takes."""
    real = change.before
    if real is _MISSING:
        bases = change.owner.__mro__[1:] if inspect.isclass(change.owner) else ()
        real = next((vars(base)[change.name] for base in bases if change.name in vars(base)), _MISSING)
    fields = getattr(change.owner, "__dataclass_fields__", {})
    if real is _MISSING:
        return "" if change.name in fields else f"{change.where}: there is no such name"
    if not (inspect.isfunction(real) and inspect.isfunction(change.after)):
        return ""
    planted = inspect.signature(change.after)
    for positional, named in _calls(inspect.signature(real)):
        try:
            planted.bind(*positional, **named)
        except TypeError as error:
            return f"{change.where}{inspect.signature(real)} is replaced by {planted}: {error}"
    return ""


def _calls(signature: inspect.Signature) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """How a function may be called: with what it needs, with everything by its position, and with what has a default
    by its name."""
    given = [one for one in signature.parameters.values() if one.kind in _BY_NAME or one.kind is one.POSITIONAL_ONLY]
    placed = [one for one in given if one.kind is not one.KEYWORD_ONLY]
    needed = [one for one in given if one.default is one.empty]
    by_name = {one.name: None for one in needed if one.kind is one.KEYWORD_ONLY}
    yield [None for one in needed if one in placed], by_name
    yield [None] * len(placed), by_name
    optional = {one.name: None for one in given if one.default is not one.empty and one.kind in _BY_NAME}
    yield [None for one in needed if one in placed], {**by_name, **optional}


def main() -> None:
    planted = set()
    for provider in NAMES:
        for defect in defects_of(provider):
            if defect.name not in planted:
                planted.add(defect.name)
                for text in wrong_with(defect):
                    sys.stdout.write(f"{defect.name}: {text}\n")
    sys.stdout.write(f"{len(planted)} planted\n")


if __name__ == "__main__":
    main()
