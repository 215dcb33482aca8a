"""How long whoever waits for a double waits for one answer."""

from __future__ import annotations

HANGS_SECONDS = 3600.0
"""Real ones. A double that has not answered for so long hangs; of one that dies the connection closes at once.

To let five days pass over a machine at AWS's double takes it 1440 turns of the standing reaper, of some hundredths of a
second of processor time each. One such call took 49 s beside three busy processes on two cores, and more than five
minutes, the limit until then, beside ten.
"""
