"""A job as a request for an instance of IBM Cloud VPC, with a start-up script. It is never sent here."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from typing import TYPE_CHECKING

from trainplan.extensions.export.export_files import ExportFiles
from trainplan.extensions.export.labels import LONGEST_LABEL, place_name
from trainplan.planner.errors import BadInputError
from trainplan.workloads.terminal_text import has_control_characters
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.extensions.export.machine_job import MachineJob

REQUEST, SCRIPT = "create-instance.json", "start-up.sh"
_FOLDER = "/trainplan"
_DISK_GB = 100
_LARGEST_USER_DATA = 64 * 1024
"""Characters of user data that an instance takes; assumed, as other clouds take 16 to 64 KB."""
_YOURS = {
    "vpc": {"id": "YOUR-VPC-ID"},
    "keys": [{"id": "YOUR-SSH-KEY-ID"}],
    "image": {"id": "ID-OF-AN-UBUNTU-24-04-IMAGE"},
    "primary_network_interface": {"subnet": {"id": "YOUR-SUBNET-ID"}},
}


def ibm_files(machine: MachineJob, folder: str, host: str, address: str | None) -> ExportFiles:
    """The request and what it fetches. `address` is where the person puts the other files: an HTTPS address to which a
    file's name is added. Raises BadInputError for an address that is none, and for images of this computer."""
    if address is None or not re.fullmatch(r"https://\S+", address) or has_control_characters(address):
        raise BadInputError(
            "where does the machine fetch its files?"
            if address is None
            else f"{Option.ADDRESS(address)}: no HTTPS address",
            f"{Option.ADDRESS('https://...')}: where you put the folder, for instance a bucket that can be read",
        )
    if machine.images is not None:
        raise BadInputError("images of this computer are not sent to a machine of IBM", "name a data set (data.name)")
    files = machine.files()
    script = _script(
        machine, address.rstrip("/"), {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    )
    assert len(script) <= _LARGEST_USER_DATA
    request = {
        "name": f"trainplan-{place_name(machine.job.name, host, folder, LONGEST_LABEL - len('trainplan-'))}",
        "profile": {"name": machine.instance_type},
        "zone": {"name": f"{machine.region}-1"},
        **_YOURS,
        "boot_volume_attachment": {
            "volume": {"capacity": _DISK_GB, "profile": {"name": "general-purpose"}},
            "delete_volume_on_instance_delete": True,
        },
        "user_data": script,
    }
    return ExportFiles(
        files={**files, SCRIPT: script.encode(), REQUEST: json.dumps(request, indent=1).encode() + b"\n"},
        commands=(f"ibmcloud is instance-create-from-json --file {shlex.quote(f'{folder}/{REQUEST}')}",),
        notes=(
            f"put {', '.join(sorted(files))} at {address}",
            f"put your own ids of VPC, subnet, key and image into {REQUEST}",
            f"the machine powers itself off after {machine.limit_seconds // 60} min at the latest, or when it has "
            "trained; disk and address bill until you delete it: nothing of it is known to plan",
            f"checkpoints and model stay on its disk, in {_FOLDER}/run: start it again and copy {_FOLDER}/run/output",
        ),
    )


def _script(machine: MachineJob, address: str, digests: dict[str, str]) -> str:
    """The text that cloud-init runs once, at the first boot."""
    fetch = [
        f"curl --fail --silent --show-error --location --retry 5 -o {name} {shlex.quote(f'{address}/{name}')}"
        for name in digests
    ]
    lines = [
        "#!/bin/sh",
        "# What ends this machine comes first: it holds whatever fails below.",
        f"systemd-run --on-active={machine.limit_seconds}s /sbin/poweroff",
        f"mkdir -p {_FOLDER}/run && cd {_FOLDER} || /sbin/poweroff",
        'began="$(date +%s)"',
        "export began DEBIAN_FRONTEND=noninteractive",
        "apt-get update -qq && apt-get install -y -qq python3-venv ubuntu-drivers-common curl",
        "ubuntu-drivers install --gpgpu && modprobe nvidia",
        *fetch,
        "sha256sum --check <<'END' || /sbin/poweroff",
        *(f"{digest}  {name}" for name, digest in digests.items()),
        "END",
        "cat > train.sh <<'END'",
        "set -eu",
        *machine.training_lines(_FOLDER, f"{_FOLDER}/run"),
        "END",
        "sh train.sh > log.txt 2>&1",
        "/sbin/poweroff",
    ]
    return "\n".join(lines) + "\n"
