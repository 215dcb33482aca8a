"""What a doctor makes of an account: which offers it looks at, how many, and the sentence that it ends with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import pytest

from tests.builders import a_job, an_offer
from tests.doubles.clock import FakeClock
from tests.doubles.fake_cloud import IDENTITY, NO_QUOTA, OK, FakeCloud
from trainplan.planner.planning.check import (
    FIRST_OFFERS,
    MOST_OFFERS,
    Judged,
    at_once,
    examine,
    judge,
    one_of_each_pool,
)
from trainplan.pricing.offers import Market, Offer
from trainplan.providers.base import Check, Preflight, PreflightState
from trainplan.providers.errors import (
    BadRequestError,
    CredentialsError,
    MachineError,
    PermissionDeniedError,
    TransientError,
)

UNKNOWN = Check(name="quota", state=PreflightState.UNKNOWN, detail="you may not ask for quotas")
RETIRED = Check(name="lifecycle", state=PreflightState.REFUSED, detail="retired", fix="g6.xlarge")
NOBODY = Check(name="identity", state=PreflightState.REFUSED, detail="nobody is signed in", fix="aws sso login")


def at(region: str, **changes: object) -> Offer:
    told = {"provider": "aws", "instance_type": "g4dn.xlarge", "family": "g4dn", "device": "T4", **changes}
    return an_offer(region=region, **told)


EAST, WEST, NORTH = at("us-east-1"), at("us-west-2"), at("eu-north-1")


def cloud(judged: dict[str, Check], **changes: object) -> FakeCloud:
    """Each region with the check that its preflight ends with."""
    return FakeCloud(FakeClock(), judge=lambda offer: (IDENTITY, judged[offer.region]), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("judged", "row_count", "state", "sentence"),
    [
        (
            {"us-east-1": OK, "us-west-2": NO_QUOTA, "eu-north-1": OK},
            1,
            PreflightState.OK,
            "aws: the cheapest that this account can launch now is g4dn.xlarge (on demand) in us-east-1 at $0.000/h",
        ),
        (
            {"us-east-1": NO_QUOTA, "us-west-2": UNKNOWN, "eu-north-1": OK},
            3,
            PreflightState.OK,
            "aws: the cheapest that this account can launch now is g4dn.xlarge (on demand) in eu-north-1 at $0.000/h",
        ),
        (
            {"us-east-1": NO_QUOTA, "us-west-2": NO_QUOTA, "eu-north-1": NO_QUOTA},
            3,
            PreflightState.REFUSED,
            "aws: nothing can be launched yet; the one quota to ask for is that of g4dn.xlarge (on demand) in "
            "us-east-1 at $0.000/h: needs 4 vCPUs, may have 0 (ask for 4: https://quotas)",
        ),
        (
            {"us-east-1": RETIRED, "us-west-2": NO_QUOTA, "eu-north-1": RETIRED},
            3,
            PreflightState.REFUSED,
            "aws: nothing can be launched yet; the one quota to ask for is that of g4dn.xlarge (on demand) in "
            "us-west-2 at $0.000/h: needs 4 vCPUs, may have 0 (ask for 4: https://quotas)",
        ),
        (
            {"us-east-1": NO_QUOTA, "us-west-2": UNKNOWN, "eu-north-1": NO_QUOTA},
            3,
            PreflightState.UNKNOWN,
            "aws: it is not known whether g4dn.xlarge (on demand) in us-west-2 at $0.000/h could be launched: quota: "
            "you may not ask for quotas",
        ),
        (
            {"us-east-1": RETIRED, "us-west-2": RETIRED, "eu-north-1": RETIRED},
            3,
            PreflightState.REFUSED,
            "aws: nothing can be launched; lifecycle: retired (g6.xlarge)",
        ),
    ],
)
def test_offers_are_looked_at_up_to_the_first_that_is_let_in(
    judged: dict[str, Check], row_count: int, state: PreflightState, sentence: str
) -> None:
    told = examine(cloud(judged), [EAST, WEST, NORTH])
    assert [known.offer for known in told.offers] == [EAST, WEST, NORTH][:row_count]
    assert (told.account, told.state, told.sentence) == ((IDENTITY,), state, sentence)


def test_an_account_that_is_refused_launches_nothing_whatever_its_offers_say() -> None:
    told = examine(cloud({"us-east-1": OK}, account=(IDENTITY, NOBODY)), [EAST])
    assert told.offers == ()
    assert told.state is PreflightState.REFUSED
    assert told.sentence == "aws: nothing can be launched; identity: nobody is signed in (aws sso login)"


def test_an_account_that_is_refused_does_not_wait_for_its_offers() -> None:
    """They would answer only when the doctor is done."""
    done = threading.Event()
    waited: list[bool] = []

    def judge(offer: Offer) -> tuple[Check, ...]:
        waited.append(done.wait(60))
        return (OK,)

    asked = FakeCloud(FakeClock(), judge=judge, account=(NOBODY,))
    told = examine(asked, [EAST], patience=timedelta(minutes=5))
    assert waited == [], "the offers have not answered yet"
    done.set()
    assert (told.state, told.offers) == (PreflightState.REFUSED, ())


def test_where_nobody_is_signed_in_the_offers_are_left_out() -> None:
    told = examine(cloud({"us-east-1": OK, "us-west-2": NOBODY}), [EAST, WEST])
    assert (told.account, told.offers, told.state) == ((NOBODY, IDENTITY), (), PreflightState.REFUSED)
    assert examine(cloud({"us-east-1": NOBODY}, account=(NOBODY,)), [EAST]).account == (NOBODY,)


def test_nothing_for_the_job_is_said() -> None:
    told = examine(cloud({}), [])
    assert (told.state, told.sentence) == (PreflightState.REFUSED, "aws: it has no offer for the job")


def test_the_sentence_names_the_job() -> None:
    job = a_job(name="digits")
    assert examine(cloud({}), [], job).sentence == "aws: it has no offer for the job digits"
    let_in = examine(cloud({"us-east-1": OK}), [EAST], job)
    assert let_in.sentence.startswith("aws: the cheapest that this account can launch now for digits is ")


def test_further_offers_are_looked_at_where_the_first_are_refused() -> None:
    regions = [f"region-{number}" for number in range(MOST_OFFERS)]
    asked = cloud({region: NO_QUOTA for region in regions} | {"region-6": OK})
    told = examine(asked, [at(region) for region in regions])
    assert (told.offers[-1].offer.region, len(told.offers)) == ("region-6", 7)
    early = cloud(dict.fromkeys(regions, OK))
    examine(early, [at(region) for region in regions])
    assert (asked.count("preflight"), early.count("preflight")) == (MOST_OFFERS, FIRST_OFFERS)


def test_a_quota_is_looked_at_once() -> None:
    """The offers of a region, family and market share one; so many are looked at and no more."""
    spot = at("us-east-1", market=Market.SPOT)
    larger = at("us-east-1", instance_type="g4dn.2xlarge")
    other = at("us-east-1", instance_type="g5.xlarge", family="g5")
    assert one_of_each_pool([EAST, larger, spot, other, WEST]) == [EAST, spot, other, WEST]
    everywhere = [at(f"region-{number}") for number in range(MOST_OFFERS + 5)]
    assert one_of_each_pool(everywhere) == everywhere[:MOST_OFFERS]


@pytest.mark.parametrize(
    ("error", "state", "name"),
    [
        (CredentialsError("expired", hint="sign in"), PreflightState.REFUSED, "identity"),
        (PermissionDeniedError("may not"), PreflightState.REFUSED, "permission"),
        (BadRequestError("nothing launches that"), PreflightState.REFUSED, "offer"),
        (MachineError("boto3 is not installed here"), PreflightState.REFUSED, "this machine"),
        (TransientError("lost"), PreflightState.UNKNOWN, "answer"),
    ],
)
@pytest.mark.parametrize("operation", ["doctor", "preflight"])
def test_what_is_raised_is_a_line(operation: str, error: Exception, state: PreflightState, name: str) -> None:
    asked = cloud({"us-east-1": OK})
    asked.down[operation] = error
    told = examine(asked, [EAST])
    check = told.account[0] if operation == "doctor" or name == "identity" else told.offers[0].preflight.checks[0]
    assert (check.state, check.name, check.detail) == (state, name, str(error))


def test_what_does_not_answer_in_time_is_unknown() -> None:
    silent, done = threading.Event(), threading.Event()

    def waits(_: str) -> None:
        silent.wait(30)
        done.set()

    asked = cloud({"us-east-1": OK}, before=waits)
    told = examine(asked, [EAST], patience=timedelta(milliseconds=50))
    assert {check.detail for check in (*told.account, *told.offers[0].preflight.checks)} == {"no reply within 0.05 s"}
    assert told.state is PreflightState.UNKNOWN
    silent.set()
    assert done.wait(30)


def test_all_are_asked_at_once() -> None:
    """Each waits for the other, so one after the other would never end."""
    barrier = threading.Barrier(2)
    calls: list[Callable[[], int]] = [lambda: barrier.wait(30), lambda: barrier.wait(30)]
    assert sorted(answer for answer in at_once(calls, timedelta(seconds=30)) if answer is not None) == [0, 1]


def test_a_mistake_of_our_own_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        at_once([lambda: 1 // 0], timedelta(seconds=30))


def test_offers_are_judged_at_their_own_provider() -> None:
    clouds = {
        "aws": cloud({"us-east-1": OK}),
        "gcp": FakeCloud(FakeClock(), name="gcp", judge=lambda _: (NOBODY,)),
    }
    first, second = judge([EAST, at("us-central1", provider="gcp")], clouds.__getitem__)
    assert (first.state, second.state) == (PreflightState.OK, PreflightState.REFUSED)
    assert (first.is_closed, second.is_closed) == (False, True)
    assert second.why == "identity: nobody is signed in (aws sso login)"


def refused(*names: str) -> Judged:
    checks = tuple(Check(name=name, state=PreflightState.REFUSED, detail="no") for name in names)
    return Judged(offer=EAST, preflight=Preflight(checks=(IDENTITY, *checks)))


@pytest.mark.parametrize(
    ("names", "here", "elsewhere"),
    [
        ((), False, {"another machine", "another region"}),
        (("quota",), False, {"another machine", "another region"}),
        (("network",), True, {"another region"}),
        (("network", "image", "quota"), True, {"another region"}),
        (("offered",), True, {"another machine", "another region"}),
        (("image", "quota"), True, {"another machine", "another region"}),
        (("identity", "network"), False, {"another region"}),
        (("set-up", "offered"), False, {"another machine", "another region"}),
    ],
)
def test_what_a_placement_refuses_another_may_not(names: tuple[str, ...], here: bool, elsewhere: set[str]) -> None:
    known = refused(*names)
    offers = {"itself": EAST, "another machine": at("us-east-1", instance_type="g5.xlarge"), "another region": WEST}
    assert known.is_refused_here is here
    assert {name for name, offer in offers.items() if known.may_be_let_in_at(offer)} == elsewhere


class TellsRegions(FakeCloud):
    def closed_regions(self, regions: Sequence[str]) -> Mapping[str, str]:
        return {region: "it has no default network" for region in regions if region != "region-11"}


def test_further_offers_are_those_of_regions_that_are_open() -> None:
    """A new account has few: twelve offers of closed regions would hide the one that it can launch."""
    network = Check(name="network", state=PreflightState.REFUSED, detail="no default network")
    asked = TellsRegions(FakeClock(), judge=lambda offer: (OK if offer.region == "region-11" else network,))
    told = examine(asked, [at(f"region-{number}") for number in range(MOST_OFFERS)])
    assert told.state is PreflightState.OK
    assert (told.offers[-1].offer.region, len(told.offers)) == ("region-11", FIRST_OFFERS + 1)
