"""What happens in a double's world: how long things take, what there is, and what goes wrong."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FaultRule(_Frozen):
    """Something that goes wrong with calls of one method (`operation`: its id in Google's description; `*`: any).

    Of the calls that match, the first `skip` pass, then `times` are hit (None: all), each with the probability
    `chance`; `after` and `until` are seconds from the beginning of the world. `error`: the reply is `status` with
    `code`; `operation_error`: the operation fails with `code`; `warning`: a list leaves `placement` out (all of it
    where that is "") and says so. `garbled`: the call is carried out, and its reply is the `message` instead of JSON.
    """

    operation: str = "*"
    effect: Literal["error", "lost_request", "lost_reply", "operation_error", "warning", "garbled"] = "error"
    status: int = 503
    code: str = "backendError"
    message: str = "as the test wants it"
    placement: str = ""
    skip: int = 0
    times: int | None = 1
    chance: float = 1.0
    after: float = 0.0
    until: float | None = None


class Unknown(_Frozen):
    """A thing that the call which needs it does not find for so many seconds after its create; None: it never does
    (tests/doubles/google/unknown.py)."""

    resource: str
    needed_by: str
    seconds: float | None = None


class Incident(_Frozen):
    """Befalls running machines of an attempt (None: of each), so many seconds after they run.

    `crash`: the host fails. `vanish`: it is gone, and no operation tells why.
    """

    event: Literal["preempt", "maintenance", "crash", "vanish"]
    attempt: int | None = None
    after: float = 0.0


class Scenario(_Frozen):
    """`stock` and `quotas` have no bound where they name none; a placement of `stock` is a zone or a region. `quotas`
    are by region, "*" for every region, "global" for all regions together; `tpu_quotas` are those of the Cloud TPU API.

    `advice` is how likely Google says spot is obtained, by region or `region/machine type`; None: it gives no score.

    `closed_regions` are those in which a policy of the organisation lets nobody make anything: lists of them answer.

    `networks` have a subnetwork of their own name in each region but `regions_without_subnetwork`.

    `services_off` are APIs that the project does not use; they refuse every call. `global_seconds` is how long the
    create of a network and the switching on of APIs take, `settling_seconds` for how long a new account, role or API is
    not known to what depends on it.

    `real`: machines are real ones, which somebody boots and ends (tests/e2e), and time is the computer's.
    `trainer`: `simulated` trains as the simulated cloud does, `named` behaves as tests/doubles/fake_trainer.py by the
    name of the job, `hung` never ends and does not listen. `others` are things in the project that somebody else
    made, by kind (`disks`, `addresses`, `forwardingRules`, `snapshots`): each has a `scope` and a `row`.
    """

    began: datetime | None = None
    seed: int = 1
    operation_seconds: float = 5.0
    boot_seconds: float = 20.0
    deletion_seconds: float = 4.0
    lag_seconds: float = 5.0
    notice_seconds: float = 30.0
    token_seconds: float = 3600.0
    page_size: int = 500
    advice: dict[str, float | None] = Field(default_factory=dict)
    stock: dict[str, int] = Field(default_factory=dict)
    quotas: dict[str, dict[str, float]] = Field(default_factory=dict)
    closed_zones: tuple[str, ...] = ()
    closed_regions: tuple[str, ...] = ()
    billing: bool = True
    tpu_quotas: dict[str, int] | None = None
    networks: tuple[str, ...] = ("default", "trainplan")
    regions_without_subnetwork: tuple[str, ...] = ()
    services_off: tuple[str, ...] = ()
    global_seconds: float = 0.0
    settling_seconds: float = 0.0
    machine_timer_works: bool = True
    cloud_timer_works: bool = True
    unsupported_in_roles: tuple[str, ...] = ()
    disks_stay: bool = False
    others: dict[str, tuple[dict[str, Any], ...]] = Field(default_factory=dict)
    real: bool = False
    trainer: Literal["simulated", "named", "hung", "silent", "unsaved", "forgetful"] = "simulated"
    faults: tuple[FaultRule, ...] = ()
    incidents: tuple[Incident, ...] = ()
    unknown: tuple[Unknown, ...] = ()


_REGION = {
    "CPUS": 8, "N2_CPUS": 8, "N2D_CPUS": 8, "C2_CPUS": 8, "C3_CPUS": 8, "A2_CPUS": 0, "PREEMPTIBLE_CPUS": 0,
    "SSD_TOTAL_GB": 250, "IN_USE_ADDRESSES": 4,
    **{
        f"{market}NVIDIA_{name}_GPUS": count
        for market in ("", "PREEMPTIBLE_")
        for name, count in {"T4": 1, "V100": 1, "P100": 1, "P4": 1, "L4": 1, "A100": 0, "A100_80GB": 0}.items()
    },
    "PREEMPTIBLE_NVIDIA_H100_GPUS": 0,
}  # fmt: skip
"""Quotas of each region of a new project. vCPUs: users report 8 at a time in a free trial
(kelseyhightower/kubernetes-the-hard-way issue 669), which quotes a page of Google's that was not read. One of each
older GPU: gcloudrig/gcloudrig issue 44 and vanvalenlab/kiosk-console pull request 359, whose users were let in by the
region and not by all regions. Disks and addresses: half of what users of free trials were shown
(GoogleCloudPlatform/data-science-on-gcp issue 163, google/caliban issue 66), the harder case."""
NEW_PROJECT: dict[str, Any] = {
    # No GPU in all regions: recorded (projects.get of a project made on 2022-06-03), and the refusal in
    # fastai/course-v3 pull request 165. CPUs of all regions: 12 by users' reports, 32 in the recorded projects.
    "quotas": {"*": _REGION, "global": {"GPUS_ALL_REGIONS": 0, "CPUS_ALL_REGIONS": 12}},
    # On demand 16 cores of v2-8 and v3-8, preemptible 48, of all others none: https://cloud.google.com/tpu/docs/quota
    "tpu_quotas": {
        "TPU v2 cores": 16, "TPU v3 cores": 16, "TPU v4 cores": 0, "TPU v5 lite pod cores": 0,
        "Preemptible TPU v2 cores": 48, "Preemptible TPU v3 cores": 48, "Preemptible TPU v4 cores": 0,
        "Preemptible TPU v5 lite pod cores": 0,
    },
    # An organisation may forbid the default network (constraints/compute.skipDefaultNetworkCreation).
    "networks": (),
    # What Google switches on in new projects has neither of these:
    # https://cloud.google.com/service-usage/docs/enabled-service#default
    "services_off": ("compute", "iam", "cloudresourcemanager", "cloudbilling", "tpu", "cloudtasks"),
    "global_seconds": 20.0,
    # Assumed: 60 seconds or more are believed of service accounts, 2 minutes are usual for a policy.
    "settling_seconds": 75.0,
}  # fmt: skip
"""A project on its first day, as the fields of a scenario."""
