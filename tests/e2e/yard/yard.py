"""The yard itself: boots machines, answers for their cloud, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests.doubles.package_index import PackageIndex
from tests.doubles.registry import Registry, RegistryServer
from tests.doubles.serving import Listening
from tests.doubles.waiting import until
from tests.e2e.yard import certificate, machine
from tests.e2e.yard.host_agent import HostAgent
from tests.e2e.yard.machine import Machine, Running
from tests.e2e.yard.metadata import Metadata
from tests.e2e.yard.names import Names
from tests.e2e.yard.network import GATEWAY, METADATA, Network, Relay

FIRST, SECOND, OWN = "registry-1.docker.io", "public.ecr.aws", "registry.example"
BLOB = "blob.example"
"""The name of an object store that speaks TLS; `relay` leads there."""
PACKAGES = "packages.example"
"""The index of packages, of which pip knows in the images of the yard (`/etc/pip.conf`)."""
_FOLDER = Path("/var/tmp")
_OURS = "trainplan-yard-"


class Yard:
    """`with Yard(image)`: everything in it is gone afterwards; what a killed one left goes when the next is made.

    `registries` are the public ones of the product's table and a person's own, by the host they are asked under.
    `wheels` is the folder of the index of packages, `packages` what it was asked for.
    """

    def __init__(self, image: str) -> None:
        self.registries = {FIRST: Registry(), SECOND: Registry(), OWN: Registry()}
        self.image = image
        self._owner = str(os.getpid())
        self._folder = _FOLDER / f"{_OURS}{self._owner}"
        self._network = Network()
        self._relays: dict[str, Relay] = {}
        self._running: list[Running] = []

    def __enter__(self) -> Self:
        forget_the_dead()
        self.wheels = self._folder / "wheels"
        self.wheels.mkdir(parents=True)
        self.packages = PackageIndex(self.wheels)
        self._network.__enter__()
        hosts = [*self.registries, BLOB]
        self.authority, self.certificate = certificate.make(self._folder, hosts)
        self._site = machine.Site(
            network=self._network, image=self.image, folder=self._folder, authority=self.authority, owner=self._owner
        )
        self._metadata = Metadata(self._network)
        names = {"metadata.google.internal": METADATA, **{host: GATEWAY for host in [*hosts, PACKAGES]}}
        self._names = Names(self._network, names)
        self.host_agent = HostAgent(self._network)
        self._port = self._network.serve(lambda: socket.create_server((METADATA, 53)))
        threading.Thread(target=_take_and_close, args=(self._port,), daemon=True).start()
        self._served = RegistryServer(self.registries, self.certificate, (GATEWAY, 443), self._network.serve)
        self._index = self._network.serve(lambda: Listening((GATEWAY, 80), self.packages.handler))
        threading.Thread(target=self._index.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        machine.remove_all(self._owner)
        for relay in self._relays.values():
            relay.close()
        self._index.shutdown()
        self._index.server_close()
        closings: tuple[Any, ...] = (self._metadata, self._names, self.host_agent, self._port, self._served)
        for closing in closings:
            closing.close()
        self._network.__exit__()
        subprocess.run(["rm", "-rf", str(self._folder)], check=False)  # ten times as fast as Python's own

    def boot(self, rented: Machine) -> Running:
        """Power on; returns at once."""
        running = self._powered_on(rented, self._site)
        self._running.append(running)
        return running

    def keep_layers(self, folder: Path) -> None:
        """From now on machines have these layers on their disk, as one that pulled the image before; they still ask
        its registry for it. `folder` is what `pull` left."""
        self._site = replace(self._site, layers=folder)

    def pull(self, image: str, folder: Path) -> None:
        """Docker's own folder as it is on a machine that has pulled the image and is booted for nothing else."""
        place = folder.with_name(f"{folder.name}-machine")
        site = replace(self._site, image=self.image, folder=place, layers=None)
        running = self._container(Machine(name="pulls-once", cloud="gcp", user_data="#cloud-config\n"), site)
        try:
            until(lambda: not running.run("docker", "info").returncode, "Docker answers", seconds=900)
            # Asked again: a busy computer may take longer for the registry's TLS than Docker waits (10 s).
            until(lambda: not running.run("docker", "pull", "--quiet", image).returncode, "it has pulled", seconds=1800)
            running.run("systemctl", "poweroff")
            until(running.is_off, "it is off", seconds=300)
            (running.disk / "docker").rename(folder)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{running.journal()[-20_000:]}") from None
        finally:
            running.remove()
            subprocess.run(["rm", "-rf", str(site.folder)], check=False)

    def _powered_on(self, rented: Machine, site: machine.Site) -> Running:
        return self._container(rented, site)

    def _container(self, rented: Machine, site: machine.Site) -> Running:
        running, address = machine.boot(rented, site)
        self._metadata.machines[address] = running.identity
        machine.start(running)
        return running

    def relay(self, url: str) -> Relay:
        """The way from the machines to a server on this computer's loopback; `.url` is what they ask."""
        if url not in self._relays:
            parts = urlsplit(url)
            self._relays[url] = Relay(self._network, (str(parts.hostname), int(parts.port or 80)))
        return self._relays[url]

    def clear(self) -> None:
        """The machines go; the rest stays for the next test."""
        for running in self._running:
            running.remove()
        self._running.clear()
        self._metadata.machines.clear()
        for relay in self._relays.values():
            relay.mend()
        for registry in self.registries.values():
            registry.let_go()
            registry.refuses = None


def forget_the_dead() -> None:
    """Machines and disks of yards whose process is no more; namespaces go with the network."""
    for owner in machine.owners():
        if not Path(f"/proc/{owner}").exists():
            machine.remove_all(owner)
    for folder in _FOLDER.glob(f"{_OURS}*"):
        if not Path(f"/proc/{folder.name.removeprefix(_OURS)}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _take_and_close(listening: socket.socket) -> None:
    """What only has to be there: a resolver that can be reached by TCP."""
    while True:
        with suppress(ConnectionError):
            try:
                listening.accept()[0].close()
            except OSError:
                return
