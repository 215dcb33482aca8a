"""TensorBoard: the curves of a run, on loopback."""

from __future__ import annotations

from trainplan.planner.extensions import ExtensionCommand

COMMAND = ExtensionCommand("Results", "Show the curves of a run in TensorBoard", "trainplan.extensions.board.command")
