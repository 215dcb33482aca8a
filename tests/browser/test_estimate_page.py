"""The page of `plan estimate --html` in a browser: its filters, keys, colours and paper, beside the command itself."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Page

from tests.browser.pages import Opener
from tests.conftest import ROOT
from trainplan.planner.forecast.plan import Plan
from trainplan.planner.planning.build_plan import PlanQuery, make_plan
from trainplan.planner.report.estimate_html import estimate_html
from trainplan.planner.report.estimate_json import Beside, estimate_document
from trainplan.planner.report.levers import lever_rows
from trainplan.planner.settings import Settings, load_settings
from trainplan.planner.throughput.table import cited
from trainplan.workloads.durations import format_estimate
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.jobfile import read_job

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
EXAMPLE = ROOT / "examples" / "vgg16-imagenet.yaml"
SHOWN = "[...document.querySelectorAll('#rows tbody tr:not([hidden])')].map(row => row.cells[0].textContent)"
FRONT = "[...document.querySelectorAll('.spot.front')].map(spot => Number(spot.dataset.row))"
PAGES = re.compile(rb"/Type\s*/Page\b")


class Made(NamedTuple):
    """A page, the document that it was made of, and what planned it."""

    file: Path
    document: dict[str, Any]
    job: TrainingJob
    settings: Settings

    def planned(self, query: PlanQuery, deadline: timedelta | None = None, budget: Decimal | None = None) -> Plan:
        """The plan of the command with these options."""
        limits = self.job.constraints.model_copy(update={"deadline": deadline, "budget_usd": budget})
        job = self.job.model_copy(update={"constraints": limits})
        return make_plan(job, query, self.settings, NOW)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("page")
    settings, job = load_settings({"PLAN_HOME": str(folder / "home")}), read_job(EXAMPLE)
    query = PlanQuery(every_placement=True, limit=0, prices=True)

    def plan_of(changed: TrainingJob, nodes: Any) -> Plan:
        return make_plan(changed, query._replace(nodes=tuple(nodes)), settings, NOW)

    plan = plan_of(job, ())
    levers = lever_rows(plan, plan_of)
    document = json.loads(json.dumps(estimate_document(plan, Beside(cited=cited, levers=levers))))
    file = folder / "report.html"
    file.write_text(estimate_html(document), encoding="utf-8")
    return Made(file, document, job, settings)


class Setting(NamedTuple):
    """One setting of the filters; "" and None: any."""

    provider: str
    market: str
    device: str
    deadline: timedelta | None
    budget: Decimal | None
    every: bool

    def type_into(self, page: Page) -> None:
        values = {
            **{"provider": self.provider, "market": self.market, "device": self.device, "every": self.every},
            "deadline": "" if self.deadline is None else f"{self.deadline.total_seconds():.0f}s",
            "budget": "" if self.budget is None else str(self.budget),
        }
        page.evaluate(
            """values => {
                const form = document.querySelector("#filters");
                for (const [name, value] of Object.entries(values)) {
                    if (name === "every") form.elements[name].checked = value;
                    else form.elements[name].value = value;
                }
                form.elements.budget.dispatchEvent(new Event("input", { bubbles: true }));
            }""",
            values,
        )

    @property
    def query(self) -> PlanQuery:
        names = [(name,) if name else () for name in (self.provider, self.device, self.market)]
        return PlanQuery(providers=names[0], devices=names[1], markets=names[2], every_placement=self.every, limit=0)


def drawn(draw: random.Random, rows: list[dict[str, Any]]) -> Setting:
    """A random setting; its limits are often exactly the time and the cost of a row."""
    row, other = draw.choice(rows), draw.choice(rows)
    deadline = timedelta(seconds=int(row["total_seconds"]) + draw.choice((0, 1))) if draw.random() < 0.5 else None
    cost = Decimal(str(other["cost_usd"]))
    return Setting(
        draw.choice(("", "", row["provider"])),
        draw.choice(("", row["market"], other["market"])),
        draw.choice(("", "", "", row["device"])),
        deadline,
        draw.choice((cost, cost - Decimal("0.000001"))) if draw.random() < 0.5 else None,
        draw.random() < 0.5,
    )


def test_two_hundred_settings_of_the_filters_show_what_the_options_show(opener: Opener, made: Made) -> None:
    page = opener.open(made.file)
    rows = made.document["candidates"]
    draw, counts, by_number = random.Random(45), [], {row["row"]: row for row in rows}
    for _ in range(200):
        setting = drawn(draw, rows)
        setting.type_into(page)
        plan = made.planned(setting.query, setting.deadline, setting.budget)
        expected = [
            (one.estimate.rental.provider, one.placement.region, one.estimate.rental.instance_type, one.cost_micro_usd)
            for one in plan.ranking
        ]
        shown = [by_number[number] for number in page.evaluate(SHOWN)]
        got = [(r["provider"], r["region"], r["instance_type"], round(r["cost_usd"] * 1e6)) for r in shown]
        assert got == expected, setting
        counts.append(len(got))
        best: list[int] = []
        launched = (row for row in shown if "estimate only" not in row["remarks"])
        for row in sorted(launched, key=lambda row: (row["total_seconds"], row["cost_usd"])):
            if not best or row["cost_usd"] < rows[best[-1]]["cost_usd"]:
                best.append(row["rank"] - 1)
        front = page.evaluate(FRONT)
        assert [rows[at]["cost_usd"] for at in front] == [rows[at]["cost_usd"] for at in best], setting
    assert min(counts) < 5
    assert max(counts) > 500


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("deadline", "soon", "deadline: write for example 90m, 8h or 1d12h"),
        ("deadline", "60d", "deadline: this page has no longer runs; plan estimate --deadline has"),
        ("budget", "-3", "budget: write for example 20 or $20"),
        ("budget", "12 euros", "budget: write for example 20 or $20"),
    ],
)
def test_a_limit_that_cannot_be_read_hides_nothing_and_is_told(
    opener: Opener, made: Made, name: str, text: str, said: str
) -> None:
    page = opener.open(made.file)
    before = page.evaluate(SHOWN)
    page.fill(f"[name={name}]", text)
    assert page.evaluate(SHOWN) == before
    assert said in page.inner_text("#count")
    assert page.get_attribute(f"[name={name}]", "aria-invalid") == "true"
    page.click("text=show all")
    page.locator("#filters [aria-invalid]").first.wait_for(state="detached")
    assert said not in page.inner_text("#count")


@pytest.mark.parametrize("text", ["8h", "1d12h", "1 d 12 h", "0.5d", "1000m"])
def test_a_deadline_is_typed_as_the_option_takes_it(opener: Opener, made: Made, text: str) -> None:
    from trainplan.workloads.durations import parse_duration

    page = opener.open(made.file)
    page.check("[name=every]")
    page.fill("[name=deadline]", text)
    latest = parse_duration(text).total_seconds()
    expected = [row["row"] for row in made.document["candidates"] if row["total_seconds"] <= latest]
    assert page.evaluate(SHOWN) == expected
    assert 0 < len(expected) < len(made.document["candidates"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_axe_finds_nothing_serious(opener: Opener, made: Made, scheme: str, width: int) -> None:
    page = opener.open(made.file, color_scheme=scheme, viewport={"width": width, "height": 900})
    assert opener.findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_dark_is_dark(opener: Opener, made: Made) -> None:
    grounds = [
        opener.open(made.file, color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert grounds == ["rgb(255, 255, 255)", "rgb(16, 20, 26)"]


def test_the_whole_page_can_be_used_with_the_keyboard(opener: Opener, made: Made) -> None:
    page = opener.open(made.file)
    stops = []
    for _ in range(30):
        page.keyboard.press("Tab")
        stops.append(
            page.evaluate(
                "(e => e.name || (e.closest('.chart') ? 'chart' : e.getAttribute('aria-label') || e.type || ''))"
                "(document.activeElement)"
            )
        )
        if stops[-1] == "chart":
            break
    assert stops == ["provider", "market", "device", "deadline", "budget", "every", "reset", "chart"]
    first = page.inner_text(".tip")
    assert re.match(r"row \d+: \w+ [\w-]+; .*; time \(80 %\) .*; cost \(80 %\) \$", first)
    page.keyboard.press("ArrowRight")
    second = page.inner_text(".tip")
    assert second != first
    page.keyboard.press("End")
    page.keyboard.press("Home")
    assert page.inner_text(".tip") == first
    page.keyboard.press("Enter")
    number = first.split(":")[0].removeprefix("row ")
    assert page.evaluate("document.querySelector('tr.chosen').cells[0].textContent") == number
    box = page.evaluate(
        "(r => [r.top, r.bottom, innerHeight])(document.querySelector('tr.chosen').getBoundingClientRect())"
    )
    assert -1 < box[0] < box[1] < box[2] + 1, "Enter brings the row into view, but for a part of a pixel"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Offers by rank"


def test_a_point_under_the_pointer_tells_its_row(opener: Opener, made: Made) -> None:
    page = opener.open(made.file)
    page.locator(".spot.front circle").first.hover()
    (index,) = page.evaluate("[...document.querySelectorAll('.spot.chosen')].map(spot => Number(spot.dataset.row))")
    row = made.document["candidates"][index]
    told = page.inner_text(".tip")
    assert told.startswith(f"row {row['row']}: {row['provider']} {row['region']}; ")
    time, *_ = format_estimate(row["total_seconds"], row["total_low_seconds"], row["total_high_seconds"])
    assert f" {time} (" in told


def test_without_javascript_the_table_is_whole(opener: Opener, made: Made) -> None:
    page = opener.open(made.file, java_script_enabled=False)
    assert page.locator("#rows tbody tr").count() == len(made.document["candidates"])
    assert page.locator("#rows tbody tr").last.is_visible()
    assert not page.locator("#filters").is_visible()
    assert page.locator(".spot.front").count() > 3


def test_on_paper_it_takes_two_pages(opener: Opener, made: Made) -> None:
    page = opener.open(made.file)
    assert len(PAGES.findall(page.pdf(prefer_css_page_size=True))) == 2


HOSTILE = (
    '"\'></title></script><script>window.ran=1</script><img src=x onerror="window.ran=1"><svg onload=window.ran=1>'
)


def test_a_hostile_name_path_and_machine_run_no_script(opener: Opener, made: Made) -> None:
    hostile = json.loads(json.dumps(made.document | {"candidates": made.document["candidates"][:40]}))
    hostile["job"]["name"] = HOSTILE
    hostile["job"]["data"] = {"path": HOSTILE}
    hostile["made_by"]["command"] = HOSTILE
    hostile["advice"] = hostile["cannot_see"] = [HOSTILE]
    for row in hostile["candidates"]:
        for key in ("region", "instance_type", "device", "price_source"):
            row[key] = HOSTILE
        row["remarks"] = row["speed_evidence"] = [HOSTILE]
    for row in hostile["levers"]:
        row["from"] = row["to"] = HOSTILE
    target = made.file.with_name("hostile.html")
    target.write_text(estimate_html(hostile), encoding="utf-8")
    page = opener.open(target)
    page.locator(".spot:not([hidden]) circle").first.hover()
    page.select_option("[name=device]", HOSTILE)
    assert page.evaluate("window.ran") is None
    assert page.evaluate("document.title") == f"{HOSTILE}: what training takes and costs"
    assert page.evaluate("document.querySelectorAll('img, iframe, object, link, [onerror], [onload]').length") == 0


def test_the_policy_stops_a_script_that_gets_in_all_the_same(made: Made, opener: Opener) -> None:
    """As if something had not been escaped: the browser itself refuses."""
    text = made.file.read_text(encoding="utf-8")
    target = made.file.with_name("broken.html")
    target.write_text(
        text.replace("<main>", '<main><script>window.ran=1</script><b onclick="window.ran=1">b</b>'), "utf-8"
    )
    page = opener.open(target)
    page.click("main > b")
    assert page.evaluate("window.ran") is None
    refused = [line for line in opener.complaints if "Content Security Policy" in line]
    assert len(refused) == len(opener.complaints) == 2
    opener.complaints.clear()
