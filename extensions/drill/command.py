"""`plan drill`: a few cheap machines on the person's own account that prove what no double can."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, timedelta
from decimal import ROUND_UP, Decimal
from pathlib import Path
from typing import Annotated

import typer

from trainplan.extensions.drill.behaviours import way_of
from trainplan.extensions.drill.drill import LeftError, clean, drill, last_drill, left_over
from trainplan.extensions.drill.grounds import add_result
from trainplan.extensions.drill.limits import MOST_USD, SIM_MOST_USD, Limits, limits_for, within
from trainplan.extensions.drill.placements import alone, targets, with_side_rates
from trainplan.extensions.drill.result import DrillResult, StepResult, check_folder, read_result, write_result
from trainplan.extensions.drill.sheet import BrokenOffError, Sheet
from trainplan.extensions.drill.steps import MACHINES, PROVES
from trainplan.extensions.drill.tools import Tools
from trainplan.planner.api import build
from trainplan.planner.api.ask import confirm
from trainplan.planner.cli import completion, options
from trainplan.planner.cli.screen import show
from trainplan.planner.cli.vendor_bill import ask_invoice, bill_json, days_of, kept
from trainplan.planner.datasets.storage_costs import rates_of
from trainplan.planner.errors import BadInputError, ExitCode, StateError, from_provider
from trainplan.planner.report.bill_page import drill_bill_page, reasons
from trainplan.planner.runs.events import Event, Message
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.settings import Settings
from trainplan.pricing.catalog import find_device
from trainplan.pricing.devices import CPU_DEVICE, UnknownDeviceError
from trainplan.pricing.money import format_usd, format_usd_per_hour
from trainplan.providers import interrupts
from trainplan.providers.base import Provider
from trainplan.providers.cloud.alarm import wanted
from trainplan.providers.cloud.invoice import Invoices
from trainplan.providers.errors import ProviderError
from trainplan.providers.registry import PROVEN_CLOUDS, SIMULATED, is_simulated, rates_told_by
from trainplan.workloads.durations import format_duration
from trainplan.workloads.nearest import same_name

PROVIDERS = (*PROVEN_CLOUDS, SIMULATED)
_CENT = Decimal("0.01")


def command(
    provider: Annotated[
        str | None,
        typer.Argument(
            metavar="PROVIDER",
            help="aws, gcp or azure; sim to try it without an account",
            autocompletion=completion.drills,
        ),
    ] = None,
    yes: options.Yes = False,
    max_cost: Annotated[
        str | None,
        typer.Option(
            "--max-cost-usd", help="The most that the whole drill may cost, in USD (default: 0.15; sim: 0.50)"
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            help="Machines with this accelerator, at its own price (default: none)",
            autocompletion=completion.devices,
        ),
    ] = None,
    region: options.Regions = None,
    output: Annotated[Path | None, typer.Option("--output", help="Folder for the result (default: this one)")] = None,
    just_clean: Annotated[bool, typer.Option("--clean", help="Only end what an earlier drill has left")] = False,
    email: Annotated[
        str | None,
        typer.Option("--email", help="Also try the vendor's monthly alarm, with this address, and read its bill"),
    ] = None,
    bill: Annotated[
        bool, typer.Option("--bill", help="Only compare the last drill's receipts with the bill, days later")
    ] = False,
    taken_in: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="Add a result to docs/drills of this checkout")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show what would be done and what it proves, ask, do it, and write what was seen to a file."""
    if taken_in is not None:
        _import(taken_in, as_json)
        return
    provider = same_name(provider or "", PROVIDERS) or provider
    if provider not in PROVIDERS:
        raise BadInputError(f"there is no drill of {provider or 'nothing'}", f"plan drill {'|'.join(PROVIDERS)}")
    settings = options.settings()
    cloud = build.provider(provider, settings)
    folder = output or Path.cwd()
    limits = limits_for(_device(device), _most_usd(provider, max_cost))
    try:
        with build.journal(settings) as journal:
            tools = _tools(settings, journal, cloud, limits, _device(device))
            tools.email = wanted("1", [email]).emails[0] if email is not None else ""
            if just_clean:
                _clean(tools, as_json)
                return
            if bill:
                _compare(tools, yes=yes, as_json=as_json)
                return
            # Before anything is rented: a result that cannot be written would have to be paid for again.
            check_folder(folder)
            placements = targets(cloud, _tell, _device(device), region or ())
            rates = rates_told_by(provider) if is_simulated(provider) else rates_of(provider, settings.home)
            tools.targets = within(with_side_rates(placements, rates), limits)
            _show(tools)
            if not yes:
                confirm("drill?", hint="--yes drills without asking", left_alone="nothing was made")
            result, broken_off = _drilled(tools, folder)
    except ProviderError as error:
        raise from_provider(error) from error
    _end(result, as_json, broken_off=broken_off)


def _clean(tools: Tools, as_json: bool) -> None:
    with alone(tools):
        count = clean(tools)
    _tell(f"{count} runs of earlier drills were ended" if count else "no drill has left anything")
    if as_json:
        sys.stdout.write(json.dumps({"ended_runs": count}) + "\n")


def _compare(tools: Tools, *, yes: bool, as_json: bool) -> None:
    """The receipts of the newest drill beside the vendor's bill. Exit code 6: the bill is whole, and differs."""
    name, now = tools.provider.name, tools.now().astimezone(UTC)
    runs = last_drill(tools)
    if not runs:
        raise BadInputError(f"no drill of this home has run at {name}", f"plan drill {name} runs one")
    invoice = ask_invoice(name, tools.settings, *days_of(runs, now), yes=yes)
    billed = [kept(tools.journal, run, invoice, now) for run in runs]
    ours = [one for one in billed if one.receipt is not None or one.billed]
    differs = [line for one in ours for line in reasons(one, invoice)]
    if as_json:
        sys.stdout.write(json.dumps(bill_json(invoice, name, ours)) + "\n")
    else:
        show([*drill_bill_page(ours, invoice), *differs])
    if differs and invoice.is_whole:
        raise typer.Exit(int(ExitCode.TRAINING_FAILED))


def _drilled(tools: Tools, folder: Path) -> tuple[DrillResult, bool]:
    """What was seen, also in a file, and whether the drill was interrupted."""
    with alone(tools):
        if left_over(tools):
            _tell("ending what an earlier drill has left")
            clean(tools)
        tools.began, signals = tools.now(), list[str]()
        try:
            result = drill(tools, _breaking_off(signals))
        except LeftError as error:
            _write(error.result, folder, error)
            raise
    _write(result, folder)
    return result, bool(signals)


def _write(result: DrillResult, folder: Path, left_error: LeftError | None = None) -> None:
    """The file; where it cannot be written, the result goes to stdout, since the drill is not to be paid for again."""
    try:
        _tell(f"written: {write_result(result, folder)}")
    except StateError as error:
        sys.stdout.write(result.text())
        if left_error is None:
            raise StateError(
                f"the drill is over and nothing of it is left, but {error.message}",
                "its result went to stdout: keep that as a file",
            ) from None
        _tell(f"{error.message}; its result went to stdout")


@contextmanager
def _breaking_off(signals: list[str]) -> Iterator[None]:
    """Ctrl-C, a terminal that is closed and a computer that goes down break the drill off; `signals` gets their
    names."""

    def broken_off(number: int) -> BrokenOffError:
        signals.append(signal.Signals(number).name)
        return BrokenOffError(f"the drill was interrupted ({signals[0]})")

    # Ctrl-C too: as KeyboardInterrupt it would be taken by the runner for the wish to stop one run.
    with interrupts.noted(broken_off):
        yield


def _tools(settings: Settings, journal: Journal, provider: Provider, limits: Limits, device: str) -> Tools:
    clock = build.clock_of(provider)
    settings = replace(settings, notify=())  # its runs end and are interrupted on purpose
    return Tools(
        runner=build.runner(journal, settings, _hear, provider.name, make_provider=lambda _: provider),
        journal=journal,
        provider=provider,
        clock=clock,
        settings=settings,
        client=build.client(settings),
        limits=limits,
        targets=(),
        sheet=Sheet(way_of(provider.name, device), clock, _tell_step),
        say=_tell,
        began=clock.now(),
    )


def _show(tools: Tools) -> None:
    limits, first = tools.limits, tools.targets[0]
    regions = ", ".join(dict.fromkeys(target.offer.region for target in tools.targets))
    _tell(f"a drill at {tools.provider.name}: up to three machines, one or two at a time")
    _tell(
        f"  {first.where} at {format_usd_per_hour(first.offer.usd_per_hour)}; should it have no room, "
        f"others in {regions}"
    )
    most = limits.usd(first).quantize(_CENT, ROUND_UP)
    _tell(
        f"  at most {format_usd(most)} with disks and addresses (limit {format_usd(limits.max_usd)}), "
        f"at most {format_duration(limits.whole)}"
    )
    _tell("  every machine has a deadline of its own, and ends without this command, too")
    for name, steps in MACHINES.items():
        _tell(f"  machine {name}:")
        for step in steps:
            _tell(f"    {step:<14} {PROVES[step]}")
    _tell("  all of them:")
    for step in [step for step in PROVES if not any(step in steps for steps in MACHINES.values())]:
        _tell(f"    {step:<14} {PROVES[step]}")
    if tools.email and isinstance(tools.provider, Invoices) and tools.provider.asking_costs():
        _tell(f"  {tools.provider.asking_costs()}, beside the limit")


def _end(result: DrillResult, as_json: bool, *, broken_off: bool) -> None:
    if as_json:
        sys.stdout.write(result.text())
    else:
        sys.stdout.write(f"{_summary(result)}\n")
    if result.failed or broken_off:
        raise typer.Exit(int(ExitCode.INTERRUPTED if broken_off else ExitCode.TRAINING_FAILED))


def _summary(result: DrillResult) -> str:
    untried = len(result.steps) - len(result.proven) - len(result.failed)
    parts = [f"{len(result.proven)} of {len(result.steps)} steps proven"]
    parts += [f"{len(result.failed)} failed"] if result.failed else []
    parts += [f"{untried} not tried"] if untried else []
    took = format_duration(timedelta(seconds=result.seconds))
    return (
        f"{result.provider} {result.machine_type}: {', '.join(parts)}; {took}, about {format_usd(result.usd_estimate)}"
    )


def _import(path: Path, as_json: bool) -> None:
    where = add_result(path, Path.cwd())
    result = read_result(where)
    if as_json:
        sys.stdout.write(json.dumps({"file": str(where), "proven": len(result.proven)}) + "\n")
    else:
        sys.stdout.write(f"added: {where.relative_to(Path.cwd())}\n{_summary(result)}\n")
    _tell("tests/contract/test_fidelity.py has the lines of docs/maintainers/fidelity.md that change")


def _device(text: str | None) -> str:
    """The device's own name; that of a processor where none was named. Raises BadInputError."""
    if text is None:
        return CPU_DEVICE
    try:
        return find_device(text).name
    except UnknownDeviceError as error:
        raise BadInputError(str(error), error.hint) from None


def _most_usd(provider: str, value: str | None) -> Decimal:
    if value is not None:
        return options.max_cost(value)
    return SIM_MOST_USD if is_simulated(provider) else MOST_USD


def _tell_step(row: StepResult) -> None:
    took = f" ({format_duration(timedelta(seconds=row.seconds))})" if row.seconds is not None else ""
    detail = f": {row.detail}" if row.detail else ""
    _tell(f"{row.step:<14} {row.verdict}{took}{detail}")


def _hear(event: Event) -> None:
    if isinstance(event, Message):
        _tell(f"  {event.text}")


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
