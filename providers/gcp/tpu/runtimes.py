"""Which runtime version a TPU machine gets: what the table of machines names, or its newest kin that the zone lists."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from providers.errors import BadRequestError
from providers.gcp.tpu.api import PAGE, pages
from providers.launchable import host_image
from providers.rented import hardware

if TYPE_CHECKING:
    from pricing.offers import Offer
    from providers.gcp.tpu.api import Ask

_BASE = re.compile(r"tpu-ubuntu(\d{4})-base")
"""Ubuntu with Docker and nothing of a framework; what trains is in the container."""


def runtime_for(ask: Ask, project: str, zone: str, offer: Offer) -> str:
    """The version to ask for. Raises BadRequestError where the zone lists none that is known, with what it lists."""
    wanted = host_image(hardware(offer)).image
    asked = {"parent": f"projects/{project}/locations/{zone}", "pageSize": PAGE}
    listed = [
        str(row.get("version") or row["name"].rpartition("/")[2])
        for page in pages(ask, "ListRuntimeVersions", asked)
        for row in page.get("runtimeVersions", ())
    ]
    found = chosen(wanted, listed)
    if found is None:
        raise BadRequestError(
            f"{zone} does not list the runtime version {wanted}, but {', '.join(sorted(listed)) or 'none'}",
            hint="choose another zone or machine",
        )
    return found


def chosen(wanted: str, listed: list[str]) -> str | None:
    """`wanted`, where it is listed; else the newest of Ubuntu's base versions, if that is what was wanted."""
    if wanted in listed:
        return wanted
    if not _BASE.fullmatch(wanted):
        return None
    return max((name for name in listed if _BASE.fullmatch(name)), default=None)
