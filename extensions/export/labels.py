"""Names of jobs as other engines and places take them."""

from __future__ import annotations

import hashlib
import json
import os
import re

LONGEST_LABEL = 63
"""Of a DNS label: what Kubernetes names a service or a pod's host, and the longest name of a bucket."""
_MARK_DIGITS = 8


def mark(name: str, host: str, folder: str) -> str:
    """Eight hexadecimal digits of what a job is called and where it is exported to: `folder` of the computer `host`.
    The same folder has the same mark, however its path is typed."""
    whole = json.dumps([name, host, os.path.realpath(folder)])
    return hashlib.sha256(whole.encode()).hexdigest()[:_MARK_DIGITS]


def place_name(name: str, host: str, folder: str, longest: int) -> str:
    """What a job's bucket, volume, data set or kernel is called: a DNS label (RFC 1035: begins with a letter) of
    `longest` characters at most. It ends with the mark: jobs that are exported to two folders never share a place,
    and a job that is exported to its folder again finds its checkpoints."""
    text = re.sub(r"[^a-z0-9]+", "-", name).strip("-")
    text = text if text[:1].isalpha() else f"job-{text}"
    return f"{text[: longest - 1 - _MARK_DIGITS].rstrip('-')}-{mark(name, host, folder)}"
