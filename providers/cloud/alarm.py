"""A monthly budget with alarms by mail, kept by the vendor: it warns too where this program is wrong or not running."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from trainplan.providers.cloud.checks import ok, unknown
from trainplan.providers.errors import BadRequestError, ProviderError
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.providers.abilities import SetupStep
    from trainplan.providers.base import Check

NAME = "trainplan-alarm"
SPENT_PERCENT = (50, 90, 100)
"""A mail at each share of the amount that was spent, and one where the vendor forecasts more than all of it."""
MOST_ADDRESSES = 5
"""Google takes five channels a budget; AWS ten addresses, Azure fifty."""
_ADDRESS = re.compile(r"[^@\s<>,;\"]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_AMOUNT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,2})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """`amount` is for a month, in the currency that the account is billed in, at AWS in US dollars; `currency` is ""
    where none was told.
    `stops`: once all of it is spent, the vendor ends what runs too (`Stops`)."""

    amount: Decimal
    emails: tuple[str, ...]
    currency: str = ""
    stops: bool = False

    @property
    def text(self) -> str:
        """`20 USD a month, mail to me@example.com`."""
        unit = self.currency or "in the account's currency"
        ends = ", ends what runs when it is spent" if self.stops else ""
        return f"{self.amount.normalize():f} {unit} a month, mail to {', '.join(self.emails) or 'nobody'}{ends}"

    def is_like(self, other: Alarm | None) -> bool:
        """Whether the other one warns the same people at the same amount, and ends what runs as this one does."""
        return other is not None and (self.amount, set(self.emails), self.stops) == (
            other.amount,
            set(other.emails),
            other.stops,
        )


@runtime_checkable
class Alarms(Protocol):
    """What some providers can do besides: have the vendor warn its customer. Its steps are carried out by SetUp."""

    def alarm(self) -> Alarm | None:
        """The alarm that stands in the account; None where there is none of ours. Raises ProviderError."""
        ...

    def alarm_steps(self, wanted: Alarm | None) -> Sequence[SetupStep]:
        """What would be made, changed or removed (None) so that this alarm stands; nothing where it does already.

        Raises ProviderError.
        """
        ...


@runtime_checkable
class Stops(Protocol):
    """What some providers with alarms can do besides: take an alarm that `stops`."""

    def alarm_ends(self) -> str:
        """What ends when the amount is spent, in words."""
        ...


def wanted(amount: str, emails: Sequence[str], *, stops: bool = False) -> Alarm:
    """The alarm that a person has asked for.

    Raises BadRequestError for an amount that is none or no more than 0, and for an address that is none.
    """
    if not _AMOUNT.fullmatch(amount.strip()):
        raise BadRequestError(
            f"{amount!r} is no amount",
            hint="a number for a month, in the currency that the account is billed in (AWS: in US dollars): 20",
        )
    try:
        value = Decimal(amount.strip())
    except InvalidOperation as error:
        raise BadRequestError(f"{amount!r} is no amount", hint="a number, such as 20") from error
    if value <= 0:
        raise BadRequestError(f"an alarm at {amount} would mail you at once and always", hint="an amount above 0")
    unreadable = [address for address in emails if not _ADDRESS.fullmatch(address)]
    if unreadable:
        raise BadRequestError(f"{unreadable[0]!r} is no mail address", hint=f"{Option.EMAIL('me@example.com')}")
    if not 1 <= len(set(emails)) <= MOST_ADDRESSES:
        raise BadRequestError(
            f"an alarm goes to one to {MOST_ADDRESSES} mail addresses, not {len(set(emails))}",
            hint=f"{Option.EMAIL('me@example.com')}, once for each",
        )
    return Alarm(amount=value, emails=tuple(dict.fromkeys(emails)), stops=stops)


def somebody_elses(name: str, what: str, where: str) -> BadRequestError:
    """A budget of our name that warns of something else than a whole month's costs: a person has made it."""
    return BadRequestError(
        f"somebody has made another budget {name} ({what}): it is left alone",
        hint=f"rename or delete it ({where}), then type the same command again",
    )


def percents() -> str:
    """The shares in words: `at 50 %, 90 %, 100 % and by forecast`."""
    return f"at {', '.join(f'{percent} %' for percent in SPENT_PERCENT)} and by forecast"


def check(look: Callable[[], Alarm | None], late: str, set_up: str) -> Check:
    """The line of a doctor: the alarm that stands, and how late it may be; without one, how it is made, since no launch
    needs it. What cannot be looked up keeps nobody from launching either."""
    try:
        found = look()
    except ProviderError as error:
        return unknown("alarm", error.message, error.hint)
    if found is None:
        none = "no alarm is set: nobody would be mailed when a month costs more than planned"
        return ok(
            "alarm", f"{none} (an alarm is free; {late})", f"{set_up} {Option.ALARM(20)} {Option.EMAIL('ADDRESS')}"
        )
    return ok("alarm", f"{found.text}; {late}")
