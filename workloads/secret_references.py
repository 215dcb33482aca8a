"""References to secrets, as a job names them: what they look like, and what they may be called."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from trainplan.workloads.terms import MAX_SECRETS

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,99}")
_REFERENCE = re.compile(r"(aws-sm|gcp-sm|akv):\S+")
# What the machine sets in the container itself.
_RESERVED_VARIABLE = re.compile(r"PATH|LD_LIBRARY_PATH|PYTHON.*|CUDA.*|NVIDIA_.*|PJRT_DEVICE")


def _references(value: object) -> object:
    """Check the references to secrets. Errors never repeat the value, which may be the secret itself."""
    if not isinstance(value, dict) or len(value) > MAX_SECRETS:
        raise ValueError(f"secrets holds names of variables and references, at most {MAX_SECRETS}")
    for name, reference in value.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name) or _RESERVED_VARIABLE.fullmatch(name):
            raise ValueError("each secret needs the name of a variable of its own: capitals, digits and _")
        if not isinstance(reference, str) or not _REFERENCE.fullmatch(reference):
            raise ValueError(
                f"{name} is no reference to a secret: write aws-sm:ARN, gcp-sm:projects/P/secrets/S/versions/V or "
                "akv:https://VAULT/secrets/NAME"
            )
    return value


Secrets = Annotated[
    dict[str, str],
    BeforeValidator(_references),
    Field(description="variables of the container, as references that the machine resolves"),
]
