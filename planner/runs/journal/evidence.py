"""What this home's launches met: which create requests got a machine, and which were refused for want of one.

Estimates read it, so nothing here writes, migrates or waits: a journal that cannot be read now is no evidence.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

from trainplan.planner.runs.journal.records import refusal_from_record
from trainplan.planner.runs.journal.rows import aware
from trainplan.planner.runs.journal.schema import SCHEMA_VERSION
from trainplan.pricing.obtainability import HAD_FOR, Evidence, MachinePlacement
from trainplan.providers.registry import THIS_MACHINE

MOST_RUNS = 200
"""Newest runs that are looked through: a home may have ten thousand, and older ones tell nothing of today."""
# An estimate waits for nobody: a journal that is written for longer gives no evidence this time.
_WAIT_SECONDS = 1.0
_REFUSALS = "SELECT refusal_json FROM refusals ORDER BY id"
# Attempts that had a machine; what an attempt was not given is left out of its document.
_SUCCESSES = f"""
    SELECT coalesce(value ->> '$.sent_at', value ->> '$.asked_at'), value ->> '$.target.offer.provider',
        value ->> '$.target.offer.region', value ->> '$.target.offer.instance_type', value ->> '$.target.offer.market'
    FROM (SELECT run_json FROM runs WHERE json_valid(run_json) ORDER BY rowid DESC LIMIT {MOST_RUNS}) AS newest,
        json_each(newest.run_json, '$.attempts')
    WHERE value ->> '$.ref' IS NOT NULL AND value ->> '$.end' IS NOT 'no_capacity'
"""


def read_evidence(path: Path, now: datetime, say: Callable[[str], None]) -> tuple[Evidence, ...]:
    """The evidence of the journal at `path`; none where there is no journal yet. One that cannot be read, or that
    another version wrote, is told to `say` in one line and gives none."""
    if not path.exists():
        return ()
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_WAIT_SECONDS)) as db:
            if int(db.execute("PRAGMA user_version").fetchone()[0]) != SCHEMA_VERSION:
                return ()  # the next launch brings it to this version
            rows = db.execute(_REFUSALS).fetchall(), db.execute(_SUCCESSES).fetchall()
    except sqlite3.Error as error:
        say(f"the journal {path} cannot be read ({error}): what earlier launches met does not count in this estimate")
        return ()
    both = (*_refusals([str(text) for (text,) in rows[0]]), *_successes(rows[1]))
    return tuple(one for one in both if now - one.at <= HAD_FOR and one.placement.provider != THIS_MACHINE)


def _refusals(texts: list[str]) -> Iterator[Evidence]:
    for text in texts:
        try:
            refusal = refusal_from_record(json.loads(text))
        except ValueError:
            continue  # a row that cannot be read tells nothing
        # A quota that is too small, or a price that was too high, says nothing of the stock.
        if refusal.lacks_capacity and refusal.region and refusal.instance_type and refusal.market:
            placement = MachinePlacement(refusal.provider, refusal.region, refusal.instance_type, refusal.market)
            yield Evidence(placement, refusal.at, was_obtained=False)


def _successes(rows: list[tuple[str | None, ...]]) -> Iterator[Evidence]:
    for at, *names in rows:
        try:
            instant = aware(at or "")
        except ValueError:
            continue
        if all(names):
            yield Evidence(MachinePlacement(*map(str, names)), instant, was_obtained=True)
