"""Partitions as offers."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from trainplan.pricing.offers import OfferQuery
from trainplan.providers.slurm.offers import gres_of, minutes, node_groups, offers
from trainplan.providers.slurm.settings import SlurmSettings

TODAY = date(2026, 11, 23)
SINFO = """\
cpu*|up|infinite|20|idle|64|256000|(null)|epyc
gpu|up|2-00:00:00|4|mix|48|384000|gpu:v100:4(S:0-1)|nvlink,sxm2
gpu|up|2-00:00:00|1|down*|48|384000|gpu:v100:4(S:0-1)|nvlink
old|down|1:00:00|2|idle|8|61000|gpu:k80:8|(null)
plain|up|30:00|2|idle|32|128000|gpu:2|a100,ib
odd|up|1:00:00|1|idle|16|64000|gpu:fpga9:1|(null)
nonsense
"""
DEVICES = {"v100": "V100", "a100": "A100-40GB", "k80": "K80"}


def test_each_kind_of_device_of_each_partition_is_an_offer_by_count() -> None:
    made = offers(node_groups(SINFO), SlurmSettings(usd_per_device_hour=Decimal("0.5")), TODAY, DEVICES.get)
    assert [(offer.region, offer.instance_type, offer.device, offer.device_count) for offer in made] == [
        ("cpu", "node:64", "cpu", 1),
        ("gpu", "gpu:v100:1", "V100", 1),
        ("gpu", "gpu:v100:2", "V100", 2),
        ("gpu", "gpu:v100:4", "V100", 4),
        ("plain", "gpu:1", "A100-40GB", 1),
        ("plain", "gpu:2", "A100-40GB", 2),
    ]
    assert [offer.usd_per_hour for offer in made[:4]] == [
        Decimal("0.5"),
        Decimal("0.5"),
        Decimal("1.0"),
        Decimal("2.0"),
    ]
    assert (made[2].vcpus, made[2].memory_gib) == (24, 187.5)


def test_a_partition_that_is_not_named_in_the_settings_is_left_out() -> None:
    made = offers(node_groups(SINFO), SlurmSettings(partitions=frozenset({"plain"})), TODAY, DEVICES.get)
    assert {offer.region for offer in made} == {"plain"}


def test_of_nodes_that_sbatch_cannot_tell_apart_the_smaller_one_is_offered() -> None:
    text = "a|up|infinite|1|idle|64|256000|gpu:v100:1|(null)\na|up|infinite|1|idle|32|128000|gpu:v100:1|(null)\n"
    (made,) = offers(node_groups(text), SlurmSettings(), TODAY, DEVICES.get)
    assert (made.vcpus, made.memory_gib) == (32, 125.0)


def test_a_query_filters_by_partition_and_device() -> None:
    made = offers(node_groups(SINFO), SlurmSettings(), TODAY, DEVICES.get)
    query = OfferQuery(regions=frozenset({"gpu"}), devices=frozenset({"V100"}))
    assert [gres_of(offer) for offer in made if query.wants(offer)] == ["gpu:v100:1", "gpu:v100:2", "gpu:v100:4"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("infinite", None), ("30:00", 30), ("1:00:00", 60), ("2-00:00:00", 2880), ("1-12:30:00", 2190), ("n/a", None)],
)
def test_time_limits_are_read_as_sinfo_writes_them(text: str, expected: int | None) -> None:
    assert minutes(text) == expected
