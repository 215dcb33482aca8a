"""How a provider's list of planted defects begins, and how its own are added to it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from tests.faults import hours_defects as _hours_defects  # noqa: F401  they join DEFECTS
from tests.faults.defects import DEFECTS, Defect

if TYPE_CHECKING:
    Plant = Callable[[], None]

_ANYWHERE = frozenset(
    {
        "a request is built anew for its replay",
        "a create that was cut off is never adopted",
        "the next attempt is launched before the last is cleared",
        "no lock: two commands act on one run",
        "a teardown is called done after a while",
        "a delete is not looked after",
        "a run is called done before it is torn down",
        "cleanup ends what another computer made",
        "cleanup knows only what the journal knows",
        "concludes from age",
        "second launch ignores a live run",
        "a question holds the lock",
        "same client id in two homes",
        "a refused placement is asked for ever",
        "a wish to stop has no limit",
        "an end without an answer of the store",
        "a store that does not answer is taken for an empty one",
    }
)


STALE_READ = "what was read before the lock is acted on inside it"
EMPTIED = "the store is emptied before the end is recorded"
PASSED_OVER = "another computer's live run of this home is passed over"
"""Of the engine, tried beside the simulated cloud at some clouds alone: what they show there is the engine's."""


def of_the_engine(*but: str, also: Collection[str] = ()) -> list[Defect]:
    """Of the engine's own, those that show in calls of any provider, but for those that do no harm at this one."""
    return [known for known in DEFECTS if known.name in {*_ANYWHERE, *also} and known.name not in but]


def planting(provider: str, into: list[Defect]) -> Callable[[str], Callable[[Plant], Plant]]:
    """The decorator that adds a provider's own defect, under a name of its own."""

    def defect(name: str) -> Callable[[Plant], Plant]:
        def known(plant: Plant) -> Plant:
            into.append(Defect(f"{provider}: {name}", plant))
            return plant

        return known

    return defect
