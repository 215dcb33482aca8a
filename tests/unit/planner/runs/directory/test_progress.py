"""What the trainer has said: read as it grows, whatever is half written or is no progress at all."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.fake_machine import FakeStore
from trainplan.planner.runs.directory.progress import Line, ProgressReader, Story, story_of

PATH = "attempts/1/progress.jsonl"
LINES: list[Line] = [
    {"event": "phase", "name": "import", "seconds": 2.5},
    {"event": "start", "time": "2026-11-21T12:00:05+00:00", "resumed_from_step": 0, "total_steps": 20},
    {"event": "step", "step": 1, "images_per_second": None},
    {"event": "step", "step": 10, "images_per_second": 90.0},
    {"event": "epoch", "time": "2026-11-21T12:01:00+00:00", "epoch": 1, "step": 10},
    {"event": "phase", "name": "train", "seconds": 1.0},
    {"event": "phase", "name": "train", "seconds": 2.0},
    {"event": "checkpoint", "step": 10},
    {"event": "end", "step": 20, "images_per_second": 100.0},
]
WHOLE = b"".join(json.dumps(line).encode() + b"\n" for line in LINES)


def a_store(data: bytes) -> FakeStore:
    store = FakeStore()
    store.put(PATH, data)
    return store


def test_each_line_is_read_once_as_the_file_grows() -> None:
    store = FakeStore()
    reader = ProgressReader(store, 1)
    assert list(reader.new_lines()) == []
    read: list[Line] = []
    for end in range(0, len(WHOLE) + 7, 7):
        store.put(PATH, WHOLE[:end])
        read += reader.new_lines()
    assert read == LINES
    assert list(reader.new_lines()) == []


@given(st.lists(st.integers(0, len(WHOLE)), max_size=8))
def test_wherever_it_is_cut(cuts: list[int]) -> None:
    store = FakeStore()
    reader = ProgressReader(store, 1)
    read: list[Line] = []
    for end in [*sorted(cuts), len(WHOLE)]:
        store.put(PATH, WHOLE[:end])
        read += reader.new_lines()
    assert read == LINES


@pytest.mark.parametrize(
    "junk", [b"not json\n", b"\xff\xfe\n", b"[1]\n", b"{}\n", b'{"event": 3}\n', b"\n", b'"event"\n']
)
def test_what_is_no_progress_is_passed_over(junk: bytes) -> None:
    assert list(ProgressReader(a_store(junk + WHOLE + junk), 1).new_lines()) == LINES


def test_what_a_program_of_the_persons_own_writes_there_is_read_without_secrets() -> None:
    secret = "ghp_" + "aB3dE6gH9jK2" * 3
    line = {"event": "warning", "message": f"cannot clone with {secret}", "wandb_api_key": "abc123"}
    (read,) = ProgressReader(a_store(json.dumps(line).encode() + b"\n"), 1).new_lines()
    assert read == {"event": "warning", "message": "cannot clone with …", "wandb_api_key": "…"}


def test_the_last_line_waits_for_its_end() -> None:
    assert list(ProgressReader(a_store(WHOLE[:-1]), 1).new_lines()) == LINES[:-1]


def test_each_attempt_has_a_story_of_its_own() -> None:
    store = a_store(WHOLE)
    assert story_of(store, 2) == Story()
    assert story_of(store, 1).end is not None


def test_a_story_adds_up() -> None:
    story = story_of(a_store(WHOLE), 1)
    assert (story.step, story.images_per_second) == (20, 100.0)
    assert story.phase_seconds == {"import": 2.5, "train": 3.0}
    assert story.first_step_at == datetime(2026, 11, 21, 12, 0, 5, tzinfo=UTC)
    assert story.last_epoch_at == datetime(2026, 11, 21, 12, 1, tzinfo=UTC)
    assert [line["epoch"] for line in story.epochs] == [1]


@pytest.mark.parametrize(
    ("lines", "step", "rate"),
    [
        ([], 0, None),
        ([{"event": "start", "resumed_from_step": 7}], 7, None),
        ([{"event": "start", "resumed_from_step": 7}, {"event": "step", "step": 8, "images_per_second": 5}], 8, 5.0),
        ([{"event": "step", "step": 8}, {"event": "end", "step": 9, "images_per_second": None}], 9, None),
        ([{"event": "step", "step": 8, "images_per_second": 5}, {"event": "end", "step": 9}], 9, 5.0),
    ],
)
def test_how_far_it_is_comes_from_the_last_that_tells(lines: list[Line], step: int, rate: float | None) -> None:
    story = Story()
    for line in lines:
        story.add(line)
    assert (story.step, story.images_per_second) == (step, rate)


def test_training_that_begins_again_within_an_attempt_is_counted_with_what_it_trains_again() -> None:
    """A cluster that has lost a node requeues the job; one that wants it back lets the trainer write a checkpoint."""
    lines: list[Line] = [
        {"event": "start", "resumed_from_step": 0},
        {"event": "step", "step": 50, "images_per_second": 9.0},
        {"event": "start", "resumed_from_step": 40},
        {"event": "step", "step": 70},
        {"event": "end", "step": 71, "images_per_second": 8.0},
        {"event": "start", "resumed_from_step": 71},
    ]
    story = Story()
    for line in lines:
        story.add(line)
    assert (story.restarts, story.lost_steps, story.step, story.images_per_second) == (2, 10, 71, None)


def test_a_story_that_has_not_begun_knows_no_instants() -> None:
    assert (Story().first_step_at, Story().last_epoch_at) == (None, None)
