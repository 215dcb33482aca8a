"""The words that the Python API answers with, as types: a type checker finds one that is misspelt."""

from __future__ import annotations

from typing import Literal

Phase = Literal["planned", "launching", "booting", "running", "collecting", "tearing_down", "interrupted", "done"]
"""The phases of a run, in their order; one that is interrupted begins again with launching."""
Outcome = Literal["succeeded", "stopped", "deadline", "budget", "interrupted", "no_capacity", "refused", "failed"]
"""How a run ended."""
