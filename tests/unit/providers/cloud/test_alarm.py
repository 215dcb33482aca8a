"""What a person asks for as an alarm, before any vendor hears of it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from trainplan.providers.cloud.alarm import Alarm, wanted
from trainplan.providers.errors import BadRequestError

ME = "me@example.com"


@pytest.mark.parametrize(
    "amount", ["", "0", "0.00", "-5", "20EUR", "$20", "20 USD", "1e3", "nan", "inf", "20.001", "٢٠"]
)
def test_an_amount_that_is_none_is_told(amount: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        wanted(amount, [ME])
    assert "AWS: in US dollars" in caught.value.hint or amount in ("0", "0.00")


def test_an_alarm_at_0_is_told_what_it_would_do() -> None:
    with pytest.raises(BadRequestError, match="an alarm at 0 would mail you at once and always"):
        wanted("0", [ME])


@pytest.mark.parametrize(
    "address", ["", "me", "me@", "@x.org", "me@localhost", "a b@x.org", "a@x.org,b@x.org", "<a@x.org>"]
)
def test_an_address_that_is_none_is_told(address: str) -> None:
    with pytest.raises(BadRequestError, match="mail address"):
        wanted("20", [address])


def test_one_to_five_people_are_warned() -> None:
    with pytest.raises(BadRequestError, match="one to 5"):
        wanted("20", [])
    with pytest.raises(BadRequestError, match="not 6"):
        wanted("20", [f"p{number}@example.com" for number in range(6)])
    assert wanted("20", [ME, ME]).emails == (ME,)


def test_the_order_of_addresses_and_zeros_at_the_end_change_nothing() -> None:
    here = Alarm(amount=Decimal("20.00"), emails=(ME, "b@example.com"), currency="USD")
    assert wanted("20", ["b@example.com", ME]).is_like(here)
    assert not wanted("21", [ME, "b@example.com"]).is_like(here)
    assert not wanted("20", [ME]).is_like(None)
    assert here.text == f"20 USD a month, mail to {ME}, b@example.com"
