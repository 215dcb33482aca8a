"""`plan setup PROVIDER --alarm`: what a person types wrongly is told before anything is made."""

from __future__ import annotations

import pytest

from planner.cli.commands.setup import wanted_alarm
from planner.errors import BadInputError

ME = "me@example.com"


@pytest.mark.parametrize(
    ("amount", "emails", "remove", "words"),
    [
        ("20", [], False, "--email"),
        ("", [ME], False, "--alarm"),
        ("20", [ME], True, "--remove"),
    ],
)
def test_half_an_alarm_is_told(amount: str, emails: list[str], remove: bool, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        wanted_alarm(amount, emails, remove=remove)


def test_none_is_asked_for_where_nothing_is_typed() -> None:
    assert wanted_alarm("", [], remove=False) is None
    assert wanted_alarm("", [], remove=True) is None
