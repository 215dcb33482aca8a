"""A job with some keys changed, and in which keys two jobs differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from trainplan.workloads.addresses import shown_values
from trainplan.workloads.job import NOT_OF_A_SCRIPT, TrainingJob
from trainplan.workloads.job_mistakes import JobFileError, validated_job
from trainplan.workloads.key_changes import with_changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainplan.workloads.key_changes import Change

LEFT_OUT = ("name", "secrets")
"""Keys in which two jobs may differ without another estimate; a value of secrets is never repeated."""
_MOST_CHARACTERS = 60


class Difference(NamedTuple):
    """A key in which two jobs differ, and what each says there as JSON has it; None: the job does not say."""

    key: str
    before: Any
    after: Any


def changed_job(job: TrainingJob, changes: Sequence[Change], source: str) -> TrainingJob:
    """The job with the changes, checked as a whole; `source` names the unchanged job in errors.

    Raises JobFileError, which says all mistakes at once, and which changes were made.
    """
    if not changes:
        return job
    _refuse_swept(job, changes)
    changed = with_changes(json.loads(job.to_json()), changes)
    return validated_job(changed, f"{source} with {' '.join(change.text for change in changes if change.text)}")


def _refuse_swept(job: TrainingJob, changes: Sequence[Change]) -> None:
    """Raises JobFileError for a key of which each trial of the sweep has a value of its own: the change would do
    nothing."""
    swept = job.sweep.values if job.sweep is not None else {}
    for change in changes:
        key = ".".join(change.where)
        if key in swept:
            raise JobFileError(
                f"{change.text or key}: {key} is swept, and each trial has its own", "change its values under sweep"
            )


def differences(before: TrainingJob, after: TrainingJob) -> tuple[Difference, ...]:
    """The keys in which two jobs differ, in the order of a job file; lists are compared whole."""
    one, other = _flat(before), _flat(after)
    return tuple(
        Difference(key, shown_values(one.get(key)), shown_values(other.get(key)))
        for key in dict.fromkeys((*one, *other))
        if one.get(key) != other.get(key)
    )


def differences_text(rows: Sequence[Difference]) -> str:
    """`global_batch_size 128 -> 256, precision fp32 -> amp_fp16`."""
    return ", ".join(f"{row.key} {_text(row.before)} -> {_text(row.after)}" for row in rows)


def _flat(job: TrainingJob) -> dict[str, Any]:
    """What a job says, and what holds where it says nothing, by key."""
    dumped = job.model_dump(mode="json")
    values: dict[str, Any] = {}
    left_out = LEFT_OUT if job.script is None else (*LEFT_OUT, *NOT_OF_A_SCRIPT)
    for name in (name for name in TrainingJob.model_fields if name not in left_out):
        value = getattr(job, name)
        # Part by part: a job leaves out what it does not use.
        values[name] = value.model_dump(mode="json") if isinstance(value, BaseModel) else dumped.get(name, value)
    if job.model.read is not None:  # the file by what is in it
        values["model"]["read"] = f"a file of digest {job.model.read.sha256[:12]}"
    if job.read_script is not None:
        values["script"] = f"{Path(str(job.script)).name} of digest {job.read_script.sha256[:12]}"
        values["read_script"] = {"dependencies": job.read_script.dependencies}
    if "framework" not in job.model_fields_set:  # it may be chosen then
        values["framework"] = None
    return dict(_leaves(values))


def _leaves(values: Mapping[str, Any], inside: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{inside}{key}.")
        else:
            yield f"{inside}{key}", value


def _text(value: object) -> str:
    if value is None:
        return "(not given)"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."
