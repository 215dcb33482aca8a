"""The local provider over an engine that fails, loses replies, or is another one than before."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job
from tests.contract.harness import Ask, request
from tests.contract.local import MACHINE, EngineDoubleHarness, here, now
from tests.doubles.engine import FakeEngine
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.base import EndKind, InstanceState, LaunchRequest, PreflightState
from trainplan.providers.errors import BadRequestError, IncompleteListingError, MachineError, TransientError
from trainplan.providers.hardware import Gpu
from trainplan.providers.local.api import BuildSpec, ContainerStatus, Engine, EngineName
from trainplan.providers.local.containers import ContainerHost
from trainplan.providers.local.process import ProcessHost
from trainplan.providers.local.provider import LocalProvider
from trainplan.providers.local.settings import EngineChoice, LocalSettings
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.terms import Framework


@pytest.fixture
def harness(tmp_path: Path) -> EngineDoubleHarness:
    return EngineDoubleHarness(tmp_path)


@pytest.fixture
def provider(harness: EngineDoubleHarness) -> LocalProvider:
    return harness.provider()


def with_data(run: LaunchRequest, **data: object) -> LaunchRequest:
    values = run.job.model_dump()
    values["model"] |= {"image_size": 8, "classes": 10}
    return replace(run, job=TrainingJob.model_validate(values | {"data": data}))


def spec_of(harness: EngineDoubleHarness, run: LaunchRequest) -> Any:
    return harness.engine.specs[f"trainplan-{run.run_id}-{run.attempt}"]


@pytest.mark.parametrize("operation", ["create", "start"])
def test_a_lost_reply_is_made_good_by_asking_again(
    provider: LocalProvider, harness: EngineDoubleHarness, operation: str
) -> None:
    run = request(provider)
    if operation == "start":  # the container is there already, so that the reply lost is that of start
        harness.engine.create(_spec(provider, run))
    harness.engine.lost_reply = True
    with pytest.raises(TransientError):
        provider.launch(run)
    assert len(provider.list_owned()) == 1
    assert provider.launch(run).state is InstanceState.RUNNING
    assert [call for call, _ in harness.engine.calls].count("create") == 1


def test_weights_at_an_address_are_refused_before_a_container_is_created(
    provider: LocalProvider, harness: EngineDoubleHarness
) -> None:
    run = request(provider)
    model = run.job.model.model_copy(update={"weights": "s3://bucket/run/model.keras"})
    with pytest.raises(BadRequestError, match="fetched by rented machines only") as refusal:
        provider.launch(replace(run, job=run.job.model_copy(update={"model": model})))
    assert "download the file" in refusal.value.hint
    assert [call for call, _ in harness.engine.calls].count("create") == 0


def _spec(provider: LocalProvider, run: LaunchRequest) -> Any:
    provider.here.make_room(run, run.job)
    host = provider._hosts()[0]
    return host._spec(run)  # type: ignore[attr-defined]


def test_what_was_created_and_never_started_is_pending_then_started(
    provider: LocalProvider, harness: EngineDoubleHarness
) -> None:
    run = request(provider)
    harness.engine.create(_spec(provider, run))
    (owned,) = provider.list_owned()
    assert provider.get(owned).state is InstanceState.PENDING  # type: ignore[arg-type]
    assert provider.launch(run).state is InstanceState.RUNNING


def test_an_engine_that_falls_silent_is_not_an_absence(provider: LocalProvider, harness: EngineDoubleHarness) -> None:
    ref = provider.launch(request(provider)).ref
    harness.engine.answers = False
    for call in (lambda: provider.get(ref), lambda: provider.delete(ref)):
        with pytest.raises(TransientError):
            call()
    with pytest.raises(IncompleteListingError):
        provider.list_owned()


def test_an_engine_that_is_gone_is_not_an_absence(provider: LocalProvider) -> None:
    ref = provider.launch(request(provider)).ref
    without = replace(provider, find_engine=lambda _: None)
    for call in (lambda: without.get(ref), lambda: without.delete(ref)):
        with pytest.raises(TransientError, match="podman"):
            call()
    with pytest.raises(IncompleteListingError, match="podman"):
        without.list_owned()


def test_an_attempt_stays_with_its_engine(provider: LocalProvider) -> None:
    """Docker comes up, or Podman goes, between two launches of one attempt: it must not run twice."""
    run = request(provider)
    ref = provider.launch(run).ref
    settled = replace(provider.here, settings=LocalSettings(engine=EngineChoice.PROCESS))
    changed = replace(provider, here=settled, process=ProcessHost(here=settled, installed=lambda _: True))
    assert changed.launch(run).ref == ref


@pytest.mark.parametrize(
    ("choice", "answering", "host"),
    [
        (EngineChoice.AUTO, {EngineName.PODMAN}, "podman"),
        (EngineChoice.AUTO, set(), "a process"),
        (EngineChoice.PROCESS, {EngineName.PODMAN}, "a process"),
        (EngineChoice.PODMAN, {EngineName.PODMAN}, "podman"),
    ],
)
def test_which_host_is_taken(
    tmp_path: Path, harness: EngineDoubleHarness, choice: EngineChoice, answering: set[EngineName], host: str
) -> None:
    location = here(tmp_path, choice)

    def find(name: EngineName) -> Engine | None:
        return harness.engine if name in answering else None

    made = LocalProvider(location, ProcessHost(here=location, installed=lambda _: True), find, now)
    first = made.preflight(made.offers(OfferQuery())[0]).checks[0]
    assert (first.name, first.state) == ("engine", PreflightState.OK)
    assert first.detail.startswith(host)


@pytest.mark.parametrize(
    ("there", "framework", "state", "text"),
    [
        ({"jax"}, None, PreflightState.OK, "of this Python with jax"),
        ({"jax"}, Framework.JAX, PreflightState.OK, "of this Python with jax"),
        ({"torch", "jax"}, Framework.TORCH, PreflightState.OK, "of this Python with jax, torch"),
        ({"jax"}, Framework.TENSORFLOW, PreflightState.REFUSED, "this Python has no tensorflow, only jax"),
        ({"tensorflow"}, Framework.TORCH, PreflightState.REFUSED, "this Python has no torch, only tensorflow"),
        (set(), None, PreflightState.REFUSED, "this Python has no TensorFlow, JAX or PyTorch"),
    ],
)
def test_a_process_needs_the_framework_of_the_job(
    tmp_path: Path, there: set[str], framework: Framework | None, state: PreflightState, text: str
) -> None:
    location = here(tmp_path, EngineChoice.PROCESS)
    made = LocalProvider(location, ProcessHost(here=location, installed=there.__contains__), lambda _: None, now)
    (offer,) = made.offers(OfferQuery())
    preflight = made.preflight(offer) if framework is None else made.preflight_for(offer, a_job(framework=framework))
    (trainer,) = [check for check in preflight.checks if check.name == "trainer"]
    assert trainer.state is state
    assert text in trainer.detail
    assert bool(trainer.fix) is (state is PreflightState.REFUSED)


def test_an_engine_that_was_demanded_and_does_not_answer_is_the_machines_error(tmp_path: Path) -> None:
    location = here(tmp_path, EngineChoice.DOCKER)
    made = LocalProvider(location, ProcessHost(here=location), lambda _: None, now)
    assert made.preflight(made.offers(OfferQuery())[0]).state is PreflightState.REFUSED
    with pytest.raises(MachineError, match="docker") as caught:
        made.launch(request(made))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("data", "network"),
    [
        ({"name": "digits"}, False),
        ({"name": "synthetic"}, False),
        ({"name": "cifar10"}, True),
        ({"url": "https://example.org/set.zip"}, True),
    ],
)
def test_a_container_is_cut_off_unless_it_fetches(
    provider: LocalProvider, harness: EngineDoubleHarness, data: dict[str, object], network: bool
) -> None:
    run = with_data(request(provider), **data)
    provider.launch(run)
    assert spec_of(harness, run).network is network


def test_a_folder_of_images_is_mounted_read_only(
    provider: LocalProvider, harness: EngineDoubleHarness, tmp_path: Path
) -> None:
    images = tmp_path / "my images"
    images.mkdir()
    run = with_data(request(provider), path=str(images))
    provider.launch(run)
    mounts = {mount.target: mount for mount in spec_of(harness, run).mounts}
    assert (mounts["/images"].source, mounts["/images"].read_only) == (str(images), True)
    assert not mounts["/run-dir"].read_only
    assert json.loads(provider.store(run.run_id).get("job.json"))["data"]["path"] == "/images"


def with_weights(run: LaunchRequest, weights: str) -> LaunchRequest:
    values = run.job.model_dump()
    values["model"] = {"preset": "vgg16", "weights": weights, "image_size": 32}
    return replace(run, job=TrainingJob.model_validate(values | {"data": {"name": "cifar10"}}))


def test_the_weights_that_a_run_begins_with_lie_in_its_run_directory(provider: LocalProvider, tmp_path: Path) -> None:
    file = tmp_path / "before.keras"
    file.write_bytes(b"weights")
    run = with_weights(request(provider), str(file))
    provider.launch(run)
    assert provider.store(run.run_id).get("weights.keras") == b"weights"


def test_a_file_of_weights_that_is_not_there_is_named(provider: LocalProvider, tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match=r"none\.keras"):
        provider.launch(with_weights(request(provider), str(tmp_path / "none.keras")))
    assert provider.list_owned() == []


@pytest.mark.parametrize("path", ["images", "/no/such/folder"])
def test_a_folder_that_is_not_there_is_named(provider: LocalProvider, path: str) -> None:
    with pytest.raises(BadRequestError, match=path):
        provider.launch(with_data(request(provider), path=path))
    assert provider.list_owned() == []


def test_labels_name_the_run_and_its_deadline(provider: LocalProvider, harness: EngineDoubleHarness) -> None:
    run = request(provider, Ask(run_id="r7", attempt=3))
    provider.launch(run)
    assert dict(spec_of(harness, run).labels) == {
        "trainplan-run": "r7",
        "trainplan-attempt": "3",
        "trainplan-deadline": run.deadline.isoformat(),
        "trainplan-client": "",
    }


def test_containers_of_others_are_none_of_ours(provider: LocalProvider, harness: EngineDoubleHarness) -> None:
    ref = provider.launch(request(provider)).ref
    name = ref.id.partition(":")[2]
    harness.engine.containers_by_name[name] = replace(
        harness.engine.containers_by_name[name], labels={"somebody": "else"}
    )
    assert provider.list_owned() == []
    provider.delete(ref)
    assert name in harness.engine.containers_by_name


def test_a_kill_by_the_memory_limit_is_told(provider: LocalProvider) -> None:
    ended = provider.launch(request(provider, Ask(behaviour="greedy")))
    assert ended.end is EndKind.OUT_OF_MEMORY


def test_gpus_reach_the_container(harness: EngineDoubleHarness) -> None:
    made = harness.provider()
    gpus = tuple(Gpu(index=index, name="Tesla T4", memory_gib=15.0) for index in range(2))
    equipped = replace(made.here, machine=lambda: replace(MACHINE, gpus=gpus))
    provider = replace(made, here=equipped)
    two = provider.offers(OfferQuery())[-1]
    run = replace(request(provider), offer=two)
    provider.launch(run)
    assert spec_of(harness, run).gpus == (0, 1)
    with pytest.raises(MachineError, match="2 x T4"):
        made.launch(replace(run, attempt=2))


@pytest.mark.parametrize(
    ("name", "capability", "flavour"),
    [
        ("Tesla V100-SXM2-16GB", "7.0", "tensorflow-volta-"),
        ("Tesla T4", "7.5", "tensorflow-nvidia-"),
        ("Tesla V100-SXM2-16GB", "", "tensorflow-nvidia-"),  # a driver that does not tell
    ],
)
def test_an_own_v100_gets_an_image_with_code_for_it(
    harness: EngineDoubleHarness, name: str, capability: str, flavour: str
) -> None:
    made = replace(harness.provider(), image=None)
    gpus = (Gpu(index=0, name=name, memory_gib=15.0, capability=capability),)
    provider = replace(made, here=replace(made.here, machine=lambda: replace(MACHINE, gpus=gpus)))
    run = replace(request(provider), offer=provider.offers(OfferQuery())[-1])
    provider.prepare(run, lambda _: None)
    provider.launch(run)
    assert f":{flavour}" in spec_of(harness, run).image


def test_prepare_builds_the_image_of_the_runs_flavour(harness: EngineDoubleHarness) -> None:
    provider = replace(harness.provider(), image=None)
    run = request(provider)
    assert "image" in {check.name for check in provider.preflight(run.offer).checks}
    assert provider.preflight(run.offer).state is PreflightState.UNKNOWN
    with pytest.raises(MachineError, match="not there"):
        provider.launch(run)
    provider.prepare(run, lambda _: None)
    assert provider.preflight(run.offer).state is PreflightState.OK
    assert provider.launch(run).state is InstanceState.RUNNING


def test_prepare_fetches_the_persons_own_image(harness: EngineDoubleHarness) -> None:
    own = f"registry.example/mine@sha256:{'0' * 64}"
    provider = harness.provider()
    run = request(provider)
    run = replace(run, job=run.job.model_copy(update={"container": own}))
    provider.prepare(run, lambda _: None)
    provider.launch(run)
    assert ("pull", (own,)) in harness.engine.calls
    assert spec_of(harness, run).image == own


def test_prepare_says_when_the_image_finds_no_room(harness: EngineDoubleHarness) -> None:
    made = harness.provider()
    tight = replace(made, image=None, here=replace(made.here, free_bytes=lambda _: 10**9))
    with pytest.raises(MachineError, match="about 2 GB"):
        tight.prepare(request(made), lambda _: None)


def test_nothing_of_unix_is_needed_to_import_it() -> None:
    """On Windows these modules do not exist."""
    blocked = ("fcntl", "resource", "pwd", "grp", "termios")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked!r}))\n"
        "import trainplan.providers.local.provider, trainplan.providers.local.supervise\n"
        "assert not {'tensorflow', 'numpy', 'rich', 'typer'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@pytest.mark.parametrize(("vcpu_limit", "limit"), [(1, 1), (2, None), (4, None), (None, None)])
def test_a_limit_to_all_processors_is_none(
    provider: LocalProvider, harness: EngineDoubleHarness, vcpu_limit: int | None, limit: int | None
) -> None:
    """The machine of the tests has two."""
    run = replace(request(provider, Ask(run_id="r8")), vcpus=vcpu_limit)
    provider.launch(run)
    assert spec_of(harness, run).vcpus == limit


class CannotBuild(FakeEngine):
    """A Docker that refuses every build, beside the Podman of the double."""

    name = EngineName.DOCKER

    def build(self, spec: BuildSpec, report: Callable[[str], None]) -> None:
        raise MachineError(f"docker could not build {spec.tag}: Unsupported isolation", hint="correct build_flags")


def over_two_engines(tmp_path: Path, choice: EngineChoice, podman: FakeEngine, *, installed: bool) -> LocalProvider:
    location = here(tmp_path, choice)
    engines = {EngineName.DOCKER: CannotBuild(now), EngineName.PODMAN: podman}
    process = ProcessHost(here=location, installed=lambda _: installed)
    return LocalProvider(location, process, engines.get, now)


def test_where_the_choice_is_left_an_engine_that_cannot_build_is_followed_by_the_next(tmp_path: Path) -> None:
    podman = FakeEngine(now)
    provider = over_two_engines(tmp_path, EngineChoice.AUTO, podman, installed=True)
    checks = provider.preflight(provider.offers(OfferQuery())[0]).checks
    image = [check for check in checks if check.name == "image"]
    assert [check.state for check in image] == [PreflightState.UNKNOWN] * 2
    assert "Unsupported isolation" in image[0].detail
    assert image[0].fix == "podman is used instead"
    lines: list[str] = []
    run = request(provider)
    provider.prepare(run, lines.append)
    assert "docker could not build" in lines[1]
    assert lines[1].endswith("Unsupported isolation; podman is used instead")
    assert provider.launch(run).ref.id.startswith("podman:")
    # Another command finds the image where it is.
    another = over_two_engines(tmp_path, EngineChoice.AUTO, podman, installed=True)
    assert another.launch(replace(run, attempt=2)).ref.id.startswith("podman:")


def test_a_process_is_the_last_that_is_tried(tmp_path: Path) -> None:
    class Broken(CannotBuild):
        name = EngineName.PODMAN

    provider = over_two_engines(tmp_path, EngineChoice.AUTO, Broken(now), installed=True)
    lines: list[str] = []
    provider.prepare(request(provider), lines.append)
    assert lines[-1].endswith("a process of this Python is used instead")
    assert provider.requests(request(provider))[0].service == "process"
    without = over_two_engines(tmp_path, EngineChoice.AUTO, Broken(now), installed=False)
    with pytest.raises(MachineError, match="could not build") as caught:
        without.prepare(request(without), lines.append)
    assert caught.value.hint == "correct build_flags"


def test_a_promised_engine_that_cannot_build_names_what_would_do(tmp_path: Path) -> None:
    provider = over_two_engines(tmp_path, EngineChoice.DOCKER, FakeEngine(now), installed=True)
    assert provider.preflight(provider.offers(OfferQuery())[0]).state is PreflightState.REFUSED
    with pytest.raises(MachineError, match="Unsupported isolation") as caught:
        provider.prepare(request(provider), lambda _: None)
    assert caught.value.hint == "correct build_flags; or set engine to podman or process, which would do here"


def test_flags_of_podman_are_not_for_docker(tmp_path: Path) -> None:
    location = here(tmp_path, EngineChoice.AUTO)
    settings = LocalSettings(build_flags=("--network=host",), podman_build_flags=("--isolation=chroot",))
    location = replace(location, settings=settings)
    offer = LocalProvider(location, ProcessHost(here=location), lambda _: None, now).offers(OfferQuery())[0]
    flags = {}
    for name in EngineName:
        engine = FakeEngine(now)
        engine.name = name
        ContainerHost(here=location, engine=engine).checks(offer, None)
        flags[name] = {"--isolation=chroot", "--network=host"} & set(engine.built[0].flags)
    assert flags[EngineName.DOCKER] == {"--network=host"}
    assert flags[EngineName.PODMAN] == {"--network=host", "--isolation=chroot"}


def test_a_container_is_held_to_what_a_rented_machine_has(
    provider: LocalProvider, harness: EngineDoubleHarness
) -> None:
    """All but a sixteenth of this machine's memory: else the person's own programs are killed first."""
    provider.launch(replace(request(provider), memory_gib=MACHINE.memory_gib))
    provider.launch(replace(request(provider), attempt=2, memory_gib=0.25))
    spec, small = harness.engine.specs.values()
    assert (spec.memory_gib, small.memory_gib) == (7.5, 0.25)
    assert (spec.shm_gib, spec.processes) == (4, 16_384)
    assert spec.environment == {"HOME": "/tmp", "USER": "trainplan"}


def test_a_container_that_fetches_gets_what_leads_to_an_index(harness: EngineDoubleHarness, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("CERTIFICATE")
    made = harness.provider()
    variables = {
        "PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": "http://me:word@127.0.0.1:8080/simple",
        "PIP_CERT": str(tmp_path / "ca.pem"),
        "HTTPS_PROXY": "http://p", "AWS_SECRET_ACCESS_KEY": "secret", "PIP_FIND_LINKS": str(tmp_path),
    }  # fmt: skip
    made = replace(made, here=replace(made.here, environment=variables))
    made.launch(request(made))
    made.launch(with_data(replace(request(made), attempt=2), name="cifar10"))
    closed, fetching = harness.engine.specs.values()
    assert (closed.private, closed.network, len(closed.mounts)) == ({}, False, 2)
    assert fetching.private == {
        "PIP_INDEX_URL": "http://me:word@127.0.0.1:8080/simple", "HTTPS_PROXY": "http://p",
        "PIP_FIND_LINKS": str(tmp_path),
    }  # fmt: skip
    assert fetching.network
    assert fetching.uses_host_network
    assert fetching.environment["PIP_CERT"] == fetching.environment["SSL_CERT_FILE"] == "/certificates.pem"
    mounts = {mount.target: mount.source for mount in fetching.mounts if mount.read_only}
    assert mounts == {"/certificates.pem": str((tmp_path / "ca.pem").resolve()), str(tmp_path): str(tmp_path)}
    journal = json.dumps([sent.parameters for sent in harness.sent()])
    assert "word" not in journal
    assert "secret" not in journal


@pytest.mark.parametrize(
    ("code", "printed", "kind", "reason"),
    [
        (
            70,
            "RuntimeError: can't start new thread",
            EndKind.FAILED,
            "limit of 16,384 processes and threads",
        ),
        (1, "sh: 1: Cannot fork", EndKind.FAILED, "processes and threads"),
        (135, "", EndKind.FAILED, "shared memory"),
        (70, "OSError: [Errno 28] No space left on device", EndKind.FAILED, "the disk was full"),
        (70, "it diverged", EndKind.FAILED, "training failed"),
        (137, "Cannot fork", EndKind.KILLED, "signal 9"),
    ],
)
def test_a_limit_is_named_by_what_was_printed_last(
    provider: LocalProvider, harness: EngineDoubleHarness, code: int, printed: str, kind: EndKind, reason: str
) -> None:
    ref = provider.launch(request(provider)).ref
    harness.engine._change(ref.id.partition(":")[2], ContainerStatus.EXITED, code)
    harness.engine.printed = [printed]
    ended = provider.get(ref)
    assert ended.end is kind
    assert reason in (ended.reason or "")


def test_an_engine_without_limits_is_told(provider: LocalProvider, harness: EngineDoubleHarness) -> None:
    """Podman without root on cgroup v1."""
    offer = provider.offers(OfferQuery())[0]
    assert "limits" not in {check.name for check in provider.preflight(offer).checks}
    harness.engine.limits = frozenset({"cpu"})
    told = [check.detail for check in provider.preflight(offer).checks if check.name == "limits"]
    assert told == ["podman holds a container to no limit of memory and processes: the system does not let it"]
