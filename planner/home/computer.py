"""What tells one computer from another: the system's own id where it has one, else its name and the file at hand."""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

_ID_FILES = ("etc/machine-id", "var/lib/dbus/machine-id")
"""machine-id(5): 32 hexadecimal digits; empty or `uninitialized` in an image that has not booted."""
_ID = re.compile(r"[0-9a-f]{32}")
_IOREG_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Computer:
    """`machine_id` is a hash of the system's own id, None where there is none (most containers).

    `override` is what a person calls the computer, or the several that share a home (PLAN_COMPUTER).
    """

    host_name: str
    machine_id: str | None = None
    override: str | None = None

    def is_same(self, here: Computer, *, same_file: bool, same_volume: bool) -> bool:
        """Whether a file that was written on this computer is at home on `here`.

        Without an id of the system the host name alone does not tell: containers have the same one. Then the file has
        to be the same, and not a copy of it; on a mounted volume that is enough, whatever the container is called.
        """
        if self.override is not None or here.override is not None:
            return self.override == here.override
        if self.machine_id is not None or here.machine_id is not None:
            return self.machine_id == here.machine_id
        return same_volume or (same_file and self.host_name == here.host_name)

    def to_json(self) -> dict[str, str | None]:
        """Return the JSON that `client.json` stores."""
        return asdict(self)


def this_computer(value: str | None = None, root: Path = Path("/")) -> Computer:
    """This computer; `root` is where its system lies."""
    own = _id_of_linux(root) or _id_of_others()
    # machine-id(5) asks that the id itself be shown to nobody.
    hashed = hashlib.sha256(f"trainplan/{own}".encode()).hexdigest()[:32] if own else None
    return Computer(host_name=platform.node(), machine_id=hashed, override=value)


def _id_of_linux(root: Path) -> str | None:
    for name in _ID_FILES:
        try:
            text = (root / name).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if _ID.fullmatch(text) and text.strip("0"):
            return text
    return None


def _id_of_others() -> str | None:
    """macOS: IOPlatformUUID (IOKit's IOKitKeys.h); Windows: MachineGuid. Neither has been run on such a system."""
    if sys.platform == "darwin":
        command = ["/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice"]
        try:
            output = subprocess.run(command, capture_output=True, text=True, timeout=_IOREG_SECONDS, check=False).stdout
        except (OSError, subprocess.SubprocessError):
            return None
        match = re.search(r'"IOPlatformUUID" = "([^"]+)"', output)
        return match.group(1) if match else None
    if sys.platform == "win32":
        import winreg

        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SOFTWARE\Microsoft\Cryptography") as key:
                return str(winreg.QueryValueEx(key, "MachineGuid")[0])
        except OSError:
            return None
    return None
