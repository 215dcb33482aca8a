"""What software can train on which hardware: the known combinations of host, driver, container and architecture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One combination that trains: GPU generations by name, host processors, framework, newest driver branch.

    `framework_version` bounds the framework's own wheel; `driver` is the newest NVIDIA branch that still has the
    generation (None: any current one).
    """

    architectures: frozenset[str]
    hosts: frozenset[str]
    framework: str
    framework_version: str
    driver: str | None
    source: str


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
