"""A name that a person gives, among those that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.planner.errors import BadInputError
from trainplan.workloads.nearest import nearest_names, same_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainplan.workloads.wording import Option


def one_of(option: Option | str, value: str, names: Sequence[str]) -> str:
    """The one of the names that is the value, capitals and dashes aside. Raises BadInputError with the nearest one."""
    if same := same_name(value, names):
        return same
    near = nearest_names(value, names)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
    raise BadInputError(f"{option}: there is no {value!r}", hint, field=option)
