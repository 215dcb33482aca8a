"""A job as a notebook for Google Colab, in one folder that a person puts on Google Drive."""

from __future__ import annotations

import json
from typing import Any

from trainplan.extensions.export.export_files import ExportFiles, Sealed
from trainplan.extensions.export.labels import mark
from trainplan.extensions.export.session_plan import SessionPlan, exported_job
from trainplan.providers.cloud.trainer_wheel import WHEEL, wheel_bytes
from trainplan.workloads.sessions.session import JOB, PLAN

DRIVE = "/content/drive/MyDrive"
NOTEBOOK = "train.ipynb"
# What Colab's menu writes into a notebook (colab.research.google.com, notebooks saved there in 2025).
_ACCELERATORS = {"T4": ("GPU", "T4"), "v5e1": ("TPU", "V5E1"), "v2-8": ("TPU", "V28")}


def colab_files(plan: SessionPlan, run_id: str, folder: str) -> ExportFiles:
    """The notebook, and all that it needs. `folder` is where they will be on Drive, as Colab sees it."""
    instance_type = plan.limits.instance_type
    accelerator, kind = _ACCELERATORS.get(instance_type, ("GPU", instance_type))
    following = "run the same cell again in the next session"
    return ExportFiles(
        files={
            NOTEBOOK: json.dumps(notebook(plan, folder, accelerator, kind), indent=1).encode() + b"\n",
            JOB: exported_job(plan.job),
            WHEEL: wheel_bytes(),
        },
        images=plan.images,
        sealed=Sealed(path=PLAN, fields=plan.fields(run_id, following)),
        sessions=plan.sessions,
        commands=(),
        notes=(
            f"put the whole folder on Google Drive as {folder.removeprefix(f'{DRIVE}/')}, open {NOTEBOOK} there with "
            "Google Colab, and run the cell `Train`",
            f"Colab: {plan.sessions} session{'s' if plan.sessions > 1 else ''} expected on {plan.device}; run the same "
            "cell again in each",
        ),
    )


def drive_folder(name: str, folder: str, host: str) -> str:
    """Where the job of that name, exported to `folder` of the computer `host`, will be on Drive unless told."""
    return f"{DRIVE}/{name}-{mark(name, host, folder)}"


def notebook(plan: SessionPlan, folder: str, accelerator: str, kind: str) -> dict[str, Any]:
    """Return the notebook in nbformat 4.5. Each of its cells can be run by itself."""
    sessions = f"{plan.sessions} session{'s' if plan.sessions > 1 else ''}"
    text = (
        f"# {plan.job.name}\n\nExpected: {sessions} on {plan.device}. Run the cell **Train** in each session: it goes "
        "on from the newest checkpoint on Drive, and stops ten minutes before the session ends. It may be interrupted "
        "or lost at any moment; what is lost is what was trained since the newest checkpoint "
        f"(every {plan.job.checkpoint_every.total_seconds():.0f} s).\n\n"
        f"Put the folder of this notebook on Drive as `{folder}`, or correct `FOLDER` in the cells."
    )
    cells = [
        {"cell_type": "markdown", "id": "about", "metadata": {}, "source": text},
        _cell("check", "Check: accelerator, space on Drive, sessions so far", "check", folder),
        _cell("train", "Train", "train", folder),
        _cell("result", "Result: where the model and the figures are", "result", folder),
    ]
    return {
        "cells": cells,
        "metadata": {
            "accelerator": accelerator,
            "colab": {"gpuType": kind, "provenance": []},
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(name: str, title: str, function: str, folder: str) -> dict[str, Any]:
    source = (
        f"# {title}\n"
        f"FOLDER = {folder!r}\n"
        "import os\n"
        "import sys\n"
        "\n"
        "if not os.path.isdir(FOLDER):\n"
        "    from google.colab import drive\n"
        "\n"
        '    drive.mount("/content/drive")\n'
        f'sys.path.insert(0, os.path.join(FOLDER, "{WHEEL}"))\n'
        "from trainplan.workloads.sessions import colab\n"
        "\n"
        f"colab.{function}(FOLDER)"
    )
    return {
        "cell_type": "code", "execution_count": None, "id": name, "metadata": {}, "outputs": [], "source": source,
    }  # fmt: skip
