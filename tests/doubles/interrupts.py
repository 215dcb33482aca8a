"""Somebody presses Ctrl-C while a program waits."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def pressed_at(provider: type[Any], sleep_number: int) -> Iterator[None]:
    """The provider's time does not pass for the n-th time, counted from 1: KeyboardInterrupt is raised instead."""
    sleep, count = provider.sleep, 0

    def slept(self: object, seconds: float) -> None:
        nonlocal count
        count += 1
        if count == sleep_number:
            raise KeyboardInterrupt
        sleep(self, seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider, "sleep", slept)
        yield
    assert count >= sleep_number, "nothing was interrupted"
