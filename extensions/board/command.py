"""`plan board`: the curves of a run in TensorBoard, on loopback only."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from trainplan.planner.api import build
from trainplan.planner.cli import options
from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.planner.runs.run import Phase, Run
from trainplan.workloads.extras import install_hint

_HOST = "127.0.0.1"
_EVENT_FILES = "*tfevents*"


def command(
    name: options.RunName,
    port: Annotated[int, typer.Option(min=1024, max=65535, help="The port on this computer")] = 6006,
    as_json: Annotated[bool, typer.Option("--json", help="Print folder and address as JSON before it starts")] = False,
) -> None:
    """Show the curves of a run in TensorBoard until Ctrl-C. Only this computer can reach it."""
    with build.journal(options.settings()) as journal:
        run = journal.run(name)
    folder = _folder(run)
    if find_spec("tensorboard") is None:
        raise ThisMachineError("plan board needs TensorBoard", install_hint("board"))
    address = f"http://{_HOST}:{port}/"
    text = json.dumps({"folder": str(folder), "address": address}) if as_json else f"{folder} at {address}"
    typer.echo(text)
    sys.stdout.flush()
    # -P: a folder that happens to be the working directory provides no modules.
    program = [sys.executable, "-P", "-m", "tensorboard.main", f"--logdir={folder}", "--host", _HOST]
    try:
        code = subprocess.run([*program, "--port", str(port)], check=False).returncode
    except KeyboardInterrupt:  # how a person ends it; the terminal has sent it to TensorBoard too
        return
    if code != 0:
        raise ThisMachineError(
            f"TensorBoard ended with code {code}", "its own message is above; --port takes another port"
        )


def _folder(run: Run) -> Path:
    """Where the run's event files are. Raises BadInputError where there are none."""
    if not run.model_folder:
        raise BadInputError(f"run {run.run_id} measured this machine, and leaves no curves", "plan history lists runs")
    folder = Path(run.model_folder)
    try:
        has_events = any(folder.glob(_EVENT_FILES))
    except (OSError, ValueError) as error:  # ValueError: a journal that was changed may hold a path that is none
        raise ThisMachineError(f"cannot read {folder}: {error}", "the model was to go there") from None
    if has_events:
        return folder
    if run.phase is not Phase.DONE:
        hint = "they are fetched with the model, when the run has ended"
    else:
        hint = "only a job with framework: tensorflow writes them; metrics.csv and curves.png are there for every run"
    raise BadInputError(f"run {run.run_id} has no TensorBoard event files in {folder}", hint)
