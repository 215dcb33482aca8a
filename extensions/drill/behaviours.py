"""Which behaviours of tests/doubles/behaviours.csv a proven step settles, by provider and way to a machine: in the
words of that table, which tests/contract/test_fidelity.py compares."""

from __future__ import annotations

from trainplan.extensions.drill.steps import Step

_TIMER = "sim: the machine's own timer ends it at its deadline whatever its client does"

SETTLES: dict[tuple[str, Step], tuple[str, ...]] = {
    ("aws", Step.REPLAY): (
        "aws: a `ClientToken` used before, with the same parameters, gives the machine that it made; with others it is "
        "refused",
        "sim: a create with a token used before, and the same parameters, gives the machine that the first one made",
    ),
    ("aws", Step.MACHINE_TIMER): (_TIMER,),
    ("aws", Step.LEFTOVERS): ("aws: disk and interface go with the machine; a scenario lets the disk stay",),
    ("aws", Step.DELETE): ("sim: deleting an instance twice is no error, and returns before it is gone",),
    ("aws", Step.DENIAL): ("aws: a create that is denied is denied before its image is looked up",),
    ("gcp", Step.CUSTOM_ROLE): ("google: custom roles may have every permission of the documented ones",),
    ("gcp", Step.TPU_QUOTAS): ("google: quotas of the Cloud TPU API have the generation in the name of their metric",),
    ("gcp", Step.REPLAY): (
        "google: an operation shows the `requestId` as `clientOperationId`",
        'google: operations can be listed by the machine that they are on (`targetLink eq "…"`)',
    ),
    ("gcp", Step.MACHINE_TIMER): (_TIMER,),
    ("gcp", Step.LEFTOVERS): (
        "google: the machine reads its orders from `user-data`, checks the hashes of agent and spec, trains, and "
        "deletes itself as its spec says",
    ),
    ("gcp", Step.CLOUD_TIMER): (
        "google: `maxRunDuration` counts from when the machine runs and ends it with the action given",
    ),
    ("gcp-tpu", Step.AGENT): ("google: `startup-script` runs when the node boots",),
    ("gcp-tpu", Step.MACHINE_TIMER): (_TIMER,),
    ("gcp-tpu", Step.CLOUD_TIMER): (
        "google: a task is sent when it is due, in the past at once, and again with growing pauses where it is refused",
    ),
    ("azure", Step.LAUNCH): (
        "azure: a machine is made with interface, address and disk in one PUT",
        "azure: a scheduled deallocate answers 200 with a result for each machine: an `errorCode`, or an operation "
        "with an id",
    ),
    ("azure", Step.REPLAY): (
        "azure: it may be asked for again with the same `correlationid`, and comes at its time, days ahead too",
    ),
    ("azure", Step.MACHINE_TIMER): (_TIMER,),
    ("azure", Step.LEFTOVERS): (
        "azure: the deletion of a group with `forceDeletionTypes` takes all that is in it, answers 202 and goes on by "
        "itself",
        "azure: it does so too where a machine in the group asked for it, which is gone before it ends",
    ),
}
"""A behaviour that has several parts is settled for the part that the step can see."""


def way_of(provider: str, device: str) -> str:
    """The provider's way to machines with this device, as `SETTLES` names it: a TPU is no machine of Compute Engine."""
    return f"{provider}-tpu" if device.upper().startswith("TPU") else provider


def behaviours(way: str, step: Step) -> tuple[str, ...]:
    """What a proven step settles; nothing on the simulated cloud, which no vendor runs."""
    return SETTLES.get((way, step), ())
