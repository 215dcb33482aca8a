"""A job as folders that Kaggle's own command pushes: the trainer and the images as data sets, and two kernels.

Kernel A begins; after that B and A take turns, each with the other's last output attached: an output is mounted when
another kernel names it as its source, and whether one may name itself is nowhere written.
"""

from __future__ import annotations

import json
import re
import shlex

from trainplan.extensions.export.export_files import ExportFiles, Images, Sealed
from trainplan.extensions.export.labels import place_name
from trainplan.extensions.export.session_plan import SessionPlan, exported_job
from trainplan.planner.errors import BadInputError
from trainplan.providers.cloud.trainer_wheel import WHEEL, wheel_bytes
from trainplan.workloads.sessions.session import JOB, PLAN
from trainplan.workloads.wording import Option

SCRIPT, KERNEL, DATA_SET = "train.py", "kernel-metadata.json", "dataset-metadata.json"
FIRST, EVEN, ODD = "session-1", "session-even", "session-odd"
_TRAINER, _IMAGES = "trainer", "images"
_USER = re.compile(r"[a-z0-9][a-z0-9-]{2,49}")
_LONGEST_NAME = 50 - len(f"-{_TRAINER}")
"""Of a job in a slug, which has 50 characters at most (kaggle 2.2.5, dataset_create_new)."""
_SCRIPT = f"""\
# One session of a run; plan export wrote this file.
import sys
from pathlib import Path

wheel = next(Path("/kaggle/input").rglob("{WHEEL}"), None)
if wheel is None:
    sys.exit("the data set with the trainer is not attached: create it with the commands that plan export printed")
sys.path.insert(0, str(wheel))
from trainplan.workloads.sessions import kaggle

sys.exit(kaggle.train())
"""


def kaggle_files(plan: SessionPlan, run_id: str, folder: str, host: str, user: str | None) -> ExportFiles:
    """The folders, below `folder` of the computer `host`, of the Kaggle account `user`. Raises BadInputError for
    what is no account's name."""
    if user is None or not _USER.fullmatch(user):
        raise BadInputError(
            "whose data sets and kernels are they?" if user is None else f"{Option.USER(user)}: no name of an account",
            f"{Option.USER('NAME')}: your name at Kaggle, as in kaggle.com/NAME, in small letters",
        )
    name = place_name(plan.job.name, host, folder, _LONGEST_NAME)
    seconds = int(plan.limits.session_hours * 3600)
    push = {which: _push(folder, which, seconds) for which in (FIRST, EVEN, ODD)}
    following = f"{push[EVEN]} (sessions 2, 4, ...) or {push[ODD]} (sessions 3, 5, ...), when this one has ended"
    images = None
    if plan.images is not None:
        images = Images(source=plan.images.source, items=plan.images.items, into=_IMAGES)
    sets = (_TRAINER, *((_IMAGES,) if images else ()))
    files = {
        f"{_TRAINER}/{JOB}": exported_job(plan.job),
        f"{_TRAINER}/{WHEEL}": wheel_bytes(),
        **{f"{one}/{DATA_SET}": _json(_data_set(user, name, one)) for one in sets},
    }
    for which, kernel, source in ((FIRST, "a", None), (EVEN, "b", "a"), (ODD, "a", "b")):
        files[f"{which}/{SCRIPT}"] = _SCRIPT.encode()
        files[f"{which}/{KERNEL}"] = _json(_kernel(plan, user, name, (kernel, source), sets))
    return ExportFiles(
        files=files,
        images=images,
        sealed=Sealed(path=f"{_TRAINER}/{PLAN}", fields=plan.fields(run_id, following)),
        sessions=plan.sessions,
        commands=(*(f"kaggle datasets create -p {shlex.quote(f'{folder}/{one}')}" for one in sets), push[FIRST]),
        notes=_notes(plan, user, name, push),
    )


def _notes(plan: SessionPlan, user: str, name: str, push: dict[str, str]) -> tuple[str, ...]:
    notes = [f"Kaggle: {plan.sessions} session{'s' if plan.sessions > 1 else ''} expected on {plan.device}"]
    if plan.sessions > 1:
        notes.append(f"session 2, when kaggle kernels status {user}/{name}-a says complete: {push[EVEN]}")
    if plan.sessions > 2:
        notes.append(f"session 3: {push[ODD]}; then these two in turns")
    last = "b" if plan.sessions % 2 == 0 else "a"
    notes.append(
        f"at the end: kaggle kernels output {user}/{name}-{last} -p result && plan history import "
        "result/run/output/history.json"
    )
    return tuple(notes)


def _push(folder: str, which: str, seconds: int) -> str:
    return f"kaggle kernels push -p {shlex.quote(f'{folder}/{which}')} -t {seconds}"


def _data_set(user: str, name: str, which: str) -> dict[str, object]:
    title = f"{name}-{which}"
    return {"id": f"{user}/{title}", "title": title, "licenses": [{"name": "other"}]}


def _kernel(
    plan: SessionPlan, user: str, name: str, kernels: tuple[str, str | None], sets: tuple[str, ...]
) -> dict[str, object]:
    """The metadata of a kernel; `kernels` is which one it is, and whose output it goes on from (None: it begins)."""
    kernel, source = kernels
    return {
        "id": f"{user}/{name}-{kernel}",
        "title": f"{name}-{kernel}",
        "code_file": SCRIPT,
        "language": "python",
        "kernel_type": "script",
        "is_private": True,
        "enable_gpu": not plan.time.is_tpu,
        "enable_tpu": plan.time.is_tpu,
        # For a data set by name and for published weights, which the trainer downloads.
        "enable_internet": plan.images is None or plan.job.model.weights is not None,
        "machine_shape": plan.limits.instance_type,
        "dataset_sources": [f"{user}/{name}-{one}" for one in sets],
        "competition_sources": [],
        "kernel_sources": [] if source is None else [f"{user}/{name}-{source}"],
        "model_sources": [],
    }


def _json(document: dict[str, object]) -> bytes:
    return json.dumps(document, indent=1).encode() + b"\n"
