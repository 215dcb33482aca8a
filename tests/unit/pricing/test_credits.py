"""Credits: whose they are, when they pay, and what is left of them after some runs."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pytest

from trainplan.pricing.credits import Bill, Credit, CurrentCredits, current_credits, parse_credits, payments
from trainplan.pricing.own_rates import OwnRateError

TODAY = date(2026, 11, 21)
DAY = timedelta(days=1)
ENTRY = {"provider": "gcp", "usd_left": 300, "as_of": TODAY, "note": "trial"}


def a_credit(usd: str = "300", provider: str = "gcp", since: date = TODAY, until: date | None = None) -> Credit:
    return Credit(provider=provider, usd_left=Decimal(usd), as_of=since, until=until)


def a_bill(usd: str, day: date = TODAY, provider: str = "gcp", run: str = "a") -> Bill:
    return Bill(run, provider, datetime.combine(day, time(12), UTC), Decimal(usd))


def current(*bills: Bill, accounts: dict[str, str] | None = None, **entry: object) -> CurrentCredits:
    return current_credits(parse_credits({"credit": [ENTRY | entry]}), TODAY, accounts or {}, bills)


def test_a_run_is_paid_by_the_credit_and_the_rest_of_it_by_the_person() -> None:
    paid = payments([a_credit("10")], [a_bill("7"), a_bill("7", TODAY + DAY, run="b")])
    assert paid.left_usd == (0,)
    assert paid.paid_usd == {"a": 7, "b": 3}


def test_runs_of_one_day_are_paid_in_the_order_in_which_they_began() -> None:
    noon, later = a_bill("7", run="b"), a_bill("7", run="a")
    later = later._replace(began_at=later.began_at + timedelta(minutes=1))
    for bills in ([noon, later], [later, noon]):
        assert payments([a_credit("10")], bills).paid_usd == {"b": 7, "a": 3}


def test_the_credit_that_ends_first_pays_first() -> None:
    with_end = a_credit("5", until=TODAY + DAY)
    assert payments([a_credit("5"), with_end], [a_bill("7")]).left_usd == (3, 0)
    late = a_bill("7", TODAY + 2 * DAY)
    assert payments([a_credit("5"), with_end], [late]).left_usd == (0, 5)
    assert payments([a_credit("5"), with_end], [late]).paid_usd == {"a": 5}


@pytest.mark.parametrize(
    "bill",
    [a_bill("7", provider="aws"), a_bill("7", TODAY - DAY), a_bill("7", TODAY + 9 * DAY)],
    ids=["another provider", "before the amount was looked up", "after its end"],
)
def test_what_a_credit_does_not_pay(bill: Bill) -> None:
    paid = payments([a_credit(until=TODAY + 8 * DAY)], [bill])
    assert (paid.left_usd, paid.paid_usd) == ((300,), {"a": 0})


def test_what_is_left_today() -> None:
    (credit,) = current(a_bill("12.5")).credits
    assert credit.usd_left == Decimal("287.5")
    assert credit.text == "gcp (trial)"
    assert current().credits == parse_credits({"credit": [ENTRY]})


def test_a_line_says_of_a_credit_that_it_has_ended_is_used_up_or_begins_later() -> None:
    ended = current(as_of="2026-10-01", until=TODAY - DAY)
    assert ended.credits == ()
    assert ended.lines == ("credit no longer used: gcp, until 2026-11-20 (trial): it ended on 2026-11-20",)
    used_up = current(a_bill("300.01"))
    assert used_up.credits == ()
    assert used_up.lines == (
        "credit no longer used: gcp (trial): runs of this home have used its $300.00 since 2026-11-21",
    )
    assert current(as_of=TODAY + DAY).lines == ("credit not used yet: gcp (trial): its amount is that of 2026-11-22",)


def test_a_credit_of_an_account_pays_where_that_account_is_in_use() -> None:
    assert len(current(account="ours", accounts={"gcp": "ours"}).credits) == 1
    other = current(account="ours", accounts={"gcp": "theirs"})
    assert (other.credits, other.lines) == ((), ())
    assert other.other_accounts == (
        "credit not used: gcp (trial): it is for account ours, which is not known to be in use",
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"credit": 7}, "prices.credit is a list"),
        ({"credit": [7]}, "prices.credit 1: needs at least a provider"),
        ({"credit": [{"provider": "gcp", "usd": 3}]}, "there is no 'usd'"),
        ({"credit": [{"provider": "gcp", "usd_left": 3}]}, "needs usd_left, and as_of"),
        ({"credit": [{"provider": "gcp", "as_of": TODAY}]}, "needs usd_left, and as_of"),
        ({"credit": [ENTRY | {"usd_left": -1}]}, "usd_left: -1 is not a number from 0"),
        ({"credit": [ENTRY | {"until": 7}]}, "until 7 is not a day"),
    ],
)
def test_credits_that_cannot_be(table: object, message: str) -> None:
    with pytest.raises(OwnRateError, match=message) as error:
        parse_credits(table)
    assert "usd_left = 300" in error.value.hint or "is not a" in message
