"""A hostile writer of the bucket: what was swapped or cut in it is noticed, named, and not used."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.builders import a_run
from tests.unit.providers.agent.machine import MemoryStore, Rented, drained
from tests.unit.providers.cloud.test_machine import part, spec_of
from trainplan.planner.errors import StateError
from trainplan.planner.runs.directory.run_keys import RunKeys
from trainplan.providers.agent.downloads import FetchError, fetch
from trainplan.providers.agent.signatures import Vouching
from trainplan.providers.agent.spec import SpecError, read_spec
from trainplan.providers.base import RunId

KEY, OTHER_KEY = "1" * 64, "2" * 64
LATE = "checkpoints/step-00000060"
Objects = dict[str, bytes]


@pytest.mark.parametrize("swapped", [b'{"epochs": 1}', b"{", b""])
def test_another_job_is_refused_and_not_kept(tmp_path: Path, swapped: bytes) -> None:
    rented = Rented(tmp_path)
    rented.store.objects["job.json"] = swapped
    with pytest.raises(FetchError, match=r"job\.json is not what was promised"):
        drained(fetch(rented.machine))
    assert not (rented.paths.run_dir / "job.json").exists()


def test_the_attempt_ends_with_the_name_of_what_was_swapped(tmp_path: Path) -> None:
    rented = Rented(tmp_path)
    rented.store.objects["job.json"] = b"[]"
    ending = rented.run()
    assert (ending.state, ending.reason) == ("failed", "NOT_FETCHED")
    assert "job.json is not what was promised" in rented.status["message"]
    assert rented.docker.calls_of("docker", "create") == []


def test_the_spec_vouches_for_the_job_that_is_sent() -> None:
    made = part()
    (job,) = (stored for stored in made.objects if stored.path == "job.json")
    assert spec_of(made).job_sha256 == job.sha256


@pytest.mark.parametrize("sha256", ["", "x" * 64, "a" * 63, None])
def test_a_spec_that_vouches_for_no_job_is_refused(sha256: str | None) -> None:
    (spec,) = (stored for stored in part().objects if stored.path.endswith("spec.json"))
    values = json.loads(spec.data) | {"job_sha256": sha256}
    with pytest.raises(SpecError):
        read_spec(json.dumps(values))


def forge(objects: Objects, key: str, name: str) -> None:
    """Weights of the writer's own, with every hash that lies beside them made to fit."""
    evil = b"evil weights"
    folder = f"checkpoints/{name}"
    mark = json.dumps({"step": int(name[5:]), "files": {"state.npz": hashlib.sha256(evil).hexdigest()}}).encode()
    files = {"state.npz": hashlib.sha256(evil).hexdigest(), "complete.json": hashlib.sha256(mark).hexdigest()}
    objects[f"{folder}/state.npz"], objects[f"{folder}/complete.json"] = evil, mark
    if key:
        objects[f"{folder}/vouched.json"] = Vouching(key, "r1").record(name, files)


def copied(objects: Objects, name: str) -> None:
    """A checkpoint that the run has stored, under another name."""
    for path in [path for path in objects if path.startswith(f"{LATE}/")]:
        objects[path.replace(LATE, f"checkpoints/{name}")] = objects[path]


def changed(objects: Objects, file: str, data: bytes) -> None:
    objects[f"{LATE}/{file}"] = data


def marked_anew(objects: Objects, *, above: bool) -> None:
    """Another mark with the same hashes in it, whose own hash sorts above or below that of the mark vouched for."""
    mark = objects[f"{LATE}/complete.json"]
    before = hashlib.sha256(mark).hexdigest()
    other = mark + b" "
    while (hashlib.sha256(other).hexdigest() > before) is not above:
        other += b" "
    changed(objects, "complete.json", other)


HOSTILE: dict[str, Callable[[Objects], object]] = {
    "weights swapped": lambda objects: changed(objects, "state.npz", b"evil"),
    "weights cut": lambda objects: changed(objects, "state.npz", objects[f"{LATE}/state.npz"][:-1]),
    "weights gone": lambda objects: objects.pop(f"{LATE}/state.npz"),
    "a mark without hashes": lambda objects: changed(objects, "complete.json", b"{}"),
    "another mark, of a higher hash": lambda objects: marked_anew(objects, above=True),
    "another mark, of a lower hash": lambda objects: marked_anew(objects, above=False),
    "nobody vouches": lambda objects: objects.pop(f"{LATE}/vouched.json"),
    "an empty record": lambda objects: changed(objects, "vouched.json", b"{}"),
    "no record": lambda objects: changed(objects, "vouched.json", b"[" * 100_000),
    "all of it swapped": lambda objects: forge(objects, "", "step-00000060"),
    "signed with another key": lambda objects: forge(objects, OTHER_KEY, "step-00000060"),
    "a file too many": lambda objects: changed(objects, "more.npz", b"evil"),
    "a later one without a record": lambda objects: forge(objects, "", "step-99999999"),
    "a later one with another's": lambda objects: forge(objects, OTHER_KEY, "step-99999999"),
    "an old one as a later one": lambda objects: copied(objects, "step-99999999"),
}


def stored(tmp_path: Path, key: str) -> MemoryStore:
    """What a machine of the run has stored: the checkpoints of steps 30 and 60."""
    first = Rented(tmp_path / "first", run_key=key)
    for step in (30, 60):
        first.trainer.step = step
        first.trainer.checkpoint()
        assert drained(first.agent.checkpoints.push(f"step-{step:08}"))
    return first.store


def started_run(tmp_path: Path, store: MemoryStore, key: str) -> tuple[Rented, str]:
    """The run's next machine, and what it goes on from."""
    second = Rented(tmp_path / "second", store, run_key=key)
    return second, drained(second.agent.checkpoints.restore())


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_checkpoint_that_is_not_vouched_for_is_named_and_not_used(tmp_path: Path, hostile: str) -> None:
    store = stored(tmp_path, KEY)
    HOSTILE[hostile](store.objects)
    second, name = started_run(tmp_path, store, KEY)
    assert name == ("step-00000060" if "later" in hostile else "step-00000030")
    bad = "step-99999999" if "later" in hostile else "step-00000060"
    assert second.agent.checkpoints.remark == (
        f"checkpoint {bad} in the store is not what this run has stored: it was not used"
    )
    weights = [path.read_bytes() for path in second.paths.run_dir.rglob("*.npz")]
    assert [data[:7] for data in weights] == [b"weights"]
    # What is trained from here on is stored, whatever number the writer gave to theirs.
    second.trainer.step = 90
    second.trainer.checkpoint()
    assert second.agent.checkpoints.waiting() == "step-00000090"


@pytest.mark.parametrize("hostile", ["weights swapped", ""])
def test_the_person_is_told_of_a_checkpoint_that_was_not_used_and_of_no_other(tmp_path: Path, hostile: str) -> None:
    """In the status that the client shows: training that begins earlier than it could costs money."""
    store = stored(tmp_path, KEY)
    HOSTILE.get(hostile, len)(store.objects)
    second = Rented(tmp_path / "second", store, run_key=KEY)
    second.run()
    told = second.status.get("warning")
    assert told == (
        "checkpoint step-00000060 in the store is not what this run has stored: it was not used" if hostile else None
    )


def test_a_checkpoint_that_is_vouched_for_is_used(tmp_path: Path) -> None:
    second, name = started_run(tmp_path, stored(tmp_path, KEY), KEY)
    assert (name, second.agent.checkpoints.remark) == ("step-00000060", "")
    assert not list(second.paths.run_dir.rglob("vouched.json"))


def test_a_run_that_began_without_a_key_goes_on_and_says_so(tmp_path: Path) -> None:
    second, name = started_run(tmp_path, stored(tmp_path, ""), "")
    assert name == "step-00000060"
    assert second.agent.checkpoints.remark == (
        "checkpoint step-00000060 is not vouched for: the run began without a key"
    )


def test_the_key_is_in_what_the_machine_boots_with_and_in_no_object() -> None:
    made = part(run_key=KEY)
    assert KEY in made.user_data
    assert not any(KEY.encode() in stored.data for stored in made.objects)


def test_the_key_of_a_run_is_the_same_for_each_attempt_and_another_for_each_run(tmp_path: Path) -> None:
    keys, run = RunKeys(tmp_path), a_run()
    key = keys.key(run)
    assert len(bytes.fromhex(key)) == 32
    assert keys.key(replace(run, outcome=None)) == key == RunKeys(tmp_path).key(run)
    assert keys.key(replace(run, run_id=RunId("another"))) != key
    assert keys.key(replace(run, created_at=run.created_at - timedelta(seconds=1))) == ""
    assert keys.key(replace(run, taken_over=True)) == ""
    assert stat.S_IMODE((tmp_path / "run-keys.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": 1, "since": "soon", "secret": "x"}'])
def test_a_damaged_file_of_keys_is_an_error_that_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "run-keys.json").write_text(text)
    with pytest.raises(StateError, match=r"run-keys\.json is damaged"):
        RunKeys(tmp_path).key(a_run())
