"""The start-up text of a rented machine: one cloud-init document, the same on every cloud but for a few values."""

from __future__ import annotations

import base64
import gzip
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from trainplan.providers.cloud.agent_archive import AGENT, reading_source
from trainplan.providers.cloud.propagation import machine_patience_seconds
from trainplan.providers.registry import VENDORS

MOST_BYTES = 16 * 1024
"""What EC2 takes (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html)."""
MOST_BYTES_WITH_A_DISK = 64 * 1024
"""Only machines of Google have a data disk to mount, and Google takes 256 KB a value
(https://cloud.google.com/compute/docs/metadata/setting-custom-metadata#limitations)."""
SCHEMES = {one.name: one.storage.machine_scheme for one in VENDORS if one.storage}
_HERE = "/usr/local/lib/trainplan"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BRANCH = re.compile(r"\d{3}")
_COMMENT = re.compile(r"^ *# .*\n", re.MULTILINE)
_SHELL = Path(__file__).parents[1] / "agent" / "data"
_MOUNT = f'why=$(sh {_HERE}/disk.sh) || give_up NO_DATA_DISK "$why"\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """What the start-up text is made from. `run_key` (LaunchRequest) is for whoever may read user data; nothing else in
    it is secret.

    `run_uri` is where the run directory is (s3://BUCKET/PREFIX, gs://BUCKET/PREFIX,
    azblob://ACCOUNT/CONTAINER/PREFIX) and `region` the region of that bucket. `deadline` ends the machine,
    `boot_deadline` ends it unless it trains by then; `requested_at` is when it was asked for: a clock that is
    behind it is wrong. The hashes are of the run directory's attempts/N/machine/agent.pyz and spec.json.
    `endpoints` replaces addresses by name (metadata, s3, gcs, blob, …) and is empty but for a test double. `driver`
    is the branch of NVIDIA's driver that the machine installs where its image has none, "" for nothing. `identity`
    is the path of the managed identity that the machine is, "" where a machine has one alone. `data_disk_gib` is
    the size of a blank disk that the machine formats and mounts for its data, 0 where it has none.
    """

    cloud: str
    run_uri: str
    attempt: int
    deadline: datetime
    boot_deadline: datetime
    requested_at: datetime
    agent_sha256: str
    spec_sha256: str
    region: str = ""
    driver: str = ""
    identity: str = ""
    data_disk_gib: int = 0
    endpoints: Mapping[str, str] = field(default_factory=dict)
    run_key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        """Raises ValueError for what no caller of ours can mean."""
        if not self.run_uri.startswith(f"{SCHEMES.get(self.cloud)}://"):
            raise ValueError(f"{self.run_uri!r} is no run directory on {self.cloud!r}")
        if not all(_SHA256.fullmatch(digest) for digest in (self.agent_sha256, self.spec_sha256)):
            raise ValueError("a sha256 has 64 hexadecimal digits")
        if self.run_key and not _SHA256.fullmatch(self.run_key):
            raise ValueError("the key of a run has 64 hexadecimal digits")
        if self.driver and not _BRANCH.fullmatch(self.driver):
            raise ValueError(f"{self.driver!r} is no branch of NVIDIA's driver")
        if any(at.tzinfo is None for at in (self.deadline, self.boot_deadline, self.requested_at)):
            raise ValueError("a deadline has a time zone")


def start_up(boot: Boot) -> str:
    """The user data. Raises ValueError over `MOST_BYTES` bytes, with a data disk over `MOST_BYTES_WITH_A_DISK`.

    What a person had a say in (names of buckets, regions) stands in boot.json alone, as JSON in a JSON string, which
    neither YAML nor a shell reads as anything else. The shell parts get two instants as whole numbers.
    """
    text = (
        "#cloud-config\n"
        "# trainplan: this machine trains one run, then ends.\n"
        "bootcmd:\n"
        f"- {_block(_shell('arm.sh', boot))}"
        "write_files:\n"
        + _file("/etc/trainplan/boot.json", f"{json.dumps(_values(boot))}\n")
        + _packed_file(f"{_HERE}/fetch.py", reading_source())
        + _file(f"{_HERE}/start.sh", _block(_shell("start.sh", boot), "   "))
        + "".join(_packed_file(f"{_HERE}/{name}", _shell(name, boot).encode()) for name in _scripts(boot))
        + _packed_file("/etc/systemd/system/trainplan.service", _shell("trainplan.service", boot).encode())
        + f"runcmd:\n- {_block(_shell('run.sh', boot))}"
    )
    most = MOST_BYTES_WITH_A_DISK if boot.data_disk_gib else MOST_BYTES
    if len(text) > most:
        raise ValueError(f"the start-up text has {len(text)} bytes; {most} fit")
    return text


def shell_parts(boot: Boot) -> dict[str, str]:
    """The scripts as the machine gets them, by name: for checks."""
    return {name: _shell(name, boot) for name in ("arm.sh", "start.sh", *_scripts(boot), "run.sh")}


def _scripts(boot: Boot) -> tuple[str, ...]:
    """Those that start.sh calls, as files of the machine."""
    return ("end.sh", "disk.sh") if boot.data_disk_gib else ("end.sh",)


def _block(text: str, indent: str = " ") -> str:
    """A YAML block scalar as a list item, or (three spaces) as a value in one."""
    return "|\n" + "".join(f"{indent}{line}\n" if line else "\n" for line in text.splitlines())


def _values(boot: Boot) -> str:
    values = {
        "cloud": boot.cloud,
        "run_uri": boot.run_uri,
        "region": boot.region,
        "attempt": boot.attempt,
        "endpoints": dict(boot.endpoints),
        **({"run_key": boot.run_key} if boot.run_key else {}),
        **({"identity": boot.identity} if boot.identity else {}),
    }
    # DEL is the one character that JSON leaves as it is and YAML refuses.
    return json.dumps(values, sort_keys=True).replace("\x7f", "\\u007f")


def _file(path: str, content: str, encoding: str | None = None) -> str:
    kind = "" if encoding is None else f"  encoding: {encoding}\n"
    return f"- path: {path}\n{kind}  content: {content}"


def _packed_file(path: str, data: bytes) -> str:
    return _file(path, f"{_packed(data)}\n", encoding="gz+b64")


def _packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _shell(name: str, boot: Boot) -> str:
    """A shipped script with its `@NAME@` filled in: whole numbers, hexadecimal digits, an id with dashes."""
    text = _source(name)
    values = {
        "SWITCH": _packed(_source("switch.py").encode()),
        "DEADLINE": f"{boot.deadline.timestamp():.0f}",
        "DEADLINE_UTC": _calendar(boot.deadline),
        "ASKED": f"{boot.requested_at.timestamp():.0f}",
        "BOOT_DEADLINE": f"{boot.boot_deadline.timestamp():.0f}",
        "BOOT_DEADLINE_UTC": _calendar(boot.boot_deadline),
        "ATTEMPT": str(int(boot.attempt)),
        "AGENT": AGENT,
        "DRIVER": boot.driver,
        "MOUNT": _MOUNT if boot.data_disk_gib else "",
        "DATA_DISK_ID": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{boot.run_uri}/attempts/{boot.attempt}")),
        "DATA_DISK_BYTES": str(int(boot.data_disk_gib) * 1024**3),
        "REFUSED_SECONDS": f"{machine_patience_seconds(boot.cloud):.0f}",
        "AGENT_SHA256": boot.agent_sha256,
        "SPEC_SHA256": boot.spec_sha256,
    }
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def _source(name: str) -> str:
    """A shipped script without its lines of comment: every byte of user data counts."""
    return _COMMENT.sub("", (_SHELL / name).read_text(encoding="utf-8"))


def _calendar(instant: datetime) -> str:
    """Return the instant in the calendar form that systemd reads."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
