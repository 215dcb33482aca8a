"""Plug-ins: what the entry points of a group name (providers of other packages; commands and trackers of extensions).

Importing this reads nothing: `found` looks for entry points and imports what they name. A plug-in that cannot be used
is one line that says why, and never an exception of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from inspect import getattr_static
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.providers.errors import ProviderError, UnrecognizedError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "trainplan.providers"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class PlugIn(NamedTuple):
    """An entry point of the group. `package` is who brings it, `value` what it names, and `loaded` that object;
    `problem` says why it cannot be used ("": it can)."""

    name: str
    package: str
    value: str
    loaded: object = None
    problem: str = ""

    @property
    def hint(self) -> str:
        """What to do about a problem of it."""
        return f"update or uninstall {self.package}, which brings it"


def found(group: str, kind: str, taken: Collection[str]) -> dict[str, PlugIn]:
    """The plug-ins of a group in this environment, by name. `kind` is the word for one ("provider"). One with a name
    that is `taken` cannot be used, whatever it names."""
    from importlib.metadata import entry_points

    return by_name(entry_points(group=group), kind, taken)


def by_name(entries: Iterable[EntryPoint], kind: str, taken: Collection[str]) -> dict[str, PlugIn]:
    """What the entry points name, imported. Of two packages that bring a plug-in of one name neither is used."""
    by: dict[str, list[EntryPoint]] = {}
    # An entry point occurs twice where a folder is twice in the search path.
    for entry in sorted({(one.name, _package(one), one.value): one for one in entries}.values(), key=_package):
        by.setdefault(entry.name, []).append(entry)
    return {name: _plug_in(name, kind, same, taken) for name, same in sorted(by.items())}


def _plug_in(name: str, kind: str, same: list[EntryPoint], taken: Collection[str]) -> PlugIn:
    packages = " and ".join(_package(entry) for entry in same)
    made = PlugIn(name, packages, same[0].value)
    if name in taken:
        return made._replace(problem=f"trainplan has a {kind} of this name, which stays what it is")
    if not _NAME.fullmatch(name):
        return made._replace(problem="its name is not lower-case letters, digits and _")
    if len(same) > 1:
        return made._replace(problem=f"{packages} both bring a {kind} of this name")
    try:
        return made._replace(loaded=same[0].load())
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a stranger's module does while it is imported
        return made._replace(problem=f"{made.value} cannot be imported: {in_one_line(error)}")


def usable(plug_in: PlugIn, kind: type) -> PlugIn:
    """The same, with a problem where what it names is not of this class."""
    if plug_in.problem or isinstance(plug_in.loaded, kind):
        return plug_in
    return plug_in._replace(problem=f"{plug_in.value} is not of the class {kind.__name__}")


def in_one_line(error: BaseException) -> str:
    """An error as a part of a line: its class, and what it says, without its line ends."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value.partition(":")[0]


def guarded(provider: object, plug_in: PlugIn) -> object:
    """The provider of a plug-in, with every public attribute of its class and of itself. Whatever a call of it raises
    beside ProviderError becomes UnrecognizedError: what it did is not known, and is looked up."""

    def in_words(name: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except ProviderError:
            raise
        except Exception as error:
            message = f"provider {plug_in.name}: {name} failed: {in_one_line(error)}"
            raise UnrecognizedError(message, hint=plug_in.hint) from error

    def guard(name: str) -> object:
        def method(self: object, *args: Any, **kwargs: Any) -> Any:
            del self
            answer = in_words(name, lambda: getattr(provider, name)(*args, **kwargs))
            return _each(answer, partial(in_words, name)) if isinstance(answer, Iterator) else answer

        def value(self: object) -> Any:
            del self
            return in_words(name, lambda: getattr(provider, name))

        return method if callable(getattr_static(provider, name)) else property(value)

    # As a class of its own: what a provider can do besides (providers/base.py) is told by its attributes.
    names = {*dir(type(provider)), *getattr(provider, "__dict__", ())}
    return type(type(provider).__name__, (), {name: guard(name) for name in names if not name.startswith("_")})()


def _each(answers: Iterator[Any], in_words: Callable[[Callable[[], Any]], Any]) -> Iterator[Any]:
    end = object()
    while (answer := in_words(lambda: next(answers, end))) is not end:
        yield answer
