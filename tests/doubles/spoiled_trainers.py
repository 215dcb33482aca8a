"""Trainers that do not do what every trainer does: by their names in the scenarios of the doubles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from trainplan.providers.sim.training import Simulated, Trainer, Write

if TYPE_CHECKING:
    from trainplan.providers.sim.values import Course, Ending


class Silent(Simulated):
    """Nothing ever comes out of its machine."""

    def ends(self, course: Course) -> Ending | None:
        return None

    def stops(self, course: Course, asked_at: datetime) -> Ending | None:
        return None

    def begins(self, course: Course) -> Iterator[Write]:
        yield from ()

    def writes(self, course: Course, after: datetime, until: datetime) -> Iterator[Write]:
        yield from ()


class Unsaved(Simulated):
    """Its checkpoints do not arrive."""

    def writes(self, course: Course, after: datetime, until: datetime) -> Iterator[Write]:
        yield from filter(_is_no_checkpoint, super().writes(course, after, until))

    def finishes(self, course: Course, ending: Ending) -> Iterator[Write]:
        yield from filter(_is_no_checkpoint, super().finishes(course, ending))


class Forgetful(Simulated):
    """Begins at the first step, whatever checkpoint there is."""

    def ends(self, course: Course) -> Ending | None:
        return super().ends(_from_the_first(course))

    def begins(self, course: Course) -> Iterator[Write]:
        yield from super().begins(_from_the_first(course))

    def writes(self, course: Course, after: datetime, until: datetime) -> Iterator[Write]:
        yield from super().writes(_from_the_first(course), after, until)

    def finishes(self, course: Course, ending: Ending) -> Iterator[Write]:
        yield from super().finishes(_from_the_first(course), ending)


SPOILED: dict[str, Callable[[], Trainer]] = {"silent": Silent, "unsaved": Unsaved, "forgetful": Forgetful}


def _from_the_first(course: Course) -> Course:
    return replace(course, start_step=0)


def _is_no_checkpoint(write: Write) -> bool:
    return write.path is None or not write.path.startswith("checkpoints/")
