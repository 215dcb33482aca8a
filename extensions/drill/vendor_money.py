"""The steps that try what the vendor confirms of money: its monthly alarm, made and removed, and its bill, read."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.extensions.drill.sheet import FailedError, SkippedError, words
from trainplan.extensions.drill.steps import Step
from trainplan.planner.errors import StateError
from trainplan.providers.abilities import SetUp
from trainplan.providers.cloud.alarm import Alarm, Alarms
from trainplan.providers.cloud.invoice import Invoices
from trainplan.providers.errors import BadRequestError, PermissionDeniedError
from trainplan.workloads.wording import Command, Option, Text

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainplan.extensions.drill.tools import Tools

AMOUNT = Decimal(1_000_000)
"""The amount of the drill's alarm, in the account's currency (AWS: USD): no account reaches it, so that no mail is
sent, and an alarm of this amount is recognised as the drill's."""
SHOWN_WITHIN = timedelta(minutes=1)
DAYS = 3
"""How far back the bill is read: costs of today are often not there yet."""
_NOT_ASKED = Text(Option.EMAIL("ADDRESS"), " tries it")


def try_vendor_money(tools: Tools) -> None:
    """Tries both where the person has given an address; what the sign-in may not do is left out: no launch needs it."""
    for step, holds in ((Step.ALARM, _alarm), (Step.BILL, _bill)):
        try:
            _try(tools, step, holds)
        except SkippedError as why:
            tools.sheet.leave_out((step,), str(why))


def clear_alarm(tools: Tools) -> bool:
    """Remove the alarm of a drill that was killed before it could. Whether there was one. Raises ProviderError."""
    noted = _note(tools)
    if not noted.exists():
        return False
    cloud, removed = tools.provider, False
    if isinstance(cloud, Alarms):
        there = cloud.alarm()
        if there is not None and there.amount == AMOUNT:
            _carry_out(tools, None)
            removed = True
    noted.unlink(missing_ok=True)
    return removed


def _try(tools: Tools, step: Step, holds: Callable[[Tools], str]) -> None:
    if not isinstance(tools.provider, Alarms if step is Step.ALARM else Invoices):
        raise SkippedError("this provider has no such service")
    if not tools.email:
        raise SkippedError(str(_NOT_ASKED))
    with tools.sheet.step(step) as names:
        try:
            names.append(holds(tools))
        except (PermissionDeniedError, BadRequestError) as error:
            # The alarm and the bill take rights, or a table, of their own (docs/alarm.md).
            raise SkippedError(words(error)) from error


def _alarm(tools: Tools) -> str:
    cloud = tools.provider
    assert isinstance(cloud, Alarms)
    if cloud.alarm() is not None:
        raise SkippedError("an alarm stands already, and is left alone")
    wanted = Alarm(amount=AMOUNT, emails=(tools.email,))
    _write_note(tools)
    try:
        _carry_out(tools, wanted)
        _wait(tools, lambda: wanted.is_like(cloud.alarm()), "the alarm was made, and is not shown")
    finally:
        _carry_out(tools, None)
    _wait(tools, lambda: cloud.alarm() is None, "the alarm was removed, and is still shown")
    _note(tools).unlink(missing_ok=True)
    return f"an alarm at {AMOUNT:,} was made, seen and removed"


def _bill(tools: Tools) -> str:
    cloud = tools.provider
    assert isinstance(cloud, Invoices)
    end = tools.now().astimezone(UTC).date() + timedelta(days=1)
    invoice = cloud.invoice(end - timedelta(days=DAYS), end)
    return f"the bill of {DAYS} days came in {len(invoice.lines)} lines, {invoice.currency or 'without a currency'}"


def _carry_out(tools: Tools, wanted: Alarm | None) -> None:
    cloud = tools.provider
    assert isinstance(cloud, Alarms)
    assert isinstance(cloud, SetUp)
    for step in cloud.alarm_steps(wanted):
        cloud.carry_out(step, tools.say)


def _wait(tools: Tools, holds: Callable[[], bool], why: str) -> None:
    until = tools.now() + SHOWN_WITHIN
    while not holds():
        if tools.now() > until:
            raise FailedError(why)
        tools.pause()


def _note(tools: Tools) -> Path:
    return tools.settings.home / "drills" / f"alarm-{tools.provider.name}"


def _write_note(tools: Tools) -> None:
    """Note that an alarm is about to be made: `plan drill --clean` then removes that of a drill that was killed."""
    note = _note(tools)
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(
            f"plan drill has made a monthly alarm here; {Command('drill', Option.CLEAN)} removes it\n", encoding="utf-8"
        )
    except OSError as error:
        with suppress(OSError):
            note.unlink(missing_ok=True)
        raise StateError(
            f"{note} cannot be written: {error.strerror}", "make room, or set PLAN_HOME elsewhere"
        ) from None
