"""`plan setup`: make what an account lacks for launches, after showing it, or remove it again."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from trainplan.planner.api import build
from trainplan.planner.api.ask import confirm
from trainplan.planner.cli import completion, options
from trainplan.planner.errors import BadInputError, PlanError, from_provider
from trainplan.providers.abilities import SetUp, SetupStep
from trainplan.providers.cloud.alarm import Alarm, Alarms, Stops, wanted
from trainplan.providers.errors import ProviderError


def command(
    provider: Annotated[
        str, typer.Argument(metavar="PROVIDER", help="aws, gcp or azure", autocompletion=completion.clouds)
    ],
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove what set-up created, unless a run still needs it")
    ] = False,
    alarm: Annotated[
        str,
        typer.Option(
            "--alarm", metavar="AMOUNT", help="Also make a monthly alarm by mail, in the account's currency (AWS: USD)"
        ),
    ] = "",
    email: Annotated[
        list[str] | None, typer.Option("--email", help="Whom the alarm warns; may be given several times")
    ] = None,
    stop: Annotated[
        bool,
        typer.Option("--stop", help="With --alarm, where the vendor can (AWS): end what runs once the amount is spent"),
    ] = False,
    yes: options.Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the calls that would be sent")] = False,
    as_json: options.Json = False,
) -> None:
    """Show the steps, ask, carry them out. What is there already is left as it is."""
    (name,) = build.provider_names(provider)
    settings = options.settings()
    cloud = build.provider(name, settings)
    if not isinstance(cloud, SetUp):
        sys.stderr.write(f"{name} needs no set-up\n")
        _show_json(name, (), remove=remove, is_done=True, as_json=as_json)
        return
    try:
        asked = wanted_alarm(alarm, email or [], remove=remove, stop=stop)
        steps = _steps(name, cloud, asked, remove=remove)
        if dry_run:
            _print_calls(name, steps, remove=remove, as_json=as_json)
            return
        _tell(name, steps, remove=remove)
        if steps:
            ends = cloud.alarm_ends() if asked is not None and asked.stops and isinstance(cloud, Stops) else ""
            _ask(steps, remove=remove, assume_yes=yes, ends=ends)
            _carry_out(cloud, steps, remove=remove)
            _compare_alarm(cloud, asked)
    except ProviderError as error:
        raise from_provider(error) from error
    _show_json(name, steps, remove=remove, is_done=True, as_json=as_json)


def wanted_alarm(amount: str, emails: Sequence[str], *, remove: bool, stop: bool = False) -> Alarm | None:
    """The alarm that was asked for; None where none was. Raises BadInputError, BadRequestError."""
    if remove and (amount or emails or stop):
        raise BadInputError("--remove removes the alarm with all the rest", "leave out --alarm, --email and --stop")
    if stop and not amount:
        raise BadInputError("--stop needs --alarm and --email", "--alarm 20 --email me@example.com --stop")
    if bool(amount) != bool(emails):
        missing = "--email names whom it warns" if amount else "--alarm has the monthly amount"
        raise BadInputError(f"an alarm needs both: {missing}", "--alarm 20 --email me@example.com")
    return wanted(amount, emails, stops=stop) if amount else None


def _steps(name: str, cloud: SetUp, alarm: Alarm | None, *, remove: bool) -> list[SetupStep]:
    """What a set-up does, and the alarm last, so that what it takes in rights keeps nothing else from being made."""
    if not isinstance(cloud, Alarms):
        if alarm is not None:
            raise BadInputError("this provider has no service for alarms", "leave out --alarm and --email")
        return list(cloud.removable() if remove else cloud.lacking())
    if alarm is not None and alarm.stops and not isinstance(cloud, Stops):
        raise BadInputError(
            f"{name} cannot end machines at an amount", "leave out --stop; docs/alarm.md has what each can do"
        )
    if remove:
        return [*_alarm_to_remove(cloud), *cloud.removable()]
    return [*cloud.lacking(), *(cloud.alarm_steps(alarm) if alarm is not None else ())]


def _alarm_to_remove(cloud: Alarms) -> Sequence[SetupStep]:
    """Nothing where it cannot be looked up: that keeps nothing else from being removed."""
    try:
        return cloud.alarm_steps(None)
    except ProviderError as error:
        sys.stderr.write(f"the monthly alarm stays, if there is one: {error.message}\n")
        return []


def _tell(name: str, steps: Sequence[SetupStep], *, remove: bool) -> None:
    if not steps:
        nothing = "plan setup has created nothing here" if remove else "everything is set up"
        sys.stderr.write(f"{name}: {nothing}\n")
        return
    sys.stderr.write(f"{name}: this would be {'removed' if remove else 'made'}:\n")
    for number, step in enumerate(steps, start=1):
        sys.stderr.write(f"{number:>3}  {step.name}: {step.detail}\n")


def _ask(steps: Sequence[SetupStep], *, remove: bool, assume_yes: bool, ends: str = "") -> None:
    if assume_yes:
        return
    count = "it" if len(steps) == 1 else f"these {len(steps)}"
    confirm(
        f"the alarm's stop would end {ends}; make {count}?" if ends else f"{'remove' if remove else 'make'} {count}?",
        # Enter alone removes nothing.
        default=not remove,
        hint="--yes does not ask, --dry-run prints the calls",
        left_alone=f"nothing was {'removed' if remove else 'made'}",
    )


def _carry_out(set_up: SetUp, steps: Sequence[SetupStep], *, remove: bool) -> None:
    for number, step in enumerate(steps, start=1):
        try:
            set_up.carry_out(step, _report)
        except ProviderError as error:
            raise _stopped(error, step, remove=remove) from error
        sys.stderr.write(f"{number:>3}  {step.name}: {'removed' if remove else 'made'}\n")


def _compare_alarm(cloud: SetUp, asked: Alarm | None) -> None:
    """Say where another alarm stands after all: somebody else may have made one at the same time."""
    if asked is None or not isinstance(cloud, Alarms):
        return
    try:
        found = cloud.alarm()
    except ProviderError:
        return  # who may make an alarm need not have the right to read alarms
    if found is not None and not asked.is_like(found):
        sys.stderr.write(
            f"     another alarm stands now: {found.text}; somebody has changed it, or the change is not shown yet:\n"
            "     plan doctor shows it, and the same command replaces it\n"
        )


def _report(line: str) -> None:
    sys.stderr.write(f"     {line}\n")


def _stopped(error: ProviderError, step: SetupStep, *, remove: bool) -> PlanError:
    plan_error = from_provider(error)
    again = f"the same command goes on from there; {'removed' if remove else 'made'} so far is listed above"
    return type(plan_error)(
        f"{step.name}: {plan_error.message}", "; ".join(text for text in (plan_error.hint, again) if text)
    )


def _print_calls(name: str, steps: Sequence[SetupStep], *, remove: bool, as_json: bool) -> None:
    if as_json:
        _show_json(name, steps, remove=remove, is_done=False, as_json=True)
        return
    _tell(name, steps, remove=remove)
    for step in steps:
        for call in step.calls:
            parameters = json.dumps(dict(call.parameters), indent=2, default=str)
            sys.stdout.write(f"{call.service} {call.operation}\n{parameters}\n")


def _show_json(name: str, steps: Sequence[SetupStep], *, remove: bool, is_done: bool, as_json: bool) -> None:
    if not as_json:
        return
    rows = [
        {
            "name": step.name,
            "detail": step.detail,
            "calls": [
                {"service": call.service, "operation": call.operation, "parameters": dict(call.parameters)}
                for call in step.calls
            ],
        }
        for step in steps
    ]
    reply = {"provider": name, "remove": remove, "done": is_done, "steps": rows}
    sys.stdout.write(json.dumps(reply, default=str) + "\n")
