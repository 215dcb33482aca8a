"""Lists of what is ours: in the order of their placements, and never taken for whole where one did not answer."""

from __future__ import annotations

import threading

import pytest

from trainplan.providers.base import OwnedResource, RunId
from trainplan.providers.cloud.listing import ListedResources, look_at_all, whole
from trainplan.providers.errors import IncompleteListingError, TransientError


def disk(name: str) -> OwnedResource:
    return OwnedResource(
        provider="aws", region="us-east-1", kind="volume", id=name, run_id=RunId("r"), created_at=None, attempt=1,
        instance=False,
    )  # fmt: skip


@pytest.mark.parametrize("threads", [1, 4])
def test_placements_are_told_in_their_order(threads: int) -> None:
    assert look_at_all(str.upper, ["c", "a", "b"], threads) == ["C", "A", "B"]
    assert look_at_all(str.upper, [], threads) == []


def test_one_thread_looks_at_one_placement_after_the_other_in_this_thread() -> None:
    assert set(look_at_all(lambda _: threading.get_ident(), "abc", 1)) == {threading.get_ident()}


def test_several_threads_look_at_once() -> None:
    together = threading.Barrier(3, timeout=300)
    look_at_all(lambda _: together.wait(), "abc", 3)  # one after the other would break the barrier


def test_what_a_placement_raises_is_raised() -> None:
    def look(part: str) -> str:
        if part == "b":
            raise TransientError("no answer")
        return part

    with pytest.raises(TransientError):
        look_at_all(look, "abc", 4)


def test_lists_that_came_whole_are_one_list() -> None:
    assert whole(
        [ListedResources((disk("a"),)), ListedResources(), ListedResources((disk("b"), disk("c")))], "lists"
    ) == [*map(disk, "abc")]


def test_a_list_that_did_not_come_is_told_with_what_the_others_had() -> None:
    lists = [
        ListedResources((disk("a"),)),
        ListedResources((disk("b"),), ("us-west-2: no answer", "eu-west-1: throttled")),
    ]
    with pytest.raises(IncompleteListingError) as raised:
        whole(lists, "lists of AWS")
    assert raised.value.message == "2 lists of AWS did not come whole: us-west-2: no answer"
    assert raised.value.resources == (disk("a"), disk("b"))
    assert raised.value.unanswered == ("us-west-2: no answer", "eu-west-1: throttled")
    assert raised.value.hint == "look again when they answer"
