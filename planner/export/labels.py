"""Names of jobs as other engines and places take them."""

from __future__ import annotations

import hashlib
import re

LONGEST_LABEL = 63
"""Of a DNS label: what Kubernetes names a service or a pod's host, and the longest name of a bucket."""


def label(name: str, longest: int) -> str:
    """The name as a DNS label (RFC 1035: begins with a letter), which is a bucket's name too. One that cannot
    stay as it is ends with a mark of the whole: two jobs never share a volume or a bucket."""
    text = re.sub(r"[^a-z0-9]+", "-", name).strip("-")
    text = text if text[:1].isalpha() else f"job-{text}"
    if text == name and len(text) <= longest:
        return text
    mark = hashlib.sha256(name.encode()).hexdigest()[:4]
    return f"{text[: longest - 1 - len(mark)].rstrip('-')}-{mark}"
