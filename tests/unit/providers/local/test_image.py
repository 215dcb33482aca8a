"""The trainer image: its name follows its contents, and the host's settings stay out of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.doubles.engine import FakeEngine
from trainplan.providers.errors import MachineError
from trainplan.providers.local import image
from trainplan.providers.local.api import BuildSpec
from trainplan.providers.local.image import Accelerator, TrainerImage, choose_base, ensure, pip_settings, requirements
from trainplan.providers.local.settings import LocalSettings
from trainplan.workloads.job import Framework


class KeepingEngine(FakeEngine):
    """Keeps what the build context held, since that is gone after the build."""

    files: dict[str, str]
    secrets: dict[str, str]

    def build(self, spec: BuildSpec, report: Callable[[str], None]) -> None:
        paths = [path for path in spec.context.rglob("*") if path.is_file()]
        self.files = {path.relative_to(spec.context).as_posix(): path.read_text(encoding="utf-8") for path in paths}
        self.secrets = {key: path.read_text(encoding="utf-8") for key, path in spec.secrets.items()}
        super().build(spec, report)


@pytest.fixture
def engine() -> KeepingEngine:
    return KeepingEngine(lambda: datetime(2026, 11, 21, tzinfo=UTC))


def test_the_tag_follows_what_goes_in() -> None:
    images = [
        TrainerImage(),
        TrainerImage(base="other:1"),
        TrainerImage(accelerator=Accelerator.NVIDIA),
        TrainerImage(framework=Framework.JAX),
    ]
    assert len({one.tag for one in images}) == len(images)
    assert TrainerImage().tag == TrainerImage().tag


@pytest.mark.parametrize("framework", list(Framework))
@pytest.mark.parametrize("accelerator", list(Accelerator))
def test_every_flavour_has_pinned_packages(framework: Framework, accelerator: Accelerator) -> None:
    text = requirements(TrainerImage(framework=framework, accelerator=accelerator))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert any(line.startswith(framework) for line in lines)
    assert all("==" in line for line in lines)


def test_the_cudnn_of_a_v100_has_code_for_it() -> None:
    assert "nvidia-cudnn-cu12==9.10.2.21" in requirements(TrainerImage(accelerator=Accelerator.VOLTA))
    assert "9.10.2.21" not in requirements(TrainerImage(accelerator=Accelerator.NVIDIA))


def test_it_is_built_once_with_this_trainer(engine: KeepingEngine) -> None:
    lines: list[str] = []
    wanted = TrainerImage()
    assert ensure(wanted, engine, lines.append, environment={}) == wanted.tag
    assert ensure(wanted, engine, lines.append, environment={}) == wanted.tag
    assert len(engine.built) == 1
    assert {
        "Containerfile",
        "requirements.txt",
        "trainplan/workloads/trainer/__main__.py",
        "trainplan/workloads/job.py",
    } <= set(engine.files)
    assert not any("__pycache__" in name for name in engine.files)
    assert any("building" in line for line in lines)


def test_a_new_image_takes_the_place_of_the_old_of_its_flavour(engine: KeepingEngine) -> None:
    old, other = f"{image.REPOSITORY}:old", f"{image.REPOSITORY}:jax"
    engine.tags |= {old, other}
    engine.labelled = {old: "tensorflow-cpu", other: "jax-cpu"}
    tag = ensure(TrainerImage(), engine, lambda _: None, environment={})
    assert old not in engine.tags
    assert {tag, other} <= engine.tags


def test_settings_of_the_host_are_secrets_of_the_build(engine: KeepingEngine, tmp_path: Path) -> None:
    certificates = tmp_path / "ca.pem"
    certificates.write_text("CERTIFICATE")
    environment = {
        "PIP_CERT": str(certificates),
        "PIP_INDEX_URL": "https://person:word@mirror.example/simple",
        "HTTPS_PROXY": "http://person:word@proxy.example:3128",
    }
    ensure(TrainerImage(), engine, lambda _: None, flags=("--isolation=chroot",), environment=environment)
    (spec,) = engine.built
    assert engine.secrets["ca"] == "CERTIFICATE"
    assert "https://person:word@mirror.example/simple" in engine.secrets["pip"]
    assert not spec.secrets["pip"].exists()
    assert spec.flags == ("--build-arg", "HTTPS_PROXY", "--isolation=chroot")
    shipped = "".join(engine.files.values()) + str(spec.arguments) + str(spec.labels) + str(spec.flags)
    assert "person:word" not in shipped


def test_no_settings_no_secrets(engine: KeepingEngine) -> None:
    ensure(TrainerImage(), engine, lambda _: None, environment={"PIP_CERT": "/no/such/file"})
    assert engine.secrets == {}


def test_pip_settings_join_the_file_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://one.example/simple\ntimeout = 5\n")
    joined = pip_settings({"PIP_CONFIG_FILE": str(file), "PIP_INDEX_URL": "https://two.example/simple"})
    assert "two.example" in joined
    assert "one.example" not in joined
    assert "timeout = 5" in joined
    assert pip_settings({}) == ""


def test_the_base_is_the_persons_then_the_local_then_the_public(engine: KeepingEngine) -> None:
    assert choose_base(LocalSettings(), engine) == image.PUBLIC_BASE
    engine.tags.add(image.LOCAL_BASE)
    assert choose_base(LocalSettings(), engine) == image.LOCAL_BASE
    assert choose_base(LocalSettings(base_image="mine:1"), engine) == "mine:1"


def test_a_build_that_fails_is_the_machines_error() -> None:
    class Failing(KeepingEngine):
        def build(self, spec: BuildSpec, report: Callable[[str], None]) -> None:
            raise MachineError("no network")

    with pytest.raises(MachineError, match="no network"):
        ensure(TrainerImage(), Failing(lambda: datetime(2026, 11, 21, tzinfo=UTC)), lambda _: None, environment={})


def test_the_containerfile_keeps_no_secret() -> None:
    text = (Path(image.__file__).parent / "data" / "Containerfile").read_text(encoding="utf-8")
    assert "--mount=type=secret,id=ca" in text
    assert "--mount=type=secret,id=pip" in text
    assert "ENV PIP" not in text
