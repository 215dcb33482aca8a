"""A table as one test finds every wrong row, and names it."""

from __future__ import annotations

import inspect

import pytest

from tests.rows import each_row


def test_every_row_is_tried_and_every_wrong_one_named() -> None:
    tried = []

    @each_row("one, other", [(1, 1), (1, 2), (3, 3), (4, 5)])
    @each_row("sign", [1, -1])
    def test_alike(one: int, other: int, sign: int, tmp_path: str) -> None:
        tried.append((one, other, sign, tmp_path))
        assert sign * one == sign * other

    assert list(inspect.signature(test_alike).parameters) == ["tmp_path"]
    with pytest.raises(ExceptionGroup, match="2 of 4 rows of test_alike") as failed:
        test_alike(tmp_path="here")
    assert [one.__notes__ for one in failed.value.exceptions] == [
        ["row: {'one': 1, 'other': 2}"],
        ["row: {'one': 4, 'other': 5}"],
    ]
    assert len(tried) == 8
    assert {row[3] for row in tried} == {"here"}


def test_a_failure_in_words_and_an_error_are_wrong_rows_too() -> None:
    @each_row("word", ["fail", "raise", "pass"], ids=["F", "R", "P"])
    def test_word(word: str) -> None:
        if word == "fail":
            pytest.fail("it is wrong")
        if word == "raise":
            raise KeyError(word)

    with pytest.raises(ExceptionGroup) as failed:
        test_word()
    first, second = failed.value.exceptions
    assert str(first) == "it is wrong\nrow: F"
    assert (type(second), second.__notes__) == (KeyError, ["row: R"])
