"""The base of every value a person or a file writes: frozen, complete, with nothing unknown let in."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from trainplan.workloads.terms import MAX_USD


class ContradictionsError(ValueError):
    """What a value says that cannot be, a sentence each in `texts`."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(texts)
        super().__init__("; ".join(self.texts))


def refuse_all(texts: Iterable[str]) -> None:
    """Raises ContradictionsError where there are any: somebody who mends a file wants to know all of them."""
    if found := tuple(texts):
        raise ContradictionsError(found)


class Value(BaseModel):
    """A frozen value; a key it does not know is an error, and a change is a new value."""

    # Built when first used: a job is built with its parts in it, which need not be built by themselves.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


def not_a_truth(value: object) -> object:
    """The value; raises ValueError for true and false."""
    if isinstance(value, bool):
        raise ValueError(f"needs a number, not {str(value).lower()}")
    return value


Number = Annotated[float, BeforeValidator(not_a_truth)]
"""A number that refuses a truth: `learning_rate: yes` is a slip."""
Budget = Annotated[
    Decimal, BeforeValidator(not_a_truth), Field(gt=0, le=MAX_USD), PlainSerializer(float, when_used="json")
]
"""US dollars that something may cost at most."""


def keys_of(kind: type[BaseModel]) -> list[str]:
    """All keys of a value and of the values within it, with dots: `optimizer`, `optimizer.name`."""
    keys = []
    for name, field in kind.model_fields.items():
        keys.append(name)
        for within in (field.annotation, *get_args(field.annotation)):  # a value that may be left out is one of a union
            if isinstance(within, type) and issubclass(within, BaseModel):
                keys += [f"{name}.{key}" for key in keys_of(within)]
    return keys
