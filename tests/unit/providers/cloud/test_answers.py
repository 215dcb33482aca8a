"""What an account was asked is kept, and one rule says which refusals are."""

from __future__ import annotations

import threading

import pytest

from trainplan.providers.cloud.answers import Answers
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)


class Asked:
    """An account that answers one thing after the other."""

    def __init__(self, *replies: object) -> None:
        self.replies = list(replies)
        self.count = 0

    def __call__(self) -> object:
        self.count += 1
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def test_an_answer_is_kept_until_it_is_forgotten() -> None:
    answers, ask = Answers(), Asked("one", "two")
    assert [answers.once("what", ask), answers.once("what", ask), ask.count] == ["one", "one", 1]
    answers.forget()
    assert (answers.once("what", ask), ask.count) == ("two", 2)


def test_none_is_an_answer_and_each_question_has_its_own() -> None:
    answers, ask = Answers(), Asked(None, "other")
    assert [answers.once(("a", 1), ask), answers.once(("a", 1), ask), answers.once(("a", 2), ask)] == [
        None,
        None,
        "other",
    ]


@pytest.mark.parametrize("kind", [BadRequestError, InstanceNotFoundError, PermissionDeniedError])
def test_what_says_something_about_the_account_is_asked_once(kind: type[ProviderError]) -> None:
    answers, ask = Answers(), Asked(kind("no"))
    for _ in range(2):
        with pytest.raises(kind, match=r"^no$"):
            answers.once("what", ask)
    assert ask.count == 1


@pytest.mark.parametrize("kind", [CapacityError, CredentialsError, ThrottledError, TransientError, UnrecognizedError])
def test_what_may_be_another_answer_the_next_time_is_asked_again(kind: type[ProviderError]) -> None:
    answers, ask = Answers(), Asked(kind("not now"), "now")
    with pytest.raises(kind, match=r"^not now$"):
        answers.once("what", ask)
    assert answers.once("what", ask) == "now"


def test_a_question_may_ask_another_and_threads_wait_for_one_look() -> None:
    answers, ask = Answers(), Asked("inner")
    replies: list[object] = []

    def look() -> None:
        replies.append(answers.once("outer", lambda: answers.once("inner", ask)))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (replies, ask.count) == (["inner"] * 8, 1)
