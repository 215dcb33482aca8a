"""What a person reads beside the model, from figures made for it."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest

from trainplan.workloads.trainer.history import Epoch
from trainplan.workloads.trainer.report import curves, report_files, scale_of
from trainplan.workloads.trainer.tester import HoldOutResult

EPOCHS = [
    Epoch(epoch=1, step=5, loss=2.0, accuracy=0.25, rate=0.1, seconds=1.5),
    Epoch(epoch=2, step=10, loss=1.0, accuracy=0.5, validation_loss=1.2, validation_accuracy=0.6, rate=0.1, seconds=2),
]
RESULT = HoldOutResult(loss=1.2, accuracy=0.6, top5=0.95, confusion=np.array([[3, 1, 0], [2, 1, 1], [0, 0, 0]]))


def text(files: dict[str, bytes], name: str) -> str:
    return files[name].decode()


def test_the_report_has_every_class_and_the_mistakes() -> None:
    pytest.importorskip("PIL")
    files = report_files("toys", EPOCHS, RESULT, ("cat", "dog|pup", "eel"), "Tested on 8 images.")
    assert set(files) == {"metrics.csv", "curves.png", "confusion.csv", "report.md"}
    report = text(files, "report.md").splitlines()
    assert report[0] == "# toys"
    assert {
        "Tested on 8 images.",
        "| top-1 accuracy | 60.00% |",
        "| top-5 accuracy | 95.00% |",
        "| cat | 4 | 75.0% | 60.0% |",
        "| dog\\|pup | 4 | 25.0% | 50.0% |",
        "| eel | 0 | - | 0.0% |",
        "| dog\\|pup | cat | 2 |",
    } <= set(report)
    assert report.index("| dog\\|pup | cat | 2 |") < report.index("| cat | dog\\|pup | 1 |")
    assert text(files, "confusion.csv").splitlines() == [
        "class,cat,dog|pup,eel",
        "cat,3,1,0",
        "dog|pup,2,1,1",
        "eel,0,0,0",
    ]
    assert text(files, "metrics.csv").splitlines()[1:] == [
        "1,5,2.0,0.25,,,,0.1,1.5",
        "2,10,1.0,0.5,1.2,0.6,,0.1,2.0",
    ]


@pytest.mark.parametrize(("pairs", "is_told"), [([[5, 0], [3, 0]], True), ([[5, 0], [2, 1]], False)])
def test_the_report_says_where_nothing_was_learned(pairs: list[list[int]], is_told: bool) -> None:
    confusion = np.array(pairs)
    accuracy = float(np.trace(confusion) / confusion.sum())
    report = text(
        report_files("x", [], HoldOutResult(loss=1, accuracy=accuracy, confusion=confusion), (), ""), "report.md"
    )
    assert ("no better than always guessing the commonest class (62.50%): nothing was learned" in report) is is_told


def test_of_many_classes_the_worst_are_named() -> None:
    confusion = np.diag(np.full(30, 10))
    confusion[7, 7], confusion[7, 8] = 4, 6
    files = report_files("many", EPOCHS, HoldOutResult(loss=1, accuracy=0.98, confusion=confusion), (), "")
    assert "## The 20 of 30 classes with the lowest recall" in text(files, "report.md")
    assert text(files, "report.md").index("| 7 | 10 | 40.0% | 100.0% |") < text(files, "report.md").index("| 0 | 10 |")


def test_without_a_count_of_classes_there_is_no_table_of_them() -> None:
    files = report_files("plain", [], HoldOutResult(loss=1, accuracy=0.5), (), "")
    assert set(files) == {"metrics.csv", "report.md"}


def test_the_curves_show_training_and_validation() -> None:
    image_module = pytest.importorskip("PIL.Image")
    picture = curves(
        [*EPOCHS, Epoch(epoch=3, step=15, loss=0.5, accuracy=0.7, validation_loss=1, validation_accuracy=0.7)]
    )
    assert picture is not None
    image = image_module.open(io.BytesIO(picture))
    colours = {colour for _, colour in image.getcolors(10_000)}
    assert image.size == (960, 384)
    assert {(31, 119, 180), (214, 39, 40)} <= colours
    assert curves([]) is None
    assert curves(EPOCHS, "title " * 99 + "\u4f60") is not None
    assert curves(EPOCHS[:1]) is not None


@pytest.mark.parametrize(
    ("values", "ticks", "is_logarithmic"),
    [
        ([36.8, 2.1, 0.9, 0.4], (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0), True),  # one bad epoch
        ([2.3, 1.1, 0.4], (0.0, 0.5, 1.0, 1.5, 2.0, 2.5), False),
        ([0.393, 0.345, 0.297], (0.25, 0.3, 0.35, 0.4), False),
        ([1e-6, 1.0], (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0), True),
        ([0.0, 36.8], (0.0, 10.0, 20.0, 30.0, 40.0), False),
        ([0.5], (0.4, 0.6), False),
        ([float("nan"), float("inf")], (0.0, 0.5), False),
        ([], (0.0, 0.5), False),
    ],
)
def test_the_lines_of_an_axis_are_round_and_hold_all_values(
    values: list[float], ticks: tuple[float, ...], is_logarithmic: bool
) -> None:
    scale = scale_of(values)
    assert scale.ticks == pytest.approx(ticks)
    assert scale.is_logarithmic is is_logarithmic
    assert all(-1e-9 <= scale.share(value) <= 1 + 1e-9 for value in values if math.isfinite(value))


@pytest.mark.parametrize("most", [1, 2, 3, 12, 90, 10_000])
def test_epochs_are_told_in_whole_numbers(most: int) -> None:
    scale = scale_of([1.0, float(most)], whole=True)
    assert all(tick == int(tick) for tick in scale.ticks)
    assert 2 <= len(scale.ticks) <= 8
