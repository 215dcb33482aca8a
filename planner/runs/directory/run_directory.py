"""What an attempt says of itself in its run directory: progress as it grows, and how it ended."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.runs.decision.market import Trained
from trainplan.planner.runs.directory.progress import (
    Line,
    ProgressReader,
    Story,
    device_text,
    framework_text,
    story_of,
    try_text,
    unreadable_text,
)
from trainplan.planner.runs.events import Event, Message, Progressed, TrainerStarted
from trainplan.planner.runs.run import Speed
from trainplan.providers.agent.schema import STATUS_BYTES, instant, status_record
from trainplan.providers.agent.signatures import OUTPUT_MANIFEST as MANIFEST
from trainplan.providers.base import EndKind, Instance, InstanceState, OwnedResource, Provider, RunId, RunStore
from trainplan.providers.errors import ProviderError
from trainplan.workloads.output_files import STOPPED_FOR_GOOD
from trainplan.workloads.secret_rules import without_secrets
from trainplan.workloads.trainer.steady import HALF_WIDTH, LEAST_WINDOWS, MOST_SECONDS, WINDOW_SECONDS, half_width

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Attempt, Run

PROTOCOL = 1
"""The version of the run-directory protocol that is read (docs/container.md). A trainer that names none writes 1."""
LEAST_HALF_WIDTH = 0.07
"""Of the interval of a script's rate: how far the next run of a measured configuration is off at four times of five
(planner/throughput/own.py), which the rate of its first reports cannot know."""
STEADY_AFTER = timedelta(minutes=2)
"""Training has to have lasted so long before it is called slow: caches fill and clocks settle in the first minute."""

ATTACHED_KINDS = {"disk": "disk", "volume": "disk", "address": "address", "network interface": "address"}
"""What comes with a machine and is charged for beside it, by the kinds of the providers' lists; an address of AWS's
is there as long as its network interface."""
PARTS = frozenset(ATTACHED_KINDS.values())
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
    "STORE_REFUSED": EndKind.REFUSED,
    "OUT_OF_MEMORY": EndKind.OUT_OF_MEMORY,
}
# Ends that say nothing of the training: it may have been complete before.
_SILENT_ENDS = (None, EndKind.LOST, EndKind.RECLAIMED, EndKind.KILLED)

_LEAST_SECONDS = WINDOW_SECONDS * (LEAST_WINDOWS + 1)
_LONGEST_ETA_SECONDS = 365 * 86_400
_CHECKPOINT = re.compile(r"checkpoints/step-([0-9]{1,12})/complete\.json")


class Watcher:
    """Reads one attempt's progress on from where it stopped, and tells it as events."""

    def __init__(self, store: RunStore, attempt: int, listen: Callable[[Event], None]) -> None:
        self.attempt = attempt
        self.story = Story()
        self._reader = ProgressReader(store, attempt)
        self._listen = listen
        self._has_told_unreadable = False

    def look(self, spent_usd: Callable[[], Decimal]) -> bool:
        """Tell what is new. True: the trainer has said something since the last look. Raises ProviderError."""
        was_heard = False
        for line in self._reader.new_lines():
            was_heard = True
            self.story.add(line)
            self._tell(line, spent_usd)
        return self._has_more_unreadable() or was_heard

    def trained(self, run: Run) -> Trained:
        """How far training is, and how much of it is in a checkpoint."""
        before = max((attempt.step or 0 for attempt in run.attempts), default=0)
        return Trained(step=max(before, self.story.step), checkpoint_step=max(before, self.story.checkpoint_step))

    @property
    def speed(self) -> Speed | None:
        """How fast it trains, by what was reported, as a pilot measures it (workloads/trainer/steady.py); None while
        that is not known well enough."""
        began_at, last_at, rates = self.story.first_step_at, self.story.last_at, self.story.rates
        width = half_width(rates)
        if began_at is None or last_at is None or width is None:
            return None
        lasting = (last_at - began_at).total_seconds()
        if lasting < _LEAST_SECONDS or (width >= HALF_WIDTH and lasting < MOST_SECONDS):
            return None
        return Speed(images_per_second=fmean(rates), half_width=width)

    def slowness(self, run: Run, now: datetime) -> str:
        """Say how far training is behind the low end of its estimate; "" where it is not, or costs nothing."""
        target = run.attempt.target if run.attempt else None
        if target is not None and target.images_per_second_low is None:
            return self._lateness(run, now)
        rate, began_at = self.story.images_per_second, self.story.first_step_at
        if target is None or not target.images_per_second_low or not rate or began_at is None:
            return ""
        if not run.usd_per_hour or now - began_at < STEADY_AFTER or rate >= target.images_per_second_low:
            return ""
        factor = (target.images_per_second or target.images_per_second_low) / rate
        return (
            f"training at {rate:,.0f} images/s; the estimate was {target.images_per_second or 0:,.0f}, at least "
            f"{target.images_per_second_low:,.0f}: time and cost will be about {factor:.1f} times the estimate"
        )

    def _lateness(self, run: Run, now: datetime) -> str:
        """Say that a script of which nothing was estimated cannot end before its deadline, by the interval that its
        reports give; "" where it may."""
        line, start = self.story.last_step, self.story.start
        width = _half_width(line) if line else None
        left = _eta(line, start or {}) if line else None
        if line is None or width is None or left is None:
            return ""
        soonest = (instant(line.get("time")) or now) + left * (1 - width)
        if soonest <= run.deadline:
            return ""
        return (
            f"at {line['images_per_second']:,.0f} images/s it ends at {soonest:%Y-%m-%d %H:%M} UTC at the soonest, and "
            f"its deadline is {run.deadline:%Y-%m-%d %H:%M}: it would be ended before it is done"
        )

    def _has_more_unreadable(self) -> bool:
        """Whether lines came that cannot be read: a sign of life all the same. The first time they are told."""
        is_more = self._reader.unreadable > self.story.unreadable
        self.story.unreadable = self._reader.unreadable
        if is_more and not self._has_told_unreadable:
            self._has_told_unreadable = True
            self._listen(Message(unreadable_text(self._reader.unreadable)))
        return is_more

    def _tell(self, line: Line, spent_usd: Callable[[], Decimal]) -> None:
        match line["event"]:
            case "start":
                self._listen(_started_event(line))
                if line.get("protocol", PROTOCOL) > PROTOCOL:
                    self._listen(Message(_newer_text(line["protocol"])))
            case "step":
                self._listen(_progress_event(line, self.story, spent_usd()))
            case "try":
                self._listen(Message(f"try {line['number']}: {try_text(line)}"))
            case "warning":
                self._listen(Message(without_secrets(str(line["message"]))))
            case _:
                pass


def _newer_text(version: int) -> str:
    return (
        f"what trains writes version {version} of the run-directory protocol, and this plan reads version {PROTOCOL}: "
        "what it does not know it leaves out; install a newer trainplan to see all of it"
    )


def stopped_path(attempt: int) -> str:
    """Where `plan stop` notes in the run directory that it ended the attempt's machine by its label.

    A command that follows the run with a journal that cannot be written would take the machine for lost, and launch
    the run again.
    """
    return f"attempts/{attempt}/stopped-by-label.json"


def note_stop_for_good(provider: Provider, run_id: RunId, attempt: int) -> None:
    """Note for what trains that the stop which it will be asked for is a person's, after which the run does not go on
    elsewhere. A store that does not answer is no reason not to ask."""
    with contextlib.suppress(ProviderError):
        provider.store(run_id).put(f"attempts/{attempt}/{STOPPED_FOR_GOOD}", b"stopped by a person\n")


_OUTLIVED = "attempts/{}/outlived"
"""Whoever deletes a disk or an address of a machine that may have ended notes it here before: else a later command
would take it for deleted with its machine."""


def note_outlived(provider: Provider, owned: Iterable[OwnedResource], now: datetime) -> None:
    """Note disks and addresses of these before they are deleted. A store that does not answer is no reason to let them
    bill on."""
    for resource in owned:
        part, number = ATTACHED_KINDS.get(resource.kind), resource.attempt
        if part is None or number is None:
            continue
        with contextlib.suppress(ProviderError):
            note = json.dumps({"id": resource.id, "time": now.isoformat()}).encode()
            provider.store(resource.run_id).put(f"{_OUTLIVED.format(number)}/{part}.json", note)


def outlived(store: RunStore, attempt: int) -> dict[str, datetime | None]:
    """When which of `disk` and `address` of an attempt were last found, to be deleted by themselves; None: at a time
    that cannot be read. Raises ProviderError."""
    found_at = {}
    for path in store.list(_OUTLIVED.format(attempt)):
        with contextlib.suppress(KeyError):
            note = status_record(store.get(path, size=STATUS_BYTES + 1))
            found_at[path.rpartition("/")[2].removesuffix(".json")] = instant(note.get("time"))
    return found_at


def recorded_end(store: RunStore, attempt: int, instance: Instance | None) -> EndKind | None:
    """How the run directory says that an attempt has ended, where its instance does not tell. Raises ProviderError."""
    if instance is not None and (instance.state is not InstanceState.ENDED or instance.end not in _SILENT_ENDS):
        return None
    status = status_of(store, attempt)
    end = _FINISHED.get(str(status.get("state")))
    if end in (EndKind.FAILED, EndKind.RECLAIMED):
        end = _REASONS.get(str(status.get("reason")), end)
    # The manifest is uploaded last: without it the results are not complete, whatever the status says.
    if end is EndKind.DONE:
        return end if _exists(store, MANIFEST) else None
    if _exists(store, stopped_path(attempt)):
        return EndKind.STOPPED
    return end if instance is None or instance.end in (None, EndKind.LOST) else None


class Ended(NamedTuple):
    """When an attempt stopped billing: most likely `at`, not before `after` (None: at the instant that the provider
    tells) and not later than `before` (None: than `at`)."""

    at: datetime
    after: datetime | None = None
    before: datetime | None = None

    def of(self, attempt: Attempt) -> Attempt:
        """The attempt with this end."""
        return replace(attempt, ended_at=self.at, ended_after=self.after, ended_before=self.before)


def when_ended(
    store: RunStore,
    attempt: Attempt,
    told_at: datetime | None,
    now: datetime,
    off_within: timedelta = LAST_WORDS,
    deleted_at: datetime | None = None,
) -> Ended:
    """Return when an attempt stopped billing, even if no command looked for days: what the provider has recorded
    (`told_at`), else the last that the run directory has of it, else its own deadline. Raises ProviderError.

    `off_within` is how long a machine may take to be off that has written that it ends. One that has written nothing of
    its end was most likely taken away then; one that hangs lives to its deadline. `deleted_at` is when its deletion
    began, where that is recorded: it billed no longer, and until then where it has written that it ends.
    """
    began_at = attempt.asked_at or now
    if told_at is not None:
        return Ended(min(now, max(began_at, told_at)))
    status = status_of(store, attempt.number)
    instants = [instant(status.get("time"))]
    has_ended = status.get("state") in (*_FINISHED, "stopped")
    if not has_ended or instants == [None]:
        instants.append(story_of(store, attempt.number).last_at)
    known_instants = [at for at in instants if at is not None]
    if deleted_at is not None:
        now = min(now, max(began_at, deleted_at))
        if has_ended and known_instants:
            last_at = max(began_at, *known_instants)
            if now - last_at <= LAST_WORDS:
                return Ended(now)
            # It was deleted long after it had ended, and how long it was charged for in between is not known.
            return Ended(min(now, last_at + off_within), last_at, now)
    latest = min(now, max(began_at, attempt.deadline + LAST_WORDS)) if attempt.deadline else now
    if not known_instants:
        return Ended(latest, began_at)
    last_at = min(now, max(began_at, *known_instants))
    likeliest = min(now, last_at + (off_within if has_ended else LAST_WORDS))
    return Ended(likeliest, last_at, None if has_ended else max(likeliest, latest))


def has_written(store: RunStore, attempt: int) -> bool:
    """Whether the machine of an attempt has left anything, so that there was one. Raises ProviderError."""
    not_by_it = (f"attempts/{attempt}/machine/", f"{_OUTLIVED.format(attempt)}/")
    return any(not path.startswith(not_by_it) for path in store.list(f"attempts/{attempt}"))


def newest_checkpoint(store: RunStore) -> int | None:
    """The step of the newest complete checkpoint, None without one. Raises ProviderError."""
    steps = [int(match[1]) for path in store.list("checkpoints") if (match := _CHECKPOINT.fullmatch(path))]
    return max(steps, default=None)


def status_of(store: RunStore, attempt: int) -> dict[str, str]:
    """The attempt's status.json; empty where there is none that can be read. Raises ProviderError."""
    try:
        # One byte more than is allowed tells a status that is too large, and bounds what is read of it.
        return status_record(store.get(f"attempts/{attempt}/status.json", size=STATUS_BYTES + 1))
    except KeyError:
        return {}


def _exists(store: RunStore, path: str) -> bool:
    try:
        store.get(path, size=1)
    except KeyError:
        return False
    return True


def _started_event(line: Line) -> TrainerStarted:
    return TrainerStarted(
        device=device_text(line).removeprefix("1 x "),
        strategy=line.get("strategy", ""),
        framework=framework_text(line),
        epochs=line.get("epochs", 0),
        total_steps=line.get("total_steps", 0),
        resumed_from_step=line.get("resumed_from_step", 0),
    )


def _progress_event(line: Line, story: Story, usd_so_far: Decimal) -> Progressed:
    start = story.start or {}
    return Progressed(
        epoch=line.get("epoch", 1),
        epochs=start.get("epochs", 0),
        step=line["step"],
        total_steps=start.get("total_steps", 0),
        loss=line.get("loss"),
        accuracy=line.get("accuracy"),
        images_per_second=line.get("images_per_second"),
        eta=_eta(line, start),
        usd_so_far=usd_so_far,
        validation_accuracy=story.validation_accuracy,
        half_width=_half_width(line),
    )


def _half_width(line: Line) -> float | None:
    """Of the interval of what a script goes on at; None before its 50th report, and of other trainers."""
    width = line.get("half_width")
    return max(width, LEAST_HALF_WIDTH) if width is not None and width < 1 else None


def _eta(line: Line, start: Line) -> timedelta | None:
    """What is left at the newest rate; None where that is not known, or is longer than a year."""
    rate = line.get("images_per_second")
    batch = start.get("images", 0) / max(1, start.get("steps_per_epoch", 1))
    remaining_steps = max(0, start.get("total_steps", 0) - line["step"])
    if not rate or not batch:
        return None
    seconds = remaining_steps * batch / rate
    return timedelta(seconds=seconds) if seconds < _LONGEST_ETA_SECONDS else None
