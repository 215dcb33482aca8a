"""The setting `regions` of a cloud: where machines may be rented. What is elsewhere is found and ended too."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trainplan.providers.errors import BadRequestError, CapacityError

OPTION = "regions"
_NAME = re.compile(r"[a-z][a-z0-9-]{1,62}")


def regions_of(options: Mapping[str, str], cloud: str) -> frozenset[str]:
    """The names that are set, divided by commas or spaces; none: every region may be used.

    Raises BadRequestError for what is no name of a region.
    """
    names = frozenset(options.get(OPTION, "").replace(",", " ").split())
    for name in sorted(names):
        if not _NAME.fullmatch(name):
            hint = 'it takes names of regions, for example ["us-east-1", "eu-west-1"]'
            raise BadRequestError(f"{cloud}: {OPTION}: {name!r} cannot be", hint=hint)
    return names


def check_region(region: str, allowed: frozenset[str], cloud: str) -> None:
    """Raises CapacityError for a region that the person does not use: a run that was planned before goes elsewhere."""
    if allowed and region not in allowed:
        hint = f"add it to the setting `{OPTION}` of {cloud}, or choose another region"
        raise CapacityError(f"{region} is not in the setting `{OPTION}`", hint=hint)
