"""The real trainer in a container: killed with kill -9 in the middle of an epoch, it goes on and loses no step."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import engine
from tests.contract.harness import wait_for
from tests.contract.local import here, now
from tests.doubles.waiting import until
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.base import EndKind, InstanceState, LaunchRequest, RunId
from trainplan.providers.local.api import ContainerSpec, ContainerStatus
from trainplan.providers.local.engine import CliEngine
from trainplan.providers.local.process import ProcessHost
from trainplan.providers.local.provider import LocalProvider
from trainplan.providers.local.settings import EngineChoice, LocalSettings
from trainplan.workloads.job import TrainingJob

__all__ = ["engine"]  # the fixture
pytestmark = pytest.mark.container

# Where scripts/engine.sh says how images are built on a machine that it set up.
MACHINE_SETTINGS = Path("/etc/trainplan/settings.toml")
RUN = RunId("e2e-resume")
UNKILLED = RunId("e2e-resume-unkilled")
CHECKPOINT_EVERY = timedelta(seconds=1)
PATIENCE_SECONDS = 900

# Images are blown up so that an epoch (45 steps) takes seconds, and a kill can land within it.
JOB = TrainingJob.model_validate(
    {
        "name": "resume",
        "model": {"layers": [32, 32, "M", 64, "M"], "batch_norm": True, "dense": [64], "image_size": 32},
        "data": {"name": "digits"},
        "epochs": 3,
        "global_batch_size": 32,
        "checkpoint_every": f"{CHECKPOINT_EVERY.total_seconds():.0f}s",
    }
)


@pytest.fixture
def provider(engine: CliEngine, tmp_path: Path) -> Iterator[LocalProvider]:
    place = replace(here(tmp_path, EngineChoice(engine.name)), settings=build_settings(engine))
    made = LocalProvider(place, ProcessHost(here=place), lambda name: engine if name is engine.name else None, now)
    yield made
    for run_id in (RUN, UNKILLED):
        for owned in made.list_owned(run_id):
            made.delete(owned)


def build_settings(engine: CliEngine) -> LocalSettings:
    told = tomllib.loads(MACHINE_SETTINGS.read_text()) if MACHINE_SETTINGS.exists() else {}

    def flags(key: str) -> tuple[str, ...]:
        return tuple(os.environ.get(f"PLAN_{key.upper()}", "").split() or told.get(key, ()))

    return LocalSettings(
        engine=EngineChoice(engine.name),
        build_flags=flags("build_flags"),
        podman_build_flags=flags("podman_build_flags"),
    )


def launched(provider: LocalProvider, run_id: RunId, attempt: int) -> LaunchRequest:
    run = LaunchRequest(
        run_id=run_id,
        attempt=attempt,
        offer=provider.offers(OfferQuery())[0],
        job=JOB,
        deadline=now() + timedelta(minutes=20),
        vcpus=1,
        memory_gib=3.0,
    )
    provider.prepare(run, lambda _: None)
    provider.launch(run)
    return run


def events(provider: LocalProvider, run: LaunchRequest, name: str) -> list[dict[str, Any]]:
    path = f"attempts/{run.attempt}/progress.jsonl"
    store = provider.store(run.run_id)
    text = store.get(path).decode() if path in store.list() else ""
    lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [line for line in lines if line["event"] == name]


def to_the_end(provider: LocalProvider, run: LaunchRequest) -> dict[str, Any]:
    ref = provider.launch(run).ref
    until(lambda: provider.get(ref).state is InstanceState.ENDED, "training ends", seconds=PATIENCE_SECONDS)
    ended = provider.get(ref)
    assert ended.end is EndKind.DONE, (ended, list(provider.logs(ref)))
    return events(provider, run, "end")[-1]


@pytest.mark.sample
def test_a_killed_run_goes_on_and_its_counter_ends_where_an_unkilled_one_does(
    provider: LocalProvider, engine: CliEngine
) -> None:
    first = launched(provider, RUN, 1)
    ref = provider.launch(first).ref
    until(lambda: in_mid_epoch_after_a_checkpoint(provider, first), "it trains", seconds=PATIENCE_SECONDS)
    engine.signal(ref.id.partition(":")[2], "KILL")
    assert wait_for(provider, ref, InstanceState.ENDED).end is EndKind.KILLED
    kept = newest_checkpoint(provider)

    second = launched(provider, RUN, 2)
    end = to_the_end(provider, second)
    resumed_from = events(provider, second, "start")[0]["resumed_from_step"]
    assert resumed_from == kept > 0
    assert end["step"] == to_the_end(provider, launched(provider, UNKILLED, 1))["step"] == total_steps(provider, first)
    # Nothing that a checkpoint told of is trained again. How long an interval takes is a matter of the machine's speed;
    # tests/unit/workloads/trainer/test_watch.py holds it with a clock of its own.
    assert resumed_from >= events(provider, first, "checkpoint")[-1]["step"]
    assert (provider.here.folders(RUN).run_dir / "output" / "manifest.json").exists()


def in_mid_epoch_after_a_checkpoint(provider: LocalProvider, run: LaunchRequest) -> bool:
    started, steps = events(provider, run, "start"), events(provider, run, "step")
    if not (started and steps and events(provider, run, "checkpoint")):
        return False
    return steps[-1]["step"] % started[0]["steps_per_epoch"] > 0 and steps[-1]["step"] < started[0]["total_steps"]


def newest_checkpoint(provider: LocalProvider) -> int:
    marks = [path for path in provider.store(RUN).list("checkpoints") if path.endswith("/complete.json")]
    return max(int(json.loads(provider.store(RUN).get(path))["step"]) for path in marks)


def total_steps(provider: LocalProvider, run: LaunchRequest) -> int:
    return int(events(provider, run, "start")[0]["total_steps"])


def test_the_image_keeps_no_secret_of_the_build(provider: LocalProvider, engine: CliEngine) -> None:
    run = launched(provider, UNKILLED, 1)
    ref = provider.launch(run).ref
    image = next(word for word in provider.requests(run)[0].parameters["arguments"] if "trainplan-trainer" in word)  # type: ignore[attr-defined]
    provider.delete(ref)
    name = "e2e-secrets"
    kept = "[name for name in ('ca', 'pip') if os.path.exists(f'/run/secrets/{name}')]"
    # In one write: Podman 4.3 confuses the pieces of a line when it is asked for the last lines.
    look = f"import os, sys; sys.stdout.write('%s %s\\n' % (os.environ.get('PIP_CERT'), {kept}))"
    engine.create(ContainerSpec(name=name, image=image, command=("python", "-c", look)))
    try:
        engine.start(name)
        until(lambda: _status(engine, name) is ContainerStatus.EXITED, "it looks")
        # Podman may say that it has exited a moment before its last line can be read.
        until(lambda: any(engine.logs(name, 5)), "what it saw is there")
        assert [line for line in engine.logs(name, 5) if line] == ["None []"]
    finally:
        engine.remove(name)


def _status(engine: CliEngine, name: str) -> ContainerStatus | None:
    found = engine.container(name)
    return found.status if found else None
