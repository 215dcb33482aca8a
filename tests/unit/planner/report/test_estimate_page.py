"""What people and programs read: golden texts over a small catalog, the JSON's keys, aligned tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import a_job, a_machine_estimate, a_plan, a_throughput, an_offer, small_catalog
from tests.conftest import ROOT, Golden
from trainplan.planner import __version__
from trainplan.planner.cli.screen import PLAIN, render
from trainplan.planner.forecast import plan as plan_module
from trainplan.planner.forecast.obtainability import ExpectedSearch
from trainplan.planner.forecast.plan import ESTIMATE_ONLY_TEXT, Plan, RankedOffer, Reason
from trainplan.planner.forecast.price_notes import unsettled_prices
from trainplan.planner.report import estimate_columns
from trainplan.planner.report.estimate_columns import COLUMNS, OF_MACHINE, OF_PLACEMENT, TABLE
from trainplan.planner.report.estimate_json import Beside, estimate_json
from trainplan.planner.report.estimate_page import TIGHT_TEXT, brief_page, estimate_page, machine_line, rejection_counts
from trainplan.planner.report.explain import explain
from trainplan.planner.report.page import Column, Table
from trainplan.planner.runs.proposal.proposal import rented as rented_proposal
from trainplan.planner.throughput.table import Cited, cited
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.devices import device_text
from trainplan.pricing.grades import PriceGrade
from trainplan.pricing.money import format_usd
from trainplan.pricing.planning import PlannedAs
from trainplan.workloads.memory import GIB


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with Catalog.open(small_catalog(tmp_path_factory.mktemp("render"))) as made:
        yield made


def page_text(plan: Plan) -> str:
    """What a pipe gets."""
    return render(estimate_page(plan), PLAIN)


def plans(catalog: Catalog) -> dict[str, Plan]:
    here = a_machine_estimate()
    nowhere = a_machine_estimate(time=None, cost_usd=None, fits=False, reason="needs 9.0 GiB of memory, has 4.0")
    return {
        "short": a_plan(catalog, this_machine=here),
        "first-two": a_plan(catalog, limit=2, this_machine=nowhere),
        "every-placement": a_plan(catalog, every_placement=True, include_retired=True),
        "nothing-left": a_plan(catalog, budget_usd=Decimal("0.0001"), this_machine=here),
        "amp": a_plan(catalog, a_job(precision="amp_fp16", xla=True, framework="jax", global_batch_size=8)),
    }


@pytest.mark.parametrize("name", ["short", "first-two", "every-placement", "nothing-left", "amp"])
def test_the_table(catalog: Catalog, golden: Golden, name: str) -> None:
    golden.check(f"estimate-{name}.txt", page_text(plans(catalog)[name]) + "\n")


@pytest.mark.parametrize("name", ["short", "every-placement", "nothing-left"])
def test_the_json(catalog: Catalog, golden: Golden, name: str) -> None:
    text = estimate_json(plans(catalog)[name])
    golden.check(f"estimate-{name}.json", json.dumps(json.loads(text), indent=1) + "\n")


# On spot at a price nobody believes; a host with an accelerator; retired; legacy with a note of the source.
EXPLAINED = (2, 3, 5, 8, 10)


@pytest.mark.parametrize("rank", EXPLAINED)
def test_a_row_explained(catalog: Catalog, golden: Golden, rank: int) -> None:
    plan = a_plan(catalog, every_placement=True, include_retired=True)
    golden.check(f"explain-{rank}.txt", explain(plan, plan.candidates[rank - 1]) + "\n")


@pytest.mark.parametrize(
    "message",
    [
        "planned at $0.244/h",
        "on demand, host $0.190/h + accelerator $0.350/h",
        "retired 2025-03-30; instead: g4dn.xlarge",
        "legacy, no date known; instead: nothing named",
        "note of the source: last seen in August",
        "billing: unverified: a guess",
        "images a device",
    ],
)
def test_the_explained_rows_show_every_kind_of_line(catalog: Catalog, message: str) -> None:
    plan = a_plan(catalog, every_placement=True, include_retired=True)
    assert any(message in explain(plan, plan.candidates[rank - 1]) for rank in EXPLAINED)


def test_an_unproven_row_says_so_everywhere(catalog: Catalog) -> None:
    """Under the table with its row's number, in the row's own words, in JSON, and before a launch is agreed to."""
    plan = a_plan(catalog, every_placement=True)
    why = "nobody was seen to run it"
    first = plan.candidates[0]
    estimate = replace(first.candidate.estimate, unproven=why)
    marked = first._replace(candidate=first.candidate._replace(estimate=estimate))
    plan = plan._replace(candidates=(marked, *plan.candidates[1:]), ranking=(marked.candidate, *plan.ranking[1:]))
    line = f"image and driver are untested on it, so it is ranked as if 20% dearer: {why}"
    assert f"row 1: {line}" in page_text(plan).splitlines()
    assert line in explain(plan, marked)
    assert line not in explain(plan, plan.candidates[1])
    assert [row["unproven"] for row in as_json(plan)["candidates"][:2]] == [why, None]
    assert rented_proposal(plan).text.endswith(line)


def test_a_long_wait_for_a_machine_is_beside_the_table(catalog: Catalog) -> None:
    """It was in --explain alone: 34 minutes of 83 on spot H100."""
    plan = a_plan(catalog, every_placement=True)
    total = plan.candidates[0].candidate.estimate.time.total
    for share, is_shown in ((0.4, True), (0.05, False)):
        first = plan.candidates[0]
        estimate = replace(first.candidate.estimate, search=ExpectedSearch(5.0, share * total, total, 0.2, 0))
        waited = first._replace(candidate=first.candidate._replace(estimate=estimate))
        shown = plan._replace(candidates=(waited, *plan.candidates[1:]))
        for page in (estimate_page(shown), brief_page(shown)):
            text = render(page, PLAIN)
            assert ("of the time is the expected wait for a machine" in text) is is_shown


def test_the_cost_of_an_unproven_row_has_its_mark_where_it_is_a_limit_too(catalog: Catalog) -> None:
    first = a_plan(catalog, every_placement=True).candidates[0]
    for basis, text in ((Basis.UNMEASURED, "up to $"), (Basis.MODELLED, "$")):
        throughput = replace(first.candidate.estimate.throughput, basis=basis)
        estimate = replace(first.candidate.estimate, throughput=throughput, unproven="nobody was seen to run it")
        cost = estimate_columns._cost(
            first._replace(candidate=first.candidate._replace(estimate=estimate)), date(2026, 11, 28)
        )
        assert cost.startswith(text)
        assert "*" in cost


def test_a_row_whose_memory_is_all_but_full_says_so_everywhere(catalog: Catalog) -> None:
    plan = a_plan(catalog, every_placement=True)
    first = plan.candidates[0]
    need = first.candidate.estimate.memory
    assert need is not None
    assert not need.is_tight
    full = need._replace(step=need.step._replace(allocated=int(0.95 * need.usable.high_gib * GIB)))
    estimate = replace(first.candidate.estimate, memory=full)
    marked = first._replace(candidate=first.candidate._replace(estimate=estimate))
    plan = plan._replace(candidates=(marked, *plan.candidates[1:]), ranking=(marked.candidate, *plan.ranking[1:]))
    assert f"row 1: {TIGHT_TEXT}" in page_text(plan).splitlines()
    assert TIGHT_TEXT in explain(plan, marked)
    assert [row["memory"]["tight"] for row in as_json(plan)["candidates"][:2]] == [True, False]


def test_a_row_that_its_host_holds_up_has_the_word_at_80_columns(catalog: Catalog) -> None:
    plan = a_plan(catalog)
    first = plan.candidates[0]
    bound = replace(first.candidate.estimate, input_bound=True)
    marked = first._replace(candidate=first.candidate._replace(estimate=bound))
    plan = plan._replace(candidates=(marked, *plan.candidates[1:]), ranking=(marked.candidate, *plan.ranking[1:]))
    assert "input-bound" in as_json(plan)["candidates"][0]["remarks"]
    assert page_text(plan).count(", input-bound") == 1


# --- JSON --------------------------------------------------------------------------------------------------------

PAGE = ROOT / "docs" / "estimate.md"


def promised() -> set[str]:
    """The keys of a candidate, as the page lists them."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return {key for line in rows for key in re.findall(r"`(\w+)`", line.split(" | ")[1])}


def test_the_page_lists_every_column(golden: Golden) -> None:
    before, start, _ = PAGE.read_text(encoding="utf-8").partition("| title |")
    assert start
    lines = ["| title | keys of the JSON | what it says |", "|---|---|---|"]
    for column in COLUMNS:
        keys = ", ".join(f"`{key}`" for key in (*column.of_machine, *column.of_placement))
        lines.append(f"| {column.title} | {keys} | {column.meaning} |")
    golden.check(PAGE, before + "\n".join(lines) + "\n")


def test_no_key_stands_in_two_columns() -> None:
    listed = [key for column in COLUMNS for key in (*column.of_machine, *column.of_placement)]
    assert len(listed) == len(set(listed)) == len({*OF_MACHINE, *OF_PLACEMENT})


def test_rows_of_a_provider_that_cannot_launch_are_marked(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = a_plan(catalog)
    name = plan.candidates[0].offer.provider
    assert ESTIMATE_ONLY_TEXT not in page_text(plan)
    assert not any("launchable" in row for row in as_json(plan)["candidates"])
    monkeypatch.setattr(plan_module, "is_estimated_only", lambda provider: provider == name)
    text = page_text(plan)
    assert re.search(rf"{name} {plan.candidates[0].offer.region} .* (on demand|spot), estimate only ", text)
    assert f"{name}: {ESTIMATE_ONLY_TEXT}" in text.splitlines()
    told = {row["provider"]: row.get("launchable") for row in as_json(plan)["candidates"]}
    assert told.pop(name) == {"state": "refused", "reason": ESTIMATE_ONLY_TEXT}
    assert set(told.values()) <= {None}


def as_json(plan: Plan) -> dict[str, Any]:
    return dict(json.loads(estimate_json(plan)))


def test_the_bucket_of_a_spot_placement_is_explained_with_its_date_and_source(catalog: Catalog) -> None:
    plan = a_plan(catalog, every_placement=True)
    row = next(row for row in plan.candidates if row.offer.market == "spot")
    assert "of 0-4" not in explain(plan, row)
    for source, told in (("AWS Spot Advisor: savings", f", {row.offer.price_as_of}"), ("history", "")):
        bucketed = row._replace(offer=replace(row.offer, interruption_bucket=3, price_source=source))
        where = source if told else "AWS Spot Advisor, as last read"
        assert f"bucket 3 of 0-4 in {row.offer.region}{told}: {where}" in explain(plan, bucketed)


def test_traffic_with_a_bucket_elsewhere_is_a_line_of_its_own(catalog: Catalog) -> None:
    near, far = (
        next(
            row
            for row in a_plan(catalog, every_placement=True, buckets={"aws": bucket}).candidates
            if is_in_virginia(row)
        )
        for bucket in ("us-east-1", "eu-west-1")
    )
    told = explain(a_plan(catalog), near)
    assert "  between regions $0.0000: bucket and machine are in us-east-1\n" in told
    assert "  rate within the region: listed, 2026-10-01: the vendor's list\n" in told
    usage, crossing = far.candidate.estimate.side.usages[0], format_usd(far.fixed.between_regions)
    told = explain(a_plan(catalog), far)
    assert (
        f"  between regions {crossing}: {usage.fetched_gb} GB from the bucket in eu-west-1 at $0.02 per GB, "
        f"{usage.stored_gb} GB to it at $0.02\n"
    ) in told
    assert "  rate from the bucket: listed, 2026-10-01: the vendor's list\n" in told
    assert far.cost_usd - near.cost_usd == far.fixed.between_regions > 0


def is_in_virginia(row: RankedOffer) -> bool:
    return row.offer.region == "us-east-1" and row.offer.instance_type == "g4dn.xlarge"


def test_the_keys_are_those_that_were_promised(catalog: Catalog) -> None:
    found = as_json(a_plan(catalog, every_placement=True, include_retired=True, this_machine=a_machine_estimate()))
    assert set(found) == {
        *(
            "job",
            "made_at",
            "currency",
            "prices",
            "own_prices",
            "tax_percent",
            "advice",
            "this_machine",
            "candidates",
            "rejections",
        ),
        "changed",
        "several_machines",
        "named_devices",
        "candidate_count",
        *("made_by", "cannot_see", "device_groups", "measurements", "levers"),
    }
    for row in found["candidates"]:
        assert set(row) == promised()
        assert set(row["lifecycle"]) == {"state", "date", "successor"}
        assert set(row["cost_parts"]) == {"compute", "disk", "address", "transfer", "between_regions", "elsewhere"}
    for row in found["rejections"]:
        assert set(row) == {"provider", "instance_type", "market", "reason", "count"}


def test_money_and_rates_are_numbers_and_the_unknown_is_null(catalog: Catalog) -> None:
    found = as_json(a_plan(catalog, every_placement=True, include_retired=True))
    for row in found["candidates"]:
        for key in promised():
            if key.endswith(("_usd", "_per_hour", "_seconds", "_second")):
                assert isinstance(row[key], int | float), key
        assert all(isinstance(part, int | float) for part in row["cost_parts"].values())
    assert {row["zone"] for row in found["candidates"]} == {None, "us-east-1a"}
    assert found["this_machine"] is None


def test_an_estimate_says_what_it_cannot_see(catalog: Catalog) -> None:
    plan = a_plan(catalog, every_placement=True)
    modelled = sum(one.estimate.throughput.basis is Basis.MODELLED for one in plan.ranking)
    assert 0 < modelled < len(plan.ranking)
    said = as_json(plan)["cannot_see"]
    assert f"the speed of {modelled} of {len(plan.ranking)} offers was never measured" in said[0]
    assert any(line.startswith("the account: ") for line in said)
    checked = json.loads(estimate_json(plan, Beside(checked={})))["cannot_see"]
    assert not any(line.startswith("the account: ") for line in checked)


def test_the_json_says_what_made_it_and_which_measurements_it_rests_on(catalog: Catalog) -> None:
    plan = a_plan(catalog, limit=1)
    asked: list[str] = []

    def of_ids(ids: Iterable[str]) -> list[Cited]:
        asked.extend(ids)
        return [Cited(asked[0], "T4", "a source", "https://example.org", "A", "2026-01-02")]

    found = json.loads(estimate_json(plan, Beside(limit=1, command="plan estimate a.yaml", cited=of_ids)))
    assert found["made_by"] == {"command": "plan estimate a.yaml", "version": __version__}
    assert found["candidates"][0]["speed_evidence"] == asked
    assert [row["id"] for row in found["measurements"]] == asked[:1]


def test_measurements_are_told_with_their_source_and_date() -> None:
    first, *others = cited(["lambda_tf-0216", "lambda_tf-0216", "no such row"])
    assert not others
    assert first == Cited("lambda_tf-0216", "A100-PCIe-40GB", "lambda_tf", first.address, "A", "2020-11-01")
    assert first.address.startswith("github:lambdal/lambda-tensorflow-benchmark@")


def test_every_candidate_is_there_in_its_rank(catalog: Catalog) -> None:
    plan = a_plan(catalog, every_placement=True, include_retired=True, limit=0)
    found = as_json(plan)["candidates"]
    assert [row["rank"] for row in found] == list(range(1, len(plan.ranking) + 1))
    assert [row["cost_usd"] for row in found] == sorted(row["cost_usd"] for row in found)


def test_a_row_has_one_number_wherever_every_placement_is_shown(catalog: Catalog) -> None:
    few = a_plan(catalog, include_retired=True)
    everywhere = a_plan(catalog, every_placement=True, include_retired=True, limit=0)
    found = as_json(everywhere)["candidates"]
    first = [(row["row"], row["instance_type"], row["region"]) for row in found if "." not in row["row"]]
    assert first == [(ranked.number, ranked.offer.instance_type, ranked.offer.region) for ranked in few.candidates]
    further = [row for row in found if "." in row["row"]]
    assert further
    assert len({row["row"] for row in found}) == len(found)
    kinds = {row["row"]: (row["provider"], row["device"], row["device_count"], row["market"]) for row in found}
    assert all(kinds[row["row"]] == kinds[row["row"].partition(".")[0]] for row in further)


def test_a_row_of_json_says_what_a_row_of_the_table_says(catalog: Catalog) -> None:
    plan = a_plan(catalog, every_placement=True, include_retired=True)
    for row, ranked in zip(as_json(plan)["candidates"], plan.candidates, strict=True):
        offer, estimate = ranked.offer, ranked.candidate.estimate
        assert (row["region"], row["instance_type"], row["market"]) == (
            offer.region, offer.instance_type, offer.market.value,
        )  # fmt: skip
        assert row["cost_usd"] == pytest.approx(float(ranked.cost_usd))
        assert row["cost_low_usd"] == pytest.approx(float(ranked.cost_low_usd))
        assert row["cost_high_usd"] == pytest.approx(float(ranked.cost_high_usd))
        assert row["cost_parts"]["compute"] == pytest.approx(float(ranked.compute_usd))
        assert sum(row["cost_parts"].values()) == pytest.approx(row["cost_usd"], abs=2e-6)
        assert row["usd_per_hour"] == float(offer.usd_per_hour)
        assert row["planning_usd_per_hour"] == float(offer.planning_usd_per_hour or 0)
        assert row["price_grade"] == offer.price_grade
        assert row["total_seconds"] == estimate.time.total.total_seconds()
        parts = [row[f"{part}_seconds"] for part in ("setup", "train", "end")]
        assert sum(parts) == pytest.approx(row["total_seconds"])


def test_text_that_looks_like_json_stays_text(catalog: Catalog) -> None:
    evil = '"candidates": [], "x": {"candidates": []}'
    job = a_job(data={"path": evil, "images": 10}, model={"preset": "vgg16", "image_size": 64, "classes": 2})
    found = as_json(a_plan(catalog, job))
    assert found["job"]["data"]["path"] == evil
    assert found["candidates"]


def test_a_machine_that_cannot_is_all_null(catalog: Catalog) -> None:
    estimate = a_machine_estimate(throughput=None, time=None, cost_usd=None, fits=False, reason="too small")
    machine = as_json(a_plan(catalog, this_machine=estimate))["this_machine"]
    known = {"name": "AMD EPYC", "device": "cpu", "device_count": 1, "usd_per_hour": 0.12, "fits": False}
    assert machine == dict.fromkeys(machine) | known | {"reason": "too small"}


# --- tables ------------------------------------------------------------------------------------------------------


def test_a_table_is_aligned_and_nothing_is_cut_off() -> None:
    columns = [Column("a"), Column("n", right=True), Column("z")]
    text = render([Table(columns, [("x" * 30, "1", "u"), ("y", "1,000", "")])], PLAIN)
    assert text.splitlines() == [
        "a" + " " * 35 + "n  z",
        "x" * 30 + "  " + "    1  u",
        "y" + " " * 29 + "  " + "1,000",
    ]


def test_a_table_without_rows_is_its_titles() -> None:
    assert render([Table([Column("a"), Column("b")], [])], PLAIN) == "a  b"


@pytest.mark.parametrize("name", ["short", "every-placement"])
def test_every_column_of_the_estimate_stands_under_its_title(catalog: Catalog, name: str) -> None:
    text = page_text(plans(catalog)[name])
    lines = text.split("\n\n")[1].splitlines()
    starts = [lines[0].index(column.title) for column in TABLE]
    assert starts == sorted(starts)
    for column, start in zip(TABLE, starts, strict=True):
        edge = start + len(column.title) if column.right else start - 1
        for line in lines[1:]:
            padded = line.ljust(len(lines[0]))
            beside = padded[edge : edge + 2] if column.right else padded[max(0, edge - 1) : edge + 1]
            assert edge < 0 or edge >= len(padded) or beside.strip() == "", (column.title, line)


def test_the_table_is_plain_ascii(catalog: Catalog) -> None:
    """A Windows console has a code page of its own."""
    for plan in plans(catalog).values():
        page_text(plan).encode("ascii")


@pytest.mark.parametrize(
    ("device", "count", "fraction", "vcpus", "text"),
    [
        ("T4", 1, 1.0, 4, "T4"),
        ("V100", 8, 1.0, 4, "8 x V100"),
        ("L4", 1, 0.125, 4, "1/8 L4"),
        ("A10", 1, 1 / 3, 4, "1/3 A10"),
        ("cpu", 1, 1.0, 8, "8 vCPU"),
        ("cpu", 1, 1.0, None, "cpu"),
    ],
)
def test_devices_in_words(device: str, count: int, fraction: float, vcpus: int | None, text: str) -> None:
    assert device_text(device, count, fraction, vcpus) == text


@pytest.mark.parametrize(
    ("rate", "message"),
    [(0.01234, "0.0123 ("), (9.876, "9.88 ("), (99.96, "100 ("), (1234.5, "1,230 ("), (999.9, "1,000 (")],
)
def test_a_rate_has_three_digits(rate: float, message: str) -> None:
    assert message in machine_line(a_machine_estimate(throughput=a_throughput(rate)))


def test_this_machine_in_a_line() -> None:
    assert machine_line(a_machine_estimate()) == (
        "AMD EPYC, cpu: 500 (250-1,000) images/s, measured, 10m (6m to 19m), $0.0200 (at $0.120/h)"
    )
    modelled = replace(a_throughput(500.0), basis=Basis.MODELLED)
    assert ", modelled, " in machine_line(a_machine_estimate(throughput=modelled))
    cannot = a_machine_estimate(time=None, cost_usd=None, reason="needs 9.0 GiB of memory, has 4.0")
    assert machine_line(cannot) == "AMD EPYC, cpu: no (needs 9.0 GiB of memory, has 4.0)"


def test_rejections_are_counted_by_reason_in_the_order_of_the_filters(catalog: Catalog) -> None:
    counts = rejection_counts(a_plan(catalog, budget_usd=Decimal("0.1")))
    assert [reason for reason, _ in counts] == sorted(dict(counts), key=list(Reason).index)
    assert dict(counts)[Reason.RETIRED] == 1
    assert dict(counts)[Reason.CANNOT_RUN] == 2


@pytest.mark.parametrize(
    ("share", "trusted", "message"), [("1", True, True), ("0.3", True, False), ("1", False, False)]
)
def test_spot_that_is_not_worth_it_is_said_of_prices_that_are_known(
    catalog: Catalog, share: str, trusted: bool, message: bool
) -> None:
    plan = a_plan(catalog, markets=frozenset({"spot"}))
    first = plan.candidates[0]
    rate = Decimal(first.candidate.placement.planning_micro_usd_per_hour) / 1_000_000
    raw = rate if trusted else rate / 2
    offer = replace(
        first.offer,
        usd_per_hour=raw,
        planning_usd_per_hour=rate,
        on_demand_usd_per_hour=rate / Decimal(share),
        planned_as=PlannedAs.LISTED if trusted else PlannedAs.SHARE,
    )
    text = page_text(plan._replace(candidates=(first._replace(offer=offer),)))
    assert ("row 1: spot is not worth it" in text) is message


def test_a_line_says_how_many_rows_a_refresh_would_settle_and_who_may_read_the_prices(catalog: Catalog) -> None:
    shown = page_text(a_plan(catalog, limit=4))
    line = next(line for line in shown.splitlines() if "plan prices refresh" in line)
    assert line == (
        "3 of 4 rows rest on an old or a computed price (old: read more than a month ago); plan prices refresh reads "
        "the current one (no account needed)"
    )
    plan = a_plan(catalog, limit=1)
    (row,) = plan.candidates
    elsewhere = plan._replace(candidates=(row._replace(offer=replace(row.offer, provider="lambda")),))
    assert "reads the current one (lambda: needs an API key)" in page_text(elsewhere)


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({}, 0),
        ({"price_as_of": None}, 1),
        ({"price_grade": PriceGrade.ESTIMATED}, 1),
        ({"planned_as": PlannedAs.OUTLIER}, 1),
        ({"price_as_of": None, "own_rate": "aws: $1/h"}, 0),
        ({"price_as_of": None, "provider": "sim"}, 0),
    ],
)
def test_a_price_is_unsettled_where_it_is_old_or_computed_and_a_list_of_the_vendor_is_read(
    change: dict[str, Any], count: int
) -> None:
    today = date(2026, 11, 21)
    offer = replace(an_offer(provider="azure", price_as_of=today), **change)
    assert len(unsettled_prices([offer], today)) == count


@pytest.mark.parametrize("rank", range(1, 11))
def test_an_explained_row_adds_up_to_the_second_and_to_the_cent(catalog: Catalog, rank: int) -> None:
    plan = a_plan(catalog, every_placement=True, include_retired=True)
    row = plan.candidates[rank - 1]
    lines = [line.strip() for line in explain(plan, row).splitlines()]

    def seconds(word: str) -> int:
        text = next((line for line in lines if line.startswith(word)), f"{word} 0 s")
        match = re.search(rf"\(([\d,]+) s\)|^{word} (\d+) s", text)
        assert match is not None
        return int(match.expand(r"\1\2").replace(",", ""))

    assert sum(map(seconds, ("setup", "training", "end", "checkpoints"))) == seconds("total")

    (billed,) = (line for line in lines if line.startswith("billed "))
    total, *parts = [int(number.replace(",", "")) for number in re.findall(r"(-?[\d,]+) s\b", billed)]
    signs = [-1 if f"less {part:,} s" in billed else 1 for part in parts]
    assert sum(sign * part for sign, part in zip(signs, parts, strict=True)) == total
    assert total == row.candidate.estimate.billed_seconds[0]

    parts_usd = {
        word: Decimal(text.replace(",", ""))
        for line in lines
        for word, text in re.findall(r"^(compute|disk|address|transfer|between regions) \$([\d.,]+):", line)
    }
    assert len(parts_usd) == 5
    assert sum(parts_usd.values()).quantize(Decimal("0.01")) == row.cost_usd.quantize(Decimal("0.01"))
    rate = Decimal(re.search(r" s at \$([\d.]+)/h", "\n".join(lines))[1])  # type: ignore[index]
    assert abs(rate * total / 3600 - parts_usd["compute"]) <= Decimal("0.0002")


def test_an_older_gpu_is_told_with_the_software_that_trains_on_it() -> None:
    """With that of newer GPUs a V100 billed, passed the gate, then failed: cuDNN had no code for it."""
    with Catalog.open() as whole:
        plan = a_plan(whole, limit=2, devices=["V100"])
        newer = a_plan(whole, limit=2, devices=["T4"])
        own = a_plan(whole, a_job(container="registry.example/mine@sha256:" + "c" * 64), limit=2, devices=["V100"])
        torch = a_plan(whole, a_job(framework="torch"), limit=2, devices=["V100"])
    assert "rows 1, 2: an older GPU, for which tensorflow-volta is installed" in page_text(plan)
    assert "installed from tensorflow-volta" in explain(plan, plan.candidates[0])
    assert "older GPU" not in page_text(newer)
    assert "installed from tensorflow-nvidia" in explain(newer, newer.candidates[0])
    assert "tensorflow-volta" not in page_text(own)
    assert "installed from" not in explain(own, own.candidates[0])
    assert not torch.candidates
