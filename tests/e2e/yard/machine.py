"""One machine of the yard: a container whose first process is systemd, booted by cloud-init from its cloud's data."""

from __future__ import annotations

import base64
import shutil
import subprocess
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import escape

from tests.e2e.yard.metadata import NOTICE, Identity
from tests.e2e.yard.network import METADATA, Network

LABEL = "trainplan-yard"
_SECONDS = 1800
_LAYERS = "/usr/local/lib/yard-layers"
_REBOOT = "SIGRTMIN+5"
"""What systemd begins its reboot.target for (systemd(1), "Signals")."""
# What systemd, Docker and a power-off of this process namespace need; nothing here reaches a device of the host.
_CAPABILITIES = "SYS_ADMIN,NET_ADMIN,NET_RAW,SYS_BOOT,SYS_PTRACE,MKNOD,AUDIT_WRITE,DAC_READ_SEARCH"
_DATASOURCES = {"aws": "Ec2", "gcp": "GCE", "azure": "Azure"}
_AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"
_OVF = """<?xml version="1.0" encoding="utf-8"?>
<Environment xmlns="http://schemas.dmtf.org/ovf/environment/1"
 xmlns:wa="http://schemas.microsoft.com/windowsazure" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">
 <wa:ProvisioningSection><wa:Version>1.0</wa:Version>
  <LinuxProvisioningConfigurationSet xmlns="http://schemas.microsoft.com/windowsazure"
   xmlns:i="http://www.w3.org/2001/XMLSchema-instance">
   <ConfigurationSetType>LinuxProvisioningConfiguration</ConfigurationSetType>
   <HostName>{name}</HostName><UserName>azureuser</UserName>
   <DisableSshPasswordAuthentication>true</DisableSshPasswordAuthentication>
   <CustomData>{data}</CustomData>
  </LinuxProvisioningConfigurationSet>
 </wa:ProvisioningSection>
 <wa:PlatformSettingsSection><wa:Version>1.0</wa:Version>
  <PlatformSettings xmlns="http://schemas.microsoft.com/windowsazure"
   xmlns:i="http://www.w3.org/2001/XMLSchema-instance">
   <KmsServerHostname>kms.core.windows.net</KmsServerHostname>
   <ProvisionGuestAgent>false</ProvisionGuestAgent>
   <GuestAgentPackageName i:nil="true" />
  </PlatformSettings></wa:PlatformSettingsSection>
</Environment>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is rented. `name` is the instance's own at its cloud, `user_data` what launch sent with it, as text.

    `gpus` are lines of nvidia-smi. `disk_mib` makes the disk of the run so small; None is the computer's own.
    `memory_mib` is that of a virtual machine; a container has its host's.
    `hides_gpus`: its container toolkit does not bring them into a container. `credentials` and `token` are what its
    metadata service gives out.
    """

    name: str
    cloud: str
    user_data: str
    region: str = "eu-west-1"
    gpus: tuple[str, ...] = ("Tesla T4",)
    hides_gpus: bool = False
    disk_mib: int | None = None
    memory_mib: int = 1024
    credentials: tuple[str, str, str] = ("test", "test", "test")
    token: str = "token-of-the-machine"


class Running:
    """A machine that was booted. Made by `Yard.boot`."""

    def __init__(self, machine: Machine, container: str, identity: Identity, folder: Path) -> None:
        self.machine = machine
        self.identity = identity
        self.booted_at = datetime.now(UTC)  # noqa: TID251  it lives in the real time
        self._container = container
        self._folder = folder
        self._restarting = threading.Lock()

    def is_off(self) -> bool:
        """It has ended: powered off from within, or killed. A machine that is being restarted has not."""
        with self._restarting:
            return _podman("inspect", "--format", "{{.State.Status}}", self._container).strip() != "running"

    def restart(self) -> None:
        """As its own `reboot` does it: its services are ended in their order, then it is booted from the same disk."""
        with self._restarting:
            _podman("kill", "--signal", _REBOOT, self._container)
            _podman("wait", self._container)
            _podman("start", self._container)

    def kill(self) -> None:
        """The power goes."""
        if not self.is_off():
            _podman("kill", "--signal", "KILL", self._container)

    def raise_notice(self, after: timedelta | None = None) -> datetime:
        """The cloud says that it will take the machine back; when. The caller then has to `kill` it."""
        now = datetime.now(UTC)  # noqa: TID251  it lives in the real time
        self.identity.noticed_at = now
        self.identity.notice = now + (NOTICE[self.machine.cloud] if after is None else after)
        return self.identity.notice

    def lose_accelerator(self) -> None:
        """Its driver has lost the device."""
        (self._folder / "etc" / "gpus").write_text("")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command on the machine; its exit code is the caller's to look at."""
        command = ["podman", "exec", self._container, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)

    def journal(self) -> str:
        """What its system said, from its journal while it runs, else from its console."""
        if not self.is_off():
            return self.run("journalctl", "--no-pager", "--output", "short-iso").stdout
        return _podman("logs", self._container)

    @property
    def disk(self) -> Path:
        """Where what it keeps lies on this computer."""
        return self._folder

    def remove(self) -> None:
        """It and its disk, in whatever state."""
        subprocess.run(
            ["podman", "rm", "--force", "--time", "0", "--ignore", self._container],
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        subprocess.run(["rm", "-rf", str(self._folder)], check=False)  # ten times as fast as Python's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where machines are booted."""

    network: Network
    image: str
    folder: Path
    authority: Path
    owner: str
    layers: Path | None = None
    """Docker's own folder with layers that every machine has from the start."""


def boot(machine: Machine, site: Site) -> tuple[Running, str]:
    """It, and its address. Raises subprocess.CalledProcessError."""
    namespace, address = site.network.machine()
    folder = site.folder / namespace
    identity = identity_of(machine)
    layers = {} if site.layers is None else _shared_layers(site.layers, folder / "docker")
    mounts = {**_laid_out(machine, folder), **layers, str(site.authority): "/etc/ssl/certs/yard.pem:ro"}
    disk = (
        [f"--tmpfs=/var/lib/trainplan:size={machine.disk_mib}m,mode=755"]
        if machine.disk_mib
        else [f"--volume={folder}/trainplan:/var/lib/trainplan"]
    )
    container = _podman(
        *("create", "--tty", "--pull=never", "--systemd=always", "--cgroupns=private"),
        *(f"--network=ns:/run/netns/{namespace}", f"--hostname={machine.name}"),
        *(f"--label={LABEL}={site.owner}", f"--label={LABEL}-machine={machine.name}"),
        *("--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined", f"--cap-add={_CAPABILITIES}"),
        *("--device-cgroup-rule=c *:* rwm", "--device-cgroup-rule=b *:* m"),
        *(f"--volume={source}:{target}" for source, target in mounts.items()),
        *disk,
        site.image,
    ).strip()
    return Running(machine, container, identity, folder), address


def identity_of(machine: Machine) -> Identity:
    """What the metadata service knows of it."""
    return Identity(
        cloud=machine.cloud,
        name=machine.name,
        region=machine.region,
        user_data=machine.user_data,
        credentials=machine.credentials,
        token=machine.token,
    )


def start(running: Running) -> None:
    """Power on."""
    _podman("start", running._container)


def remove_all(owner: str) -> None:
    """Every machine of one yard."""
    found = _podman("ps", "--all", "--quiet", "--filter", f"label={LABEL}={owner}").split()
    if found:
        _podman("rm", "--force", "--time", "0", *found)


def owners() -> set[str]:
    """Of the yards whose machines are still there."""
    said = _podman("ps", "--all", "--filter", f"label={LABEL}", "--format", f'{{{{index .Labels "{LABEL}"}}}}')
    return set(said.split())


def _laid_out(machine: Machine, folder: Path) -> Mapping[str, str]:
    """What differs between machines, as files; where each is mounted."""
    for name in ("etc/dmi", "docker", "trainplan", "seed", "journal"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "etc" / "gpus").write_text("".join(f"{line}\n" for line in machine.gpus))
    if machine.hides_gpus:
        (folder / "etc" / "hidden").touch()
    for name, value in firmware(machine).items():
        (folder / "etc" / "dmi" / name).write_text(f"{value}\n")
    source = _DATASOURCES[machine.cloud]
    (folder / "datasource.cfg").write_text(f"datasource_list: [ {source} ]\n")
    (folder / "resolv.conf").write_text(f"nameserver {METADATA}\noptions timeout:2 attempts:2\n")
    mounts = {
        "etc": "/etc/yard",
        "docker": "/var/lib/docker",
        "journal": "/var/log/journal",
        "datasource.cfg": "/etc/cloud/cloud.cfg.d/91_datasource.cfg:ro",
        "resolv.conf": "/etc/resolv.conf",
    }
    if machine.cloud == "azure":
        # The disc with which Azure provisions. Its other half, IMDS by way of DHCP, is left out: no DHCP here.
        (folder / "seed" / "ovf-env.xml").write_text(provisioning(machine))
        mounts["seed"] = "/var/lib/cloud/seed/azure:ro"
    return {f"{folder}/{name}": target for name, target in mounts.items()}


def provisioning(machine: Machine) -> str:
    """What the disc says with which Azure provisions a machine."""
    data = base64.b64encode(machine.user_data.encode()).decode()
    return _OVF.format(name=escape(machine.name), data=data)


def _shared_layers(source: Path, target: Path) -> Mapping[str, str]:
    """What Docker knows is copied; the layers themselves, tens of thousands of files, are links to one mount.

    Not mounts where they belong: Docker unmounts everything below its folder when it is restarted.
    """
    layers = [path.name for path in (source / "overlay2").iterdir() if (path / "committed").exists()]

    def shared(place: str, _: object) -> list[str]:
        return ["diff"] if Path(place).name in layers else ["backingFsBlockDev"]

    shutil.copytree(source, target, symlinks=True, ignore=shared)
    for name in layers:
        (target / "overlay2" / name / "diff").symlink_to(f"{_LAYERS}/{name}/diff")
    return {str(source / "overlay2"): f"{_LAYERS}:ro"}


def firmware(machine: Machine) -> Mapping[str, str]:
    """By which an image's cloud-init knows its cloud."""
    number = str(uuid.uuid5(uuid.NAMESPACE_OID, machine.name))
    ec2 = f"ec2{number[3:]}"
    tables = {
        "aws": {"sys_vendor": "Amazon EC2", "product_uuid": ec2, "product_serial": ec2, "chassis_asset_tag": "x"},
        "gcp": {"product_name": "Google Compute Engine", "product_serial": f"GoogleCloud-{number}"},
        "azure": {"chassis_asset_tag": _AZURE_TAG, "product_uuid": number, "sys_vendor": "Microsoft Corporation"},
    }
    return tables[machine.cloud]


def _podman(*words: str) -> str:
    return subprocess.run(["podman", *words], check=True, capture_output=True, text=True, timeout=_SECONDS).stdout
