"""The live page of `plan serve`: what bills now and until when, runs as they go, and a button that stops one.

`server.py` answers one browser on loopback, `access.py` says who that is, `board.py` reads the journal, `commands.py`
runs `plan` itself for whatever looks at a provider or changes anything, `pages.py` writes the HTML.
"""

from __future__ import annotations

from trainplan.planner.extensions import ExtensionCommand

COMMAND = ExtensionCommand(
    "Results", "Live page of runs and costs, in your browser", "trainplan.extensions.serve.command"
)
