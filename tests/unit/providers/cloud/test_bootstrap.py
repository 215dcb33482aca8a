"""The boot script: one document on every cloud, and both deadlines armed before anything else."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.providers.cloud.booted import CLOUDS, HERE, Machine, boot, files, hours_from_now
from trainplan.providers.cloud.agent_archive import reading_source
from trainplan.providers.cloud.bootstrap import MOST_BYTES, Boot, shell_parts, start_up

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
        [checker, "--shell=sh", "-"], input=script, capture_output=True, text=True, timeout=300, check=False
    )
    assert checked.returncode == 0, checked.stdout
    for shell in ("sh", "bash"):
        subprocess.run([shell, "-n"], input=script, text=True, timeout=300, check=True)
    assert not re.search("@[A-Z0-9_]+@", script)


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


def test_every_boot_arms_both_deadlines_first(machine: Machine) -> None:
    timers = boot(deadline=hours_from_now(8), boot_deadline=hours_from_now(0.5))
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
    units_started = "trainplan-switch trainplan-deadline.timer trainplan-boot.timer"
    started = f"systemctl --no-block start {units_started}"
    assert machine.calls() == ["systemctl daemon-reload", started]
    before = {path: path.read_text() for path in units.glob("trainplan-*")}
    assert machine.run(shell_parts(timers)["arm.sh"]) == 0, "the next boot does the same"
    assert {path: path.read_text() for path in units.glob("trainplan-*")} == before


def test_units_are_what_systemd_reads(machine: Machine) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    machine.run(shell_parts(boot(deadline=hours_from_now(8), boot_deadline=hours_from_now(0.5)))["arm.sh"])
    units = machine.file("/etc/systemd/system/x").parent
    machine.file("/etc/systemd/system/trainplan.service").write_text(
        files(start_up(boot()))["/etc/systemd/system/trainplan.service"]
    )
    for path in (*units.glob("trainplan*.timer"), *units.glob("trainplan*.service")):
        checked = subprocess.run(
            [analyze, "verify", "--man=no", path], capture_output=True, text=True, timeout=300, check=False
        )
        assert not [line for line in checked.stderr.splitlines() if path.name in line], checked.stderr
    when = (units / "trainplan-deadline.timer").read_text().split("OnCalendar=")[1].splitlines()[0]
    subprocess.run([analyze, "calendar", when], capture_output=True, timeout=300, check=True)


class Switch:
    """The last switch as arm.sh writes and starts it, with the kernel's files below a folder and 0.2 s of grace."""

    def __init__(self, machine: Machine, **changes: Any) -> None:
        machine.run(shell_parts(boot(**changes))["arm.sh"])
        unit = machine.file("/etc/systemd/system/trainplan-switch.service").read_text()
        assert "ConditionVirtualization=!container" in unit
        (command,) = re.findall(r"ExecStart=@/usr/bin/python3 @\S+ -IS (.*)", unit)
        _, *self.words = command.split()
        text = machine.file(f"{HERE}/switch.py").read_text()
        for place in ("/dev/", "/proc/", "/var/lib/", "/run/", "/sys/class/"):  # a folder in memory is below /dev
            text = text.replace(place, f"{machine.root}{place}")
        self.script = text.replace("GRACE = 300", "GRACE = 0.2").replace("sleep(5)", "sleep(0.05)")
        self.machine = machine
        self.trigger = machine.file("/proc/sysrq-trigger")
        for path in ("/proc/sys/kernel/sysrq", "/proc/sysrq-trigger", "/dev/kmsg"):
            machine.file(path).touch()

    def is_off_within(self, seconds: float) -> bool:
        command = [sys.executable, "-IS", "-c", self.script, *self.words]
        with subprocess.Popen(command) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            process.kill()
        return self.trigger.read_text().startswith("o")


def test_the_last_switch_needs_only_the_kernel(machine: Machine) -> None:
    """After deadline and grace; before it, and for the boot deadline of a machine that trains, it leaves it alone."""
    assert Switch(machine, deadline=hours_from_now(-1), boot_deadline=hours_from_now(-7)).is_off_within(1.5)


@pytest.mark.parametrize("mark", ["/run/trainplan/running", "/var/lib/trainplan/running"])
def test_the_last_switch_spares_a_machine_that_trains(machine: Machine, mark: str) -> None:
    switch = Switch(machine, deadline=hours_from_now(8), boot_deadline=hours_from_now(-1))
    machine.file(mark).touch()
    assert not switch.is_off_within(1.0)


def test_the_last_switch_ends_a_machine_that_does_not_train_by_its_boot_deadline(machine: Machine) -> None:
    assert Switch(machine, deadline=hours_from_now(8), boot_deadline=hours_from_now(-1)).is_off_within(1.5)


def test_the_last_switch_counts_from_the_request_where_the_clock_is_behind_it(machine: Machine) -> None:
    """The machine's clock is five years behind: its deadline has come once that long has passed since the request."""
    later = {"deadline": hours_from_now(43_800), "boot_deadline": hours_from_now(43_800)}
    assert not Switch(machine, **later, requested_at=hours_from_now(43_799)).is_off_within(1.0)
    assert Switch(machine, **later, requested_at=hours_from_now(43_801)).is_off_within(1.5)


def test_a_machine_that_goes_down_without_a_word_is_counted_and_ends(machine: Machine) -> None:
    parts = shell_parts(boot(deadline=hours_from_now(8), boot_deadline=hours_from_now(0.5)))
    for _ in range(4):
        machine.run(parts["arm.sh"])
    assert machine.file("/var/lib/trainplan/crashes").read_text().splitlines() == ["crashed"] * 3
    machine.stub("systemctl", 'if [ "$1" = is-system-running ]; then echo stopping; fi')
    machine.run(parts["end.sh"], "after")
    machine.run(parts["arm.sh"])
    assert len(machine.file("/var/lib/trainplan/crashes").read_text().splitlines()) == 3, "an ordered restart is none"
    assert "systemctl poweroff -ff" not in machine.calls()
    machine.file(f"{HERE}/end.sh").write_text(f'echo "end.sh $*" >>"{machine.root}/calls"\n')
    machine.run(parts["arm.sh"])
    ended = [call for call in machine.calls() if call.startswith(("end.sh", "systemctl poweroff"))]
    assert ended == ["end.sh crashes", "systemctl poweroff -ff"], "what is only off may bill on"
    machine.run(parts["arm.sh"])
    assert machine.calls().count("end.sh crashes") == 1, "a crash while it ends is the last one"
    assert machine.calls().count("systemctl poweroff -ff") == 2


KERNEL = {
    "/proc/sys/kernel/panic": "5\n",
    "/proc/sys/kernel/watchdog_thresh": "20\n",
    "/proc/sys/kernel/softlockup_panic": "1\n",
    "/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout": "60\n",
}


@pytest.mark.parametrize("in_container", [False, True])
def test_a_kernel_that_crashes_or_hangs_is_started_again(machine: Machine, in_container: bool) -> None:
    """But never somebody else's."""
    for path in KERNEL:
        machine.file(path).touch()
    machine.stub("systemd-detect-virt", f"exit {0 if in_container else 1}")
    machine.run(shell_parts(boot(deadline=hours_from_now(8), boot_deadline=hours_from_now(0.5)))["arm.sh"])
    assert {path: machine.file(path).read_text() for path in KERNEL} == (
        {path: "" for path in KERNEL} if in_container else KERNEL
    )


def test_a_deadline_that_has_passed_ends_the_machine_at_once(machine: Machine) -> None:
    machine.run(shell_parts(boot(deadline=hours_from_now(-1), boot_deadline=hours_from_now(-7)))["arm.sh"])
    assert "systemctl --no-block start trainplan-deadline.service" in machine.calls()
    assert "systemctl --no-block start trainplan-boot.service" in machine.calls()


def _unit_command(machine: Machine, name: str) -> str:
    text = machine.file(f"/etc/systemd/system/trainplan-{name}.service").read_text()
    line = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert line.startswith("ExecStart=/bin/sh -c '")
    return line.removeprefix("ExecStart=/bin/sh -c '").removesuffix("'")


def test_the_deadline_ends_the_machine_even_where_nothing_was_written(machine: Machine) -> None:
    machine.run(shell_parts(boot(deadline=hours_from_now(8), boot_deadline=hours_from_now(0.5)))["arm.sh"])
    (machine.root / "calls").unlink()
    subprocess.run(["sh", "-c", _unit_command(machine, "deadline")], env={"PATH": f"{machine.bin}:/bin"}, check=False)
    assert machine.calls()[-1] == "systemctl poweroff -ff"


def test_the_boot_deadline_spares_a_machine_that_trains(machine: Machine) -> None:
    machine.run(shell_parts(boot(deadline=hours_from_now(8), boot_deadline=hours_from_now(0.5)))["arm.sh"])
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
