"""The yard with machines that have a kernel of their own: the same stores, registries, office and watcher."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.e2e.computer.computer import Computer, Hardware, power_on
from tests.e2e.yard.machine import Machine, Running, Site, firmware, identity_of, provisioning
from tests.e2e.yard.metadata import NOTICE, Identity
from tests.e2e.yard.network import METADATA
from tests.e2e.yard.yard import Yard

_RESOLVERS = Path("/etc/netns")
_DOCKERS_DISK = "/dev/vdb /var/lib/docker ext4 defaults 0 0\n"
_AZURES_DISC = "/var/lib/cloud/seed/azure/ovf-env.xml"
_FIRMWARE = {
    "sys_vendor": "type=1,manufacturer",
    "product_name": "type=1,product",
    "product_uuid": "type=1,uuid",
    "product_serial": "type=1,serial",
    "chassis_asset_tag": "type=3,asset",
}
"""Where Linux shows it (/sys/class/dmi/id), and what QEMU calls it."""


class Rented(Running):
    """A machine of the yard that is a computer."""

    def __init__(self, machine: Machine, computer: Computer, identity: Identity) -> None:
        self.machine = machine
        self.identity = identity
        self.computer = computer
        self.booted_at = datetime.now(UTC)  # noqa: TID251  it lives in the real time

    def is_off(self) -> bool:
        return self.computer.off_at(self.computer.clock()) is not None

    def restart(self) -> None:
        self.computer.tell("systemctl reboot")

    def kill(self) -> None:
        self.computer.power_off()

    def raise_notice(self, after: timedelta | None = None) -> datetime:
        now = datetime.now(UTC)  # noqa: TID251
        self.identity.noticed_at = now
        self.identity.notice = now + (NOTICE[self.machine.cloud] if after is None else after)
        return self.identity.notice

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        script = " ".join(f"'{word}'" for word in words)
        said = self.computer.run(f"{script} 2>&1; echo; echo $?").rstrip().rpartition("\n")
        return subprocess.CompletedProcess(words, int(said[2]), said[0], "")

    def journal(self) -> str:
        return self.computer.text()

    def remove(self) -> None:
        self.computer.remove()


class ComputerYard(Yard):
    """A machine reaches the yard's network through QEMU's own router, which gives it an address by DHCP."""

    def __init__(self, image: Path) -> None:
        super().__init__("")
        self._hardware_image = image
        self._layers: Path | None = None

    def keep_layers(self, folder: Path) -> None:
        """As the yard's, on a second disk that is mounted where Docker keeps them: to pull 2 GB takes half an hour."""
        self._layers = self._folder / "layers"
        words = ["mkfs.ext4", "-q", "-F", "-d", str(folder), str(self._layers), "8G"]
        subprocess.run(words, check=True, capture_output=True)

    def _powered_on(self, rented: Machine, site: Site) -> Rented:
        namespace, address = site.network.machine()
        resolver = _RESOLVERS / namespace / "resolv.conf"
        resolver.parent.mkdir(parents=True, exist_ok=True)
        resolver.write_text(f"nameserver {METADATA}\n")
        identity = identity_of(rented)
        self._metadata.machines[address] = identity
        hardware = Hardware(
            image=self._hardware_image,
            memory_mib=rented.memory_mib,
            disk_mib=rented.disk_mib,
            options=("-nic", "user,model=virtio-net-pci,id=net0", *_smbios(rented), *self._second_disk()),
            within=("ip", "netns", "exec", namespace),
        )
        files = _files(rented, site) | ({} if self._layers is None else {"/etc/fstab": _DOCKERS_DISK})
        return Rented(rented, power_on(hardware, site.folder / namespace, files), identity)

    def _second_disk(self) -> tuple[str, ...]:
        if self._layers is None:
            return ()
        return ("-drive", f"file={self._layers},format=raw,if=virtio,snapshot=on")

    def __exit__(self, *_: object) -> None:
        self.clear()
        super().__exit__()
        subprocess.run(["rm", "-rf", *_RESOLVERS.glob(f"{self._network.name}-*")], check=True)


def _files(rented: Machine, site: Site) -> dict[str, str]:
    """What a vendor's image has, and what its cloud puts into the drive."""
    azure = {_AZURES_DISC: provisioning(rented)} if rented.cloud == "azure" else {}
    return {f"/etc/ssl/certs/{_hash(site.authority)}.0": site.authority.read_text(), **azure}


def _hash(certificate: Path) -> str:
    """Under which OpenSSL, and with it Python, looks for an authority; Docker reads every file there."""
    words = ["openssl", "x509", "-hash", "-noout", "-in", str(certificate)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def _smbios(rented: Machine) -> tuple[str, ...]:
    named = [(_FIRMWARE[name].split(","), value) for name, value in firmware(rented).items()]
    kinds = {kind for (kind, _), _ in named}
    joined = [
        ",".join([kind, *(f"{key}={value}" for (of, key), value in named if of == kind)]) for kind in sorted(kinds)
    ]
    return tuple(word for table in joined for word in ("-smbios", table))
