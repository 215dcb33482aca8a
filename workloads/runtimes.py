"""What software can train on which hardware: the known combinations of host, driver, container and architecture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from workloads.job import Framework

if TYPE_CHECKING:
    from workloads.job import TrainingJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One combination that trains: GPU generations by name, host processors, framework, newest driver branch.

    `framework_version` bounds the framework's own wheel; `driver` is the newest NVIDIA branch that still has the
    generation (None: any current one). `accumulates` says whether it can train a batch in parts (Keras 3).
    """

    architectures: frozenset[str]
    hosts: frozenset[str]
    framework: str
    framework_version: str
    driver: str | None
    source: str
    accumulates: bool = True


_X86 = frozenset({"x86_64"})
_WHEELS = "build_info.py of the TensorFlow wheels, read 2026-11-21"

RUNTIMES = (
    Runtime(
        architectures=frozenset({"kepler"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.14.1",
        driver="470",
        source=f"{_WHEELS}: 2.14.1 is the last with sm_35 (CUDA 11.8)",
        accumulates=False,
    ),
    Runtime(
        architectures=frozenset({"maxwell", "pascal", "volta"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.21",
        driver="580",
        source=f"{_WHEELS}: sm_60 and sm_70; driver 580 is the last branch for Maxwell, Pascal and Volta",
    ),
    Runtime(
        architectures=frozenset({"turing", "ampere", "ada", "hopper"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.21",
        driver=None,
        source=f"{_WHEELS}: 2.18.1 to 2.21.0 are CUDA 12.5.1 with sm_60, sm_70, sm_80, sm_89 and compute_90",
    ),
    Runtime(
        architectures=frozenset({"tpu"}),
        hosts=_X86,
        framework="jax",
        framework_version="current",
        driver=None,
        source="Google's runtime table lists JAX first; tensorflow-tpu's last release is behind",
    ),
    Runtime(
        architectures=frozenset({"cpu"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.21",
        driver=None,
        source="trained by the project's own tests",
    ),
)


@cache
def runtimes_for(architecture: str, host: str) -> tuple[Runtime, ...]:
    """Every known combination for an accelerator generation (`cpu` for none) on a host processor."""
    return tuple(row for row in RUNTIMES if architecture in row.architectures and host in row.hosts)


class Chosen(NamedTuple):
    """The framework that a job trains with somewhere; `runtime` is None where that is in no known combination."""

    framework: Framework
    runtime: Runtime | None


def runtime_of(job: TrainingJob, architecture: str, host: str) -> Chosen | None:
    """What a job trains with on that hardware; None where nothing is known to.

    A framework that the person wrote is never changed for another: TensorFlow is known to train only where it stands in
    the table. JAX and PyTorch, whose GPU wheels are not in it, may be tried on whatever trains at all. Left to choose,
    it is the job's default where that is known, else the first that is.
    """
    known = runtimes_for(architecture, host)
    if not known:
        return None
    own = next((row for row in known if row.framework == job.framework), None)
    if own is not None:
        return Chosen(framework=job.framework, runtime=own)
    if "framework" not in job.model_fields_set:
        return Chosen(framework=Framework(known[0].framework), runtime=known[0])
    return None if job.framework is Framework.TENSORFLOW else Chosen(framework=job.framework, runtime=None)
