"""Seeds derived from the job's: one for each layer, purpose and epoch, none of which says anything about another."""

from __future__ import annotations

import hashlib

_BITS = 31
"""Non-negative in every framework's 32-bit seeds."""


def derived_seed(seed: int, *what: str | int) -> int:
    """A seed below 2**31 from the job's and from what it is for ("kernel", 3); the same on every machine.

    SHA-256 over all of it: sums such as seed + layer would give layer 1 of seed 0 and layer 0 of seed 1 equal weights.
    """
    text = "/".join(str(part) for part in (seed, *what))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> (32 - _BITS)
