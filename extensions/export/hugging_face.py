"""A job as a command line for Hugging Face Jobs: `hf jobs run`, which is never run here."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from trainplan.extensions.export.export_files import ExportFiles
from trainplan.extensions.export.labels import LONGEST_LABEL, place_name
from trainplan.planner.errors import BadInputError
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.extensions.export.machine_job import MachineJob

SCRIPT = "train.sh"
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,41}")
_FOLDER, _RUN = "/trainplan", "/run-dir"


def hugging_face_files(machine: MachineJob, folder: str, host: str, user: str | None) -> ExportFiles:
    """The files of `folder` on the computer `host`, which the command brings to the machine; checkpoints and model go
    to a bucket of `user`.

    Raises BadInputError for a name that is no account's.
    """
    if user is None or not _USER.fullmatch(user):
        raise BadInputError(
            "whose bucket keeps the checkpoints?" if user is None else f"{Option.USER(user)}: no name of an account",
            f"{Option.USER('NAME')}: your name at Hugging Face, as in huggingface.co/NAME",
        )
    # Letters, digits and single hyphens are in every name that the Hub takes (huggingface_hub, validate_repo_id).
    name = place_name(machine.job.name, host, folder, LONGEST_LABEL - len("trainplan-"))
    bucket = f"{user}/trainplan-{name}"
    words = (
        *("hf", "jobs", "run", "--detach", "--name", name, "--flavor", machine.instance_type),
        *("--timeout", f"{machine.limit_seconds}s", "-v", f"{folder}:{_FOLDER}:ro"),
        *("-v", f"hf://buckets/{bucket}:{_RUN}:rw", machine.image, "sh", f"{_FOLDER}/{SCRIPT}"),
    )
    script = ["set -eu", 'began="$(date +%s)"', *machine.training_lines(_FOLDER, _RUN)]
    return ExportFiles(
        files={**machine.files(), SCRIPT: ("\n".join(script) + "\n").encode()},
        images=machine.images,
        commands=(f"hf buckets create {bucket} --private --exist-ok", shlex.join(words)),
        notes=(
            f"Hugging Face ends the job after {machine.limit_seconds // 60} min; ten minutes before, the trainer "
            "writes its last checkpoint, from which the same command goes on",
            "it is paid from your credit there; add --dry-run to see what would be sent",
            f"the model at the end: hf buckets sync hf://buckets/{bucket}/output output; delete the bucket yourself",
        ),
    )
