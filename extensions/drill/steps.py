"""The steps of a drill, in their order, and what each proves in words."""

from __future__ import annotations

from enum import StrEnum

from trainplan.workloads.wording import Option, Text


class Step(StrEnum):
    """What is tried; the machines A, B and C of `MACHINES` are what it is tried on."""

    LAUNCH = "launch"
    REPLAY = "replay"
    RUN_DIRECTORY = "run-directory"
    BOOT = "boot"
    AGENT = "agent"
    CHECKPOINT = "checkpoint"
    STOP = "stop"
    RESUME = "resume"
    MACHINE_TIMER = "machine-timer"
    LEFTOVERS = "leftovers"
    CLOUD_TIMER = "cloud-timer"
    DELETE = "delete"
    NOT_FOUND = "not-found"
    CLEANUP = "cleanup"
    DENIAL = "denial"
    CUSTOM_ROLE = "custom-role"
    TPU_QUOTAS = "tpu-quotas"
    ALARM = "alarm"
    BILL = "bill"


PROVES = {
    Step.LAUNCH: "a create is accepted and gives a machine that the journal knows",
    Step.REPLAY: "the same create sent again is answered with the same machine, and one alone is listed",
    Step.RUN_DIRECTORY: "what a launch wrote into the run directory is listed, and reads back whole and in part",
    Step.BOOT: "the machine runs",
    Step.AGENT: "what is on it starts, may write its run directory, and training begins",
    Step.CHECKPOINT: "a checkpoint comes home whole",
    Step.STOP: "a wish to stop is obeyed, with a checkpoint, and the machine ends itself",
    Step.RESUME: "a second machine goes on from the first one's checkpoint",
    Step.MACHINE_TIMER: "the timer inside the machine ends it, before any timer of the cloud and whatever is running",
    Step.LEFTOVERS: "a machine that has ended itself leaves nothing that bills",
    Step.CLOUD_TIMER: "the cloud's timer ends a machine whose own timer is off, with no call from here but looks",
    Step.DELETE: "a delete of what is gone is no error, and nothing of the runs is listed afterwards",
    Step.NOT_FOUND: "what was deleted is unknown, or known as ended",
    Step.CLEANUP: "a look at everything with our labels finds nothing of the drill",
    Step.DENIAL: "EC2 denies a create before it looks up what the create names (AWS alone)",
    Step.CUSTOM_ROLE: "custom roles may have every permission of the documented ones (Google Cloud alone)",
    Step.TPU_QUOTAS: "quotas of TPU v5e have names that are known, europe-west4 has v5litepod-1 (Google Cloud alone)",
    Step.ALARM: Text("the vendor's own monthly alarm can be made, is shown, and can be removed (", Option.EMAIL, ")"),
    Step.BILL: Text("the vendor's own bill can be read (", Option.EMAIL, ")"),
}
"""In the order in which they are tried."""

PROBES = (Step.DENIAL, Step.CUSTOM_ROLE, Step.TPU_QUOTAS)
"""Questions that take no machine."""
VENDOR_MONEY = (Step.ALARM, Step.BILL)
"""What is tried only where it was asked for, and takes no machine either."""
MACHINES = {
    "A": (Step.LAUNCH, Step.REPLAY, Step.RUN_DIRECTORY, Step.BOOT, Step.AGENT, Step.CHECKPOINT, Step.STOP),
    "B": (Step.RESUME, Step.MACHINE_TIMER, Step.LEFTOVERS),
    "C": (Step.CLOUD_TIMER,),
}
"""Which machine shows what; the last steps of `PROVES` are of all of them together."""
