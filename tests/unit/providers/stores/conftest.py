"""Every store in its world, under one name: `world`; those that have a bucket: `away`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.doubles.azurite import azurite
from tests.doubles.gcs import GcsDouble
from tests.doubles.proxy import Proxy
from tests.unit.providers.stores.worlds import AzureWorld, FolderWorld, GcsWorld, S3World, Server, World

AWAY = ("s3", "gcs", "azure")


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3World]:
    """moto's server, and an environment in which nobody else is signed in."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        nothing = tmp_path_factory.mktemp("aws") / "none"
        patch.setenv("AWS_CONFIG_FILE", str(nothing))
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(nothing))
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        from moto.server import ThreadedMotoServer

        from tests.doubles.aws import quick

        quick.read_once()
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        yield S3World(server)
        server.stop()


@pytest.fixture(scope="session")
def gcs() -> Iterator[GcsWorld]:
    with GcsDouble() as double:
        yield GcsWorld(double)


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureWorld]:
    with azurite(tmp_path_factory.mktemp("azurite")) as url:
        yield AzureWorld(url)


@pytest.fixture(params=AWAY)
def away(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A store behind a network."""
    server = cast("Server", request.getfixturevalue(request.param))
    with Proxy(server.url) as proxy:
        made = World(server, proxy, tmp_path / "home")
        yield made
        made.close()


@pytest.fixture(params=["folder", *AWAY])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World | FolderWorld]:
    if request.param == "folder":
        yield FolderWorld(tmp_path / "home")
        return
    server = cast("Server", request.getfixturevalue(request.param))
    with Proxy(server.url) as proxy:
        made = World(server, proxy, tmp_path / "home")
        yield made
        made.close()
