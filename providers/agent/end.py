"""Ends the machine: by the cloud's own delete call where a power-off leaves something that bills, power-off last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping
from urllib.parse import quote

from trainplan.providers.agent.clock import Clock
from trainplan.providers.agent.processes import Processes
from trainplan.providers.agent.requests import Access

PAUSES = (0.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0)
"""Before each try: two and a half minutes altogether, for a role that is still on its way."""
LONG_PAUSES = (*PAUSES, *(60.0,) * 28)
"""On Azure: a guest that is off bills as before, and a role of the launch's may take half an hour to hold."""
DEATH_SECONDS = 120.0
"""From an accepted delete call to the end of the machine; then it is powered off all the same."""
_ARM = "https://management.azure.com/"
_POWER_OFF = (
    ("systemctl", "poweroff", "--no-block"),
    ("systemctl", "poweroff", "-ff"),
    # Not in a container, where the kernel's own switch is that of somebody else's machine.
    ("sh", "-c", "systemd-detect-virt -qc || { echo 1 >/proc/sys/kernel/sysrq; echo o >/proc/sysrq-trigger; }"),
)


@dataclass(frozen=True)
class End:
    """`how` is the spec's `end`: kind power_off | gcp_delete (project, zone, name) | azure_group (subscription, group,
    machine) | tpu_delete (project, zone, queued_resource or node)."""

    how: Mapping[str, str]
    access: Access
    processes: Processes
    clock: Clock

    def machine(self) -> None:
        """Returns only where nothing that was tried has ended it."""
        if self.how.get("kind") != "power_off" and self._deleted():
            self.clock.sleep(DEATH_SECONDS)
        for words in _POWER_OFF:
            self.processes.run(words, 30.0)
            self.clock.sleep(60.0)

    def _deleted(self) -> bool:
        for pause in LONG_PAUSES if self.how["kind"] == "azure_group" else PAUSES:
            self.clock.sleep(pause)
            for method, url, token in self._calls():
                if self._accepted(method, url, token):
                    return True
        return False

    def _calls(self) -> tuple[tuple[str, str, str], ...]:
        """(method, address, resource of the token), the best first."""
        how = {name: quote(value, safe="") for name, value in self.how.items()}
        google = "https://storage.azure.com/"
        if how["kind"] == "gcp_delete":
            endpoint = self.access.end("compute", "https://compute.googleapis.com")
            url = f"{endpoint}/compute/v1/projects/{how['project']}/zones/{how['zone']}/instances/{how['name']}"
            return (("DELETE", url, google),)
        if how["kind"] == "tpu_delete":
            endpoint = self.access.end("tpu", "https://tpu.googleapis.com")
            home = f"{endpoint}/v2/projects/{how['project']}/locations/{how['zone']}"
            if "queued_resource" in how:
                return (("DELETE", f"{home}/queuedResources/{how['queued_resource']}?force=true", google),)
            return (("DELETE", f"{home}/nodes/{how['node']}", google),)
        group = f"{self.access.end('arm', _ARM)}/subscriptions/{how['subscription']}/resourceGroups/{how['group']}"
        machine = f"{group}/providers/Microsoft.Compute/virtualMachines/{how['machine']}"
        forced = "api-version=2021-04-01&forceDeletionTypes=Microsoft.Compute%2FvirtualMachines"
        return (
            ("DELETE", f"{group}?{forced}", _ARM),
            ("DELETE", f"{machine}?api-version=2024-07-01&forceDeletion=true", _ARM),
            ("POST", f"{machine}/deallocate?api-version=2024-07-01", _ARM),
        )

    def _accepted(self, method: str, url: str, resource: str) -> bool:
        try:
            headers = {"authorization": f"Bearer {self.access.credentials(resource)}"}
            status, _, _ = self.access.send(method, url, headers, b"" if method == "POST" else None)
        except (OSError, ValueError, KeyError):
            return False
        if status in (401, 403):
            self.access.forget()
        return status in (200, 202, 204)
