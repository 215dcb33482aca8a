"""What runs where: complete for every device and every offer, its parts agree, and what cannot be launched says why."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job
from trainplan.planner.clock import SystemClock
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.cloud.images import Hardware, host_image, launchable, table
from trainplan.providers.cloud.trainer_wheel import requirements
from trainplan.providers.errors import BadRequestError
from trainplan.providers.registry import CLOUDS
from trainplan.workloads.job import Framework
from trainplan.workloads.runtimes import RUNTIMES, runtimes_for, why_not

PAGE = (Path(__file__).parents[4] / "docs" / "what-runs-where.md").read_text(encoding="utf-8")
OWN = "registry.example/mine@sha256:" + "c" * 64
MOST_MB = 4_000


def hardware(provider: str, device: str, host: str = "x86_64") -> Hardware:
    with Catalog.open() as catalog:
        row = catalog.devices[device]
    return Hardware(provider, device, row.architecture, host, row.compute_capability)


def test_every_device_has_a_runtime_or_a_reason() -> None:
    with Catalog.open() as catalog:
        devices = catalog.devices
    for device in devices.values():
        for host in ("x86_64", "arm64"):
            about = (device.architecture, host, device.compute_capability)
            assert bool(runtimes_for(*about)) is (why_not(*about) is None), device.name
            assert runtimes_for(*about) or len(why_not(*about) or "") > 20, device.name
    assert len(devices) > 60


def test_every_machine_that_can_be_rented_has_an_image_or_a_reason() -> None:
    """Where a framework is known to train, the table has a row for the provider: silence is no answer."""
    with Catalog.open() as catalog:
        devices = catalog.devices
        rented = catalog.rentals(OfferQuery(include_retired=True), date(2026, 11, 21))
    seen = {(row.rental.provider, row.rental.device, row.rental.cpu_architecture) for row in rented}
    seen = {row for row in seen if row[0] in CLOUDS}
    with_image = 0
    for provider, name, host in seen:
        device = devices[name]
        if runtimes_for(device.architecture, host, device.compute_capability):
            row = host_image(Hardware(provider, name, device.architecture, host, device.compute_capability))
            assert bool(row.image) is (row.kind != "none")
            assert bool(row.reason) is (row.kind == "none")
            with_image += row.kind != "none"
    assert with_image > 20


@pytest.mark.parametrize(
    ("provider", "device", "framework", "software", "driver"),
    [
        ("aws", "T4", "tensorflow", "tensorflow-nvidia", "595"),
        ("gcp", "T4", "tensorflow", "tensorflow-nvidia", "580"),
        ("aws", "H100", "tensorflow", "tensorflow-nvidia", "595"),
        ("gcp", "V100", "tensorflow", "tensorflow-volta", "580"),
        ("azure", "H100-NVL", "tensorflow", "tensorflow-nvidia", "580"),
        ("gcp", "TPU v6e", "jax", "jax-tpu", ""),
        ("gcp", "TPU v2", "jax", "jax-tpu", ""),
        ("azure", "cpu", "tensorflow", "tensorflow-cpu", ""),
        ("azure", "K80", "tensorflow", "tensorflow-2.14-nvidia", "470"),
        ("azure", "P100", "tensorflow", "tensorflow-volta", ""),
        ("azure", "V100", "tensorflow", "tensorflow-volta", ""),
    ],
)
def test_what_a_job_is_launched_with(provider: str, device: str, framework: str, software: str, driver: str) -> None:
    found = launchable(a_job(), hardware(provider, device))
    assert found.software is not None
    assert (found.framework, found.software.name, found.host.driver) == (framework, software, driver)
    assert found.images == found.software.container.references


@pytest.mark.parametrize(
    ("provider", "device", "host", "job", "reason"),
    [
        ("aws", "K80", "x86_64", {}, "branch 470"),
        ("gcp", "K80", "x86_64", {}, "has ended"),
        ("aws", "V100", "x86_64", {}, "Amazon Linux 2"),
        ("azure", "M60", "x86_64", {}, "GRID"),
        ("aws", "K520", "x86_64", {}, "compute capability 3.0"),
        ("aws", "B200", "x86_64", {}, "Blackwell"),
        ("aws", "T4G", "arm64", {}, "x86_64 hosts alone"),
        ("aws", "cpu", "arm64", {}, "unproven"),
        ("gcp", "TPU v5e", "x86_64", {"framework": "tensorflow"}, "tensorflow is in no known combination"),
        ("gcp", "TPU v5e", "x86_64", {"framework": "torch"}, "no software is known"),
        ("gcp", "V100", "x86_64", {"framework": "torch"}, "no code below compute capability 7.5"),
        ("aws", "RTX 4090", "arm64", {}, "x86_64 hosts alone"),
        ("moon", "T4", "x86_64", {}, "no image of moon"),
    ],
)
def test_what_cannot_be_launched_says_why(
    provider: str, device: str, host: str, job: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadRequestError, match=reason) as caught:
        launchable(a_job(**job), hardware(provider, device, host))
    assert device in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("family", ["g6f", "gr6f"])
def test_a_family_of_fractions_wants_a_driver_that_no_image_has(family: str) -> None:
    l4 = hardware("aws", "L4")
    assert launchable(a_job(), l4).host.driver == "595"
    with pytest.raises(BadRequestError, match="GRID"):
        launchable(a_job(), l4._replace(family=family))
    own = launchable(a_job(), l4._replace(family=family), "ami-0123456789abcdef0")
    assert (own.host.kind, own.host.image) == ("own", "ami-0123456789abcdef0")


@pytest.mark.parametrize(
    ("family", "device", "sibling", "reason"),
    [
        ("NVads_A10_v5", "A10", "NCads_A100_v4", "GRID"),
        ("NVadms_A10_v5", "A10", "NCads_A100_v4", "GRID"),
        ("NCCads_H100_v5", "H100-NVL", "NCads_H100_v5", "confidential"),
    ],
)
def test_azures_families_without_an_image_are_told_from_those_with_the_same_architecture(
    family: str, device: str, sibling: str, reason: str
) -> None:
    """NVads A10 v5 ranked second for small jobs: it boots, bills, and its HPC image finds no GPU."""
    with pytest.raises(BadRequestError, match=reason):
        launchable(a_job(), hardware("azure", device)._replace(family=family))
    assert launchable(a_job(), hardware("azure", device)._replace(family=sibling)).host.kind == "azure_urn"


@pytest.mark.parametrize(("device", "proven"), [("A100-PCIe-80GB", True), ("T4", False), ("H100-NVL", False)])
def test_azures_hpc_image_is_proven_where_somebody_reports_that_it_runs(device: str, proven: bool) -> None:
    assert host_image(hardware("azure", device)).proven is proven


def test_every_family_that_has_a_row_of_its_own_is_in_the_catalog() -> None:
    with Catalog.open() as catalog:
        rented = catalog.rentals(OfferQuery(include_retired=True), date(2026, 11, 21))
    known = {(row.rental.provider, row.rental.family) for row in rented}
    named = {(row.provider, family) for row in table().hosts for family in row.families}
    assert named
    assert named <= known


def test_tensorflow_on_a_tpu_is_for_who_names_both_and_says_that_it_is_unproven() -> None:
    job = a_job(framework="tensorflow", constraints={"devices": ["TPU v5e"]})
    found = launchable(job, hardware("gcp", "TPU v5e"))
    assert found.software is not None
    assert found.software.name == "tensorflow-tpu"
    assert any("unproven" in word for word in found.unproven)
    assert launchable(a_job(), hardware("gcp", "TPU v5e")).unproven == ()


def test_an_image_of_ones_own_takes_the_place_of_ours() -> None:
    found = launchable(a_job(container=OWN), hardware("aws", "T4"))
    assert (found.images, found.software, found.download_mb) == ((OWN,), None, None)


def test_a_host_image_never_has_a_driver_that_its_gpus_cannot_use() -> None:
    for host in table().hosts:
        for runtime in RUNTIMES:
            if host.driver and host.architectures & runtime.architectures:
                assert runtime.least_driver is not None
                assert int(runtime.least_driver) <= int(host.driver) <= int(runtime.driver or "9999")


def test_every_combination_has_software_that_is_its_own() -> None:
    software = table().software
    for runtime in RUNTIMES:
        found = software[runtime.software]
        kinds = {Hardware("aws", "", name, "x86_64").kind for name in runtime.architectures}
        assert ({found.kind}, found.framework) == (kinds, runtime.framework)
        pins = requirements(found.requirements).splitlines()
        (pin,) = [line for line in pins if line.startswith(found.framework)][:1]
        assert runtime.framework_version == "current" or runtime.framework_version.strip("<=") in pin


def test_requirements_are_pinned_and_containers_have_two_registries() -> None:
    for software in table().software.values():
        lines = [line for line in requirements(software.requirements).splitlines() if line and line[0] != "#"]
        assert all("==" in line for line in lines), software.name
        assert Framework(software.framework)
    for container in table().containers.values():
        assert len({reference.partition("/")[0] for reference in container.references}) == 2
        assert {reference.rpartition("/")[2] for reference in container.references} == {
            f"python:{container.python}-slim-bookworm"
        }
        assert container.digest is None  # nobody looked one up: none is made up


def test_what_is_fetched_before_the_first_step_is_four_gigabytes_at_most() -> None:
    known = [row for row in table().software.values() if row.download_mb is not None]
    assert {row.software for row in RUNTIMES} <= {row.name for row in known}
    for software in known:
        assert (software.download_mb or 0) + software.container.download_mb <= MOST_MB, software.name


def test_every_row_says_where_from_and_when() -> None:
    found = table()
    rows: tuple[Any, ...] = (*found.containers.values(), *found.software.values(), *found.hosts)
    for row in rows:
        assert len(row.source) > 10
        assert row.as_of <= SystemClock().now().date()
    assert {row.provider for row in found.hosts} == set(CLOUDS)


def test_the_page_shows_every_row() -> None:
    found = table()
    for reference in (reference for row in found.containers.values() for reference in row.references):
        assert f"`{reference}`" in PAGE
    for host in found.hosts:
        assert (f"`{host.image}`" if host.image else host.reason) in PAGE, host
    for row in RUNTIMES:
        assert f"`{row.software}`" in PAGE
        assert row.framework_version in PAGE
    for software in found.software.values():
        assert f"`{software.name}`" in PAGE
        assert software.download_mb is None or f"{software.download_mb:,}" in PAGE, software.name
