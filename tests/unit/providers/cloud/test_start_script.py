"""The script that starts a machine's work: what it installs, which keys it trusts, how long it waits for rights."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.unit.providers.cloud.booted import CLOUDS, HERE, NVIDIAS_KEY, Machine, boot, hours_from_now
from trainplan.providers.cloud.bootstrap import shell_parts
from trainplan.providers.cloud.propagation import machine_patience_seconds

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
    return shell_parts(boot(deadline=hours_from_now(8)))["start.sh"]


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
    assert [call.split()[-2:] for call in installed] == [["docker.io", "apparmor"]]
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
@pytest.mark.parametrize(("keys", "trusted"), [("pinned", True), ("pinned other", True), ("other", False), ("", False)])
def test_of_the_keys_that_come_the_pinned_one_alone_is_trusted(tmp_path: Path, keys: str, trusted: bool) -> None:
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
    armored = b"".join(gpg(homes[name], "--armor", "--export") for name in keys.split())
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
    return shell_parts(boot(deadline=hours_from_now(8), driver="470"))["start.sh"]


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
    (starting.root / "now").write_text(f"{(hours_from_now(8) - timedelta(hours=4)).timestamp():.0f}\n")
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
    assert starting.run(shell_parts(boot(deadline=hours_from_now(-1)))["start.sh"]) == 0
    assert starting.calls() == []
