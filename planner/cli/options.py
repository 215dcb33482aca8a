"""The options that several commands share, as typer reads them, and the limits that they add up to.

What reads a job is imported when one is read: most commands read none.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainplan.planner.api.job_files import usd_of
from trainplan.planner.api.names import one_of
from trainplan.planner.cli import completion
from trainplan.planner.errors import BadInputError
from trainplan.planner.settings import Settings, load_settings
from trainplan.providers.registry import FACTORIES, SIMULATED, THIS_MACHINE
from trainplan.workloads import terms
from trainplan.workloads.terms import MAX_NODES
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.planner.planning.build_plan import PlanQuery

_JOB_HELP = "A job file, which plan init writes, or a training script of your own (train.py)"
JobFile = Annotated[Path | None, typer.Argument(metavar="JOB.yaml", help=_JOB_HELP)]
NeededJobFile = Annotated[Path, typer.Argument(metavar="JOB.yaml", help=_JOB_HELP)]
_IN_WORDS = {THIS_MACHINE: f"{THIS_MACHINE} (this computer)", SIMULATED: f"{SIMULATED} (a simulated cloud)"}
_PROVIDERS = ", ".join(_IN_WORDS.get(name, name) for name in FACTORIES)


def _split(value: list[str] | None) -> list[str] | None:
    """An option that is repeated for more: several may stand with commas between them too."""
    return None if value is None else [name.strip() for names in value for name in names.split(",")]


def _providers(value: list[str] | None) -> list[str] | None:
    """No provider has capitals: `AWS` is aws."""
    names = _split(value)
    return None if names is None else [name.lower() for name in names]


Providers = Annotated[
    list[str] | None,
    typer.Option(
        "--provider",
        help=f"Only this one; repeat for more: {_PROVIDERS}",
        callback=_providers,
        autocompletion=completion.estimated_providers,
    ),
]
Free = Annotated[
    bool, typer.Option("--free", help="Only places that cost nothing (colab, kaggle), beside those of --provider")
]
Regions = Annotated[
    list[str] | None,
    typer.Option("--region", help="Only this one; repeat for more", callback=_split, autocompletion=completion.regions),
]
Devices = Annotated[
    list[str] | None,
    typer.Option(
        "--device",
        help="Only this (T4, A100, cpu); repeat for more",
        callback=_split,
        autocompletion=completion.devices,
    ),
]
Counts = Annotated[
    list[int] | None,
    typer.Option("--count", min=1, help="Only machines of this many accelerators; repeat for more"),
]
Markets = Annotated[
    list[str] | None,
    typer.Option("--market", help="on_demand or spot", callback=_split, autocompletion=completion.markets),
]
AssumeAvailable = Annotated[
    bool, typer.Option("--assume-available", help="Use spot prices as listed, even far below those of other regions")
]
Deadline = Annotated[str | None, typer.Option("--deadline", help="The longest time for the whole run, e.g. 8h")]
Budget = Annotated[str | None, typer.Option("--budget", help="The most that the whole run may cost, in USD")]
Objective = Annotated[
    terms.Objective | None,
    typer.Option("--objective", help="How offers are ranked (default: the objective of the job)"),
]
Nodes = Annotated[
    str | None, typer.Option("--nodes", help="Also estimate several machines together, for example 1,2,4,8")
]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run, or the beginning of its id", autocompletion=completion.runs)
]
Client = Annotated[
    str | None,
    typer.Option("--client", metavar="any", help="any: act on the run even if another client launched it"),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")]
Wide = Annotated[bool, typer.Option("--wide", help="Show all columns, however wide the table becomes")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout")]


def settings() -> Settings:
    """The settings of the environment and of the settings files. Raises BadInputError."""
    return load_settings(os.environ)


def refresh_daily(settings: Settings) -> None:
    """Read the price lists where the settings ask for that once a day, and they were not read today."""
    if settings.refreshes_daily:
        from trainplan.planner.cli import refreshing

        refreshing.refresh_daily(settings.home)


def nodes(text: str | None) -> tuple[int, ...]:
    """The numbers of machines of `--nodes 1,2,4`, in order; empty where none are given. Raises BadInputError."""
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    numbers = sorted(
        {int(part) for part in parts if part.isascii() and part.isdigit() and len(part) <= len(str(MAX_NODES))}
    )
    if len({*parts}) != len(numbers) or not all(1 <= number <= MAX_NODES for number in numbers):
        raise BadInputError(
            f"--nodes: {text!r} is not a list of numbers of machines from 1 to {MAX_NODES}",
            "for example --nodes 1,2,4,8",
        )
    return tuple(numbers)


def where(
    providers: Sequence[str] | None,
    regions: Sequence[str] | None,
    devices: Sequence[str] | None,
    market_names: Sequence[str] | None,
) -> PlanQuery:
    """Where is looked; an option that is not given asks for everything. Raises BadInputError for an unknown market."""
    from trainplan.planner.planning.build_plan import PlanQuery

    return PlanQuery(tuple(providers or ()), tuple(regions or ()), tuple(devices or ()), markets=markets(market_names))


def markets(values: Sequence[str] | None) -> tuple[str, ...]:
    """`on-demand` and `on_demand` are the same. Raises BadInputError."""
    return tuple(one_of(Option.MARKET, name, ["on_demand", "spot"]) for name in values or ())


def max_cost(text: str) -> Decimal:
    """--max-cost in USD. Raises BadInputError."""
    return usd_of(Option.MAX_COST, text)


def is_markdown(format_name: str | None, *, as_json: bool) -> bool:
    """Whether `--format markdown` was typed. Raises BadInputError."""
    is_wanted = one_of("--format", format_name or "text", ["text", "markdown"]) == "markdown"
    if is_wanted and as_json:
        raise BadInputError("--format markdown and --json cannot be combined", "give one of the two")
    return is_wanted


def any_client(value: str | None) -> bool:
    """Whether `--client any` was typed, the one value it has. Raises BadInputError."""
    if value is not None:
        one_of("--client", value, ["any"])
    return value is not None
