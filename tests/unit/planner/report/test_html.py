"""Pages of HTML: what is from elsewhere is shown and never obeyed, and the policy names what stands in the page."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from trainplan.planner.report.html import Markup, asset, document, escaped, pairs, table, tag
from trainplan.planner.report.html_chart import WIDTH, Axis, Line, Spot, axis_over, chart
from trainplan.planner.report.page import Cell, Column, Table, Tone

HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x1b]0;x\x07\u202egnp"


class Reader(HTMLParser):
    """The elements and texts of a page, as a browser splits them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def hostile_page() -> str:
    x, y = Axis(HOSTILE, 1, 10, [(5, HOSTILE)]), Axis(HOSTILE, 1, 10, [(5, HOSTILE)])
    return document(
        HOSTILE,
        [
            tag("p", HOSTILE, title=HOSTILE),
            pairs([(HOSTILE, HOSTILE)]),
            table(
                Table([Column(HOSTILE)], [[HOSTILE], [Cell(HOSTILE, Tone.BAD)]]), HOSTILE, row_attributes=[HOSTILE] * 2
            ),
            chart(HOSTILE, x, y, [Spot(2, 3, HOSTILE, name=HOSTILE)], [Line(HOSTILE, [(1, 2), (2, 3)])]),
        ],
        scripts=["chart.js"],
    )


def test_no_text_from_elsewhere_becomes_an_element_or_an_attribute() -> None:
    quiet = document("a", [], scripts=["chart.js"])
    read = Reader(hostile_page())
    assert [name for name, _ in read.elements].count("script") == [n for n, _ in Reader(quiet).elements].count("script")
    assert not [name for name, _ in read.elements if name == "img"]
    assert not [key for _, given in read.elements for key in given if key.startswith("on")]
    shown = "</title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\\x1b]0;x\\x07\\u202egnp"
    assert read.texts.count(shown) >= 10


def test_names_of_near_points_do_not_lie_on_each_other() -> None:
    x, y = Axis("x", 1, 10, []), Axis("y", 1, 10, [])
    near = [Spot(2 + step / 9, 3 - step / 9, "", style="front", name=f"8 vCPU spot {step}") for step in range(9)]
    picture = chart("many", x, y, [*near, Spot(9.9, 9.9, "", style="front", name="at the right edge")])
    texts = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"( text-anchor="end")?>([^<]+)</text>', picture)
    assert "at the right edge" in {name for *_, name in texts}
    assert len(texts) > 3
    boxes = []
    for at, base, is_end, name in texts:
        left = float(at) - (7 * len(name) if is_end else 0)
        boxes.append((left, left + 7 * len(name), float(base) - 11, float(base) + 3))
    for index, (left, right, top, bottom) in enumerate(boxes):
        assert left >= 0
        assert right <= WIDTH
        for other in boxes[index + 1 :]:
            assert right <= other[0] or other[1] <= left or bottom <= other[2] or other[3] <= top


@pytest.mark.parametrize("scripts", [[], ["chart.js"]])
def test_the_policy_names_the_style_and_the_scripts_by_hash_and_nothing_else(scripts: list[str]) -> None:
    page = document("a page", [], scripts=scripts)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    sources = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", page, re.DOTALL)
    hashes = {base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in sources}
    assert set(re.findall(r"&#x27;sha256-([^&]*)&#x27;", policy[1])) == hashes
    assert len(hashes) == 1 + len(scripts)
    assert "default-src &#x27;none&#x27;" in policy[1]
    assert "unsafe" not in policy[1]
    assert "connect-src" not in policy[1]


def test_a_page_that_asks_its_own_server_may_ask_nobody_else() -> None:
    assert "connect-src &#x27;self&#x27;" in document("a page", [], connects=True)


def test_markup_is_taken_as_it_is_and_text_is_escaped() -> None:
    assert escaped(Markup("<b>")) == "<b>"
    assert escaped("<b>") == "&lt;b&gt;"
    assert tag("a", "x", href='"') == '<a href="&quot;">x</a>'
    assert tag("input", required=True, disabled=False, value=None) == "<input required/>"


def test_an_asset_that_would_end_its_element_early_is_refused() -> None:
    assert "</" not in asset("page.css")
    with pytest.raises(FileNotFoundError):
        asset("absent.js")


def test_places_on_a_logarithmic_axis() -> None:
    axis = Axis("hours", 1, 100, [], is_log=True)
    assert [axis.share(value) for value in (1, 10, 100, 1_000)] == pytest.approx([0, 0.5, 1, 1])
    over = axis_over("hours", [1, 100], [(0.5, "half"), (10, "ten")], is_log=True)
    assert over.low < 1 < 100 < over.high
    assert over.ticks == [(10, "ten")]


def test_an_axis_over_one_value_has_that_value_within() -> None:
    for value in (0.0, -3.0, 5.0):
        axis = axis_over("loss", [value], [])
        assert axis.low <= value <= axis.high
        assert axis.low < axis.high
