"""`plan serve`: a live page of what bills and of the runs, on loopback, for one person."""

from __future__ import annotations

import gc
import json
import sys
from typing import Annotated

import typer

from trainplan.extensions.serve.board import Home
from trainplan.extensions.serve.commands import Commands
from trainplan.extensions.serve.server import Server
from trainplan.planner.api import build
from trainplan.planner.cli import options
from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.planner.runs.money.spending import spending

_GC_THRESHOLD = 700
"""Python's own. A command makes hundreds of thousands of objects at its start and ends; a server goes on."""


def command(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port on this computer; 0 takes one that is free")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON before it starts")] = False,
) -> None:
    """Show runs and costs on a live page in the browser of this computer, until Ctrl-C.

    The printed address is valid once. It ends by itself when nobody has looked for 30 minutes; runs go on.
    """
    if 0 < port < 1024:
        raise BadInputError(f"--port: {port} is kept for the system", "take one from 1024 on, or leave it out")
    settings = options.settings()
    with build.journal(settings):
        pass  # it is made, or refused where another version wrote it; from here on it is read only
    clock = build.clock()
    home = Home(settings.home, lambda journal: spending(journal, settings, clock))
    try:
        server = Server(port, home, Commands(clock.now), clock)
    except OSError as error:
        raise ThisMachineError(f"port {port} cannot be used: {error.strerror}", "--port takes another one") from None
    gc.set_threshold(_GC_THRESHOLD)
    address = server.access.address
    sys.stdout.write((json.dumps({"address": address}) if as_json else address) + "\n")
    sys.stdout.flush()
    sys.stderr.write("open it once in a browser on this computer; Ctrl-C ends it, runs go on\n")
    try:
        server.serve()
    except KeyboardInterrupt:
        return
    sys.stderr.write("nobody has looked for 30 minutes: ended\n")
