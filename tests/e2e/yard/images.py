"""The images of the yard: built by scripts/yard.sh, and written to a folder as a registry serves them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT
from trainplan.providers.local.image import TrainerImage, choose_base, ensure
from trainplan.providers.local.outside import look_outside
from trainplan.providers.local.settings import flags_of

if TYPE_CHECKING:
    from trainplan.providers.local.engine import CliEngine
    from trainplan.providers.local.settings import LocalSettings

_SECONDS = 900
_OLD_SECONDS = 3600
_CACHE = ROOT / ".build" / "yard"


def machine() -> str:
    """The machine's own image. Where it cannot be built: a failure when CI=true, else a skip."""
    return _built("machine")


def plain() -> str:
    """A person's own image without a framework, whose trainer plays a part."""
    return _built("plain")


def public() -> str:
    """The public image into which the product installs its trainer, with the packages at hand."""
    return _built("public")


def trainer(engine: CliEngine, settings: LocalSettings) -> str:
    """The trainer image, whose TensorFlow reports the accelerators that nvidia-smi shows."""
    image = TrainerImage(base=choose_base(settings, engine))
    flags, outside = flags_of(settings, engine.name), look_outside(os.environ)
    base = ensure(image, engine, lambda _: None, flags=flags, outside=outside)
    return _built("trainer", base)


def saved(image: str) -> Path:
    """The folder with its manifest and layers, uncompressed; written once for each content of an image."""

    def save(folder: Path) -> None:
        words = ["podman", "save", "--quiet", "--format", "docker-dir", "--output", str(folder), image]
        subprocess.run(words, check=True, capture_output=True, timeout=_SECONDS)

    return cached_image(*_name_and_tag(image), save)


def layers(machine_image: str, image: str, pull: Callable[[Path], None]) -> Path:
    """Docker's folder once a machine has pulled the image; `pull` makes it, once for each content of the two."""
    name, digest = _name_and_tag(image)
    return cached_image(f"layers-{name}", f"{digest}-{_name_and_tag(machine_image)[1]}", pull)


def cached_image(name: str, content: str, make: Callable[[Path], None]) -> Path:
    """The folder of that content, made where it is not there yet; those of the same name and older content go."""
    folder = _CACHE / f"{name}-{content}"
    if not folder.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        for earlier in (*_CACHE.glob(f"{name}-*"), *_CACHE.glob(f".{name}-*")):
            if time.time() - earlier.stat().st_mtime > _OLD_SECONDS:  # else another session may use it
                subprocess.run(["rm", "-rf", str(earlier)], check=True)
        partial = _CACHE / f".{folder.name}-{os.getpid()}"
        make(partial)
        with suppress(OSError):  # another session was first
            partial.rename(folder)
    return folder


def _name_and_tag(image: str) -> tuple[str, str]:
    """Its name and tag, which is a hash of what it is made from."""
    name, _, digest = image.rpartition("/")[2].partition(":")
    return name, digest


def _built(kind: str, *base: str) -> str:
    words = [str(ROOT / "scripts" / "yard.sh"), kind, *base]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if ran.returncode:
        text = f"no {kind} image of the yard here: {ran.stderr[-500:]}"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(text)
    return ran.stdout.strip()
