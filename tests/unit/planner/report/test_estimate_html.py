"""The page of an estimate, read as a browser splits it: what it shows is what its JSON says, and nothing else.

tests/browser holds what only a browser can: filters, keys, paper, colours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_machine_estimate, a_plan, small_catalog
from tests.unit.planner.cli.command import plan
from trainplan.planner.forecast.plan import Reason, RejectionKey
from trainplan.planner.report.estimate_chart import first_ones, front_of, kind_of
from trainplan.planner.report.estimate_html import answer, estimate_html
from trainplan.planner.report.estimate_json import Beside, estimate_document
from trainplan.planner.report.estimate_page import estimate_page
from trainplan.planner.report.front import front, points
from trainplan.planner.report.levers import lever_rows
from trainplan.pricing.catalog import Catalog
from trainplan.workloads.durations import parse_duration

HOSTILE = "\"></title><script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"


class Page(HTMLParser):
    """The rows of the tables, by their caption, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.data: list[str] = []
        self.names: list[str] = []
        self.times: list[float] = []
        self.text = ""
        self._cells: list[str] = []
        self._in = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self._in = tag
        given = dict(attrs)
        if tag == "form":
            self.times = json.loads(str(given["data-times"]))
        if tag == "div" and str(given.get("class")).startswith("scroll"):
            self.tables[str(given["aria-label"])] = []
        if tag == "tr":
            self._cells = []
            list(self.tables.values())[-1].append(self._cells)
            self.data += [str(given["data-r"])] if given.get("data-r") else []
        if tag == "td":
            self._cells.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._cells = []

    def handle_data(self, data: str) -> None:
        if self._in not in ("script", "style"):
            self.text += data
        if self._cells and self._in in ("td", "span"):
            self._cells[-1] += data

    def rows(self, caption: str) -> list[list[str]]:
        return [row for row in self.tables[caption] if row]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with Catalog.open(small_catalog(tmp_path_factory.mktemp("page"))) as made:
        yield made


@pytest.fixture(scope="module")
def estimate(catalog: Catalog) -> dict[str, Any]:
    made = a_plan(catalog, every_placement=True, this_machine=a_machine_estimate())
    levers = lever_rows(made, lambda job, _: a_plan(catalog, job, every_placement=True))
    return estimate_document(made, Beside(command="plan estimate a.yaml --html a.html", levers=levers))


def seconds(text: str) -> float:
    return parse_duration(text).total_seconds()


def test_every_row_of_the_table_says_what_the_json_says(estimate: dict[str, Any]) -> None:
    page = Page(estimate_html(estimate))
    rows = page.rows("Offers by rank")
    assert len(rows) == len(estimate["candidates"]) == len(page.data) > 8
    for cells, data, row in zip(rows, page.data, estimate["candidates"], strict=True):
        number, where, device, market, time, cost, rate, price, speed, basis, instance = cells
        assert (number, where) == (row["row"], f"{row['provider']} {row['region']}")
        assert device.endswith(row["device"]) or row["device"] == "cpu"
        assert market.startswith(row["market"].replace("_", " "))
        assert seconds(time.split(" (")[0]) == pytest.approx(row["total_seconds"], rel=0.05, abs=1)
        low, high = time.split(" (")[1].rstrip(")").split("-")
        assert seconds(low) == pytest.approx(row["total_low_seconds"], rel=0.05, abs=1)
        assert seconds(high) == pytest.approx(row["total_high_seconds"], rel=0.05, abs=1)
        figures = [float(one.replace(",", "")) for one in re.findall(r"[\d.,]+", cost)]
        assert figures == pytest.approx([row["cost_usd"], row["cost_low_usd"], row["cost_high_usd"]], rel=0.06)
        assert float(rate) == pytest.approx(row["planning_usd_per_hour"], abs=0.0005)
        assert price.startswith(f"{row['price_grade']} {row['price_as_of'] or 'undated'} P")
        assert float(speed.split(" ")[0].replace(",", "")) == pytest.approx(row["images_per_second"], rel=0.005)
        assert basis.startswith(row["basis"])
        assert instance == row["instance_type"]
        time_at, micro, _ = data.split(",")
        assert page.times[int(time_at)] == row["total_seconds"]
        assert Decimal(micro) == Decimal(str(row["cost_usd"])) * 1_000_000


def test_each_mark_leads_to_its_ground(estimate: dict[str, Any]) -> None:
    page = Page(estimate_html(estimate))
    prices = {row[0]: row for row in page.rows("Where prices come from")}
    speeds = {row[0]: row for row in page.rows("Where speeds come from")}
    for cells, row in zip(page.rows("Offers by rank"), estimate["candidates"], strict=True):
        _, grade, read, source, planned_as, _ = prices[cells[7].split(" ")[-1]]
        assert (grade, source or "-", planned_as) == (row["price_grade"], row["price_source"] or "-", row["planned_as"])
        assert row["price_as_of"] is None or row["price_as_of"] in read or " to " in read
        _, basis, devices, rests_on, _ = speeds[cells[9].split(" ")[-1]]
        assert basis == row["basis"]
        assert all(one in rests_on for one in row["speed_evidence"])
        assert row["device"] in devices
    for table in (prices, speeds):
        assert sum(int(row[-1]) for row in table.values()) == len(estimate["candidates"])


def test_the_page_says_the_rest_of_the_document(estimate: dict[str, Any]) -> None:
    page = Page(estimate_html(estimate))
    assert answer(estimate) in page.text
    for line in (
        *estimate["cannot_see"],
        *estimate["advice"],
        estimate["made_at"],
        "plan estimate a.yaml --html a.html",
    ):
        assert line in page.text
    levers = page.rows("What a change would save")
    all_levers = estimate["levers"]
    felt = [one for one in all_levers if any(abs(d["percent"]) >= 0.5 for d in (one["difference"] or {}).values())]
    assert 0 < len(felt) < len(estimate["levers"])
    names = [f"{one['lever']} {one['from']} -> {one['to']}" for one in felt]
    assert [row[0].partition(" (")[0] for row in levers] == names
    assert [row[1] for row in levers] == ["same" if one["same_work"] else "other" for one in felt]


def test_the_front_is_that_of_the_other_chart(catalog: Catalog, estimate: dict[str, Any]) -> None:
    rows = estimate["candidates"]
    drawn = front_of(rows, first_ones(rows))
    text = front(points(a_plan(catalog, every_placement=True)))
    assert [rows[index]["cost_usd"] for index in drawn] == [point.usd.expected for point in text]


def test_a_row_is_drawn_if_some_limits_put_it_first_among_its_kind(estimate: dict[str, Any]) -> None:
    rows = estimate["candidates"]
    first: set[int] = set()
    for slowest in {row["total_seconds"] for row in rows}:
        for dearest in {row["cost_usd"] for row in rows}:
            seen = set()
            for index, row in enumerate(rows):
                if row["total_seconds"] <= slowest and row["cost_usd"] <= dearest and kind_of(row) not in seen:
                    seen.add(kind_of(row))
                    first.add(index)
    assert sorted(first) == first_ones(rows)


def test_names_from_a_job_file_and_from_a_vendor_are_text(estimate: dict[str, Any]) -> None:
    hostile = json.loads(json.dumps(estimate))
    hostile["job"]["name"] = hostile["job"]["data"]["name"] = HOSTILE
    hostile["advice"] = [HOSTILE]
    hostile["made_by"]["command"] = HOSTILE
    for row in hostile["candidates"]:
        for key in ("provider", "region", "instance_type", "device", "price_source"):
            row[key] = HOSTILE
        row["speed_evidence"] = row["remarks"] = [HOSTILE]
    page = Page(estimate_html(hostile))
    assert page.names.count("script") == Page(estimate_html(estimate)).names.count("script")
    assert "img" not in page.names
    assert page.text.count(HOSTILE) > 4 * len(hostile["candidates"])


def test_the_headline_of_this_machine_alone_is_this_machine(catalog: Catalog) -> None:
    plan = a_plan(catalog, this_machine=a_machine_estimate())
    alone = plan._replace(
        ranking=(), candidates=(), filtered_last=Reason.PROVIDER,
        rejections={RejectionKey("aws", "g4dn.xlarge", "spot", Reason.PROVIDER): 3},
    )  # fmt: skip
    page = Page(estimate_html(estimate_document(alone)))
    machine = alone.this_machine
    assert machine is not None
    assert machine.time is not None
    assert f"This machine ({machine.name}): {machine.time.text}" in page.text
    assert "No offer fits" not in page.text
    assert "rejected" not in page.text
    lines = [line for line in estimate_page(alone) if isinstance(line, str)]
    assert not [line for line in lines if "ranked by" in line or "rejected" in line]


def test_an_estimate_without_offers_has_a_page(catalog: Catalog) -> None:
    nothing = estimate_document(a_plan(catalog, budget_usd=Decimal("0.0001")))
    page = Page(estimate_html(nothing))
    assert f"No offer fits {nothing['job']['name']}." in page.text
    assert "over the budget" in page.text
    assert "script" not in page.names


def test_what_costs_nothing_is_in_the_table_and_not_in_the_chart(catalog: Catalog) -> None:
    made = a_plan(catalog)
    free = tuple(one._replace(cost_micro_usd=0) for one in made.ranking)
    document = estimate_document(made._replace(ranking=free))
    assert 'class="chart"' not in estimate_html(document)
    assert len(Page(estimate_html(document)).rows("Offers by rank")) == len(free)


def test_limits_are_said_in_words(estimate: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(estimate))
    changed["job"]["constraints"] |= {"deadline": "259200s", "budget_usd": 400.0}
    assert "within 3d 00h, for $400.00 at most" in Page(estimate_html(changed)).text


def test_an_unproven_offer_has_its_mark(catalog: Catalog) -> None:
    made = a_plan(catalog)
    first = made.ranking[0]
    doubtful = first._replace(estimate=replace(first.estimate, unproven="nobody was seen to run it"))
    page = Page(estimate_html(estimate_document(made._replace(ranking=(doubtful, *made.ranking[1:])))))
    assert "* (" in page.rows("Offers by rank")[0][5]
    assert "* ranked as if dearer" in page.text


def test_what_credits_pay_and_what_the_account_may_launch_are_columns(estimate: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(estimate))
    for row in changed["candidates"]:
        row["credit_usd"], row["paid_usd"], row["launchable"] = 0.5, 1.25, None
    changed["candidates"][1]["launchable"] = {"state": "refused", "reason": "no quota for it"}
    changed["candidates"][2]["launchable"] = {"state": "ok", "reason": None}
    page = Page(estimate_html(changed))
    assert [row[-2:] for row in page.rows("Offers by rank")[:4]] == [
        ["$1.25", "-"], ["$1.25", "no"], ["$1.25", "ok"], ["$1.25", "-"],
    ]  # fmt: skip
    assert "2: no quota for it" in page.text
    assert len(Page(estimate_html(estimate)).rows("Offers by rank")[0]) == 11


def test_fifteen_hundred_rows_take_at_most_400_kb(tmp_path: Path) -> None:
    """With the data of today, of the job whose rows are longest among the examples."""
    target = tmp_path / "report.html"
    job = ("--model", "vgg16", "--dataset", "imagenet", "--precision", "amp_fp16", "--batch", "256")
    done = plan("estimate", *job, "--limit", "1500", "--html", target)
    assert done.code == 0, done.err
    assert done.out.splitlines()[1].startswith(f"{target}: 1,500 offers, ")
    assert len(Page(target.read_text()).rows("Offers by rank")) == 1_500
    assert target.stat().st_size <= 400_000


def test_the_page_and_the_json_of_one_command_are_of_one_document(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    job = ("--model", "vgg16", "--dataset", "cifar10", "--device", "T4", "--limit", "20")
    told = plan("estimate", *job, "--html", target, "--json").json
    assert target.read_text() == estimate_html(told)
    assert told["made_by"]["command"].endswith(f"--html {target} --json")


def test_a_page_takes_the_place_of_no_job_file(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    assert plan("init", job, "--model", "vgg16", "--dataset", "cifar10").code == 0
    text = job.read_text()
    refused = plan("estimate", job, "--html", job)
    assert (refused.code, refused.out) == (2, "")
    assert refused.error == "--html writes a page, and job.yaml does not end in .html"
    assert refused.hint == f"--html {tmp_path / 'job.html'}"
    assert job.read_text() == text


def test_a_page_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    job = ("--model", "vgg16", "--dataset", "cifar10", "--device", "T4")
    done = plan("estimate", *job, "--html", tmp_path / "absent" / "report.html")
    assert done.code == 9
    assert done.error.startswith(f"cannot write {tmp_path}")
