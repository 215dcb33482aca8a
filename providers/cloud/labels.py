"""Labels, instants and numbers as vendors show them: what cannot be read is None, and never an error."""

from __future__ import annotations

from datetime import datetime

from trainplan.providers.base import (
    LABEL_ATTEMPT,
    LABEL_CLIENT,
    LABEL_DEADLINE,
    LABEL_PROJECT,
    LABEL_RUN,
    LaunchRequest,
)


def labels_of(request: LaunchRequest) -> dict[str, str]:
    """What everything of a launch is labelled with, where a cloud takes any characters."""
    return {
        LABEL_RUN: request.run_id,
        LABEL_ATTEMPT: str(request.attempt),
        LABEL_DEADLINE: request.deadline.isoformat(),
        LABEL_CLIENT: request.client,
        **project_of(request),
    }


def project_of(request: LaunchRequest) -> dict[str, str]:
    """The label that says what a run is for; none where its job does not say it."""
    return {LABEL_PROJECT: request.job.project} if request.job.project else {}


def number(text: object) -> int | None:
    """A whole number from zero on."""
    return int(text) if isinstance(text, str) and text.isdecimal() else None


def instant(text: object) -> datetime | None:
    """An aware instant in ISO 8601; digits beyond microseconds are cut off."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None
