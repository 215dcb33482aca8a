"""What vendors tell an account of the offers of a plan: scores of how likely each is obtained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from trainplan.planner.planning.check import PATIENCE, at_once
from trainplan.providers.abilities import ObtainabilityTeller, placement_of
from trainplan.providers.errors import ProviderError
from trainplan.providers.registry import is_here
from trainplan.providers.registry import names as registered

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Plan
    from trainplan.pricing.obtainability import MachinePlacement, Obtainability
    from trainplan.pricing.offers import Offer
    from trainplan.providers.base import Provider

    Scores = Mapping[MachinePlacement, Obtainability]

SCORED = 10
"""First offers of a ranking that are asked about: vendors limit how many different requests they answer."""
MOST_ROUNDS = 2
"""After a round the ranking may begin with offers that were not asked about."""


def with_scores(
    plan: Plan, again: Callable[[Scores], Plan], ask: Callable[[Sequence[Offer]], Scores]
) -> tuple[Plan, Scores]:
    """The plan with the scores that `ask` returns for its first offers, made `again` with them, and the scores."""
    scores: dict[MachinePlacement, Obtainability] = {}
    asked_placements: set[MachinePlacement] = set()
    for _ in range(MOST_ROUNDS):
        offers = [ranked.offer for ranked in plan.candidates[:SCORED]]
        open_offers = [offer for offer in offers if placement_of(offer) not in asked_placements]
        if not open_offers:
            break
        asked_placements |= set(map(placement_of, open_offers))
        new_scores = ask(open_offers)
        if not new_scores:
            break
        scores |= new_scores
        plan = again(scores)
    return plan, scores


class ScoreReader:
    """Asks each provider that somebody may be signed in to, all at once; one that cannot tell is told to `say` in one
    line, once, and its offers stay as they are."""

    def __init__(
        self,
        provider_of: Callable[[str], Provider],
        is_used: Callable[[str], bool],
        say: Callable[[str], None],
        patience: timedelta = PATIENCE,
    ) -> None:
        self._provider_of = provider_of
        self._is_used = is_used
        self._say = say
        self._patience = patience
        self._silent: set[str] = set()

    def __call__(self, offers: Sequence[Offer]) -> Scores:
        """The scores of those offers that a vendor scores."""
        names = [
            name
            for name in dict.fromkeys(offer.provider for offer in offers)
            if name in registered() and not is_here(name) and name not in self._silent and self._is_used(name)
        ]
        tellers = [
            (name, teller) for name in names if isinstance(teller := self._provider_of(name), ObtainabilityTeller)
        ]
        calls = [
            partial(_answer, teller, [offer for offer in offers if offer.provider == name]) for name, teller in tellers
        ]
        scores: dict[MachinePlacement, Obtainability] = {}
        for (name, _), answer in zip(tellers, at_once(calls, self._patience), strict=True):
            if answer is None or isinstance(answer, str):
                why = answer or f"no answer within {self._patience.total_seconds():g} s"
                self._say(f"{name}: whether its offers are obtained stays unknown: {why}")
                self._silent.add(name)
            else:
                scores |= answer
        return scores


def _answer(teller: ObtainabilityTeller, offers: Sequence[Offer]) -> Scores | str:
    """The scores, or why there are none."""
    try:
        return teller.obtainability(offers)
    except ProviderError as error:
        return error.message
