"""Images that are there twice: counted by content, and read only where another of the same size could be equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workloads.data_folder.test_check import png
from trainplan.workloads.data_folder.check import check_folder
from trainplan.workloads.data_folder.duplicates import Contents, Duplicates
from trainplan.workloads.data_folder.problems import duplicate_texts
from trainplan.workloads.data_folder.samples import Sample

ROWS = st.lists(st.tuples(st.binary(max_size=2), st.integers(0, 2), st.booleans()), max_size=12)


def samples(rows: list[tuple[bytes, int, bool]], reads: list[bytes] | None = None) -> list[Sample]:
    def read(data: bytes) -> bytes:
        if reads is not None:
            reads.append(data)
        return data

    return [
        Sample(str(number), label, held_out, len(data), lambda data=data: read(data))  # type: ignore[misc]
        for number, (data, label, held_out) in enumerate(rows)
    ]


@given(rows=ROWS, read_before=st.sets(st.integers(0, 11)))
def test_the_counts_are_those_of_comparing_everything(
    rows: list[tuple[bytes, int, bool]], read_before: set[int]
) -> None:
    contents = Contents(samples(rows))
    for number, sample in enumerate(contents.watched()):
        if number in read_before:
            sample.read()
    found = contents.duplicates(None)
    assert found is not None
    trained = {data for data, _, held_out in rows if not held_out}
    assert found.in_both == sum(held_out and data in trained for data, _, held_out in rows)
    classes = [len({label for data, label, _ in rows if data == content}) for content in {row[0] for row in rows}]
    assert found.in_two_classes == sum(count > 1 for count in classes)
    assert (found.both_example is not None, found.classes_example is not None) == (
        found.in_both > 0,
        found.in_two_classes > 0,
    )


def test_only_what_could_be_equal_is_read() -> None:
    reads: list[bytes] = []
    rows = [(b"a", 0, False), (b"b", 0, False), (b"cc", 0, False), (b"dd", 0, True), (b"eee", 1, False)]
    contents = Contents(samples(rows, reads))
    assert contents.duplicates(None) == Duplicates(in_both=0, in_two_classes=0)
    assert reads == [b"cc", b"dd"]


def test_of_too_many_images_nothing_is_claimed(tmp_path: Path) -> None:
    contents = Contents(samples([(b"a", 0, False)] * 3))
    assert contents.duplicates(2) is None
    for sample in contents.watched():
        sample.read()
    assert contents.duplicates(2) is not None, "they were read anyway"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for grey in range(2):
            (tmp_path / name / f"{grey}.png").write_bytes(png(grey=grey + 10 * (name == "b")))
    report = replace(check_folder(tmp_path), duplicates=None)
    assert "was not looked at" in duplicate_texts(report, are_allowed=False).warnings[0]


def folder(path: Path, twice: int) -> Path:
    """200 images to train on, 100 held out, of which so many are trained on too."""
    for split, first, count in (("train", 0, 100), ("val", 100, 50)):
        for label in (0, 1):
            (path / split / "ab"[label]).mkdir(parents=True)
            for number in range(count):
                size = (1 + first + number, 1 + label)
                (path / split / "ab"[label] / f"{number}.png").write_bytes(png(size))
    for number in range(twice):
        (path / f"val/a/{number}.png").write_bytes((path / f"train/a/{number}.png").read_bytes())
    return path


def test_one_in_a_hundred_is_a_warning_and_more_are_a_problem(tmp_path: Path) -> None:
    (one, two) = (check_folder(folder(tmp_path / str(twice), twice)) for twice in (1, 2))
    told = duplicate_texts(one, are_allowed=False)
    assert told.problems == ()
    (text,) = told.warnings
    assert text.startswith("1 test image is also trained on (1.0% of those held out), for example ")
    (problem,) = duplicate_texts(two, are_allowed=False).problems
    assert problem.startswith("2 test images are also trained on (2.0% of those held out)")
    assert problem.endswith("delete one of each, or write data.duplicates: allow")
    assert duplicate_texts(two, are_allowed=True).problems == ()


def test_images_in_two_classes_are_counted_once_each(tmp_path: Path) -> None:
    path = folder(tmp_path, 0)
    for number in range(20):
        (path / f"train/b/again{number}.png").write_bytes((path / f"train/a/{number}.png").read_bytes())
    (problem,) = duplicate_texts(check_folder(path), are_allowed=False).problems
    assert problem.startswith("20 images are in two classes (6.2% of all), for example ")
