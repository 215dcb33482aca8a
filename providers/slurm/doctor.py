"""What every launch on a cluster needs, and whether a partition takes a job: one line for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainplan.providers.cloud.checks import check_lines, failed, ok, refused, unknown
from trainplan.providers.errors import (
    BadRequestError,
    CredentialsError,
    MachineError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    TransientError,
)
from trainplan.providers.slurm.api import Shell, Streams
from trainplan.providers.slurm.errors import complaint, error_of
from trainplan.providers.slurm.offers import gres_of

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer
    from trainplan.providers.base import Check
    from trainplan.providers.slurm.settings import SlurmSettings

_WRITABLE = 'mkdir -p "$1" && t="$1/.plan-doctor.$$" && : >"$t" && rm -f "$t" && df -Pk "$1" | tail -n 1'
_FRAMEWORKS = """
import importlib.metadata as m, platform
found = []
for name in ("tensorflow", "tensorflow-cpu", "jax", "torch", "keras", "numpy", "pydantic", "scikit-learn"):
    try: found.append(name + " " + m.version(name))
    except m.PackageNotFoundError: pass
print("Python", platform.python_version() + ",", ", ".join(found))
"""
_STARTS = re.compile(r"to start at (\S+)")
_NO_CLUSTER = "no cluster is set up"
_SET_UP = "set directory in [slurm] to a folder on the file system that the nodes share (docs/slurm.md)"


def doctor(shell: Shell, settings: SlurmSettings) -> Sequence[Check]:
    """The lines of `plan doctor slurm`. Creates nothing but a file that it removes."""
    if not settings.directory:
        return (refused("identity", _NO_CLUSTER, _SET_UP),)
    return check_lines(
        {
            "identity": lambda: _version(shell),
            "directory": lambda: _directory(shell, settings),
            "trainer": lambda: _trainer(shell, settings),
        },
        _of_error,
    )


def preflight(shell: Shell, settings: SlurmSettings, offer: Offer, nodes: int = 1) -> Sequence[Check]:
    """Whether this partition would take a job on so many nodes, and when it would begin (`sbatch --test-only`)."""
    if not settings.directory:
        return (refused("identity", _NO_CLUSTER, _SET_UP),)
    return check_lines(
        {
            "partition": lambda: _test_only(shell, settings, offer, nodes),
            "directory": lambda: _directory(shell, settings),
        },
        _of_error,
    )


def _version(shell: Shell) -> Check:
    completed = shell.run(("sbatch", "--version"))
    if completed.exit_code:
        return refused("identity", complaint(completed), "Slurm's commands must run here or at login")
    return ok("identity", completed.text.strip())


def _directory(shell: Shell, settings: SlurmSettings) -> Check:
    completed = shell.run(("sh", "-c", _WRITABLE, "sh", settings.directory))
    if completed.exit_code:
        return refused("directory", f"{settings.directory}: {completed.stderr.strip()}", _SET_UP)
    cells = completed.text.split()
    room = f", {int(cells[3]) * 1024 / 1e9:,.0f} GB are free" if len(cells) > 3 and cells[3].isdigit() else ""
    return ok("directory", f"{settings.directory} can be written{room}")


def _trainer(shell: Shell, settings: SlurmSettings) -> Check:
    if settings.container:
        return unknown("trainer", f"what is in the container of `{' '.join(settings.container)}` is not looked at")
    completed = shell.run((settings.python, "-c", _FRAMEWORKS))
    fix = "set python in [slurm] to an interpreter that has TensorFlow, JAX or PyTorch with Keras, NumPy and pydantic"
    if completed.exit_code:
        return refused("trainer", f"{settings.python}: {complaint(completed)}", fix)
    text = completed.text.strip()
    if not all(name in text for name in ("keras", "numpy", "pydantic")):
        return refused("trainer", f"{settings.python} lacks packages of the trainer: it has {text}", fix)
    return ok("trainer", f"{settings.python}: {text}; the nodes must have it too")


def _test_only(shell: Shell, settings: SlurmSettings, offer: Offer, nodes: int) -> Check:
    gres = gres_of(offer)
    flags = (f"--gres={gres}",) if gres else ("--exclusive",)
    asked = (f"--partition={offer.region}", f"--nodes={nodes}", "--time=1", *flags, *settings.flags)
    words = ("sbatch", "--test-only", *asked)
    completed = shell.run(words, Streams(data=b"#!/bin/sh\n"))
    if completed.exit_code:
        error = error_of(completed, offer.region)
        if isinstance(error, TransientError):  # a controller that does not answer refuses nothing
            raise error
        return refused("partition", f"{offer.region}: {complaint(completed)}", "`sinfo` shows what the cluster has")
    starts = _STARTS.search(completed.stderr)
    return ok("partition", f"a job would begin at {starts[1]}, by the cluster's clock" if starts else "takes the job")


def _of_error(name: str, error: ProviderError) -> Check:
    return failed(name, error, (MachineError, CredentialsError, PermissionDeniedError, BadRequestError, QuotaError))
