"""What a shell completes: the values of options and arguments. Reads the tables and the journal of this computer, never
a vendor; whatever cannot be read completes to nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing, suppress

from trainplan.workloads import terms

_MOST_RUNS = 50
"""Runs that are offered, the newest first."""


def words_typed() -> list[str] | None:
    """The words behind `plan` that a shell wants completed; None where it is a command that was typed."""
    if "_PLAN_COMPLETE" not in os.environ:
        return None
    # Bash gives one name to the words, zsh and fish another.
    text = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    return text.split()[1:]


def providers(incomplete: str) -> list[str]:
    """Where a run can be launched. Plug-ins are not asked: it would run them at every press of the key."""
    from trainplan.providers.registry import FACTORIES

    return _beginning(FACTORIES, incomplete)


def estimated_providers(incomplete: str) -> list[str]:
    """The same, and those that are only estimated."""
    from trainplan.pricing.catalog import Catalog, CatalogError
    from trainplan.providers.registry import FACTORIES

    with suppress(CatalogError), Catalog.open() as catalog:
        return _beginning((*FACTORIES, *catalog.rates), incomplete)
    return _beginning(FACTORIES, incomplete)


def clouds(incomplete: str) -> list[str]:
    """The vendors' clouds, which have an account to set up."""
    from trainplan.providers.registry import CLOUDS

    return _beginning(CLOUDS, incomplete)


def drills(incomplete: str) -> list[str]:
    """Where a drill runs."""
    from trainplan.providers.registry import CLOUDS, SIMULATED

    return _beginning((*CLOUDS, SIMULATED), incomplete)


def price_lists(incomplete: str) -> list[str]:
    """The vendors whose price lists are read."""
    from trainplan.pricing.sources import READERS

    return _beginning(READERS, incomplete)


def devices(incomplete: str) -> list[str]:
    """The known devices; a blank would be two words for a shell, and a dash means the same."""
    from trainplan.pricing.catalog import Catalog, CatalogError
    from trainplan.pricing.devices import CPU_DEVICE

    with suppress(CatalogError), Catalog.open() as catalog:
        groups = {device.group: None for device in catalog.devices.values()}
        return _beginning((name.replace(" ", "-") for name in (*groups, *catalog.devices, CPU_DEVICE)), incomplete)
    return []


def regions(incomplete: str) -> list[str]:
    """The regions of all providers."""
    from trainplan.pricing.catalog import Catalog, CatalogError

    with suppress(CatalogError), Catalog.open() as catalog:
        return _beginning(sorted(catalog.regions), incomplete)
    return []


def runs(incomplete: str) -> list[str]:
    """The newest runs of this home."""
    import sqlite3

    from trainplan.planner.errors import PlanError
    from trainplan.planner.settings import home_of

    with suppress(PlanError, sqlite3.Error, OSError):
        path = home_of(os.environ) / "journal.sqlite"
        # Read only: a shell that completes makes no journal.
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT ?", (_MOST_RUNS,))
            return _beginning((str(run_id) for (run_id,) in rows), incomplete)
    return []


def presets(incomplete: str) -> list[str]:
    """Nets that have a name."""
    return _beginning(terms.Preset, incomplete)


def data_sets(incomplete: str) -> list[str]:
    """Data sets that have a name."""
    return _beginning(terms.DataName, incomplete)


def precisions(incomplete: str) -> list[str]:
    """The arithmetics of a step."""
    return _beginning(terms.Precision, incomplete)


def frameworks(incomplete: str) -> list[str]:
    """What Keras runs on."""
    return _beginning(terms.Framework, incomplete)


def markets(incomplete: str) -> list[str]:
    """How an offer is paid for."""
    return _beginning(("on_demand", "spot"), incomplete)


def recipes(incomplete: str) -> list[str]:
    """The shipped recipes."""
    from pathlib import Path

    from trainplan import workloads

    folder = Path(workloads.__file__).parent / "data" / "recipes"
    return _beginning(sorted(path.stem for path in folder.glob("*.yaml")), incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    """With the letters as they were typed: a shell drops what does not begin so, and every name is read in capitals."""
    return [
        f"{incomplete}{name[len(incomplete) :]}"
        for name in dict.fromkeys(names)
        if name.lower().startswith(incomplete.lower())
    ]
