"""What software can train on which hardware: the known combinations of architecture, host, driver and framework."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from workloads.terms import Framework

if TYPE_CHECKING:
    from workloads.job import TrainingJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One combination that trains: GPU generations by name, host processors, framework, NVIDIA driver branches.

    `framework_version` bounds the framework's own wheel. `driver` is the newest NVIDIA branch that still has the
    generation (None: any current one), `least_driver` the oldest that the wheel's CUDA runs on (None: no GPU).
    `least_capability`: below it the wheel has no code. `software` names what is installed on a rented machine (a row
    of providers/cloud/data/machines.toml). `keras_3` says whether its Keras is 3
    or newer, which a batch in parts and the recipes need. What is
    not `proven` was never seen to train, and counts only for a job that asks for it. `as_of`: when `source` was read.
    """

    architectures: frozenset[str]
    hosts: frozenset[str]
    framework: str
    framework_version: str
    driver: str | None = None
    least_driver: str | None = None
    least_capability: str = "0"
    software: str
    source: str
    as_of: str = "2026-11-21"
    keras_3: bool = True
    proven: bool = True


class Refusal(NamedTuple):
    """Hardware that nothing here trains on, and why. No hosts: any."""

    architectures: frozenset[str]
    hosts: frozenset[str]
    reason: str
    source: str
    as_of: str = "2026-11-21"


_X86 = frozenset({"x86_64"})
_ARM = frozenset({"arm64"})
_GPUS = frozenset({"kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper"})
_WHEELS = "build_info.py of the TensorFlow wheels, read 2026-11-21"
_LAST_DRIVER = "driver 580 is the last branch for Maxwell, Pascal and Volta"

RUNTIMES = (
    Runtime(
        architectures=frozenset({"kepler"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.14.1",
        driver="470",
        least_driver="450",
        least_capability="3.5",
        software="tensorflow-2.14-nvidia",
        source=f"{_WHEELS}: 2.14.1 is the last with sm_35 (CUDA 11.8)",
        keras_3=False,
    ),
    Runtime(
        architectures=frozenset({"maxwell"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.15.1",
        driver="580",
        least_driver="525",
        least_capability="5.0",
        software="tensorflow-2.15-nvidia",
        source=f"{_WHEELS}: 2.15.1 has sm_50, 2.18.1 and newer begin at sm_60; {_LAST_DRIVER}",
        keras_3=False,
    ),
    Runtime(
        architectures=frozenset({"pascal", "volta"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.21",
        driver="580",
        least_driver="525",
        least_capability="6.0",
        software="tensorflow-nvidia",
        source=f"{_WHEELS}: sm_60 and sm_70; {_LAST_DRIVER}",
    ),
    Runtime(
        architectures=frozenset({"turing", "ampere", "ada"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.21",
        least_driver="525",
        least_capability="7.5",
        software="tensorflow-nvidia",
        source=f"{_WHEELS}: 2.18.1 to 2.21.0 are CUDA 12.5.1 with sm_60, sm_70, sm_80, sm_89 and compute_90",
    ),
    Runtime(
        architectures=frozenset({"hopper"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.21",
        least_driver="555",
        least_capability="9.0",
        software="tensorflow-nvidia",
        source=f"{_WHEELS}: compute_90, compiled by the driver at the first run, which takes one that knows CUDA 12.5",
    ),
    Runtime(
        architectures=frozenset({"tpu"}),
        hosts=_X86,
        framework="jax",
        framework_version="current",
        software="jax-tpu",
        source="Google's runtime table lists JAX first; tensorflow-tpu's last release is behind",
    ),
    Runtime(
        architectures=frozenset({"tpu"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="2.20.0",
        software="tensorflow-tpu",
        source="unproven: tensorflow-tpu 2.20.0 is the last, and Keras 3 is reported failing under TPUStrategy",
        proven=False,
    ),
    Runtime(
        architectures=frozenset({"cpu"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.21",
        software="tensorflow-cpu",
        source="trained by the project's own tests",
    ),
    Runtime(
        architectures=frozenset({"cpu"}),
        hosts=_ARM,
        framework="tensorflow",
        framework_version="<=2.21",
        software="tensorflow-cpu",
        source="unproven: TensorFlow 2.21.0 has a wheel for Linux on arm64 (manylinux_2_27), never tried here",
        proven=False,
    ),
)

REFUSALS = (
    Refusal(
        frozenset({"blackwell"}),
        frozenset(),
        "no TensorFlow wheel has code for Blackwell, and compiling compute_90 for it is reported unreliable",
        _WHEELS,
    ),
    Refusal(_GPUS, _ARM, "TensorFlow has CUDA for x86_64 hosts alone", "the files of TensorFlow 2.21.0"),
    Refusal(frozenset({"tpu"}), _ARM, "Google's TPU hosts are x86_64", "Google's machine types"),
)


@cache
def runtimes_for(
    architecture: str, host: str, capability: str | None = None, *, unproven: bool = False
) -> tuple[Runtime, ...]:
    """Every known combination for an accelerator generation (`cpu` for none) on a host processor.

    `capability` is the device's compute capability, None where it has none. With `unproven` also what nobody tried.
    """
    rows = (row for row in RUNTIMES if architecture in row.architectures and host in row.hosts)
    rows = (row for row in rows if row.proven or unproven)
    return tuple(row for row in rows if capability is None or _version(capability) >= _version(row.least_capability))


def why_not(architecture: str, host: str, capability: str | None = None) -> str | None:
    """Why nothing is known to train there; None where something is."""
    if runtimes_for(architecture, host, capability):
        return None
    for row in REFUSALS:
        if architecture in row.architectures and (not row.hosts or host in row.hosts):
            return row.reason
    if any(runtimes_for(architecture, host)):
        return f"no TensorFlow wheel has code for compute capability {capability}"
    runtimes = runtimes_for(architecture, host, unproven=True)
    return runtimes[0].source if runtimes else f"no software is known for {architecture} on {host}"


class ChosenSoftware(NamedTuple):
    """The framework that a job trains with somewhere; `runtime` is None where that is in no known combination."""

    framework: Framework
    runtime: Runtime | None


def runtime_of(job: TrainingJob, architecture: str, host: str, capability: str | None = None) -> ChosenSoftware | None:
    """What a job trains with on that hardware; None where nothing is known to.

    A framework that the person wrote is never changed for another: TensorFlow is known to train only where it stands in
    the table. JAX and PyTorch, whose GPU wheels are not in it, may be tried on whatever trains at all. Left to choose,
    it is the job's default where that is known, else the first that is. What is unproven counts only for a
    job that names both its framework and its devices, and what has no Keras 3 not for a job with a recipe.
    """
    is_named = "framework" in job.model_fields_set
    runtimes = runtimes_for(architecture, host, capability, unproven=is_named and bool(job.constraints.devices))
    runtimes = tuple(row for row in runtimes if row.keras_3 or not job.uses_recipe)
    if not runtimes:
        return None
    own = next((row for row in runtimes if row.framework == job.framework), None)
    if own is not None:
        return ChosenSoftware(framework=job.framework, runtime=own)
    if not is_named:
        return ChosenSoftware(framework=Framework(runtimes[0].framework), runtime=runtimes[0])
    return None if job.framework is Framework.TENSORFLOW else ChosenSoftware(framework=job.framework, runtime=None)


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
