"""How long this home's own runs waited in the queues of the person's cluster."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from trainplan.planner.runs.journal.rows import aware
from trainplan.planner.runs.journal.schema import SCHEMA_VERSION
from trainplan.providers.registry import CLUSTER

MOST_RUNS = 200
"""Newest runs that are looked through."""
_WAIT_SECONDS = 1.0
_STARTS = f"""
    SELECT value ->> '$.target.offer.region', value ->> '$.asked_at', value ->> '$.bills_from'
    FROM (SELECT run_json FROM runs WHERE json_valid(run_json) ORDER BY rowid DESC LIMIT {MOST_RUNS}) AS newest,
        json_each(newest.run_json, '$.attempts')
    WHERE value ->> '$.target.offer.provider' = '{CLUSTER}' AND value ->> '$.bills_from' IS NOT NULL
"""


def own_queue_waits(path: Path) -> dict[str, list[timedelta]]:
    """The waits by partition; none where there is no journal, or it cannot be read now: an estimate waits for nobody.

    After a requeue the newest start counts, so that the wait of such a run is too long.
    """
    if not path.exists():
        return {}
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_WAIT_SECONDS)) as db:
            if int(db.execute("PRAGMA user_version").fetchone()[0]) != SCHEMA_VERSION:
                return {}
            rows = db.execute(_STARTS).fetchall()
    except sqlite3.Error:
        return {}
    waits: dict[str, list[timedelta]] = {}
    for region, asked_at, bills_from in rows:
        try:
            wait = aware(bills_from) - aware(asked_at or "")
        except ValueError:
            continue
        if region and wait.total_seconds() >= 0:
            waits.setdefault(region, []).append(wait)
    return waits
