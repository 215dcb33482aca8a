"""The person's own prices as they are now: rates in the place of list prices, and credits that pay for runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trainplan.pricing.credits import Credit
    from trainplan.pricing.own_rates import OwnRate


class OwnPrices(NamedTuple):
    """What holds now, with what is left of it; `lines` say what no longer does, `other_accounts` what is for an
    account that is not in use."""

    rates: tuple[OwnRate, ...] = ()
    credits: tuple[Credit, ...] = ()
    lines: tuple[str, ...] = ()
    other_accounts: tuple[str, ...] = ()

    @property
    def credit_usd(self) -> Mapping[str, Decimal]:
        """What is left of all credits, by provider."""
        left: defaultdict[str, Decimal] = defaultdict(Decimal)
        for credit in self.credits:
            left[credit.provider] += credit.usd_left
        return dict(left)
