"""A table as one test: `@each_row` in place of `@pytest.mark.parametrize`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], ids: Iterable[object] | Callable[[Any], object] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Calls the test for each row and fails with all rows that are wrong, each with its values.

    For long tables of a function that is quick and changes nothing: as tests of their own, their rows take longer to
    collect and to report than to try. `ids` name the rows, as parametrize has them. Fixtures are shared by all rows.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [dict(zip(keys, row if len(keys) > 1 else (row,), strict=True)) for row in rows]
    labels = [str(row) for row in table] if ids is None or callable(ids) else [str(one) for one in ids]

    def of(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def walk(**others: Any) -> None:
            wrong: list[Exception] = []
            for row, label in zip(table, labels, strict=True):
                try:
                    test(**row, **others)
                except Exception as error:  # noqa: BLE001 - whatever it is, the next rows are tried
                    error.add_note(f"row: {label}")
                    wrong.append(error)
                except pytest.fail.Exception as error:
                    wrong.append(AssertionError(f"{error}\nrow: {label}"))
            if wrong:
                raise ExceptionGroup(f"{len(wrong)} of {len(table)} rows of {test.__name__}", wrong)

        # What is left are fixtures, or columns of another table above this one.
        signature = inspect.signature(test)
        left = [one for one in signature.parameters.values() if one.name not in keys]
        del walk.__wrapped__
        walk.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return walk

    return of
