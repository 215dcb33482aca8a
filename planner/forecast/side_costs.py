"""What a run pays beside its machine, region by region: disk, address, transfer, and traffic with its bucket."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from trainplan.pricing.cost import (
    AttachedRates,
    ProviderRates,
    RegionRates,
    RunCost,
    RunUsage,
    attached_per_hour,
    run_cost,
    side_micro_usd,
)
from trainplan.pricing.money import UsdPerHour

NOTHING_PER_HOUR = UsdPerHour(Decimal(0))


class RegionClasses(dict[str, int]):
    """A number for each region of a provider: regions with the same number have the same rates.

    `bucket` is the region of the run's bucket, "" where none is known: it is then taken to be that of the machine.
    """

    def __init__(self, rates: ProviderRates, bucket: str) -> None:
        super().__init__()
        self.rates = rates
        self.bucket = bucket
        self.members: list[RegionRates] = []
        """One place of each class, by its number."""
        self._numbers: dict[tuple[Decimal, ...], int] = {}

    def __missing__(self, region: str) -> int:
        placement = self.placement(region)
        number = self._numbers.setdefault(placement.usd, len(self.members))
        if number == len(self.members):
            self.members.append(placement)
        self[region] = number
        return number

    def placement(self, region: str) -> RegionRates:
        """The rates of a machine there, with their grounds."""
        return self.rates.at(region, self.bucket)


class SideCosts(dict[int, int]):
    """The side costs of one run, by the number of a class of regions, in millionths of a dollar.

    `usages` and `lasting` are triples: expected, low, high. `steady` is what the run would take if nothing interrupted.
    """

    def __init__(
        self,
        classes: RegionClasses,
        usages: tuple[RunUsage, RunUsage, RunUsage],
        lasting: tuple[timedelta, timedelta, timedelta],
        steady: RunUsage,
    ) -> None:
        super().__init__()
        self.classes = classes
        self.usages = usages
        self.steady = steady
        self._lasting = lasting
        self._rests_on = (classes.rates.provider, classes.bucket, usages, lasting, steady)
        self._billed = [classes.rates.billing.billed_seconds(one) for one in lasting]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SideCosts) and self._rests_on == other._rests_on

    def __hash__(self) -> int:  # type: ignore[override]  # what it rests on never changes; its items are found out
        return hash(self._rests_on)

    def __missing__(self, number: int) -> int:
        self[number] = micro_usd = self._micro_usd(number, 0)
        return micro_usd

    def micro_usd(self, region: str, which: int = 0) -> int:
        """What it costs with a machine in a region, in millionths of a dollar; `which` 0 expected, 1 low, 2 high."""
        number = self.classes[region]
        return self._micro_usd(number, which) if which else self[number]

    def parts(self, region: str) -> RunCost:
        """The parts of what is expected, in USD."""
        return run_cost(NOTHING_PER_HOUR, self._lasting[0], self.usages[0], self.classes.placement(region))

    def attached_per_hour(self, region: str) -> AttachedRates:
        """What its disk and its address cost in a region for an hour."""
        return attached_per_hour(self.usages[0], self.classes.placement(region))

    def uninterrupted(self, rate: UsdPerHour, lasting: timedelta, region: str) -> RunCost:
        """The whole run at a rate, if it lasted so long and nothing interrupted it."""
        return run_cost(rate, lasting, self.steady, self.classes.placement(region))

    def _micro_usd(self, number: int, which: int) -> int:
        return side_micro_usd(self._billed[which], self.usages[which], self.classes.members[number])
