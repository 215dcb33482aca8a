"""Whether an account would be let in: its own lines, its cheapest offers one by one, and what both come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from trainplan.pricing.money import format_usd_per_hour
from trainplan.pricing.offers import Offer
from trainplan.providers.abilities import Doctor, JobChecker, QuotaTeller, RegionTeller
from trainplan.providers.base import Check, Preflight, PreflightState, Provider
from trainplan.providers.cloud.sign_ins import how_to_sign_in
from trainplan.providers.errors import (
    BadRequestError,
    CredentialsError,
    MachineError,
    PermissionDeniedError,
    ProviderError,
)
from trainplan.providers.registry import is_here, names

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import RankedOffer
    from trainplan.workloads.job import TrainingJob

PATIENCE = timedelta(seconds=7)
"""What has not answered by then is unknown: a doctor takes ten seconds at most."""
FIRST_OFFERS, MOST_OFFERS = 4, 12
MOST_ROWS = 200
"""Rows of a ranking that are asked about; the others are left open."""
_MOST_AT_ONCE = 16
IDENTITY, QUOTA = "identity", "quota"
"""Names of a preflight's checks: the one that every offer shares, and the one that another placement may pass."""
PLACEMENT, MACHINE = {"network", "region"}, {"offered", "offered here", "lifecycle", "image"}
"""And those that hold for a region, and for a kind of machine there."""
_REFUSING: dict[type[ProviderError], str] = {
    CredentialsError: IDENTITY,
    PermissionDeniedError: "permission",
    BadRequestError: "offer",
    MachineError: "this machine",
}
"""What a raised error refuses; any other leaves open how it stands."""
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An offer, and whether a launch of it would be let in."""

    offer: Offer
    preflight: Preflight

    @property
    def state(self) -> PreflightState:
        """Whether the account can launch the offer, as far as the preflight knows."""
        return self.preflight.state

    @property
    def reason(self) -> Check | None:
        """The first of the checks that decides, for one that is let in its quota; None where there are none."""
        deciding = [check for check in self.preflight.checks if check.state is self.state]
        quotas = [check for check in deciding if check.name == QUOTA] if self.state is PreflightState.OK else []
        return next(iter((*quotas, *deciding)), None)

    @property
    def why(self) -> str:
        """What stands in the way, and what to do about it, in words; "" for nothing."""
        if self.reason is None or self.state is PreflightState.OK:
            return ""
        return _with_fix(f"{self.reason.name}: {self.reason.detail}", self.reason.fix)

    @property
    def wants_quota_only(self) -> bool:
        """Whether a quota is the only thing that stands in the way."""
        return self._refused == {QUOTA}

    @property
    def is_closed(self) -> bool:
        """Whether nobody is signed in: no other offer of the provider would be let in either."""
        return any(map(_is_closed, self.preflight.checks))

    @property
    def is_refused_here(self) -> bool:
        """Whether it is the placement or the machine that is refused, and not the account."""
        return bool(self._refused & {*PLACEMENT, *MACHINE}) and self._refused <= {*PLACEMENT, *MACHINE, QUOTA}

    def may_be_let_in_at(self, offer: Offer) -> bool:
        """Whether what refuses this one leaves that one open."""
        mine = self.offer
        if (offer.provider, offer.region) != (mine.provider, mine.region):
            return True
        return not self._refused & PLACEMENT and offer.instance_type != mine.instance_type

    @property
    def _refused(self) -> set[str]:
        return {check.name for check in self.preflight.checks if check.state is PreflightState.REFUSED}

    @property
    def text(self) -> str:
        """The offer in words."""
        return offer_text(self.offer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """`account` are the lines that hold for every launch, `offers` the cheapest up to the first that is let in.

    `state` is whether anything can be launched, `sentence` what that comes to.
    """

    provider: str
    account: tuple[Check, ...]
    offers: tuple[Judged, ...]
    state: PreflightState
    sentence: str


def preflight_of(provider: Provider, offer: Offer, job: TrainingJob | None) -> Preflight:
    """The preflight of an offer for the job, where the provider can tell of one; None: of any job.

    Raises ProviderError.
    """
    if job is not None and isinstance(provider, JobChecker):
        return provider.preflight_for(offer, job)
    return provider.preflight(offer)


def examine(
    provider: Provider, ranked: Sequence[Offer], job: TrainingJob | None = None, patience: timedelta = PATIENCE
) -> Examination:
    """The whole answer for one provider; `ranked` are its offers for the job, the cheapest first. Creates nothing.

    The account and the first offers are asked about at once; the offers are not waited for where the account is
    refused, and further ones are asked about only where none of these is let in: those that no quota known to the
    provider is too small for, so that a new account is told what it can launch.
    """
    placements, began = one_of_each_pool(ranked), monotonic()
    first: list[Callable[[], Sequence[Check]]] = [lambda: _account(provider)]
    account, *answers = _answers([*first, *_asking(provider, placements[:FIRST_OFFERS], job)], patience, _refusal)
    nobody = next((check for checks in answers for check in checks if _is_closed(check)), None)
    if nobody is not None and nobody not in account:
        account = (nobody, *account)
    if _refusal(account) is not None:  # what the offers would need is of no use then
        placements, answers = [], []
    judged = _judged(placements, answers)
    if placements and not any(placement.state is PreflightState.OK for placement in judged):
        rest = max(timedelta(0), patience - timedelta(seconds=monotonic() - began))
        further = _within_quotas(provider, ranked) or placements[len(answers) :]
        judged += _judged(further, _answers(_asking(provider, further, job), rest))
    rows = _up_to_the_first_let_in(judged)
    state, sentence = _verdict(provider.name, account, rows, job)
    return Examination(provider=provider.name, account=account, offers=rows, state=state, sentence=sentence)


def judge(
    offers: Sequence[Offer], provider_of: Callable[[str], Provider], patience: timedelta = PATIENCE
) -> list[Judged]:
    """Each offer at its own provider, all at once."""
    providers = {name: provider_of(name) for name in dict.fromkeys(offer.provider for offer in offers)}
    calls = [lambda offer=offer: _preflight(providers[offer.provider], offer) for offer in offers]
    answers = at_once(calls, patience)
    return [
        Judged(offer=offer, preflight=checks or Preflight(checks=_silent(patience)))
        for offer, checks in zip(offers, answers, strict=True)
    ]


def judge_rows(
    rows: Sequence[RankedOffer], provider_of: Callable[[str], Provider], is_used: Callable[[str], bool]
) -> dict[str, Judged]:
    """The first rows of a ranking, by number: let in, refused with the reason, or unknown. Creates nothing.

    `is_used` tells whether somebody may be signed in to a provider: nobody else's is asked.
    """
    checked = list(rows[:MOST_ROWS])
    beforehand = {ranked.number: _beforehand(ranked, is_used) for ranked in checked}
    verdicts = {number: verdict for number, verdict in beforehand.items() if verdict is not None}
    open_yet = [ranked for ranked in checked if ranked.number not in verdicts]
    judged = judge([ranked.offer for ranked in open_yet], provider_of)
    verdicts |= {ranked.number: verdict for ranked, verdict in zip(open_yet, judged, strict=True)}
    return {ranked.number: verdicts[ranked.number] for ranked in checked}


def one_of_each_pool(ranked: Sequence[Offer]) -> list[Offer]:
    """The first offer of each region, family and market: a quota holds for all of these at once."""
    first_of_pool: dict[tuple[str, str, str], Offer] = {}
    for offer in ranked:
        first_of_pool.setdefault((offer.region, offer.family or offer.instance_type, offer.market), offer)
        if len(first_of_pool) == MOST_OFFERS:
            break
    return list(first_of_pool.values())


def at_once(
    calls: Sequence[Callable[[], _Answer]], patience: timedelta, settles: Callable[[_Answer], object] | None = None
) -> list[_Answer | None]:
    """What each call returned; None for one that has not within this time, or that is not waited for because what the
    first one returned `settles` it. Raises what a call raised."""
    until = monotonic() + patience.total_seconds()
    pool = ThreadPoolExecutor(max_workers=_MOST_AT_ONCE, thread_name_prefix="plan")
    futures: list[Future[_Answer]] = [pool.submit(call) for call in calls]
    if settles is not None:
        wait(futures[:1], timeout=patience.total_seconds())
    if settles is None or not (futures[0].done() and settles(futures[0].result())):
        wait(futures, timeout=max(0.0, until - monotonic()))
    answers = [future.result() if future.done() else None for future in futures]
    # A call that hangs must not keep the command: its answer is unknown.
    pool.shutdown(wait=False, cancel_futures=True)
    return answers


def offer_text(offer: Offer) -> str:
    """`g4dn.xlarge (on demand) in us-east-1 at $0.526/h`."""
    if is_here(offer.provider):
        return "this machine"
    price = format_usd_per_hour(offer.planning_usd_per_hour or offer.usd_per_hour)
    return f"{offer.instance_type} ({offer.market.replace('_', ' ')}) in {offer.region} at {price}"


def _beforehand(ranked: RankedOffer, is_used: Callable[[str], bool]) -> Judged | None:
    """What is known without asking; None where the provider has to be asked."""
    offer, reason = ranked.offer, ranked.candidate.estimate.only_estimated
    name = offer.provider
    if name not in names():
        check = Check(name="provider", state=PreflightState.UNKNOWN, detail=f"{name} cannot be launched on")
    elif reason is not None:
        check = Check(name="trainer", state=PreflightState.REFUSED, detail=reason.text)
    elif not is_used(name):
        detail, fix = f"there is no sign-in for {name} on this computer", how_to_sign_in(name)
        check = Check(name=IDENTITY, state=PreflightState.REFUSED, detail=detail, fix=fix)
    else:
        return None
    return Judged(offer=offer, preflight=Preflight(checks=(check,)))


def _within_quotas(provider: Provider, ranked: Sequence[Offer]) -> list[Offer]:
    """The first offers that no known quota forbids and no closed region, one of each pool; none where nothing does."""
    regions = list(dict.fromkeys(offer.region for offer in ranked))
    closed = provider.closed_regions(regions) if isinstance(provider, RegionTeller) else {}
    there = [offer for offer in ranked if offer.region not in closed]
    short = provider.shortfalls(there) if isinstance(provider, QuotaTeller) else [""] * len(there)
    fitting = [offer for offer, why in zip(there, short, strict=True) if not why]
    return one_of_each_pool(fitting)[:FIRST_OFFERS] if closed or any(short) else []


def _asking(
    provider: Provider, offers: Sequence[Offer], job: TrainingJob | None
) -> list[Callable[[], Sequence[Check]]]:
    return [lambda offer=offer: _preflight(provider, offer, job).checks for offer in offers]  # type: ignore[misc]


def _answers(
    calls: Sequence[Callable[[], Sequence[Check]]],
    patience: timedelta,
    settles: Callable[[Sequence[Check]], object] | None = None,
) -> list[tuple[Check, ...]]:
    return [_silent(patience) if checks is None else tuple(checks) for checks in at_once(calls, patience, settles)]


def _judged(offers: Sequence[Offer], answers: Sequence[tuple[Check, ...]]) -> list[Judged]:
    """Pair offers with their checks: as many as there are answers."""
    pairs = zip(offers, answers, strict=False)
    return [Judged(offer=offer, preflight=Preflight(checks=checks)) for offer, checks in pairs]


def _is_closed(check: Check) -> bool:
    return check.name == IDENTITY and check.state is PreflightState.REFUSED


def _refusal(account: Sequence[Check]) -> Check | None:
    return next((check for check in account if check.state is PreflightState.REFUSED), None)


def _account(provider: Provider) -> tuple[Check, ...]:
    if not isinstance(provider, Doctor):
        return ()
    try:
        return tuple(provider.doctor())
    except ProviderError as error:
        return (_failed(error),)


def _preflight(provider: Provider, offer: Offer, job: TrainingJob | None = None) -> Preflight:
    try:
        return preflight_of(provider, offer, job)
    except ProviderError as error:
        return Preflight(checks=(_failed(error),))


def _failed(error: ProviderError) -> Check:
    name = next((name for kind, name in _REFUSING.items() if isinstance(error, kind)), None)
    state = PreflightState.UNKNOWN if name is None else PreflightState.REFUSED
    return Check(name=name or "answer", state=state, detail=error.message, fix=error.hint)


def _silent(patience: timedelta) -> tuple[Check, ...]:
    detail = f"no reply within {patience.total_seconds():g} s"
    return (Check(name="answer", state=PreflightState.UNKNOWN, detail=detail, fix="check the network connection"),)


def _up_to_the_first_let_in(judged: Sequence[Judged]) -> tuple[Judged, ...]:
    first = next((index for index, placement in enumerate(judged) if placement.state is PreflightState.OK), len(judged))
    return tuple(judged[: first + 1])


def _verdict(
    name: str, account: Sequence[Check], offers: Sequence[Judged], job: TrainingJob | None
) -> tuple[PreflightState, str]:
    """Whether anything can be launched, and the sentence that a doctor ends with: it names the job that it is of."""
    refused = _refusal(account)
    if refused is not None:
        is_shared = sum(check.detail == refused.detail for check in account) > 1
        return PreflightState.REFUSED, _nothing(name, refused, is_shared=is_shared)
    if offers and offers[-1].state is PreflightState.OK:
        return PreflightState.OK, f"{name}: {_cheapest(name, offers[-1], job)}"
    unknown = next((placement for placement in offers if placement.state is PreflightState.UNKNOWN), None)
    if unknown is not None and unknown.reason is not None:
        why = f"{unknown.reason.name}: {unknown.reason.detail}"
        if is_here(name):
            return (
                PreflightState.UNKNOWN,
                f"{name}: no obstacle is known; {_with_fix(why, unknown.reason.fix)}",
            )
        return PreflightState.UNKNOWN, f"{name}: it is not known whether {unknown.text} could be launched: {why}"
    quota = next((placement for placement in offers if placement.wants_quota_only), None)
    if quota is not None and quota.reason is not None:
        asks = f"the one quota to ask for is that of {quota.text}: {quota.reason.detail}"
        return PreflightState.REFUSED, f"{name}: nothing can be launched yet; {_with_fix(asks, quota.reason.fix)}"
    if not offers or offers[0].reason is None:
        return PreflightState.REFUSED, f"{name}: it has no offer for the job{_named(job)}"
    return PreflightState.REFUSED, _nothing(name, offers[0].reason)


def _cheapest(name: str, judged: Judged, job: TrainingJob | None) -> str:
    if is_here(name):
        return f"this machine can train now{_named(job, ': ')}"
    return f"the cheapest that this account can launch now{_named(job, ' for ')} is {judged.text}"


def _named(job: TrainingJob | None, before: str = " ") -> str:
    return f"{before}{job.name}" if job else ""


def _nothing(name: str, check: Check, *, is_shared: bool = False) -> str:
    """`is_shared`: other checks fail for the same reason, so that the name of this one says nothing."""
    why = check.detail if is_shared else f"{check.name}: {check.detail}"
    return f"{name}: nothing can be launched; {_with_fix(why, check.fix)}"


def _with_fix(text: str, fix: str) -> str:
    return f"{text} ({fix})" if fix else text
