"""The sessions of a place that costs nothing, as the table, `--explain` and the JSON show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainplan.planner.forecast.free_sessions import sessions_text

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Estimate, Plan, RankedOffer


def session_lines(plan: Plan) -> list[str]:
    """A line for each row that ends with its session: how many it needs."""
    return [
        f"row {ranked.number}: {sessions_text(sessions)}"
        for ranked in plan.candidates
        if (sessions := ranked.candidate.estimate.sessions) is not None
    ]


def explain_sessions(ranked: RankedOffer) -> list[str]:
    """The paragraph of `--explain`."""
    sessions = ranked.candidate.estimate.sessions
    if sessions is None:
        return []
    place = sessions.place
    mean = " on average" if place.ends_at_random else ""
    assumed = f"; not published, assumed: {', '.join(sorted(place.assumed))}" if place.assumed else ""
    return [
        sessions_text(sessions),
        f"a session ends after {place.session_hours:g} h, {place.planned_hours:g} h{mean} are counted on, a week has "
        f"{place.weekly_hours:g} h; without input it ends after {place.idle_minutes} min{assumed}",
        f"kept from one session to the next: {place.storage_gb} GB of checkpoints, {place.data_gb} GB of images",
        f"{place.as_of.isoformat()}: {place.source}",
    ]


def sessions_json(estimate: Estimate) -> dict[str, Any] | None:
    """The value of `sessions` of a candidate."""
    sessions = estimate.sessions
    if sessions is None:
        return None
    place = sessions.place
    return {
        "needed": sessions.needed,
        "needed_low": sessions.low,
        "needed_high": sessions.high,
        "weeks": sessions.weeks,
        "session_hours": place.session_hours,
        "planned_hours": place.planned_hours,
        "weekly_hours": place.weekly_hours,
        "assumed": sorted(place.assumed),
        "as_of": place.as_of.isoformat(),
        "source": place.source,
    }


def sessions_word(estimate: Estimate) -> str:
    """`3 sessions`; "" where it ends when it is done."""
    sessions = estimate.sessions
    return "" if sessions is None else f"{sessions.needed} session{'' if sessions.needed == 1 else 's'}"
