"""A fake provider that can do what some can besides: a time of its own, a doctor, a set-up, live prices, letting go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from tests.doubles.fake_provider import FakeProvider
from trainplan.pricing.obtainability import MachinePlacement, Obtainability
from trainplan.pricing.offers import Offer, PriceGrade
from trainplan.providers.abilities import SetupStep, placement_of
from trainplan.providers.base import Check, Preflight, PreflightState, ProviderSettings, VendorRequest

IDENTITY = Check(name="identity", state=PreflightState.OK, detail="account 123456789012")
NO_QUOTA = Check(
    name="quota", state=PreflightState.REFUSED, detail="needs 4 vCPUs, may have 0", fix="ask for 4: https://quotas"
)
OK = Check(name="quota", state=PreflightState.OK, detail="64 vCPUs")


def a_step(name: str) -> SetupStep:
    call = VendorRequest(service="fake", operation=f"Create{name.title()}", parameters={"Name": name})
    return SetupStep(name=name, detail=f"the {name} of every run", calls=(call,))


@dataclass
class FakeCloud(FakeProvider):
    """`account` are the doctor's lines, `judge` the checks of an offer's preflight, `made` the names of the steps that
    are set up, of `needs`. `live` gives the prices of an offer by zone ("": the whole region); an offer without any is
    not to be had. `closed` counts how often it has let go. `score` is what the vendor says of an offer."""

    name: str = "aws"
    account: tuple[Check, ...] = (IDENTITY,)
    judge: Callable[[Offer], tuple[Check, ...]] = lambda _: (OK,)
    needs: tuple[str, ...] = ("bucket", "role")
    finished_steps: list[str] = field(default_factory=list)
    live: Callable[[Offer], dict[str, str] | None] = lambda _: None
    closed: int = 0
    score: Callable[[Offer], Obtainability | None] = lambda _: None

    def now(self) -> datetime:
        return self.clock.now()

    def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    def doctor(self) -> Sequence[Check]:
        with self._call("doctor", ""):
            return self.account

    def preflight(self, offer: Offer) -> Preflight:
        with self._call("preflight", f"{offer.instance_type} {offer.region} {offer.market}"):
            return Preflight(checks=self.judge(offer))

    def lacking(self) -> Sequence[SetupStep]:
        with self._call("lacking", ""):
            return [a_step(name) for name in self.needs if name not in self.finished_steps]

    def removable(self) -> Sequence[SetupStep]:
        with self._call("removable", ""):
            return [a_step(name) for name in self.finished_steps]

    def carry_out(self, step: SetupStep, report: Callable[[str], None]) -> None:
        with self._call("carry_out", step.name):
            report(f"waiting for the {step.name}")
            if step.name in self.finished_steps:
                self.finished_steps.remove(step.name)
            else:
                self.finished_steps.append(step.name)

    def obtainability(self, offers: Sequence[Offer]) -> Mapping[MachinePlacement, Obtainability]:
        with self._call("obtainability", f"{len(offers)}"):
            return {placement_of(offer): score for offer in offers if (score := self.score(offer)) is not None}

    def refine(self, offers: Sequence[Offer]) -> Sequence[Offer]:
        with self._call("refine", f"{len(offers)}"):
            return [refined for offer in offers for refined in self._refined(offer)]

    def close(self) -> None:
        self.closed += 1

    def _refined(self, offer: Offer) -> list[Offer]:
        prices = self.live(offer)
        if prices is None:
            return [offer]
        return [
            replace(
                offer,
                zones=(zone,) if zone else (),
                usd_per_hour=Decimal(usd),
                planning_usd_per_hour=Decimal(usd),
                price_grade=PriceGrade.OBSERVED,
                price_as_of=self.clock.now().date(),
            )
            for zone, usd in prices.items()
        ]


def make(settings: ProviderSettings) -> FakeCloud:
    """What the registry calls: the cloud that a test has put into `CLOUDS`, by its name there."""
    del settings
    return CLOUDS[-1]


CLOUDS: list[FakeCloud] = []
FACTORY = f"{__name__}:make"
