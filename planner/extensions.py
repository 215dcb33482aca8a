"""What extensions bring: commands of `plan` and trackers, by entry points of trainplan itself or of another package.

Importing this reads nothing. The core imports no extension: it asks here, when somebody types a name that the core
does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple, cast

from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.providers.plug_ins import PlugIn, found, usable

if TYPE_CHECKING:
    from trainplan.planner.runs.receipt.receipt import Receipt
    from trainplan.workloads.job import TrainingJob

COMMANDS = "trainplan.commands"
TRACKERS = "trainplan.trackers"

WriteRun = Callable[[str, "TrainingJob", "Receipt"], str]
"""What an entry point of TRACKERS names: writes a run that has ended to the tracker of this name, and returns where it
can be seen there. Raises PlanError."""


class ExtensionCommand(NamedTuple):
    """What an entry point of COMMANDS names. The module is imported when the command is typed: it has the function
    `command` or, for a command with commands of its own, the Typer application `group`."""

    heading: str
    """Under which heading of `plan --help` it is listed, behind the commands of the core."""
    summary: str
    module: str


def extension_commands(taken: Collection[str]) -> dict[str, ExtensionCommand | PlugIn]:
    """Every command that an extension brings, by name; a PlugIn is one that cannot be used, and has the reason."""
    commands: dict[str, ExtensionCommand | PlugIn] = {}
    for name, plug_in in found(COMMANDS, "command", taken).items():
        loaded = usable(plug_in, ExtensionCommand)
        commands[name] = loaded if loaded.problem else cast("ExtensionCommand", loaded.loaded)
    return commands


def refuse_unusable(command: PlugIn) -> None:
    """Raises BadInputError: the command that was typed cannot be used."""
    raise BadInputError(f"plan {command.name} cannot be used: {command.problem}", command.hint)


def tracker(name: str) -> WriteRun:
    """How a run is written to this tracker. Raises ThisMachineError where no extension brings it."""
    plug_in = found(TRACKERS, "tracker", ()).get(name)
    if plug_in is None:
        raise ThisMachineError(f"no extension writes to {name}", "install trainplan with its extensions again")
    if plug_in.problem or not callable(plug_in.loaded):
        raise ThisMachineError(f"tracker {name}: {plug_in.problem or 'it is not a function'}", plug_in.hint)
    return cast("WriteRun", plug_in.loaded)
