"""A question on stdin, answers on stdout: what libraries print themselves goes to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any


def own_stdout() -> Callable[[Mapping[str, Any]], None]:
    """Keep stdout for lines of JSON, which the function that is returned writes. Libraries in C++ write to descriptor
    1, whatever Python calls stdout; it leads to stderr from here on."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def reply(answer: Mapping[str, Any]) -> None:
        replies.write(json.dumps(answer) + "\n")
        replies.flush()

    return reply
