"""Published whole runs: what is read of them, what the width is made of, and that the shipped one is theirs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import pytest

from scripts.fit.others import other_arrays, read_others
from scripts.fit.pairs import read_pairs
from scripts.fit.rows import Row, read_rows
from scripts.fit.totals import Total, half_width, predict_totals, read_totals, total_lines, totals_digest
from trainplan.planner.forecast.whole_run import TOTALS, whole_run_half_width


def a_total(source: str, predicted_hours: float, step: float, hours: float = 10.0, quality: str = "A") -> Total:
    cells = next(row for row in read_totals() if row["source"] == "gluoncv")
    return Total(
        cells={**cells, "source": source, "hours": str(hours), "quality": quality, "id": source},
        predicted_hours=predicted_hours,
        step=step,
    )


def test_the_shipped_width_is_that_of_the_table() -> None:
    """`make fit` writes it; this says when it has not been run since a row was added."""
    shipped = json.loads(TOTALS.read_text(encoding="utf-8"))
    assert shipped["totals_sha256"] == totals_digest(), "make fit"
    assert whole_run_half_width() == shipped["half_width"] > 0


def test_every_total_has_a_source_a_date_and_a_quality() -> None:
    totals = read_totals()
    assert len({row["id"] for row in totals}) == len(totals) >= 9
    for row in totals:
        assert all(row[name] for name in ("address", "section", "published_on", "note"))
        assert row["quality"] in ("A", "B", "C")
        assert float(row["hours"]) > 0


def test_the_width_is_what_a_source_needs_beyond_its_step_and_the_largest_of_a_few() -> None:
    """Off by a factor of e to the 0.5 with a step of 0.3: 0.4 is lacking. The other is within its step."""
    totals = [a_total("one", 10 * math.exp(0.5), 0.3), a_total("two", 10 * math.exp(-0.2), 0.3)]
    assert half_width(totals) == pytest.approx(0.4)
    assert half_width(totals, without="one") == 0
    # A second run of a source counts with the first, and one of quality C does not count.
    totals += [a_total("one", 10.0, 0.3), a_total("three", 100.0, 0.3, quality="C")]
    assert half_width(totals) == pytest.approx(0.2)


def test_a_run_is_held_against_the_width_of_the_other_sources() -> None:
    totals = [a_total("one", 10 * math.exp(0.5), 0.3), a_total("two", 10 * math.exp(-0.45), 0.3)]
    lines = total_lines(totals)
    # 0.3 and the other's 0.335 make 0.45: not enough. 0.3 and 0.4 make 0.5: enough.
    assert [line.split("|")[7].strip() for line in lines[2:4]] == ["no", "yes"]
    assert lines[-1].startswith("Of 2 predicted runs 1 are inside their interval, 0 of them")


def test_what_a_source_tells_of_its_steps_is_held_against_its_whole_run() -> None:
    """The logs of 100 epochs: a validation of 50,000 images after each takes less than a hundredth."""
    row = next(row for row in read_totals() if row["id"] == "gluoncv-vgg16")
    lines = total_lines([Total(cells=row)])
    assert lines[2].endswith("| - | - | +0.9% |")


@pytest.mark.slow
@pytest.mark.check  # it fits the model anew without each source
def test_published_runs_are_predicted_without_their_source() -> None:
    """What a source measured changes nothing of how its runs are predicted; a device nobody knows is left out."""
    rows, pairs, others = read_rows(), read_pairs(), other_arrays(read_others())

    def hours(rows: Sequence[Row]) -> dict[str, float | None]:
        return {total.cells["id"]: total.predicted_hours for total in predict_totals(rows, pairs, others)}

    everything = hours(rows)
    fewer = hours([row for row in rows if row.measurement.source != "gluoncv"])
    assert everything["vgg-paper"] is None
    assert everything["gluoncv-vgg16"] == pytest.approx(fewer["gluoncv-vgg16"])
    assert everything["paddle-vgg19"] != pytest.approx(fewer["paddle-vgg19"])
