"""What an attempt says of itself in its run directory: progress as it grows, and how it ended."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from planner.collect import MANIFEST
from planner.events import Event, Progressed, Said, TrainerStarted
from planner.market import Trained
from planner.progress import ProgressReader, Story
from providers.base import EndKind, InstanceState

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from planner.progress import Line
    from planner.run import Attempt, Run
    from providers.base import Instance, RunStore

STEADY_AFTER = timedelta(minutes=2)
"""Training has to have lasted so long before it is called slow: caches fill and clocks settle in the first minute."""

LAST_WORDS = timedelta(minutes=5)
"""How long a machine may take to be gone after the last that it says: the delete call is tried again for 2.5 minutes
and given 2 (providers/agent/end.py)."""

# By the state in status.json. A trainer that was merely asked to end says "stopped", and not by whom.
_FINISHED = {
    "done": EndKind.DONE,
    "deadline": EndKind.DEADLINE,
    "failed": EndKind.FAILED,
    "interrupted": EndKind.RECLAIMED,
}
# What the rented machine's agent gives as the reason, where it says more than the state.
_REASONS = {
    "ACCELERATOR_LOST": EndKind.DEVICE_LOST,
    "BAD_JOB": EndKind.BAD_JOB,
    "OUT_OF_MEMORY": EndKind.OUT_OF_MEMORY,
}
# Ends that say nothing of the training: it may have been complete before.
_SILENT_ENDS = (None, EndKind.LOST, EndKind.RECLAIMED, EndKind.KILLED)


class Watcher:
    """Reads one attempt's progress on from where it stopped, and tells it as events."""

    def __init__(self, store: RunStore, attempt: int, listen: Callable[[Event], None]) -> None:
        self.attempt = attempt
        self.story = Story()
        self._reader = ProgressReader(store, attempt)
        self._listen = listen

    def look(self, spent_usd: Callable[[], Decimal]) -> bool:
        """Tell what is new. True: the trainer has said something since the last look. Raises ProviderError."""
        heard = False
        for line in self._reader.new_lines():
            heard = True
            self.story.add(line)
            self._tell(line, spent_usd)
        return heard

    def trained(self, run: Run) -> Trained:
        """How far training is, and how much of it is in a checkpoint."""
        before = max((attempt.step or 0 for attempt in run.attempts), default=0)
        return Trained(step=max(before, self.story.step), checkpoint_step=max(before, self.story.checkpoint_step))

    def slowness(self, run: Run, now: datetime) -> str:
        """In words how training falls behind the low end of its estimate; "" where it does not, or costs nothing."""
        target = run.attempt.target if run.attempt else None
        rate, began = self.story.images_per_second, self.story.first_step_at
        if target is None or not target.images_per_second_low or not rate or began is None:
            return ""
        if not run.usd_per_hour or now - began < STEADY_AFTER or rate >= target.images_per_second_low:
            return ""
        factor = (target.images_per_second or target.images_per_second_low) / rate
        return (
            f"training at {rate:,.0f} images/s; the estimate was {target.images_per_second or 0:,.0f}, at least "
            f"{target.images_per_second_low:,.0f}: time and cost will be about {factor:.1f} times the estimate"
        )

    def _tell(self, line: Line, spent_usd: Callable[[], Decimal]) -> None:
        match line["event"]:
            case "start":
                self._listen(_started(line))
            case "step":
                self._listen(_progressed(line, self.story, spent_usd()))
            case "warning":
                self._listen(Said(str(line.get("message", ""))))
            case _:
                pass


def finished(store: RunStore, attempt: int, seen: Instance | None) -> EndKind | None:
    """How the run directory says that an attempt has ended, where its instance does not tell. Raises ProviderError."""
    if seen is not None and (seen.state is not InstanceState.ENDED or seen.end not in _SILENT_ENDS):
        return None
    status = _status(store, attempt)
    end = _FINISHED.get(str(status.get("state")))
    if end in (EndKind.FAILED, EndKind.RECLAIMED):
        end = _REASONS.get(str(status.get("reason")), end)
    if end is EndKind.DONE:
        return end if _exists(store, MANIFEST) else None
    return end if seen is None or seen.end in (None, EndKind.LOST) else None


def when_ended(store: RunStore, attempt: Attempt, seen: Instance | None, now: datetime) -> datetime:
    """Until when an attempt billed whose instance is over: nobody may have looked for days.

    The provider's word, else what the machine said last, else its own deadline. Raises ProviderError.
    """
    began = attempt.asked_at or now
    if seen is not None and seen.ended_at is not None:
        return min(now, max(began, seen.ended_at))
    status = _status(store, attempt.number)
    if status.get("state") in (*_FINISHED, "stopped"):
        try:
            said = datetime.fromisoformat(str(status.get("time")))
            return min(now, max(began, said + LAST_WORDS))
        except (ValueError, TypeError):
            pass  # no instant, or one without a time zone
    return min(now, max(began, attempt.deadline + LAST_WORDS)) if attempt.deadline else now


def newest_checkpoint(store: RunStore) -> int | None:
    """The step of the newest complete checkpoint, None without one. Raises ProviderError."""
    steps = [
        int(path.split("/")[1].removeprefix("step-"))
        for path in store.list("checkpoints")
        if path.endswith("/complete.json") and path.split("/")[1].removeprefix("step-").isdigit()
    ]
    return max(steps, default=None)


def _status(store: RunStore, attempt: int) -> dict[str, object]:
    try:
        status = json.loads(store.get(f"attempts/{attempt}/status.json"))
    except (KeyError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}


def _exists(store: RunStore, path: str) -> bool:
    try:
        store.get(path)
    except KeyError:
        return False
    return True


def _started(line: Line) -> TrainerStarted:
    return TrainerStarted(
        device=f"{line['device_count']} x {line['device_name']}" if line["device_count"] > 1 else line["device_name"],
        strategy=str(line.get("strategy", "")),
        framework=f"{line['framework']} {line['framework_version']}",
        epochs=int(line["epochs"]),
        total_steps=int(line["total_steps"]),
        resumed_from_step=int(line["resumed_from_step"]),
    )


def _progressed(line: Line, story: Story, usd_so_far: Decimal) -> Progressed:
    start = story.start or {}
    total, rate = int(start.get("total_steps", 0)), line.get("images_per_second")
    batch = start.get("images", 0) / max(1, start.get("steps_per_epoch", 1))
    left = max(0, total - int(line["step"]))
    eta = timedelta(seconds=left * batch / rate) if rate and batch else None
    return Progressed(
        epoch=int(line["epoch"]),
        epochs=int(start.get("epochs", 0)),
        step=int(line["step"]),
        total_steps=total,
        loss=line.get("loss"),
        accuracy=line.get("accuracy"),
        images_per_second=rate,
        eta=eta,
        usd_so_far=usd_so_far,
    )
