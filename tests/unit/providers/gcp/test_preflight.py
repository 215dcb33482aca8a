"""Whether Compute Engine would let one in: quotas, rights and what is retired, asked before a launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.contract.gcp import OFFER
from tests.unit.providers.gcp.conftest import World
from tests.unit.providers.gcp.placements import ZONE, an_offer, spot
from trainplan.pricing.offers import LifecycleState, Market, Offer
from trainplan.providers.base import PreflightState
from trainplan.providers.errors import (
    CredentialsError,
    QuotaError,
    TransientError,
)
from trainplan.providers.gcp import quotas


def checks(world: World, offer: Offer | None = None) -> dict[str, PreflightState]:
    """The worst of each name."""
    order = [PreflightState.OK, PreflightState.UNKNOWN, PreflightState.REFUSED]
    found: dict[str, PreflightState] = {}
    for check in world.provider.preflight(offer or an_offer(OFFER)).checks:
        found[check.name] = max(found.get(check.name, PreflightState.OK), check.state, key=order.index)
    return found


def test_a_preflight_looks_at_everything_that_can_refuse(world: World) -> None:
    assert set(checks(world)) == {"identity", "billing", "offered", "quota", "network"}
    assert set(checks(world).values()) == {PreflightState.OK}


@pytest.mark.parametrize(
    ("scenario", "name"),
    [
        ({"billing": False}, "billing"),
        ({"networks": ()}, "network"),
        ({"closed_zones": tuple(f"us-central1-{letter}" for letter in "abcf")}, "offered"),
        ({"quotas": {"us-central1": {"NVIDIA_T4_GPUS": 0, "PREEMPTIBLE_NVIDIA_T4_GPUS": 0}}}, "quota"),
        ({"quotas": {"us-central1": {"CPUS": 3}}}, "quota"),
        ({"quotas": {"global": {"GPUS_ALL_REGIONS": 0}}}, "quota"),
    ],
)
def test_a_preflight_refuses(make_world: Callable[..., World], scenario: dict[str, Any], name: str) -> None:
    world = make_world(**scenario)
    assert checks(world)[name] is PreflightState.REFUSED
    assert all(check.fix for check in world.provider.preflight(an_offer(OFFER)).checks if check.state == "refused")


def test_a_quota_that_is_too_small_names_what_to_ask_for(make_world: Callable[..., World]) -> None:
    world = make_world(quotas={"us-central1": {"NVIDIA_T4_GPUS": 0, "PREEMPTIBLE_NVIDIA_T4_GPUS": 0}})
    (refused,) = [check for check in world.provider.preflight(an_offer(OFFER)).checks if check.state == "refused"]
    assert "NVIDIA_T4_GPUS" in refused.detail
    assert "at least 1" in refused.fix
    assert "project=a-project" in refused.fix


def test_spot_counts_in_the_gpus_of_all_regions(make_world: Callable[..., World]) -> None:
    """A preflight says so, a launch leaves it out, and the double refuses it."""
    world = make_world(quotas={"global": {"GPUS_ALL_REGIONS": 0}})
    offer = an_offer(OFFER, Market.SPOT)
    assert checks(world, offer)["quota"] is PreflightState.REFUSED
    assert world.provider.shortfalls([offer]) == ["GPUS_ALL_REGIONS: 0, 1 are needed"]
    (row,) = [row for row in world.provider.preflight(offer).checks if row.state is PreflightState.REFUSED]
    assert row.fix.startswith("on a free trial, which gets no GPUs, upgrade the billing account first")
    with pytest.raises(QuotaError):
        world.provider.launch(spot(world))


def test_a_family_without_a_quota_is_left_out_of_a_plan(world: World) -> None:
    known = an_offer("tpu-v6e-4", region="asia-northeast1")
    v5p = replace(known, instance_type="tpu-v5p-8", device="TPU v5p")
    assert world.provider.shortfalls([known, v5p]) == [
        "", "TPUs per TPU family: at most 0 in asia-northeast1, 4 are needed",
    ]  # fmt: skip


def test_what_had_no_answer_is_asked_again(world: World) -> None:
    """A process that lives on does not keep that nobody answered, or that nobody was signed in."""
    run = replace(world.request(), offer=an_offer(OFFER), zone=ZONE, resolution=None)
    provider = world.another()
    for rule in ({"effect": "lost_reply"}, {"status": 401, "code": "authError"}):
        world.script("compute.images.getFromFamily", **rule)
        with pytest.raises((TransientError, CredentialsError)):
            provider.resolve(run)
    assert provider.resolve(run).resolution.image


def test_tpus_where_no_gpu_is_let_in_are_unknown_and_a_launch_keeps_and_tells_them(
    make_world: Callable[..., World],
) -> None:
    """Google's guide for TPU builders says that this quota at 0 is for TPUs too; nobody has tried it."""
    world, offer = make_world(quotas={"global": {"GPUS_ALL_REGIONS": 0}}), an_offer("tpu-v6e-4", region="europe-west4")
    found = [row for row in world.provider.preflight(offer).checks if "GPUS_ALL_REGIONS is 0" in row.detail]
    assert [row.state for row in found] == [PreflightState.UNKNOWN]
    gpu = an_offer(OFFER)
    (why, none) = world.provider.doubts([offer, gpu])
    assert why == found[0].detail
    assert none == ""
    assert make_world().provider.doubts([offer]) == [""]


def test_a_gpu_that_no_region_lists_counts_in_those_of_all_regions(make_world: Callable[..., World]) -> None:
    world = make_world(quotas={"global": {"GPUS_ALL_REGIONS": 0}})
    h200 = replace(an_offer(OFFER), device="H200", device_count=8)
    assert checks(world, h200)["quota"] is PreflightState.REFUSED


def test_on_demand_may_use_the_quota_of_spot(make_world: Callable[..., World]) -> None:
    """Google lets a machine that it deletes within a week count there."""
    world = make_world(quotas={"us-central1": {"NVIDIA_T4_GPUS": 0, "PREEMPTIBLE_NVIDIA_T4_GPUS": 1}})
    assert checks(world)["quota"] is PreflightState.OK


def test_the_second_preflight_asks_nobody(world: World) -> None:
    world.provider.preflight(an_offer(OFFER))
    before = len(world.google.control("calls")["calls"])
    world.provider.preflight(an_offer(OFFER))
    assert len(world.google.control("calls")["calls"]) == before


def test_what_cannot_be_seen_is_unknown(world: World) -> None:
    world.script("cloudbilling.projects.getBillingInfo", status=403, code="forbidden", times=None)
    world.script("compute.regions.get", status=403, code="forbidden", times=None)
    found = checks(world)
    assert (found["billing"], found["quota"]) == (PreflightState.UNKNOWN, PreflightState.UNKNOWN)
    assert found["identity"] is PreflightState.OK


@pytest.mark.parametrize(("status", "code"), [(401, "authError"), (403, "forbidden")])
def test_who_is_not_let_in_is_refused(world: World, status: int, code: str) -> None:
    world.script("compute.projects.get", status=status, code=code, times=None)
    assert checks(world)["identity"] is PreflightState.REFUSED


def test_what_is_retired_says_so(world: World) -> None:
    offer = an_offer(OFFER)
    retired = replace(offer, lifecycle=replace(offer.lifecycle, state=LifecycleState.RETIRED))
    assert checks(world, retired)["lifecycle"] is PreflightState.UNKNOWN


@pytest.mark.parametrize(
    ("offer", "market", "state"),
    [
        ("tpu-v6e-8", Market.ON_DEMAND, PreflightState.OK),
        ("tpu-v6e-8", Market.SPOT, PreflightState.UNKNOWN),  # no quota of spot is shown
    ],
)
def test_what_a_region_does_not_count_is_counted_by_family(
    world: World, offer: str, market: Market, state: PreflightState
) -> None:
    assert checks(world, an_offer(offer, market, region="asia-northeast1"))["quota"] is state


def test_a_family_without_a_quota_is_refused_with_what_to_ask_for(world: World) -> None:
    known = an_offer("tpu-v6e-4", region="asia-northeast1")
    v5p = replace(known, instance_type="tpu-v5p-8", device="TPU v5p")
    (refused,) = [row for row in world.provider.preflight(v5p).checks if row.name == "quota"]
    assert refused.state is PreflightState.REFUSED
    assert "TPUs per TPU family: at most 0 in asia-northeast1, 4 are needed" in refused.detail
    assert "service=compute.googleapis.com" in refused.fix
    elsewhere = replace(v5p, region="us-east5", zones=("us-east5-a",))
    (unknown,) = [row for row in world.provider.preflight(elsewhere).checks if row.name == "quota"]
    assert unknown.state is PreflightState.UNKNOWN


@pytest.mark.parametrize(
    ("family", "market", "limit", "fits"),
    [
        ("NVIDIA_H200", "on demand", 8, True),
        ("NVIDIA_H200", "on demand", 4, False),
        ("NVIDIA_H100", "on demand", 8, None),
        ("NVIDIA_H200", "preemptible", 8, None),
    ],
)
def test_a_bucket_is_known_by_its_family(family: str, market: str, limit: int, fits: bool | None) -> None:
    metric = {
        "metric": "compute.googleapis.com/x",
        "displayName": f"GPUs per family, {market}",
        "consumerQuotaLimits": [
            {"quotaBuckets": [{"effectiveLimit": str(limit), "dimensions": {"gpu_family": family}}]}
        ],
    }
    needed = quotas.of_compute(replace(an_offer(OFFER), device="H200", device_count=8))
    assert needed is not None
    state = quotas.quota_check([metric], needed, "p").state
    assert state is {True: PreflightState.OK, False: PreflightState.REFUSED, None: PreflightState.UNKNOWN}[fits]


TRAINING, SERVING = "tpu-v5s-litepod-preemptible", "tpu-v5s-litepod-serving-preemptible"


def bucket(limit: int | None, **dimensions: str) -> dict[str, Any]:
    """Google's JSON leaves out what is empty or 0."""
    return {
        **({"dimensions": dimensions} if dimensions else {}),
        **({} if limit is None else {"effectiveLimit": str(limit)}),
    }


def metric(name: str, *limits: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "metric": f"tpu.googleapis.com/{name}",
        "consumerQuotaLimits": [{"quotaBuckets": buckets} for buckets in limits],
    }


@pytest.mark.parametrize(
    ("metrics", "state", "words"),
    [
        ([metric(TRAINING, [bucket(1536)])], PreflightState.OK, "at most 1536"),
        ([metric(TRAINING, [bucket(1536), bucket(0, zone="a"), bucket(0, zone="b")])], PreflightState.REFUSED, "t 0"),
        ([metric(TRAINING, [bucket(9), bucket(None, zone="a"), bucket(None, zone="b")])], PreflightState.REFUSED, ""),
        ([metric(TRAINING, [bucket(0), bucket(0, zone="a"), bucket(8, zone="b")])], PreflightState.OK, "at most 8"),
        ([metric(TRAINING, [bucket(8), bucket(0, zone="a")], [bucket(-1)])], PreflightState.OK, "at most 8"),
        ([metric(TRAINING, [bucket(16)], [bucket(16), bucket(None, region="here")])], PreflightState.REFUSED, ""),
        ([metric(TRAINING, [bucket(16), bucket(2, region="here"), bucket(8, zone="a")])], PreflightState.OK, "most 8"),
        ([metric(TRAINING, [bucket(None)])], PreflightState.REFUSED, TRAINING),
        ([metric(TRAINING, [bucket(None)]), metric(SERVING, [bucket(16)])], PreflightState.UNKNOWN, "not settled"),
        ([metric(TRAINING, [bucket(16)]), metric(SERVING, [bucket(3)])], PreflightState.UNKNOWN, SERVING),
        ([metric(TRAINING, [bucket(2)]), metric(SERVING, [bucket(3)])], PreflightState.REFUSED, SERVING),
        ([metric("tpu-v5p-preemptible", [bucket(16)])], PreflightState.UNKNOWN, "no quota"),
        ([metric("tpu-v5s-litepod", [bucket(16)])], PreflightState.UNKNOWN, "no quota"),
        ([metric(TRAINING, [bucket(16, zone="elsewhere")])], PreflightState.UNKNOWN, "no quota"),
    ],
)  # fmt: skip
def test_a_quota_of_the_tpu_api_holds_by_its_nearest_bucket_and_every_limit(
    metrics: list[dict[str, Any]], state: PreflightState, words: str
) -> None:
    """Four chips of v5e on spot in the zones a and b of the region here. Defaults of 1536 beside a zone of 0 are what
    users are shown."""
    offer = an_offer("tpu-v5litepod-4", Market.SPOT, region="us-west4")
    found = quotas.quota_check(metrics, quotas.of_tpu_api(replace(offer, region="here", zones=("a", "b"))), "p")
    assert found.state is state
    assert words in found.detail
