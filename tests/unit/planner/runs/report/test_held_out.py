"""What is read beside the model came from a rented machine: a file that makes no sense is no class and no curve."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainplan.planner.runs.report.curves import Thinned
from trainplan.planner.runs.report.held_out import CONFUSION, METRICS, classes_at_home, epochs_at_home


@pytest.mark.parametrize(
    "text",
    [
        "",
        "class\n",
        "class,a,b\na,1,2\n",  # a row is missing
        "class,a,b\na,1,2\nb,1\n",
        "class,a,b\na,1,2\nb,1,-2\n",
        "class,a,b\na,1,2\nb,1,0.5\n",
        "class,a\na,nan\n",
        "class,a\na,٣\n",
        "\x00\x01",
        "class" + ",a" * 1_001 + "\n" + ("a" + ",1" * 1_001 + "\n") * 1_001,
        "class,a\n" + '"' + "a" * 200_000,
    ],
)
def test_what_is_no_square_of_counts_has_no_classes(tmp_path: Path, text: str) -> None:
    (tmp_path / CONFUSION).write_text(text, encoding="utf-8")
    assert classes_at_home(tmp_path) is None
    (tmp_path / METRICS).write_text(text, encoding="utf-8")
    assert epochs_at_home(tmp_path) == []


def test_bytes_that_are_no_text_and_files_that_are_not_there_have_none(tmp_path: Path) -> None:
    assert classes_at_home(tmp_path) is None
    (tmp_path / CONFUSION).write_bytes(b"class,a\na,\xff\n")
    assert classes_at_home(tmp_path) is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("class,secret\nsecret,1\n", encoding="utf-8")
    (tmp_path / CONFUSION).symlink_to(tmp_path / "elsewhere")
    assert classes_at_home(tmp_path) is None


def test_a_class_without_images_has_no_accuracy_and_a_name_stays_on_its_line(tmp_path: Path) -> None:
    (tmp_path / CONFUSION).write_text('class,a,"b\nc"\na,0,0\n"b\nc",2,0\n', encoding="utf-8")
    told = classes_at_home(tmp_path)
    assert told is not None
    assert [(one["name"], one["accuracy"], one["precision"]) for one in told["classes"]] == [
        ("a", None, 0.0),
        ("b c", 0.0, None),
    ]
    assert told["confusion"] == [[1, 0, 2]]


@given(count=st.integers(0, 500), most=st.integers(1, 40))
def test_points_are_thinned_evenly_and_keep_the_newest(count: int, most: int) -> None:
    thinned = Thinned(most)
    points = [{"step": step} for step in range(count)]
    for point in points:
        thinned.add(point)
    kept = thinned.points()
    assert kept[-1:] == points[-1:]
    assert len(kept) <= most + 1
    assert kept == [point for point in points if point in kept]
    apart = [after["step"] - before["step"] for before, after in pairwise(kept[:-1])]
    assert len(set(apart)) <= 1
    if count <= most:
        assert kept == points
