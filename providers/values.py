"""Parts of a launch request: when its machine ends by itself, and what its cloud looked up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnEnds:
    """When a machine ends by what is inside it, where that is not its deadline: a drill watches one timer at a time.

    `trainer` is when agent and trainer end by themselves, `timer` when the machine's own timer ends the machine.
    Labels and the cloud's timer keep to the deadline of the request.
    """

    trainer: datetime
    timer: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What `Resolver.resolve` looked up for one launch: each cloud has a class of its own, with the fields it needs.

    The journal keeps a resolution by the names of its fields. A field that is added later needs a default and an old
    one keeps its name, or a create that an older version recorded cannot be read.
    """
