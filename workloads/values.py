"""The base of every value a person or a file writes: frozen, complete, with nothing unknown let in."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value; a key it does not know is an error, and a change is a new value."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
