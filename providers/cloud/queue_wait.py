"""What a provider can do besides whose machines are shared by a queue: tell how long a job waits there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pricing.offers import Rental


class QueueQuestion(NamedTuple):
    """A job of this length on so many of a rental's machines in a region (on a cluster: a partition)."""

    rental: Rental
    region: str
    lasting: timedelta
    machines: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAnswer:
    """`starts_in` is when the scheduler would begin the job, counted from now (None: it does not say), `refusal` why it
    would not take it ("": it would). `past` are the waits of the jobs that began there lately (None: there is no
    accounting that could tell)."""

    starts_in: timedelta | None
    refusal: str = ""
    past: tuple[timedelta, ...] | None = None


@runtime_checkable
class QueueTeller(Protocol):
    """What some providers can do besides: tell how long jobs wait before they begin."""

    def queue_answers(self, questions: Sequence[QueueQuestion]) -> Sequence[QueueAnswer]:
        """An answer for each question. Creates nothing. Raises ProviderError where nothing answers."""
        ...
