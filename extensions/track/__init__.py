"""Trackers of experiments (MLflow, Weights & Biases, Trackio): runs are written to them from this computer."""

from __future__ import annotations

from trainplan.planner.extensions import ExtensionCommand

COMMAND = ExtensionCommand(
    "Results", "Write a run to MLflow, Weights & Biases or Trackio", "trainplan.extensions.track.command"
)
