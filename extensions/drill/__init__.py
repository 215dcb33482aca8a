"""A drill: a few cheap machines on the person's own account, which prove what no double can."""

from __future__ import annotations

from trainplan.planner.extensions import ExtensionCommand

COMMAND = ExtensionCommand(
    "Money and leftovers", "Check on your account, for cents, what tests cannot", "trainplan.extensions.drill.command"
)
