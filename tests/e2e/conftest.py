"""What end-to-end tests share: a yard in which machines are rented, the images they run, their stores."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.contract.conftest import engine
from tests.e2e.test_container_resume import build_settings
from tests.e2e.yard import images, stores
from tests.e2e.yard.yard import FIRST, OWN, SECOND, Yard
from trainplan.providers.local.api import EngineName

if TYPE_CHECKING:
    from tests.e2e.yard.stores import Store
    from trainplan.providers.local.engine import CliEngine

__all__ = ["engine"]  # the fixture


@pytest.fixture(scope="session")
def yard(engine: CliEngine) -> Iterator[Yard]:
    """Needs Podman and root: it makes network namespaces. Without: a failure when CI=true, else a skip."""
    if engine.name is not EngineName.PODMAN or os.geteuid() != 0 or shutil.which("ip") is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("a yard needs podman, root and ip")
    with Yard(images.machine()) as made:
        yield made


@pytest.fixture(scope="session")
def plain_image(yard: Yard) -> str:
    """A person's own image, quick and without a framework: its name and digest at their registry."""
    return f"plain@{yard.registries[OWN].add('plain', images.saved(images.plain()))}"


@pytest.fixture(scope="session")
def public_digest(yard: Yard) -> str:
    """The public Python image at both registries that the product knows for it."""
    folder = images.saved(images.public())
    yard.registries[FIRST].add("library/python", folder)
    return yard.registries[SECOND].add("docker/library/python", folder)


@pytest.fixture(scope="session")
def trainer_image(yard: Yard, engine: CliEngine) -> str:
    """The trainer image as a person's own, with a TensorFlow that reports the machine's accelerators."""
    return pulled_trainer(yard, engine)


def pulled_trainer(yard: Yard, engine: CliEngine) -> str:
    """Its name at the person's registry; every machine has pulled it before."""
    image = images.trainer(engine, build_settings(engine))
    name = f"trainer@{yard.registries[OWN].add('trainer', images.saved(image))}"
    # 2 GB: pulled once, and not by every machine.
    yard.keep_layers(images.layers(yard.image, image, lambda folder: yard.pull(f"{OWN}/{name}", folder)))
    return name


@pytest.fixture(scope="session")
def store(request: pytest.FixtureRequest, yard: Yard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The store of the cloud that the test names: aws, gcp or azure."""
    with ExitStack() as stack:
        match request.param:
            case "aws":
                made = stack.enter_context(stores.s3(yard))
            case "gcp":
                made = stack.enter_context(stores.gcs(yard))
            case _:
                made = stack.enter_context(stores.blob(yard, tmp_path_factory.mktemp("azurite")))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in made.environment.items():
            patch.setenv(name, value)
        yield made
