"""What a session says in its cell: how far it is, how many sessions are left, and what to do next."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.workloads.sessions.needed import SessionRules, further_sessions

if TYPE_CHECKING:
    from trainplan.workloads.sessions.records import Progress

_WIDTH = 118


def say(text: str) -> None:
    """Write lines below what was written."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def tell_progress(text: str, *, overwrites: bool) -> None:
    """Write how far it is, over the last such line where the place shows that."""
    sys.stdout.write(f"\r{text:{_WIDTH}}" if overwrites else f"{text}\n")
    sys.stdout.flush()


def progress_text(
    progress: Progress, first_step: tuple[float, int], now: float, deadline: float, plan: Mapping[str, Any]
) -> str:
    """How far the run is. `first_step` is when this session reported its first step, and which; instants are seconds
    since 1970."""
    step, total = int(progress.step.get("step", 0)), int(progress.start.get("total_steps", 0))
    parts = [
        f"epoch {progress.step.get('epoch', 1)} of {progress.start.get('epochs', 1)}",
        f"step {step:,} of {total:,}",
    ]
    if progress.step.get("images_per_second"):
        parts.append(f"{progress.step['images_per_second']:,.0f} images/s")
    steps, seconds = step - first_step[1], now - first_step[0]
    if steps > 0 and seconds > 0:
        left = max(0, total - step) * seconds / steps
        parts += [f"{_duration(left)} to train", sessions_left_text(left, deadline - now, plan)]
    return " | ".join(parts)


def sessions_left_text(left_seconds: float, session_left_seconds: float, plan: Mapping[str, Any]) -> str:
    """How many sessions the rest takes after this one, of which so much is left at most."""
    names = ("session_seconds", "planned_seconds", "setup_seconds", "checkpoint_seconds")
    rules = SessionRules(*(float(plan[name]) for name in names))
    try:
        more = further_sessions(left_seconds, session_left_seconds, rules)
    except ValueError:
        return "more sessions than this place gives"
    about = "about " if rules.ends_at_random else ""
    if more == 0:
        return "ends in this session" + (", if it lasts" if about else "")
    return f"{about}{more} more session{'s' if more > 1 else ''} after this one"


def ended_text(code: int, progress: Progress, plan: Mapping[str, Any], history: Path) -> str:
    """What came of a session, and what to do next."""
    bring = f"bring {history.parent} home, then: plan history import {history.parent.name}/{history.name}"
    if code == 0:
        accuracy = progress.end.get("hold_out_accuracy")
        reached = f": {accuracy:.2%} of the test images right" if isinstance(accuracy, float) else ""
        return f"\ntrained{reached}\n{bring}"
    step, total = progress.end.get("step", progress.step.get("step", 0)), progress.start.get("total_steps")
    where = f" at step {step:,} of {total:,}" if isinstance(step, int) and isinstance(total, int) else ""
    if code == 76:
        return f"\nthis session ends soon: the checkpoint{where} is kept\nnext: {plan['next']}"
    if code == 75:
        return f"\nstopped{where}: the checkpoint is kept\nnext: {plan['next']}"
    return f"\nthe trainer ended with exit code {code}{where}:"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{max(1, minutes)} min"
