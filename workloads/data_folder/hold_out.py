"""Which images are held out of data that has no hold-out of its own: one in ten of each class, by a hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

HOLD_OUT_EVERY = 10
"""Of data without a hold-out of its own, one image in ten is held out."""


def rank(identity: bytes) -> int:
    """A number that a name or a content always gets, whatever lies beside it."""
    return int.from_bytes(hashlib.sha256(identity).digest()[:8], "big")


def chosen_by_name(ranks: Sequence[int], labels: Sequence[int]) -> list[bool]:
    """Whether each file is held out: where the rank of its name is divisible by ten, whatever lies beside it.

    Files that are added later move no other one. Of a class of which that would hold out none, or leave none to train
    on, the one of the lowest rank is held out and nothing else; a class of one file is trained on.
    """
    held = [number % HOLD_OUT_EVERY == 0 for number in ranks]
    for members in _by_class(labels):
        if 0 < sum(held[index] for index in members) < len(members):
            continue
        lowest = min(members, key=lambda index: ranks[index])
        for index in members:
            held[index] = index == lowest and len(members) > 1
    return held


def chosen_by_content(ranks: Sequence[int], labels: Sequence[int]) -> list[bool]:
    """Whether each record is held out: one in ten of each class, those whose contents have the lowest ranks.

    In all one in ten, rounded up, and at least one of each class. Equal records, which have equal ranks, are never
    parted; a class of one content is trained on.
    """
    held = [False] * len(ranks)
    classes = list(_by_class(labels))
    for members, quota in zip(classes, _quotas([len(members) for members in classes]), strict=True):
        ordered = sorted(members, key=lambda index: ranks[index])
        most = ranks[ordered[-1]]
        taken: list[int] = []
        for index in ordered:
            is_equal = bool(taken) and ranks[index] == ranks[taken[-1]]
            if ranks[index] == most or (len(taken) >= quota and not is_equal):
                break
            taken.append(index)
        for index in taken:
            held[index] = True
    return held


def _quotas(sizes: Sequence[int]) -> list[int]:
    """A tenth of each class, whole numbers that add up to a tenth of all, rounded up; at least one of each."""
    quotas = [size // HOLD_OUT_EVERY for size in sizes]
    over = -(-sum(sizes) // HOLD_OUT_EVERY) - sum(quotas)
    by_remainder = sorted(range(len(sizes)), key=lambda index: (-(sizes[index] % HOLD_OUT_EVERY), index))
    for index in by_remainder[:over]:
        quotas[index] += 1
    return [max(1, quota) for quota in quotas]


def _by_class(labels: Sequence[int]) -> Iterable[list[int]]:
    members: dict[int, list[int]] = {}
    for index, label in enumerate(labels):
        members.setdefault(label, []).append(index)
    return members.values()
