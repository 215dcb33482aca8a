"""What the script of `plan export JOB --to kaggle` runs there."""

from __future__ import annotations

import tempfile
from pathlib import Path

from trainplan.workloads.sessions.session import DEADLINE, DONE, FAILED, PLAN, Place, SessionError
from trainplan.workloads.sessions.session import train as train_session
from trainplan.workloads.sessions.telling import say

INPUT, WORKING = Path("/kaggle/input"), Path("/kaggle/working")


def train(inputs: Path = INPUT, working: Path = WORKING) -> int:
    """Train one session; the exit code of the script. 0 too where the session ended before the run: Kaggle keeps the
    output of a version that ended well."""
    try:
        code = train_session(place(inputs, working))
    except (SessionError, OSError) as error:
        say(f"not possible: {error}")
        return FAILED
    return DONE if code == DEADLINE else code


def place(inputs: Path, working: Path) -> Place:
    """The data sets and the last output, wherever Kaggle has mounted them. Raises SessionError."""
    plan = next(inputs.rglob(PLAN), None)
    if plan is None:
        raise SessionError(f"no data set with {PLAN} is attached: create it with the commands that plan export printed")
    # The images are a data set of their own: the session sees both as one folder.
    folder = Path(tempfile.mkdtemp(prefix="trainplan-"))
    for file in (*plan.parent.iterdir(), *(path for path in inputs.rglob("images-*.bin") if path.is_file())):
        if file.is_file():
            (folder / file.name).unlink(missing_ok=True)
            (folder / file.name).symlink_to(file)
    earlier = {record.parent.parent for record in inputs.rglob("sessions/*.json")}
    work = folder / "work"
    return Place(
        folder=folder,
        kept=working / "run",
        work=work,
        downloads=work / "downloads",
        earlier=tuple(sorted(earlier)),
        overwrites=False,
    )
