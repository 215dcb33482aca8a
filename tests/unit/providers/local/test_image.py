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
from trainplan.providers.local.image import (
    Accelerator,
    TrainerImage,
    choose_base,
    ensure,
    is_pinned,
    rehearse,
    requirements,
)
from trainplan.providers.local.outside import Outside
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
    option, *lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert any(line.startswith(framework) for line in lines)
    has_hashes = (framework, accelerator) != (Framework.TORCH, Accelerator.VOLTA)  # no machine of a cloud has it
    assert is_pinned(TrainerImage(framework=framework, accelerator=accelerator)) is has_hashes
    if not has_hashes:
        assert all("==" in line for line in lines)
        return
    # As pip reads it, nothing is installed whose hash is not in the list.
    assert option == "--require-hashes"
    assert all("==" in line or line.startswith("    --hash=sha256:") for line in lines)
    assert {line.partition("==")[0].lower() for line in lines if "==" in line} >= {
        "keras",
        "numpy",
        "pydantic",
        "scipy",
    }


def test_an_image_without_hashes_is_announced_as_one(engine: KeepingEngine) -> None:
    lines: list[str] = []
    for framework in (Framework.TORCH, Framework.JAX):
        image = TrainerImage(framework=framework, accelerator=Accelerator.VOLTA)
        ensure(image, engine, lines.append, outside=Outside())
    assert ["no hashes" in line for line in lines if "trainer image" in line] == [True, False]


def test_the_cudnn_of_a_v100_has_code_for_it() -> None:
    assert "nvidia-cudnn-cu12==9.10.2.21" in requirements(TrainerImage(accelerator=Accelerator.VOLTA))
    assert "9.10.2.21" not in requirements(TrainerImage(accelerator=Accelerator.NVIDIA))


def test_it_is_built_once_with_this_trainer(engine: KeepingEngine) -> None:
    lines: list[str] = []
    wanted = TrainerImage()
    assert ensure(wanted, engine, lines.append, outside=Outside()) == wanted.tag
    assert ensure(wanted, engine, lines.append, outside=Outside()) == wanted.tag
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
    tag = ensure(TrainerImage(), engine, lambda _: None, outside=Outside())
    assert old not in engine.tags
    assert {tag, other} <= engine.tags


def test_settings_of_the_host_are_secrets_of_the_build(engine: KeepingEngine, tmp_path: Path) -> None:
    certificates = tmp_path / "ca.pem"
    certificates.write_text("CERTIFICATE")
    outside = Outside(
        certificates=certificates,
        pip={"index-url": "https://person:word@mirror.example/simple", "find-links": "/wheels", "no-index": "1"},
        proxies={"HTTPS_PROXY": "http://person:word@proxy.example:3128"},
    )
    ensure(TrainerImage(), engine, lambda _: None, flags=("--isolation=chroot",), outside=outside)
    (spec,) = engine.built
    assert engine.secrets["ca"] == "CERTIFICATE"
    assert engine.secrets["pip"] == "[global]\nindex-url = https://person:word@mirror.example/simple\n"
    assert not spec.secrets["pip"].exists()
    assert spec.flags == ("--build-arg", "HTTPS_PROXY", "--isolation=chroot")
    shipped = "".join(engine.files.values()) + str(spec.arguments) + str(spec.labels) + str(spec.flags)
    assert "person:word" not in shipped


def test_no_settings_no_secrets(engine: KeepingEngine) -> None:
    ensure(TrainerImage(), engine, lambda _: None, outside=Outside())
    assert engine.secrets == {}


@pytest.mark.parametrize(
    ("flags", "expected"), [((), ("--network=host",)), (("--network", "own"), ("--network", "own"))]
)
def test_a_build_shares_the_network_with_an_index_on_this_computer(
    engine: KeepingEngine, flags: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    """A proxy such as cntlm listens on 127.0.0.1, which is another computer to a container."""
    outside = Outside(pip={"proxy": "127.0.0.1:3128"})
    ensure(TrainerImage(), engine, lambda _: None, flags=flags, outside=outside)
    assert engine.built[0].flags == expected


def test_a_rehearsal_builds_by_the_same_flags_and_leaves_nothing(engine: KeepingEngine) -> None:
    before = set(engine.tags)
    rehearse(TrainerImage(), engine, flags=("--a",), outside=Outside(proxies={"HTTP_PROXY": "http://p"}))
    assert engine.built[0].flags == ("--build-arg", "HTTP_PROXY", "--a")
    assert engine.tags == before


def test_a_rehearsal_finds_a_base_image_that_cannot_be_fetched(engine: KeepingEngine) -> None:
    engine.registry_complaint = "no such host"
    with pytest.raises(MachineError, match=r"python:3\.12-slim is not here and cannot be fetched: no such host"):
        rehearse(TrainerImage(), engine, outside=Outside())
    engine.tags.add(image.PUBLIC_BASE)
    rehearse(TrainerImage(), engine, outside=Outside())


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
        ensure(TrainerImage(), Failing(lambda: datetime(2026, 11, 21, tzinfo=UTC)), lambda _: None, outside=Outside())


def test_the_containerfile_keeps_no_secret() -> None:
    text = (Path(image.__file__).parent / "data" / "Containerfile").read_text(encoding="utf-8")
    assert "--mount=type=secret,id=ca" in text
    assert "--mount=type=secret,id=pip" in text
    assert "ENV PIP" not in text
