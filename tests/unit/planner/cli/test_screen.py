"""Pages as a terminal shows them: golden screens at three widths with and without colour, and what is left out."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from os import terminal_size
from pathlib import Path

import pytest

from tests.builders import a_machine_estimate, a_plan, small_catalog
from tests.conftest import ROOT, Golden
from tests.unit.planner.cli.command import plan
from trainplan.planner.cli import screen
from trainplan.planner.cli.commands import estimate
from trainplan.planner.cli.screen import (
    PLAIN,
    Screen,
    columns_that_fit,
    lines_on,
    render,
    rows_that_fit,
    screen_of,
    show,
)
from trainplan.planner.cli.streams import GuardedStream, undelivered
from trainplan.planner.forecast.plan import Plan
from trainplan.planner.report.estimate_columns import TABLE
from trainplan.planner.report.estimate_page import LeftOut, brief_page, estimate_page
from trainplan.planner.report.page import Cell, Column, Page, Table, Tone, cell_text, joined
from trainplan.pricing.catalog import Catalog

WIDTHS = (80, 120, 200)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
NUMBERS = Table(
    (Column("name", shrinks=True), Column("n", right=True), Column("why", rank_of_need=1), Column("x", rank_of_need=2)),
    (("a" * 30, "1", "w" * 30, "x" * 30), ("b", "1,000", "", "")),
)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def whole_plan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plan]:
    """Over a small catalog: a retired and a legacy machine, spot, prices that were computed, one that is unproven."""
    with Catalog.open(small_catalog(tmp_path_factory.mktemp("screens"))) as catalog:
        made = a_plan(catalog, every_placement=True, include_retired=True, this_machine=a_machine_estimate())
        second = made.candidates[1]
        unproven = replace(second.candidate.estimate, unproven="nobody was seen to run it")
        marked = second._replace(candidate=second.candidate._replace(estimate=unproven))
        advice = ("a batch of 256 (learning rate to match) cuts row 1 by 22%, to $0.0605", "a line of less use")
        yield made._replace(candidates=(made.candidates[0], marked, *made.candidates[2:]), advice=advice)


@pytest.fixture(scope="module")
def page(whole_plan: Plan) -> Page:
    return estimate_page(whole_plan)


@pytest.mark.parametrize("size", [(80, 24), (80, 16), (120, 40), (40, 24)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("has_colour", [False, True], ids=["plain", "colour"])
def test_the_answer_fits_the_screen(whole_plan: Plan, golden: Golden, size: tuple[int, int], has_colour: bool) -> None:
    columns, lines = size
    a_screen = Screen(columns, has_colour, terminal_size(size))

    def page_of(rows: int) -> Page:
        return brief_page(
            whole_plan._replace(candidates=whole_plan.candidates[:rows]), None, LeftOut(columns=5, chart=True)
        )

    rows = rows_that_fit(page_of, len(whole_plan.candidates), a_screen)
    text = render(page_of(rows), a_screen)
    golden.check(f"screens/brief-{columns}x{lines}{'-colour' if has_colour else ''}.txt", text + "\n")
    assert len(text.splitlines()) < lines, "a line is left for the prompt"
    if rows < len(whole_plan.candidates):
        assert lines_on(render(page_of(rows + 1), a_screen), columns) >= lines, "there is room for another row"


def test_what_the_screen_does_not_hold_is_counted(whole_plan: Plan) -> None:
    """Every line that --notes adds to the brief page is a note, the rest of the rows and of the columns are told."""
    few = whole_plan._replace(candidates=whole_plan.candidates[:3])
    brief, whole = (
        render(page, PLAIN).splitlines() for page in (brief_page(few, None, LeftOut(chart=True)), estimate_page(few))
    )
    rest = len(few.ranking) - 3
    (line,) = [line for line in brief if line.startswith("not shown: ")]
    under = whole[whole.index(f"{rest} more rows: --limit N, or --all for every offer of every placement") + 1 :]
    added = [line for line in under if line not in brief and not line.startswith(("  ", "this machine: "))]
    assert line == f"not shown: {rest} rows (--limit N), chart, {len(added)} notes (--notes)"


def test_a_cost_that_the_order_does_not_follow_has_a_mark_that_is_explained(whole_plan: Plan) -> None:
    text = render(brief_page(whole_plan), PLAIN)
    rows = [line for line in text.splitlines() if re.match(r" *\d+  ", line)]
    assert ["* (" in row for row in rows] == [False, True, *[False] * (len(rows) - 2)]
    assert "* ranked as if 20% dearer: " in text
    assert "* ranked" not in render(brief_page(whole_plan._replace(candidates=whole_plan.candidates[:1])), PLAIN)


def test_rows_are_all_kept_where_there_is_no_terminal() -> None:
    assert rows_that_fit(lambda rows: ["line"] * rows, 500, PLAIN) == 500


def test_a_screen_of_a_few_lines_shows_one_row() -> None:
    tiny = Screen(40, has_colour=False, terminal=terminal_size((40, 3)))
    assert rows_that_fit(lambda rows: ["line"] * (rows + 9), 500, tiny) == 1


def test_a_row_that_the_terminal_breaks_counts_as_its_lines() -> None:
    assert lines_on("a" * 81 + "\n\n" + "\x1b[31m" + "b" * 80 + "\x1b[0m", 80) == 4


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("has_colour", [False, True], ids=["plain", "colour"])
def test_the_estimate_on_a_screen(page: Page, golden: Golden, width: int, has_colour: bool) -> None:
    text = render(page, Screen(width, has_colour))
    golden.check(f"screens/estimate-{width}{'-colour' if has_colour else ''}.txt", text + "\n")
    assert max(len(line) for line in COLOURS.sub("", text).splitlines()) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_colours_change_no_letter(page: Page, width: int) -> None:
    coloured = render(page, Screen(width, has_colour=True))
    assert "\x1b[36m" in coloured
    plain = [line.rstrip() for line in COLOURS.sub("", coloured).splitlines()]
    assert plain == render(page, Screen(width, has_colour=False)).splitlines()


def test_the_columns_of_eighty_characters_are_those_that_are_needed_most() -> None:
    needed = [column.title for column in TABLE if not column.rank_of_need]
    assert needed == ["#", "where", "device", "market", "time", "cost (80 %)"]


def test_the_columns_needed_least_are_left_out_first_and_named() -> None:
    assert [len(columns_that_fit(NUMBERS, width)) for width in (None, 105, 72, 60, 10)] == [4, 4, 3, 2, 2]
    text = render([NUMBERS], Screen(72, has_colour=False))
    assert text.splitlines()[-1] == "columns left out to fit: x; --wide shows them"
    assert "left out" not in render([NUMBERS], PLAIN)


def test_what_cannot_be_left_out_is_cut_with_an_ellipsis() -> None:
    lines = render([NUMBERS], Screen(20, has_colour=False)).splitlines()
    assert lines[1] == "a" * 13 + "…     1"
    assert max(map(len, lines[:3])) == 20


def test_on_a_narrow_screen_a_row_takes_several_lines_and_loses_nothing() -> None:
    table = Table((Column("where", shrinks=True), Column("cost", right=True)), [("gcp europe-north1", "$0.01")] * 2)
    narrow = Screen(20, has_colour=False, terminal=terminal_size((20, 24)))
    row = ["gcp europe-north1", "  $0.01"]
    assert render([table], narrow).splitlines() == ["where", "   cost", *row, *row]
    assert screen.height_of([table], narrow) == 6


def test_a_line_is_broken_between_words_and_its_rest_is_indented() -> None:
    text = render(["  1  a reason that is longer than the screen", "", "short"], Screen(30, has_colour=False))
    assert text.splitlines() == ["  1  a reason that is longer", "    than the screen", "", "short"]


def test_a_cell_cannot_write_to_the_terminal() -> None:
    """Names of machines and of jobs come from elsewhere."""
    hostile = Table((Column("a"),), (("\x1b]0;title\x07",), (Cell("x\ny\x1b[31m", Tone.SPOT),)))
    text = COLOURS.sub("", render([hostile, "\x1b]0;title\x07"], Screen(80, has_colour=True)))
    assert "\x1b" not in text
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines == ["a", "\\x1b]0;title\\x07", "x y", "\\x1b]0;title\\x07"]


@pytest.mark.parametrize(
    ("environ", "is_terminal", "expected"),
    [
        ({}, True, Screen(97, has_colour=True)),
        ({}, False, PLAIN),
        ({"NO_COLOR": "1"}, True, Screen(97, has_colour=False)),
        ({"NO_COLOR": ""}, True, Screen(97, has_colour=True)),
        ({"FORCE_COLOR": "1"}, False, Screen(None, has_colour=True)),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, PLAIN),
        ({"TERM": "dumb"}, True, Screen(97, has_colour=False)),
    ],
)
def test_the_screen_is_what_the_stream_and_the_environment_say(
    environ: Mapping[str, str], is_terminal: bool, expected: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "terminal_size", lambda _: terminal_size((97, 20)))
    stream = Tty() if is_terminal else io.StringIO()
    expected = expected._replace(terminal=terminal_size((97, 20)) if is_terminal else None)
    assert screen_of(stream, environ) == expected
    assert screen_of(stream, environ, wide=True) == expected._replace(width=None)


def test_colours_pass_the_filter_of_the_stream_and_its_failures_stay_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "terminal_size", lambda _: terminal_size((80, 20)))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    inner = Tty()
    stream = GuardedStream(inner)
    monkeypatch.setattr(sys, "stdout", stream)
    show([Table((Column("a"),), ((Cell("x", Tone.BAD),),))])
    assert "\x1b[31mx\x1b[0m" in inner.getvalue()
    assert not stream.is_empty
    inner.close()
    show([Table((Column("a"),), ((Cell("x", Tone.BAD),),))], wide=True)
    assert undelivered(stream) == "it is closed"  # type: ignore[arg-type]


def test_a_line_has_its_colour_on_each_line_of_the_screen() -> None:
    line = Cell("refused   a reason that is longer than the screen", Tone.BAD)
    red = render([line], Screen(30, has_colour=True)).splitlines()
    assert len(red) == 2
    assert all(part.startswith("\x1b[31m") and part.endswith("\x1b[0m") for part in red)
    assert render([line], PLAIN) == line.text


def test_an_empty_page_takes_no_place() -> None:
    assert joined([["a"], [], ["b", "c"]]) == ["a", "", "b", "c"]


def test_the_gravest_word_of_a_row_stands_beside_its_market(page: Page) -> None:
    (table,) = [block for block in page if isinstance(block, Table)]
    markets = {cell_text(row[4]) for row in table.rows}
    assert {"on demand", "spot", "on demand, retired", "on demand, legacy", "spot, computed"} <= markets
    tones = {cell.text: cell.tone for row in table.rows if isinstance(cell := row[4], Cell)}
    assert tones["on demand, retired"] is Tone.BAD
    assert tones["spot"] is Tone.SPOT


def test_a_simulated_offer_says_so_on_its_row_and_below() -> None:
    out = plan("estimate", "--model", "vgg16", "--dataset", "cifar10", "--provider", "sim", "--limit", 3).out
    rows = [line for line in out.splitlines() if re.match(r" *\d+  sim ", line)]
    assert rows
    assert all(", simulated" in row for row in rows)
    assert "its machines, speeds and prices are made up, and nothing bills" in out


@pytest.mark.parametrize("job", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_fits_a_terminal_of_24_lines(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole command, with what this computer does and today's prices in it."""
    monkeypatch.setenv("PLAN_HOME", str(tmp_path))
    for module in (screen, estimate):
        monkeypatch.setattr(module, "screen_of", lambda *_, **__: Screen(80, False, terminal_size((80, 24))))
    lines = plan("estimate", job).out.splitlines()
    assert 20 < len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if re.match(r" *\d+  ?[a-z]+ ", line)]) >= 11
    assert lines[-1].startswith("not shown: ")
