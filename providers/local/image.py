"""The trainer image: built from the shipped Containerfile, pinned packages and this installation's own trainer."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan import workloads
from trainplan.providers.cloud.trainer_wheel import PINNED, pinned
from trainplan.providers.errors import MachineError
from trainplan.providers.local.api import BuildSpec, Engine
from trainplan.workloads.job import Framework

if TYPE_CHECKING:
    from trainplan.providers.local.outside import Outside
    from trainplan.providers.local.settings import LocalSettings

REPOSITORY = "localhost/trainplan-trainer"
LABEL_IMAGE = "trainplan-image"
LOCAL_BASE = "localhost/trainplan-base:bookworm"
PUBLIC_BASE = "docker.io/library/python:3.12-slim"
IMAGE_BYTES = 2_000_000_000
"""TensorFlow 2.21 for processors on the Debian base: 1.99 GB, 2026-11-21."""
NVIDIA_IMAGE_BYTES = 8_000_000_000
"""The same with NVIDIA's libraries from their wheels, rounded up."""

_DATA = Path(__file__).parent / "data"


class Accelerator(StrEnum):
    """What the trainer image computes on."""

    CPU = "cpu"
    NVIDIA = "nvidia"
    VOLTA = "volta"
    """NVIDIA GPUs below compute capability 7.5, for which newer cuDNN has no code (workloads/runtimes.py)."""


LEAST_CAPABILITY_OF_NEW_CUDNN = (7, 5)
"""Read out of the wheels on 2026-11-26: cuDNN 9.10 is the last with code below it in every library."""
_PACKAGES = {Accelerator.CPU: "cpu", Accelerator.NVIDIA: "nvidia", Accelerator.VOLTA: "nvidia"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerImage:
    """Which trainer image: what it trains with, on what, and from which base."""

    framework: Framework = Framework.TENSORFLOW
    accelerator: Accelerator = Accelerator.CPU
    base: str = PUBLIC_BASE

    @property
    def flavour(self) -> str:
        """Framework and accelerator, which tell images apart."""
        return f"{self.framework}-{self.accelerator}"

    @property
    def tag(self) -> str:
        """The name of the image; it changes with everything that goes into the image."""
        digest = hashlib.sha256(f"{self.base}\n".encode())
        digest.update((_DATA / "Containerfile").read_bytes())
        digest.update(requirements(self).encode())
        for path in _trainer_files():
            digest.update(f"{path.relative_to(_trainer_root().parent)}\n".encode() + path.read_bytes())
        return f"{REPOSITORY}:{self.flavour}-{digest.hexdigest()[:12]}"

    @property
    def size_bytes(self) -> int:
        """What it takes on disk, about."""
        return IMAGE_BYTES if self.accelerator is Accelerator.CPU else NVIDIA_IMAGE_BYTES


def choose_base(settings: LocalSettings, engine: Engine) -> str:
    """The base that the person set, else the one `make engine` made here, else Python's own."""
    if settings.base_image is not None:
        return settings.base_image
    return LOCAL_BASE if engine.has_image(LOCAL_BASE) else PUBLIC_BASE


def requirements(image: TrainerImage) -> str:
    """The packages of an image as pip reads them: those that a rented machine installs, with the hash of each, where
    they are pinned (`make pins`)."""
    if is_pinned(image):
        return f"--require-hashes\n{pinned(image.flavour)}"
    names = ["common", f"{image.framework}-{_PACKAGES[image.accelerator]}"]
    if image.accelerator is Accelerator.VOLTA:
        names.append("cudnn-volta")
    return "".join((_DATA / "requirements" / f"{name}.txt").read_text(encoding="utf-8") for name in names)


def is_pinned(image: TrainerImage) -> bool:
    """Whether each package of an image has its hash."""
    return (PINNED / f"{image.flavour}.txt").is_file()


def ensure(
    image: TrainerImage,
    engine: Engine,
    report: Callable[[str], None],
    *,
    flags: Sequence[str] = (),
    outside: Outside,
) -> str:
    """The tag of the image, built first where it is missing; earlier images of its flavour are removed then.

    `report` gets the lines of the build. What is `outside` serves the build and stays out of the image. Raises
    MachineError where the build fails.
    """
    tag = image.tag
    if engine.has_image(tag):
        return tag
    how = "" if is_pinned(image) else "; its packages have versions and no hashes"
    report(f"building the trainer image {tag} with {engine.name} (a minute or two, once){how}")
    with _context(image) as context, _secrets(outside) as secrets:
        spec = BuildSpec(
            tag=tag,
            context=context,
            arguments={"BASE": image.base},
            labels={LABEL_IMAGE: image.flavour},
            secrets=secrets,
            flags=_flags(outside, flags),
        )
        engine.build(spec, report)
    for earlier in engine.images(f"{LABEL_IMAGE}={image.flavour}"):
        if earlier != tag:
            engine.remove_image(earlier)
    return tag


def rehearse(image: TrainerImage, engine: Engine, *, flags: Sequence[str] = (), outside: Outside) -> None:
    """Build an image without any content by the same flags and secrets, which takes a second, and remove it.

    Raises MachineError where the engine cannot build so, or the base image is neither here nor at its registry.
    """
    tag = f"{REPOSITORY}:rehearsal"
    with tempfile.TemporaryDirectory(prefix="trainplan-image-") as name, _secrets(outside) as secrets:
        (Path(name) / "Containerfile").write_text(_EMPTY_IMAGE, encoding="utf-8")
        spec = BuildSpec(tag=tag, context=Path(name), secrets=secrets, flags=_flags(outside, flags))
        try:
            engine.build(spec, lambda _: None)
        finally:
            engine.remove_image(tag)
    if not engine.has_image(image.base) and (complaint := engine.why_not_at_registry(image.base)):
        raise MachineError(
            f"the base image {image.base} is not here and cannot be fetched: {complaint}",
            hint=f"load an image with Python 3.12 into {engine.name} and name it as base_image (docs/settings.md), "
            f"or train without a container: PLAN_ENGINE=process",
        )


_EMPTY_IMAGE = "FROM scratch\nCOPY Containerfile /Containerfile\n"


@contextlib.contextmanager
def _context(image: TrainerImage) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="trainplan-image-") as name:
        folder = Path(name)
        shutil.copyfile(_DATA / "Containerfile", folder / "Containerfile")
        (folder / "requirements.txt").write_text(requirements(image), encoding="utf-8", newline="\n")
        for path in _trainer_files():
            target = folder / path.relative_to(_trainer_root().parents[1])
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        yield folder


@contextlib.contextmanager
def _secrets(outside: Outside) -> Iterator[dict[str, Path]]:
    secrets = {} if outside.certificates is None else {"ca": outside.certificates}
    with tempfile.TemporaryDirectory(prefix="trainplan-pip-") as folder:
        if outside.pip_conf:
            secrets["pip"] = Path(folder) / "pip.conf"
            secrets["pip"].write_text(outside.pip_conf, encoding="utf-8")
        yield secrets


def _flags(outside: Outside, flags: Sequence[str]) -> tuple[str, ...]:
    # The name alone: the engine takes the value from its environment, so that it stands in no process list.
    proxies = tuple(word for name in outside.proxies for word in ("--build-arg", name))
    has_network = any(flag.partition("=")[0] in ("--network", "--net") for flag in flags)
    return (*proxies, *(("--network=host",) if outside.is_on_this_computer and not has_network else ()), *flags)


def _trainer_root() -> Path:
    return Path(workloads.__path__[0])


def _trainer_files() -> list[Path]:
    file_path = (path for path in _trainer_root().rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return [_trainer_root().parent / "__init__.py", *sorted(file_path)]
