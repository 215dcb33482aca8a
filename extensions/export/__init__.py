"""A job as the files that other programs run."""

from __future__ import annotations

from trainplan.planner.extensions import ExtensionCommand

COMMAND = ExtensionCommand(
    "Train", "Write a job as files for Slurm, SkyPilot, JobSet, Colab, Kaggle", "trainplan.extensions.export.command"
)
