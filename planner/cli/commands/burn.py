"""`plan burn`: everything in the accounts that bills by the hour or the month, ours and others'. It ends nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, NamedTuple

import typer

from trainplan.planner.api import build
from trainplan.planner.cli import completion, options
from trainplan.planner.cli.screen import show
from trainplan.planner.errors import RefusedError, from_provider
from trainplan.planner.report.page import Column, Page, Table, joined
from trainplan.planner.settings import Settings
from trainplan.pricing.money import format_usd
from trainplan.providers.cloud.bill import Bill, BilledThing
from trainplan.providers.errors import CredentialsError, ProviderError

_COLUMNS = (
    Column("where", shrinks=True), Column("kind"), Column("id", shrinks=True), Column("whose", shrinks=True),
    Column("since", rank_of_need=2), Column("a month", right=True), Column("what", rank_of_need=1),
)  # fmt: skip

_LEAST_USD = Decimal("0.01")


class _Account(NamedTuple):
    """What one provider told, or why it was not asked, or what it answered instead."""

    name: str
    bill: Bill | None = None
    left_out: str = ""
    error: ProviderError | None = None


def command(
    provider: Annotated[
        str | None,
        typer.Argument(
            metavar="PROVIDER",
            help="aws, gcp or azure (default: all with a sign-in)",
            autocompletion=completion.clouds,
        ),
    ] = None,
    wide: options.Wide = False,
    as_json: options.Json = False,
) -> None:
    """List what bills in the account by the hour or month, whoever made it: reads only, ends nothing."""
    settings = options.settings()
    accounts = [_account_of(name, settings, is_named=provider is not None) for name in build.provider_names(provider)]
    things = sorted(
        (thing for account in accounts if account.bill for thing in account.bill.things),
        key=lambda thing: (thing.provider, thing.region, -(thing.usd_per_month or Decimal(0)), thing.id),
    )
    if as_json:
        sys.stdout.write(json.dumps(_json(things, accounts)) + "\n")
    else:
        show(_page(things, accounts), wide=wide)
    silent = [account for account in accounts if account.error is not None]
    # Where one account was read, the others' errors are lines of the answer.
    if silent and all(account.bill is None for account in accounts):
        text = "; ".join(f"{account.name}: {account.error.message}" for account in silent if account.error)
        raise RefusedError(f"no account could be read: {text}", "plan doctor shows what is missing")


def _account_of(name: str, settings: Settings, *, is_named: bool) -> _Account:
    if not is_named and not build.is_used(name, settings):
        return _Account(name, left_out="no sign-in on this computer")
    teller = build.bill_teller(name, settings)
    if teller is None:
        return _Account(name, left_out="no account is billed there")
    try:
        return _Account(name, bill=teller.list_billed())
    except CredentialsError as error:
        if is_named:
            raise from_provider(error) from error
        return _Account(name, left_out=error.message)
    except ProviderError as error:
        if is_named:
            raise from_provider(error) from error
        return _Account(name, error=error)


def _page(things: Sequence[BilledThing], accounts: Sequence[_Account]) -> Page:
    listed = [Table(_COLUMNS, [_row(thing) for thing in things])] if things else []
    names = [account.name for account in accounts if account.bill is not None]
    totals = [_total(things, names), *_by_region(things)] if names else []
    unread = [f"not read: {line}" for account in accounts if account.bill for line in account.bill.unread]
    unread += [f"not read: {account.name}: {account.error.message}" for account in accounts if account.error]
    unread += [f"{account.name}: not read: {account.left_out}" for account in accounts if account.left_out]
    return joined([listed, totals, unread])


def _total(things: Sequence[BilledThing], names: Sequence[str]) -> str:
    where = " and ".join(names)
    if not things:
        return f"Nothing bills at {where}."
    ours = [thing for thing in things if thing.whose]
    others = [thing for thing in things if not thing.whose]
    unpriced = sum(thing.usd_per_month is None for thing in things)
    more = f"; {unpriced} without a known price" if unpriced else ""
    return (
        f"{len(things)} things at {where} cost about {format_usd(_sum(things))} a month at list prices: "
        f"{len(ours)} of trainplan {format_usd(_sum(ours))}, {len(others)} others {format_usd(_sum(others))}{more}."
    )


def _by_region(things: Sequence[BilledThing]) -> list[str]:
    regions = dict.fromkeys((thing.provider, thing.region) for thing in things)
    if len(regions) < 2:
        return []
    sums = {region: _sum([thing for thing in things if (thing.provider, thing.region) == region]) for region in regions}
    return [f"  {' '.join(region)}: {format_usd(sums[region])}" for region in sorted(sums, key=lambda at: -sums[at])]


def _sum(things: Sequence[BilledThing]) -> Decimal:
    return sum((thing.usd_per_month for thing in things if thing.usd_per_month is not None), Decimal(0))


def _row(thing: BilledThing) -> tuple[str, ...]:
    since = f"{thing.since.astimezone():%Y-%m-%d}" if thing.since else "-"
    costs = _money(thing.usd_per_month)
    whose = thing.whose or "not ours"
    return (f"{thing.provider} {thing.region}", thing.kind, thing.id, whose, since, costs, thing.what)


def _money(usd: Decimal | None) -> str:
    if usd is None:
        return "?"
    return "<$0.01" if 0 < usd < _LEAST_USD else format_usd(usd)


def _json(things: Sequence[BilledThing], accounts: Sequence[_Account]) -> dict[str, object]:
    return {
        "usd_per_month": float(_sum(things)),
        "things": [
            {
                "provider": thing.provider,
                "region": thing.region,
                "kind": thing.kind,
                "id": thing.id,
                "what": thing.what,
                "whose": thing.whose or None,
                "since": thing.since.isoformat() if thing.since else None,
                "usd_per_month": float(thing.usd_per_month) if thing.usd_per_month is not None else None,
                "price_ground": thing.ground,
            }
            for thing in things
        ],
        "unread": [
            *(line for account in accounts if account.bill for line in account.bill.unread),
            *(f"{account.name}: {account.error.message}" for account in accounts if account.error),
        ],
        "not_looked_at": {account.name: account.left_out for account in accounts if account.left_out},
    }
