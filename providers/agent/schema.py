"""The schema of what a trainer writes about itself: lines of progress.jsonl, status.json and manifest.json.

Any container may write these files, so nothing in them is believed before it was checked here. The machine and the
person's computer use the same rules. Times are aware, counts are whole and not negative, figures are finite.
"""

from __future__ import annotations

import json
import math
import re
from datetime import datetime
from typing import Any, Callable, Dict

LONGEST_LINE_BYTES = 16_384
STATUS_BYTES = 65_536
MANIFEST_BYTES = 4 * 1024 * 1024
MOST_TEXT = 4_000
"""Characters of one text in a line of progress; a status may have a message of twice that."""
MOST_COUNT = 10**12
_LARGEST_FIGURE = 1e15
_MOST_EVENT_NAME = 40
_YEARS = range(1971, 2200)
_SHA256 = re.compile("[0-9a-f]{64}")
_MOST_PATH = 1024

Line = Dict[str, Any]
Check = Callable[[object], bool]


def instant(text: object) -> datetime | None:
    """The aware instant of an ISO 8601 text; None for anything else."""
    if not isinstance(text, str) or len(text) > 64:
        return None
    try:
        # Python 3.8 does not read the Z.
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
        return moment if moment.utcoffset() is not None and moment.year in _YEARS else None
    except (ValueError, OverflowError):
        return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MOST_TEXT


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_COUNT


def _is_figure(value: object) -> bool:
    if value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return -_LARGEST_FIGURE <= value <= _LARGEST_FIGURE


def _is_seconds(value: object) -> bool:
    return value is not None and _is_figure(value) and value >= 0  # type: ignore[operator]


def _is_rate(value: object) -> bool:
    return value is None or _is_seconds(value)


def _is_count_or_none(value: object) -> bool:
    return value is None or _is_count(value)


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def _is_instant(value: object) -> bool:
    return instant(value) is not None


_FIELDS: dict[str, Check] = {
    "time": _is_instant,
    **dict.fromkeys(("device_kind", "device_name", "strategy", "framework", "framework_version"), _is_text),
    **dict.fromkeys(("name", "message", "state"), _is_text),
    **dict.fromkeys(("device_count", "images", "steps_per_epoch", "epochs", "total_steps"), _is_count),
    **dict.fromkeys(("protocol", "resumed_from_step", "epoch", "step", "best_epoch"), _is_count),
    **dict.fromkeys(("hold_out_images", "hold_out_trained_on"), _is_count),
    **dict.fromkeys(("loss", "accuracy", "validation_loss", "validation_accuracy", "learning_rate"), _is_figure),
    **dict.fromkeys(("hold_out_accuracy", "hold_out_top5", "hold_out_most_frequent", "validation_top5"), _is_figure),
    **dict.fromkeys(("training_accuracy", "training_tested_accuracy"), _is_figure),
    **dict.fromkeys(("images_per_second", "data_images_per_second", "half_width", "checkpoint_seconds"), _is_rate),
    "data_half_width": _is_rate,
    **dict.fromkeys(("windows", "number", "accumulate", "micro_batch_size", "tries", "not_tried"), _is_count),
    **dict.fromkeys(("checkpoint_bytes", "peak_memory_bytes"), _is_count_or_none),
    **dict.fromkeys(("input_bound", "is_time_up"), _is_truth),
    **dict.fromkeys(("seconds", "train_seconds", "others_share"), _is_seconds),
}
_NEEDED_FIELDS = {
    "step": ("step",),
    "phase": ("name", "seconds"),
    "checkpoint": ("step",),
    "warning": ("message",),
    "early_end": ("epoch",),
    "try": ("number", "accumulate", "micro_batch_size", "xla", "state", "seconds"),
}


def progress_line(raw: bytes) -> Line | None:
    """A line of progress as it was written, without fields that are lists or objects; None where it cannot be used.

    A figure that is no number (NaN, Infinity) is None. An event of another name is let through.
    """
    line = json_object(raw, LONGEST_LINE_BYTES)
    if line is None:
        return None
    event = line.get("event")
    if not isinstance(event, str) or not 0 < len(event) <= _MOST_EVENT_NAME:
        return None
    if any(name not in line for name in _NEEDED_FIELDS.get(event, ())):
        return None
    entries = {name: value for name, value in line.items() if _is_scalar(value)}
    return entries if all(_FIELDS.get(name, _is_scalar)(value) for name, value in line.items()) else None


def status_record(raw: bytes) -> Line:
    """The fields of a status.json that can be used; {} where it cannot be read."""
    record = json_object(raw, STATUS_BYTES) or {}
    entries = {
        name: str(record[name])[: 2 * MOST_TEXT]
        for name in ("state", "reason", "message")
        if isinstance(record.get(name), str)
    }
    when = record.get("time")
    return {**entries, "time": when} if _is_instant(when) else entries


def manifest_rows(raw: bytes) -> list[tuple[str, str]] | None:
    """The path and SHA-256 in hex of each file that a manifest names; None where any row of it cannot be used."""
    rows = json_value(raw, MANIFEST_BYTES)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return None
    pairs = [(row.get("path"), row.get("sha256")) for row in rows]
    return pairs if all(_is_path(path) and _is_sha256(sha256) for path, sha256 in pairs) else None


def manifest_sizes(raw: bytes) -> dict[str, int]:
    """The bytes of each file for which a manifest tells them, by its path."""
    rows = json_value(raw, MANIFEST_BYTES)
    documents = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    sizes = {row["path"]: row.get("size_bytes") for row in documents if _is_path(row.get("path"))}
    return {path: size for path, size in sizes.items() if isinstance(size, int) and _is_count(size)}


def _is_path(value: object) -> bool:
    if not isinstance(value, str) or not 0 < len(value) <= _MOST_PATH:
        return False
    # Control characters, and halves of surrogate pairs, which no file name can hold.
    return not any(code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 for code in map(ord, value))


def _is_sha256(value: object) -> bool:
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def json_object(raw: bytes, most_bytes: int) -> Line | None:
    """The JSON object in these bytes; None where there is none, or it is too large or nested too deeply."""
    item = json_value(raw, most_bytes)
    return item if isinstance(item, dict) else None


def json_value(raw: bytes, most_bytes: int) -> Any:
    """The JSON value in these bytes; None where there is none, or it is too large or nested too deeply."""
    if len(raw) > most_bytes:
        return None
    try:
        return json.loads(raw, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError):
        return None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, (bool, float)) or _is_text(value) or _is_number(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and abs(value) < 10**18
