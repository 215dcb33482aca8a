"""The page of a run: every figure is that of its document, what is from elsewhere is shown and never obeyed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.json_output import validator
from tests.unit.planner.report.test_html import HOSTILE, Reader
from trainplan.planner.report.run_answer import answer, bills_text, off_text
from trainplan.planner.report.run_charts import log_ticks, ticks, time_charts
from trainplan.planner.report.run_page import MOST_CELLS, MOST_TOLD, run_page

BEGAN, ENDED = "2026-11-21T12:00:00+00:00", "2026-11-21T14:00:00+00:00"
MIDDLE = "2026-11-21T13:00:00+00:00"


def an_attempt(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "number": number, "where": f"placement {number}", "market": "spot", "usd_per_hour": 0.5, "asked_at": BEGAN,
        "ended_at": ENDED, "had_machine": True, "end": "done", "reason": "done", "step": None, "lost_steps": None,
        "usd": 0.75,
    } | changes  # fmt: skip


def an_epoch(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "attempt": 1, "at": MIDDLE, "epoch": number, "step": 100 * number, "loss": 1.5 / number, "accuracy": 0.5,
        "validation_loss": None, "validation_accuracy": 0.4, "validation_top5": None, "learning_rate": 0.1,
        "seconds": 60.0,
    } | changes  # fmt: skip


def a_document(text: str = "cats", **changes: Any) -> dict[str, Any]:
    """A run that was interrupted once and is trained; `text` stands wherever somebody else's text may."""
    classes = [
        {"name": text, "images": 40, "right": 30, "accuracy": 0.75, "precision": 1.0},
        {"name": "dogs", "images": 0, "right": 0, "accuracy": None, "precision": 0.0},
    ]
    return {
        "run": {
            "run_id": "261121-0badcafe", "job_name": text, "provider": "sim", "simulated": False, "phase": "done",
            "outcome": "succeeded", "message": text, "unverified": text, "created_at": BEGAN, "until": ENDED,
            "clock_ahead_seconds": 0.0,
            "deadline": ENDED, "budget_usd": None, "stop_asked": None, "model_folder": f"/{text}",
        },
        "job": {"name": text, "data": {"path": text, "images": None}, "xla": True, "markets": [text, text]},
        "made_at": ENDED,
        "currency": "USD",
        "bills": {"bills": False, "usd_per_hour": 0.0, "until": None},
        "estimate": {"seconds": 6_000.0, "low_seconds": 5_000.0, "high_seconds": 9_000.0, "usd": 1.25,
                     "images_per_second": 900.0, "basis": "scaled"},
        "actual": {"seconds": 7_200.0, "usd": 1.5, "images_per_second": 812.5, "step": 400, "total_steps": 400,
                   "device": text, "framework": text},
        "attempts": [an_attempt(1, where=text, end="reclaimed", reason=text, step=200, lost_steps=17), an_attempt(2)],
        "interruptions": [{"attempt": 1, "at": MIDDLE, "end": "reclaimed", "reason": text, "where": text,
                           "step": 200, "lost_steps": 17, "next": 2}],
        "epochs": [an_epoch(1), an_epoch(2, learning_rate=0.01), an_epoch(3, loss=0.001)],
        "progress": [{"attempt": 1, "at": MIDDLE, "step": 100, "loss": 0.5, "accuracy": 0.5,
                      "images_per_second": 800.0}],
        "dollars": [{"at": BEGAN, "usd": 0.0}, {"at": MIDDLE, "usd": 0.75}, {"at": ENDED, "usd": 1.5}],
        "sweep": None,
        "held_out": {"accuracy": 0.75, "top5": None, "images": 40, "most_frequent": 0.5, "best_epoch": 3,
                     "classes": classes, "confusion": [[0, 0, 30], [0, 1, 10]]},
        "events": [{"at": BEGAN, "kind": text, "detail": text}],
        "warnings": [text],
        "receipt": {"run_id": "261121-0badcafe", "job_name": text, "outcome": "succeeded", "message": text,
                    "attempts": 2, "lost_steps": 17, "actual_usd": 1.5, "actual_seconds": 7_200.0, "steps": 400,
                    "total_steps": 400, "usd_by_resource": {"compute": 1.4, "disk": 0.1}, "at_most": True,
                    "device": text, "framework": text, "model_folder": text, "own_rate": text,
                    "phase_seconds": {text: 3.0}, "stored_bytes": 2_000_000, "stored_usd_per_month": 0.05},
        "gaps": [text],
        "made_by": {"command": text, "version": "0.1.0"},
    } | changes  # fmt: skip


def texts(page: str) -> str:
    """What a person reads of it."""
    return " ".join(" ".join(Reader(page).texts).split())


def test_the_document_of_these_tests_is_one() -> None:
    assert not list(validator("report").iter_errors(a_document()))


def test_no_text_from_elsewhere_becomes_an_element() -> None:
    quiet, hostile = Reader(run_page(a_document())), Reader(run_page(a_document(HOSTILE)))
    assert [name for name, _ in hostile.elements] == [name for name, _ in quiet.elements]
    assert not [key for _, given in hostile.elements for key in given if key.startswith("on") or key == "style"]
    assert "\x1b" not in run_page(a_document(HOSTILE))


def test_the_page_says_what_the_document_says() -> None:
    page = texts(run_page(a_document()))
    for figure in ("2h 00m", "1h 40m", "$1.50", "$1.25", "+20%", "812.5", "-10%", "scaled", "75.0%", "17", "2.0 MB",
                   "1h 25m to 2h 30m", "cats taken for dogs: 10", "billed compute $1.40, disk $0.10"):  # fmt: skip
        assert figure in page, figure
    assert "interrupted once; 17 steps were trained again" in page


def test_the_sentence_tells_the_outcome_first() -> None:
    document = a_document()
    assert answer(document) == (
        "cats is trained, 2h 00m on 2 machines (20% more than estimated), at most $1.50 (20% more), accuracy 75.0% on "
        "test images"
    )
    early = document | {"receipt": (document["receipt"] or {}) | {"early_end_epoch": 21}}
    assert answer(early).startswith("cats is trained, 2h 00m on 2 machines (ended early), at most $1.50, accuracy")
    assert "+20%" in run_page(document)
    assert "+20%" not in run_page(early), "the estimate is that of all epochs"
    failed = document["run"] | {"outcome": "no_capacity"}
    assert answer(document | {"run": failed, "held_out": None}) == (
        "cats ended (no capacity) at step 400 of 400, 2h 00m on 2 machines, at most $1.50"
    )
    lives = document["run"] | {"outcome": None, "phase": "tearing_down", "simulated": True}
    bills = {"bills": True, "usd_per_hour": 0.5, "until": ENDED}
    told = document | {"run": lives, "bills": bills, "held_out": None}
    assert answer(told).startswith("cats is tearing down, step 400 of 400, 2h 00m on 2 machines, at most $1.50 so far")
    assert re.fullmatch(
        r"would bill \$0\.500/h until 2026-11-2. ..:.. at the latest \(simulated time\), were it not simulated",
        bills_text(told),
    )
    assert "times are simulated" in run_page(told)
    assert "times are simulated" not in run_page(document)
    assert bills_text(document) == ""


def test_what_is_not_known_is_a_dash_and_an_empty_part_is_left_out() -> None:
    nothing = a_document(
        estimate=None, receipt=None, held_out=None, epochs=[], progress=[], dollars=[], attempts=[], interruptions=[],
        events=[], warnings=[], gaps=[], job=None,
        actual={"seconds": None, "usd": 0.0, "images_per_second": None, "step": 0, "total_steps": None, "device": None,
                "framework": None},
    )  # fmt: skip
    page = run_page(nothing)
    for heading in ("Training", "Time and money", "Test images", "Receipt", "What this report lacks", "The job"):
        assert f"<h2>{heading}</h2>" not in page
    assert off_text(None, 1.0) == off_text(0.0, 1.0) == off_text(1.0, None) == "-"


def test_many_interruptions_and_classes_are_summed_up() -> None:
    stop = a_document()["interruptions"][0]
    many = run_page(a_document(interruptions=[stop | {"attempt": number} for number in range(MOST_TOLD + 1)]))
    assert "interrupted 9 times; 153 steps were trained again" in texts(many)
    assert "the run went on at" not in texts(many)
    held_out = a_document()["held_out"]
    assert 'class="matrix"' in run_page(a_document())
    ten = run_page(a_document(held_out=held_out | {"classes": held_out["classes"][:1] * 10, "confusion": []}))
    box = ten[: ten.index('class="matrix"')].rpartition("<div")[2]
    assert 'class="scroll many"' in box, "a phone does not hold ten classes, and the box has a sign"
    wide = held_out | {"classes": held_out["classes"][:1] * (MOST_CELLS + 1)}
    assert 'class="matrix"' not in run_page(a_document(held_out=wide))


def test_a_rate_that_never_changed_is_a_sentence_and_no_chart() -> None:
    assert "Learning rate by epoch" in run_page(a_document())
    steady = run_page(a_document(epochs=[an_epoch(1), an_epoch(2)]))
    assert "learning rate 0.1 in every epoch" in steady
    assert "Learning rate by epoch" not in steady


def test_each_interruption_is_a_point_of_the_dollars() -> None:
    _, dollars = time_charts(a_document())
    assert dollars.count('class="spot bad"') == 1
    assert "attempt 1 ended (reclaimed) after 60.0 minutes" in dollars


@pytest.mark.parametrize("values", [[0.0, 1.0], [0.0, 3.7e9], [5.0, 5.0], [0.0, 0.0], [1e-7, 3e-7], [-2.0, 2.0]])
@pytest.mark.parametrize("marks", [lambda values: ticks(values, str), log_ticks])
def test_ticks_are_few_and_hold_the_values(values: list[float], marks: Callable[[list[float]], Any]) -> None:
    if marks is log_ticks and min(values) <= 0:
        return
    placements = [at for at, _ in marks(values)]
    assert 1 <= len(placements) <= 30
    assert placements == sorted(placements)
    assert placements[0] <= min(values)
    assert placements[-1] >= max(values) * (1 - 1e-9)


def test_the_receipt_has_the_pixels_that_a_network_of_the_persons_own_was_given() -> None:
    document = a_document(job={"model": {"python": "nets.py:build", "read": {"pixel_range": [0.0, 255.0]}}})
    assert "0.0 to 255.0" in run_page(document)
    assert "given pixels" not in run_page(a_document())
