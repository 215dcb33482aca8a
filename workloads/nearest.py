"""The names that come nearest to a misspelt one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest_names(value: str, names: Iterable[str], most: int = 1) -> list[str]:
    """At most `most` of `names`, the nearest first; none where nothing is similar.

    A name with the same characters in another order comes first: `vgg61` is meant for vgg16, and no nearer to it than
    to vgg19 for difflib.
    """
    import difflib  # costs 5 ms, and only a mistake needs it

    near = difflib.get_close_matches(value, list(names), n=max(most, 5), cutoff=0.5)
    return sorted(near, key=lambda name: sorted(name) != sorted(value))[:most]
