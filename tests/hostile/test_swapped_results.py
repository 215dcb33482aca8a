"""A hostile writer of the bucket and the results: what was swapped or cut is named, and nothing of it is used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.builders import a_target
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import (
    MODEL,
    SIGHTING_OF_END,
    FakeMachine,
    Sighting,
    ends_after,
    trains_well,
    until_asked,
)
from tests.doubles.fake_provider import FakeProvider
from tests.unit.providers.agent.machine import Rented
from trainplan.planner.api.following import stopped
from trainplan.planner.errors import StateError, TrainingFailedError
from trainplan.planner.runs.directory.run_keys import FILE, RunKeys
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.receipt.receipt import Receipt
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.providers.agent.signatures import ATTEMPT, Vouching, attempt_path
from trainplan.providers.base import EndKind

RECORD, MANIFEST, PROGRESS = "attempts/1/vouched.json", "output/manifest.json", "attempts/1/progress.jsonl"
OTHER_KEY = "2" * 64
Files = dict[str, bytes]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """One with a provider of rented machines."""
    desk = Desk(tmp_path)
    desk.provider = FakeProvider(desk.clock, name="rented")
    yield desk
    desk.close()


def launch(desk: Desk) -> tuple[Run, Receipt]:
    run = desk.planned(targets=[a_target(provider="rented")])
    return desk.runner().follow(run, desk.request(key=RunKeys(desk.settings.home).key))


def files_of(desk: Desk) -> Files:
    (store,) = desk.provider.stores.values()
    return store.files


def and_then(change: Callable[[Files], object]) -> Callable[[FakeMachine], Iterator[Sighting]]:
    """Trains to the end, and is followed by somebody who writes to its run directory."""

    def script(machine: FakeMachine) -> Iterator[Sighting]:
        for seen in trains_well(machine):
            if seen is SIGHTING_OF_END[EndKind.DONE]:
                change(machine.store.files)
            yield seen

    return script


def forged_manifest(files: Files, sha256: str | None = None) -> None:
    """A model of the writer's own, with a manifest that fits it, or one without hashes."""
    evil = b"an evil model"
    row = {"path": "model.keras", "size_bytes": len(evil), "sha256": sha256 or hashlib.sha256(evil).hexdigest()}
    files["output/model.keras"] = evil
    files[MANIFEST] = json.dumps([row if sha256 is None else row | {"sha256": sha256}]).encode()


def forged_record(files: Files, key: str = OTHER_KEY, kind: str = ATTEMPT, name: str = "1") -> None:
    forged_manifest(files)
    digests = {MANIFEST: hashlib.sha256(files[MANIFEST]).hexdigest()}
    files[RECORD] = Vouching(key, "r1").record(name, digests, kind)


def changed(path: str, data: bytes) -> Callable[[Files], object]:
    return lambda files: files.__setitem__(path, data)


def cut(path: str) -> Callable[[Files], object]:
    return lambda files: files.__setitem__(path, files[path][:-1])


HOSTILE: dict[str, tuple[Callable[[Files], object], str]] = {
    "the model swapped": (changed("output/model.keras", b"a model?"), "model.keras differs from its manifest"),
    "the model cut": (cut("output/model.keras"), "model.keras differs from its manifest"),
    "the model gone": (lambda files: files.pop("output/model.keras"), "the manifest names model.keras, which is not"),
    "the metrics swapped": (changed("output/metrics.json", b"{ }"), "metrics.json differs from its manifest"),
    "model and manifest swapped": (forged_manifest, f"{MANIFEST} is not what the run's machine has written"),
    "a manifest with an empty hash": (
        lambda files: forged_manifest(files, ""), f"{MANIFEST} is not what the run's machine has written"
    ),
    "an empty manifest": (changed(MANIFEST, b"[]"), f"{MANIFEST} is not what the run's machine has written"),
    "a manifest that was cut": (cut(MANIFEST), f"{MANIFEST} is not what the run's machine has written"),
    "no record": (lambda files: files.pop(RECORD), f"{RECORD} is not there, which vouches for {MANIFEST}"),
    "an empty record": (changed(RECORD, b""), f"{RECORD} is not what the run's machine has written"),
    "a record of nothing": (changed(RECORD, b'{"files": {}, "hmac": ""}'), f"{RECORD} is not what"),
    "a deep record": (changed(RECORD, b"[" * 100_000), f"{RECORD} is not what the run's machine has written"),
    "a record that was cut": (cut(RECORD), f"{RECORD} is not what the run's machine has written"),
    "all of it, with another key": (forged_record, f"{RECORD} is not what the run's machine has written"),
}  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE)
def test_results_that_are_not_vouched_for_are_named_and_not_used(desk: Desk, hostile: str) -> None:
    change, named = HOSTILE[hostile]
    desk.scripts(and_then(change))
    with pytest.raises(TrainingFailedError) as caught:
        launch(desk)
    assert named in caught.value.message
    assert "plan launch trains" in caught.value.hint
    (run,) = desk.journal.runs()
    assert (run.phase, run.outcome) == (Phase.DONE, Outcome.FAILED)
    assert run.message == caught.value.message
    # Nothing of it is at home, nothing of it is lost, and the run can go on from its checkpoint.
    assert not (desk.folder / "model").exists()
    assert b"evil" not in b"".join(path.read_bytes() for path in desk.folder.rglob("*.keras"))
    assert any(path.startswith("output/") for path in files_of(desk))
    assert any(path.endswith("/complete.json") for path in files_of(desk))


def test_results_that_are_vouched_for_come_home_with_their_receipt(desk: Desk) -> None:
    run, receipt = launch(desk)
    assert run.outcome is Outcome.SUCCEEDED
    assert {path.name: path.read_bytes() for path in (desk.folder / "model").iterdir()} == MODEL
    assert receipt.accuracy == 0.975
    assert not [event.text for event in desk.events_of(Message) if "vouch" in event.text]


def test_a_record_of_another_attempt_or_run_vouches_for_nothing(tmp_path: Path) -> None:
    key, files = "1" * 64, {MANIFEST: "a" * 64}
    raw = Vouching(key, "r1").record("1", files, ATTEMPT)
    assert Vouching(key, "r1").files("1", raw, ATTEMPT) == files
    assert Vouching(key, "r1").files("2", raw, ATTEMPT) is None
    assert Vouching(key, "r2").files("1", raw, ATTEMPT) is None
    assert Vouching(key, "r1").files("1", raw) is None, "it is no record of a checkpoint"


@pytest.mark.parametrize(
    ("change", "field_name"),
    [
        (lambda files: files.update({PROGRESS: files[PROGRESS].replace(b"0.975", b"0.999")}), f"{PROGRESS} is not"),
        (lambda files: files.pop(PROGRESS), f"{PROGRESS} is not"),
        (cut(PROGRESS), f"{PROGRESS} is not"),
    ],
)
def test_a_receipt_says_nothing_that_is_not_vouched_for(
    desk: Desk, change: Callable[[Files], object], field_name: str
) -> None:
    desk.scripts(and_then(change))
    run, receipt = launch(desk)
    assert run.outcome is Outcome.SUCCEEDED, "the model itself is vouched for"
    assert (receipt.accuracy, receipt.device, receipt.actual_images_per_second) == (None, None, None)
    told = [
        event.text
        for event in desk.events_of(Message)
        if event.text.startswith("the receipt lacks what the trainer said")
    ]
    assert field_name in told[0]


def test_a_run_that_began_without_a_key_comes_home_and_says_so(desk: Desk) -> None:
    run = desk.planned(targets=[a_target(provider="rented")])
    run, _ = desk.runner().follow(run, desk.request())
    assert run.outcome is Outcome.SUCCEEDED
    assert f"the model of run {run.run_id} cannot be verified: this home has no key of that run" in [
        event.text for event in desk.events_of(Message)
    ]


def test_a_secret_that_cannot_be_read_ends_no_run(desk: Desk) -> None:
    path = desk.settings.home / FILE

    def spoilt(_: Files) -> None:
        path.write_text("{")

    desk.scripts(and_then(spoilt))
    with pytest.raises(StateError, match=r"run-keys\.json is damaged"):
        launch(desk)
    (run,) = desk.journal.live()
    assert run.phase is Phase.COLLECTING
    path.unlink()  # as the message says
    run, _ = desk.runner().follow(run, desk.request())
    assert run.outcome is Outcome.SUCCEEDED
    assert (desk.folder / "model" / "model.keras").read_bytes() == MODEL["model.keras"]


@pytest.mark.parametrize("leaves_output", [False, True])
def test_a_run_that_is_stopped_with_a_damaged_key_has_ended_and_is_recorded(desk: Desk, *, leaves_output: bool) -> None:
    """Its machine is gone: without a record it would be called live for ever."""
    path = desk.settings.home / FILE

    def spoilt(machine: FakeMachine) -> Iterator[Sighting]:
        for seen in until_asked(machine):
            path.write_text("{")
            if leaves_output and seen.end is EndKind.STOPPED:
                machine.write_output(MODEL)
                machine.end("done", 1.0)
            yield seen

    desk.scripts(spoilt)
    with pytest.raises(Detached):
        desk.runner().follow(
            desk.planned(targets=[a_target(provider="rented")]),
            desk.request(key=RunKeys(desk.settings.home).key),
            until_launched=True,
        )
    run, receipt = stopped(desk.journal.live()[0], desk.runner())
    assert receipt is not None
    assert (run.outcome, desk.journal.live(), desk.leaked) == (Outcome.STOPPED, [], [])
    assert run.has_results_settled is not leaves_output
    assert ("run-keys.json is damaged" in (receipt.message or "")) is leaves_output
    path.unlink()
    if leaves_output:
        run, _ = desk.runner().follow(desk.runner().bring_home(run), desk.request())
        assert (desk.folder / "model" / "model.keras").read_bytes() == MODEL["model.keras"]


def test_a_later_attempt_of_a_run_without_a_key_gets_none_either(desk: Desk) -> None:
    """Its machine would refuse every checkpoint that the first one has stored."""
    desk.scripts(ends_after(EndKind.RECLAIMED, 3), trains_well)
    home = desk.settings.home
    run = desk.planned(targets=[a_target(provider="rented"), a_target(provider="rented", region="another")])
    desk.runner().follow(run, desk.request(key=lambda run: RunKeys(home).key(run) if run.attempts else ""))
    assert [request.run_key for request in desk.provider.received] == ["", ""]


# --- the machine's own part ------------------------------------------------------------------------------------------


def test_the_agent_vouches_for_manifest_and_progress_before_the_manifest_is_there(tmp_path: Path) -> None:
    rented = Rented(tmp_path, run_key="1" * 64)
    assert rented.run().state == "done"
    files = Vouching("1" * 64, "r1").files("1", rented.store.objects[attempt_path(1)], ATTEMPT)
    stored = rented.store.objects
    assert files == {path: hashlib.sha256(stored[path]).hexdigest() for path in (MANIFEST, PROGRESS)}
    order = rented.store.puts
    assert order.index(RECORD) < order.index(MANIFEST)
    assert order.index("output/model.keras") < order.index(RECORD)


def test_an_agent_without_a_key_writes_no_record(tmp_path: Path) -> None:
    rented = Rented(tmp_path)
    assert rented.run().state == "done"
    assert RECORD not in rented.store.objects


def test_a_checkpoint_that_leaves_this_computer_is_vouched_for_on_the_way(desk: Desk) -> None:
    """A rented machine takes no other, and on this computer no agent vouches for anything."""
    from tests.doubles.fake_machine import FakeStore
    from trainplan.planner.runs.execution.checkpoint_transfer import carry

    here, there, steps = FakeStore(), FakeStore(), list[int]()
    here.files = {"checkpoints/step-00000003/weights": b"w", "checkpoints/step-00000003/complete.json": b"{}"}
    carry(here, there, Vouching("1" * 64, "r1"), steps.append)
    assert (steps, list(there.files)[-1]) == ([3], "checkpoints/step-00000003/complete.json")
    raw = there.files["checkpoints/step-00000003/vouched.json"]
    files = Vouching("1" * 64, "r1").files("step-00000003", raw)
    stored = {"weights": b"w", "complete.json": b"{}"}
    assert files == {name: hashlib.sha256(data).hexdigest() for name, data in stored.items()}
