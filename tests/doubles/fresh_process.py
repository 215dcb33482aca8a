"""A part of a test in a process that has imported nothing yet. The process of the tests must not be forked: another
test may have left threads in it (JAX has some), which a forked process lacks."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

FRESH = multiprocessing.get_context("spawn")


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function returns there, or raises. It may fork: it has one thread. It and its arguments are pickled."""
    with FRESH.Pool(1) as pool:
        return pool.apply(function, arguments)
