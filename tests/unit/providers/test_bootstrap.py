"""The start-up text: the machine gets what was meant, whatever a person called things, and does what the text says."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.agent_archive import reading_source
from providers.bootstrap import MOST_BYTES, Boot, shell_parts, start_up
from providers.settling import machine_patience_seconds
from tests.conftest import ROOT

NVIDIAS_KEY = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
HERE = "/usr/local/lib/trainplan"
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CLOUDS = {"aws": "s3://bucket/plan/r1", "gcp": "gs://bucket/plan/r1", "azure": "azblob://account/box/plan/r1"}
HOSTILE = [
    "'; rm -rf / #",
    "$(reboot)",
    "`reboot`",
    '"; reboot; "',
    "a\nruncmd:\n- reboot\n",
    "x: y\n  - z",
    "{{ jinja }}",
    "%n ${HOME} $HOME \\",
    "!!python/object/apply:os.system ['reboot']",
    "\x7f\x00\x1b\u2028\U0001f600",
    "EOF\nreboot\n",
    "@DEADLINE@",
]
TEXT = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=60))


def boot(**changes: Any) -> Boot:
    usual: dict[str, Any] = {
        "cloud": "aws",
        "run_uri": CLOUDS["aws"],
        "attempt": 1,
        "deadline": NOON + timedelta(hours=8),
        "boot_deadline": NOON + timedelta(minutes=30),
        "agent_sha256": "a" * 64,
        "spec_sha256": "b" * 64,
        "region": "eu-west-1",
    }
    return Boot(**{**usual, **changes})


def files(text: str) -> dict[str, str]:
    """What cloud-init writes, by path."""
    found = {}
    for entry in yaml.safe_load(text)["write_files"]:
        content = entry["content"]
        packed = entry.get("encoding") == "gz+b64"
        found[entry["path"]] = gzip.decompress(base64.b64decode(content)).decode() if packed else content
    return found


@pytest.mark.parametrize("cloud", CLOUDS)
def test_it_is_small_and_one_document(cloud: str) -> None:
    text = start_up(boot(cloud=cloud, run_uri=CLOUDS[cloud]))
    assert text.startswith("#cloud-config\n")
    assert len(text.encode()) <= MOST_BYTES
    assert text.isascii()
    assert sorted(yaml.safe_load(text)) == ["bootcmd", "runcmd", "write_files"]


def test_it_is_the_same_on_every_cloud_but_for_its_values() -> None:
    texts = [start_up(boot(cloud=cloud, run_uri=uri)).splitlines() for cloud, uri in CLOUDS.items()]
    differing = [lines for lines in zip(*texts, strict=True) if len(set(lines)) > 1]
    assert len(differing) == 2, "boot.json, and for how long a new right is waited for"
    assert all('\\"run_uri\\"' in line for line in differing[0])


def test_the_same_values_give_the_same_text() -> None:
    assert start_up(boot()) == start_up(boot())


@settings(max_examples=40)
@given(name=TEXT, region=TEXT, endpoint=TEXT)
def test_what_a_person_names_cannot_break_out(name: str, region: str, endpoint: str) -> None:
    document = yaml.safe_load(start_up(boot(run_uri=f"s3://{name}", region=region, endpoints={"s3": endpoint})))
    values = json.loads(document["write_files"].pop(0)["content"])
    assert values == {
        "cloud": "aws",
        "run_uri": f"s3://{name}",
        "region": region,
        "attempt": 1,
        "endpoints": {"s3": endpoint},
    }
    plain = yaml.safe_load(start_up(boot()))
    assert plain["write_files"].pop(0)["path"] == "/etc/trainplan/boot.json"
    assert document == plain


def test_the_machine_gets_the_scripts_as_they_are_checked() -> None:
    text, parts = start_up(boot()), shell_parts(boot())
    document = yaml.safe_load(text)
    assert document["bootcmd"] == [parts["arm.sh"]]
    assert document["runcmd"] == [parts["run.sh"]]
    got = files(text)
    assert got[f"{HERE}/start.sh"] == parts["start.sh"]
    assert got[f"{HERE}/end.sh"] == parts["end.sh"]
    assert got[f"{HERE}/fetch.py"].encode() == reading_source()


@pytest.mark.parametrize("name", ["arm.sh", "start.sh", "end.sh", "run.sh"])
@pytest.mark.parametrize("driver", ["", "470"])
def test_shell_is_clean(name: str, driver: str) -> None:
    script = shell_parts(boot(driver=driver))[name]
    checker = Path(sys.executable).parent / "shellcheck"
    checked = subprocess.run(
        [checker, "--shell=sh", "-"], input=script, capture_output=True, text=True, timeout=60, check=False
    )
    assert checked.returncode == 0, checked.stdout
    for shell in ("sh", "bash"):
        subprocess.run([shell, "-n"], input=script, text=True, timeout=10, check=True)
    assert "@" not in script.replace("$@", "")


def test_nothing_secret_is_asked_for_or_said() -> None:
    text = start_up(boot())
    assert {field for field in Boot.__slots__ if "secret" in field or "key" in field or "token" in field} == {"run_key"}
    values = json.loads(files(text)["/etc/trainplan/boot.json"])
    assert sorted(values) == ["attempt", "cloud", "endpoints", "region", "run_uri"]
    for word in ("password", "AKIA", "BEGIN PRIVATE", "sas="):
        assert word not in text


@pytest.mark.parametrize(
    "changes",
    [
        {"cloud": "gcp"},
        {"cloud": "other"},
        {"run_uri": "file:///x"},
        {"agent_sha256": "$(reboot)"},
        {"spec_sha256": "B" * 64},
        {"driver": "$(reboot)"},
        {"deadline": datetime(2026, 11, 21)},  # noqa: DTZ001
        {"boot_deadline": datetime(2026, 11, 21)},  # noqa: DTZ001
    ],
)
def test_values_that_cannot_be_meant(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        boot(**changes)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="fit"):
        start_up(boot(region="x" * 4000))


class Machine:
    """A machine's file system below a folder, with stubs for its commands that write down how they were called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "stubs"
        self.bin.mkdir()
        (root / HERE.lstrip("/")).mkdir(parents=True)
        self.stub("timeout", 'while [ "${1#-}" != "$1" ]; do shift; done; shift; exec "$@"')
        for name in ("systemctl", "docker", "sync"):
            self.stub(name)

    def stub(self, name: str, action: str = "") -> None:
        path = self.bin / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.root}/calls"\n{action}\n')
        path.chmod(0o755)

    def run(self, script: str, *words: str) -> int:
        """Every place of the machine lies below the folder; only stubs, sh and what POSIX has can be called."""
        for place in ("/usr/local/lib/", "/etc/", "/var/lib/", "/proc/", "/dev/console"):
            script = script.replace(place, f"{self.root}{place}")
        path = f"{self.bin}:{self._posix()}"
        ran = subprocess.run(["sh", "-c", script, "script", *words], env={"PATH": path}, timeout=60, check=False)
        return ran.returncode

    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def file(self, path: str) -> Path:
        found = self.root / path.lstrip("/")
        found.parent.mkdir(parents=True, exist_ok=True)
        return found

    def _posix(self) -> Path:
        """Links to what the scripts take from coreutils, and nothing else of this computer."""
        place = self.root / "posix"
        if not place.exists():
            place.mkdir()
            for name in ("sh", "mkdir", "ln", "cat", "date", "echo", "sleep", "env", "touch", "mktemp"):
                found = shutil.which(name)
                assert found
                (place / name).symlink_to(found)
        return place


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def _now(hours: float) -> datetime:
    return datetime.fromtimestamp(int(time.time()), tz=UTC) + timedelta(hours=hours)


def test_every_boot_arms_both_deadlines_first(machine: Machine) -> None:
    timers = boot(deadline=_now(8), boot_deadline=_now(0.5))
    assert machine.run(shell_parts(timers)["arm.sh"]) == 0
    units = machine.file("/etc/systemd/system/x").parent
    assert f"OnCalendar={timers.deadline:%Y-%m-%d %H:%M:%S} UTC" in (units / "trainplan-deadline.timer").read_text()
    assert f"OnCalendar={timers.boot_deadline:%Y-%m-%d %H:%M:%S} UTC" in (units / "trainplan-boot.timer").read_text()
    for name in ("trainplan-deadline.timer", "trainplan-boot.timer"):
        assert (units / "timers.target.wants" / name).resolve() == units / name, (
            "armed also where cloud-init is not run"
        )
    for name in ("apt-daily.timer", "apt-daily-upgrade.timer", "unattended-upgrades.service"):
        assert (units / name).readlink() == Path("/dev/null")
    started = "systemctl --no-block start trainplan-deadline.timer trainplan-boot.timer"
    assert machine.calls() == ["systemctl daemon-reload", started]
    before = {path: path.read_text() for path in units.glob("trainplan-*")}
    assert machine.run(shell_parts(timers)["arm.sh"]) == 0, "the next boot does the same"
    assert {path: path.read_text() for path in units.glob("trainplan-*")} == before


def test_units_are_what_systemd_reads(machine: Machine) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    machine.run(shell_parts(boot(deadline=_now(8), boot_deadline=_now(0.5)))["arm.sh"])
    units = machine.file("/etc/systemd/system/x").parent
    machine.file("/etc/systemd/system/trainplan.service").write_text(
        files(start_up(boot()))["/etc/systemd/system/trainplan.service"]
    )
    for path in (*units.glob("trainplan*.timer"), *units.glob("trainplan*.service")):
        checked = subprocess.run(
            [analyze, "verify", "--man=no", path], capture_output=True, text=True, timeout=60, check=False
        )
        assert not [line for line in checked.stderr.splitlines() if path.name in line], checked.stderr
    when = (units / "trainplan-deadline.timer").read_text().split("OnCalendar=")[1].splitlines()[0]
    subprocess.run([analyze, "calendar", when], capture_output=True, timeout=60, check=True)


def test_a_deadline_that_has_passed_ends_the_machine_at_once(machine: Machine) -> None:
    machine.run(shell_parts(boot(deadline=_now(-1), boot_deadline=_now(-7)))["arm.sh"])
    assert "systemctl --no-block start trainplan-deadline.service" in machine.calls()
    assert "systemctl --no-block start trainplan-boot.service" in machine.calls()


def _unit_command(machine: Machine, name: str) -> str:
    text = machine.file(f"/etc/systemd/system/trainplan-{name}.service").read_text()
    line = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert line.startswith("ExecStart=/bin/sh -c '")
    return line.removeprefix("ExecStart=/bin/sh -c '").removesuffix("'")


def test_the_deadline_ends_the_machine_even_where_nothing_was_written(machine: Machine) -> None:
    machine.run(shell_parts(boot(deadline=_now(8), boot_deadline=_now(0.5)))["arm.sh"])
    (machine.root / "calls").unlink()
    subprocess.run(["sh", "-c", _unit_command(machine, "deadline")], env={"PATH": f"{machine.bin}:/bin"}, check=False)
    assert machine.calls()[-1] == "systemctl poweroff -ff"


def test_the_boot_deadline_spares_a_machine_that_trains(machine: Machine) -> None:
    machine.run(shell_parts(boot(deadline=_now(8), boot_deadline=_now(0.5)))["arm.sh"])
    (machine.root / "calls").unlink()
    machine.file("/var/lib/trainplan/running").touch()
    subprocess.run(["sh", "-c", _unit_command(machine, "boot")], env={"PATH": f"{machine.bin}:/bin"}, check=False)
    assert machine.calls() == []
    machine.file("/var/lib/trainplan/running").unlink()
    subprocess.run(["sh", "-c", _unit_command(machine, "boot")], env={"PATH": f"{machine.bin}:/bin"}, check=False)
    assert machine.calls()[-1] == "systemctl poweroff -ff"


def test_the_agent_is_asked_before_the_power_goes(machine: Machine) -> None:
    machine.stub("sleep")
    machine.stub("python3")
    machine.file("/proc/sys/kernel/sysrq").touch()
    for name in ("agent.pyz", "spec.json"):
        machine.file(f"{HERE}/{name}").write_text("x")
    machine.run(shell_parts(boot())["end.sh"], "deadline")
    calls = machine.calls()
    asked = next(n for n, call in enumerate(calls) if "agent.pyz end deadline" in call and call.startswith("python3"))
    assert asked < calls.index("systemctl --no-block poweroff") < calls.index("systemctl poweroff -ff")
    assert (machine.root / "proc/sysrq-trigger").read_text() == "o\n"


def test_in_a_container_the_kernels_switch_is_left_alone(machine: Machine) -> None:
    machine.stub("sleep")
    machine.stub("systemd-detect-virt", "exit 0")
    machine.file("/proc/x")
    machine.run(shell_parts(boot())["end.sh"], "deadline")
    assert "systemctl poweroff -ff" in machine.calls()
    assert not (machine.root / "proc/sysrq-trigger").exists()


def test_a_restart_is_not_the_end(machine: Machine) -> None:
    machine.stub("systemctl", 'if [ "$1" = is-system-running ]; then echo stopping; fi')
    assert machine.run(shell_parts(boot())["end.sh"], "after") == 0
    assert machine.calls() == ["systemctl is-system-running"]


PYTHON = """case "$1" in
*fetch.py) if [ -e "{root}/fetch-$(cat "{root}/tries")" ]; then code=$(cat "{root}/fetch-$(cat "{root}/tries")"); fi
    echo $(($(cat "{root}/tries") + 1)) >"{root}/tries"; [ "${{code:-0}}" = 0 ] && echo x >"{root}{here}/agent.pyz"
    exit "${{code:-0}}" ;;
-) exec {python} - ;;
-u | *agent.pyz | -c) ;;
esac"""


@pytest.fixture
def starting(machine: Machine) -> Machine:
    (machine.root / "tries").write_text("1\n")
    machine.stub("python3", PYTHON.format(root=machine.root, here=HERE, python=sys.executable))
    machine.stub("sleep")
    machine.file("/dev/x")
    return machine


def start_sh() -> str:
    return shell_parts(boot(deadline=_now(8)))["start.sh"]


def test_a_machine_with_everything_installs_nothing(starting: Machine) -> None:
    starting.file("/etc/docker/daemon.json").write_text('{"runtimes": {"nvidia": {}}, "exec-opts": ["a=b"]}')
    assert starting.run(start_sh()) == 0
    calls = starting.calls()
    assert not [call for call in calls if call.startswith("apt-get")]
    assert calls[-1] == f"python3 -u {starting.root}{HERE}/agent.pyz run"
    settings = json.loads(starting.file("/etc/docker/daemon.json").read_text())
    assert settings == {"runtimes": {"nvidia": {}}, "exec-opts": ["a=b", "native.cgroupdriver=cgroupfs"]}
    assert "systemctl restart docker" in calls
    assert "systemctl daemon-reload" not in calls


def test_what_is_missing_is_installed_once_the_lock_is_free(starting: Machine) -> None:
    (starting.bin / "docker").unlink()
    link = f'ln -s "{starting.bin}/systemctl" "{starting.bin}/$name"'
    starting.stub("apt-get", f"for name in docker nvidia-ctk; do [ -e {starting.bin}/$name ] || {link}; done")
    starting.stub("nvidia-smi")
    starting.stub("dpkg", "echo amd64")
    assert starting.run(start_sh()) == 0
    installed = [call for call in starting.calls() if call.startswith("apt-get") and "install" in call]
    assert [call.split()[-1] for call in installed] == ["docker.io"]
    lock = next(n for n, call in enumerate(starting.calls()) if call.startswith("python3 -c import fcntl"))
    assert lock < starting.calls().index(next(call for call in starting.calls() if call.startswith("apt-get")))


def test_the_toolkit_comes_where_a_driver_is_and_no_toolkit(starting: Machine) -> None:
    starting.stub("nvidia-smi")
    starting.stub("dpkg", "echo amd64")
    starting.file("/etc/apt/sources.list.d/x")
    starting.stub("gpg", 'case "$*" in *--export*) echo key ;; esac')
    link = f'[ -e {starting.bin}/nvidia-ctk ] || ln -s "{starting.bin}/systemctl" "{starting.bin}/nvidia-ctk"'
    starting.stub("apt-get", link)
    assert starting.run(start_sh()) == 0
    assert [call.split()[-1] for call in starting.calls() if "install -y" in call] == ["nvidia-container-toolkit"]
    listed = starting.file("/etc/apt/sources.list.d/nvidia-container-toolkit.list").read_text()
    assert "signed-by" in listed
    assert "deb/amd64 /" in listed


def test_a_key_that_is_not_nvidias_ends_the_machine_before_anything_of_it_is_installed(starting: Machine) -> None:
    starting.stub("nvidia-smi")
    starting.stub("dpkg", "echo amd64")
    starting.stub("gpg")
    starting.file("/etc/apt/sources.list.d/x")
    assert starting.run(start_sh()) == 1
    assert any("say NOT_NVIDIAS_KEY" in call for call in starting.calls())
    assert not [call for call in starting.calls() if call.startswith("apt-get")]
    assert not starting.file("/etc/apt/sources.list.d/nvidia-container-toolkit.list").exists()


@pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed")
@pytest.mark.parametrize(
    ("brought", "trusted"), [("pinned", True), ("pinned other", True), ("other", False), ("", False)]
)
def test_of_the_keys_that_come_the_pinned_one_alone_is_trusted(tmp_path: Path, brought: str, trusted: bool) -> None:
    """gpg itself, with keys of our own making and the fingerprint of the first in the place of NVIDIA's."""
    homes, prints = {}, {}
    for name in ("pinned", "other"):
        homes[name] = tmp_path / name
        homes[name].mkdir(mode=0o700)
        gpg(homes[name], "--passphrase", "", "--quick-generate-key", f"{name}@example.org", "ed25519", "sign", "never")
        listed = gpg(homes[name], "--with-colons", "--list-keys").decode()
        prints[name] = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr"))
    folder, keyring = tmp_path / "got", tmp_path / "keyring.gpg"
    folder.mkdir(mode=0o700)
    armored = b"".join(gpg(homes[name], "--armor", "--export") for name in brought.split())
    (folder / "key").write_bytes(armored or b"<html>not found</html>")
    text = start_sh()
    function = text[text.index("only_nvidias()") : text.index("toolkit()")].replace(NVIDIAS_KEY, prints["pinned"])
    done = subprocess.run(["sh", "-c", f"{function}\nonly_nvidias {folder} {keyring}"], check=False)
    assert (done.returncode == 0) is trusted
    shown = gpg(tmp_path / "got", "--with-colons", "--show-keys", str(keyring)).decode() if trusted else ""
    assert [line.split(":")[9] for line in shown.splitlines() if line.startswith("fpr")] == [prints["pinned"]] * trusted
    if not trusted:
        assert keyring.read_bytes() == b""


def gpg(home: Path, *words: str) -> bytes:
    asked = ["gpg", "--batch", "--quiet", "--homedir", str(home), *words]
    return subprocess.run(asked, check=True, capture_output=True).stdout


def test_the_pinned_key_is_nvidias() -> None:
    assert f" --export {NVIDIAS_KEY} " in start_sh()
    assert NVIDIAS_KEY in (ROOT / "docs" / "security.md").read_text(encoding="utf-8"), "with where it was read"


def with_driver() -> str:
    return shell_parts(boot(deadline=_now(8), driver="470"))["start.sh"]


def test_a_driver_comes_where_the_image_has_none(starting: Machine) -> None:
    starting.stub("uname", "echo 6.8.0-azure")
    starting.stub("modprobe")
    starting.stub("nvidia-ctk")
    starting.stub(
        "apt-get", f'[ -e {starting.bin}/nvidia-smi ] || ln -s "{starting.bin}/systemctl" "{starting.bin}/nvidia-smi"'
    )
    assert starting.run(with_driver()) == 0
    (installed,) = [call.split() for call in starting.calls() if "install -y" in call]
    assert installed[-3:] == ["linux-headers-6.8.0-azure", "nvidia-headless-470-server", "nvidia-utils-470-server"]
    assert starting.calls().index("modprobe nvidia") < starting.calls().index(
        "nvidia-ctk runtime configure --runtime=docker"
    )


def test_a_driver_that_is_there_is_left_alone(starting: Machine) -> None:
    starting.stub("nvidia-smi")
    starting.stub("nvidia-ctk")
    assert starting.run(with_driver()) == 0
    assert not [call for call in starting.calls() if call.startswith("apt-get")]


def test_a_driver_that_does_not_load_is_told(starting: Machine) -> None:
    starting.stub("uname", "echo 6.8.0-azure")
    starting.stub("apt-get")
    starting.stub("modprobe", "exit 1")
    assert starting.run(with_driver()) == 1
    assert any("say DRIVER_NOT_INSTALLED" in call for call in starting.calls())


def test_a_role_that_is_still_on_its_way_is_waited_for(starting: Machine) -> None:
    for number in (1, 2):
        (starting.root / f"fetch-{number}").write_text("1")
    assert starting.run(start_sh()) == 0
    assert len([call for call in starting.calls() if "fetch.py" in call]) == 3


DATE = 'now=$(($(cat "{root}/now") + 30)); echo $now >"{root}/now"; echo $now'


def test_a_store_that_goes_on_refusing_ends_the_machine_and_only_the_console_tells(starting: Machine) -> None:
    (starting.root / "now").write_text(f"{(_now(8) - timedelta(hours=4)).timestamp():.0f}\n")
    starting.stub("date", DATE.format(root=starting.root))
    for number in range(1, 20):
        (starting.root / f"fetch-{number}").write_text("4")
    assert starting.run(start_sh()) == 1
    calls = starting.calls()
    assert 3 <= len([call for call in calls if "fetch.py" in call]) <= 6, "120 s of patience, 30 s between two dates"
    assert not [call for call in calls if call.endswith("agent.pyz run")]
    assert (starting.root / "dev/console").read_text() == (
        "trainplan: STORE_REFUSED: this machine may not read its run directory\n"
    )


def test_a_right_that_comes_within_its_time_is_waited_for(starting: Machine) -> None:
    for number in (1, 2):
        (starting.root / f"fetch-{number}").write_text("4")
    assert starting.run(start_sh()) == 0
    assert len([call for call in starting.calls() if "fetch.py" in call]) == 3


@pytest.mark.parametrize("cloud", ["gcp", "azure"])
def test_a_cloud_without_a_stated_time_for_rights_waits_until_its_boot_deadline(cloud: str) -> None:
    assert ("\npatience=0\n" in shell_parts(boot(cloud=cloud, run_uri=CLOUDS[cloud]))["start.sh"]) is (
        machine_patience_seconds(cloud) == 0
    )


def test_another_agent_than_promised_is_not_run(starting: Machine) -> None:
    (starting.root / "fetch-1").write_text("3")
    assert starting.run(start_sh()) == 1
    assert not [call for call in starting.calls() if call.endswith("agent.pyz run")]


def test_docker_that_does_not_answer_is_told(starting: Machine) -> None:
    starting.stub("docker", "exit 1")
    assert starting.run(start_sh()) == 1
    assert any("say DOCKER_NOT_READY" in call for call in starting.calls())


def test_past_its_deadline_a_machine_starts_nothing(starting: Machine) -> None:
    assert starting.run(shell_parts(boot(deadline=_now(-1)))["start.sh"]) == 0
    assert starting.calls() == []
