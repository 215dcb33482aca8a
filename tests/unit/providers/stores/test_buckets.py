"""The bucket made on first use: private, by our own name, as it should be, and nobody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.proxy import Break, Fault
from tests.unit.providers.stores.worlds import NOW, GcsWorld, World
from trainplan.providers.base import ProviderSettings, RunId
from trainplan.providers.errors import BadRequestError, PermissionDeniedError
from trainplan.providers.stores import registry
from trainplan.providers.stores.bucket import BucketMissingError, part_bytes
from trainplan.providers.stores.store import run_store


def test_reading_makes_no_bucket_and_writing_does(away: World, tmp_path: Path) -> None:
    store = away.store()
    assert list(store.list()) == []
    with pytest.raises(KeyError):
        store.get("f")
    with pytest.raises(KeyError):
        store.get_file("f", tmp_path / "f")
    store.delete("")
    with pytest.raises(BucketMissingError):
        away.bucket().page("", "")
    (tmp_path / "g").write_bytes(b"1")
    store.put_file("g", tmp_path / "g")
    assert list(away.store().list()) == ["g"]


def test_making_a_bucket_is_patient(away: World) -> None:
    method = {"aws": "PUT", "gcp": "POST", "azure": "PUT"}[away.name]
    away.break_with(Fault(Break.LOST, method, times=3))
    away.store().put("f", b"1")
    assert away.store().get("f") == b"1"


def test_nobody_may_make_one(away: World) -> None:
    method = {"aws": "PUT", "gcp": "POST", "azure": "PUT"}[away.name]
    store = away.store()
    away.break_with(away.server.denied(), method=method, times=1000)
    with pytest.raises(PermissionDeniedError):
        store.put("f", b"1")


def test_the_address_is_what_the_machine_is_told(away: World) -> None:
    name = away.options["bucket"]
    uris = {"aws": f"s3://{name}", "gcp": f"gs://{name}", "azure": f"azblob://devstoreaccount1/{name}"}
    assert away.store("r7").uri == f"{uris[away.name]}/runs/r7"


# --- S3 ----------------------------------------------------------------------------------------------------------


def s3_settings(client: Any, name: str) -> dict[str, Any]:
    return {
        "where": client.get_bucket_location(Bucket=name)["LocationConstraint"],
        "closed": client.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"],
        "rules": client.get_bucket_lifecycle_configuration(Bucket=name)["Rules"],
        "versions": client.get_bucket_versioning(Bucket=name).get("Status"),
    }


@pytest.mark.parametrize("away", ["s3"], indirect=True)
def test_s3_is_made_private_and_forgetful(away: World) -> None:
    store = away.store(bucket="", keep_days="7")
    name = "trainplan-123456789012-eu-central-1"
    assert store.uri == f"s3://{name}/runs/r1"
    store.put("f", b"1")
    client: Any = away.bucket(bucket="").client  # type: ignore[attr-defined]
    made = s3_settings(client, name)
    assert made["where"] == "eu-central-1"
    assert set(made["closed"].values()) == {True}
    assert len(made["closed"]) == 4
    assert made["versions"] is None
    rules = {rule["ID"]: rule for rule in made["rules"]}
    assert rules["unfinished-uploads"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    assert (rules["old-runs"]["Filter"], rules["old-runs"]["Expiration"]) == ({"Prefix": "runs/"}, {"Days": 7})
    # Made and arranged once: another client only looks whether it is.
    seen = len(away.proxy.requests)
    away.store(bucket="").put("f", b"2")
    assert not [path for method, path in away.proxy.requests[seen:] if method == "PUT" and "runs/" not in path]


@pytest.mark.parametrize("away", ["s3"], indirect=True)
def test_s3_is_arranged_though_the_first_client_died_half_way(away: World) -> None:
    region = "eu-west-1"
    away.break_with(away.server.denied(), method="PUT", part="publicAccessBlock", times=1)
    with pytest.raises(PermissionDeniedError):
        away.store(bucket="", region=region).put("f", b"1")
    client: Any = away.bucket(bucket="", region=region).client  # type: ignore[attr-defined]
    assert client.head_bucket(Bucket=f"trainplan-123456789012-{region}")
    away.store(bucket="", region=region).put("f", b"1")
    made = s3_settings(client, f"trainplan-123456789012-{region}")
    assert set(made["closed"].values()) == {True}
    assert len(made["rules"]) == 2


@pytest.mark.parametrize("away", ["s3"], indirect=True)
def test_s3_leaves_a_bucket_of_the_persons_as_it_is(away: World) -> None:
    client: Any = away.bucket().client  # type: ignore[attr-defined]
    client.create_bucket(
        Bucket=away.options["bucket"], CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    away.store().put("f", b"1")
    with pytest.raises(client.exceptions.ClientError, match="NoSuchLifecycleConfiguration"):
        client.get_bucket_lifecycle_configuration(Bucket=away.options["bucket"])


@pytest.mark.parametrize("away", ["s3"], indirect=True)
def test_s3_tells_whose_bucket_it_has_to_be(away: World) -> None:
    store = away.store(bucket="", region="us-west-2")
    away.break_with(Fault(Break.REFUSED, "HEAD", status=403))
    with pytest.raises(PermissionDeniedError, match="not yours") as raised:
        store.put("f", b"1")
    assert "bucket" in raised.value.hint


# --- Google ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("away", ["gcs"], indirect=True)
def test_google_is_made_private_and_forgetful(away: World, gcs: GcsWorld) -> None:
    store = away.store(bucket="", region="europe-west4", project="p1")
    assert store.uri == "gs://trainplan-p1-europe-west4/runs/r1"
    store.put("f", b"1")
    made = gcs.double.world.buckets["trainplan-p1-europe-west4"]
    assert made["location"] == "europe-west4"
    assert made["project"] == "p1"
    assert made["iamConfiguration"] == {
        "publicAccessPrevention": "enforced",
        "uniformBucketLevelAccess": {"enabled": True},
    }
    assert made["softDeletePolicy"] == {"retentionDurationSeconds": "0"}
    assert made["versioning"] == {"enabled": False}
    assert made["lifecycle"]["rule"] == [
        {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 1}},
        {"action": {"type": "Delete"}, "condition": {"age": 90, "matchesPrefix": ["runs/"]}},
    ]


@pytest.mark.parametrize("away", ["gcs"], indirect=True)
def test_google_does_not_write_to_somebody_elses_bucket(away: World, gcs: GcsWorld) -> None:
    """One of our name, though it would let us in."""
    world = gcs.double.world
    name = "trainplan-p2-us-central1"
    world.buckets[name], world.objects[name] = {"name": name, "project": "a-thief"}, {}
    with pytest.raises(PermissionDeniedError, match="belongs to somebody else"):
        away.store(bucket="", project="p2").put("f", b"1")
    assert world.objects[name] == {}


@pytest.mark.parametrize("away", ["gcs"], indirect=True)
def test_google_takes_less_than_it_was_sent(away: World, gcs: GcsWorld, tmp_path: Path) -> None:
    gcs.double.world.takes_at_most = 3 * 1024 * 1024
    try:
        (tmp_path / "f").write_bytes(bytes(range(256)) * 80_000)
        sha256 = away.store().put_file("f", tmp_path / "f")
        assert away.store().get_file("f", tmp_path / "g", sha256)
    finally:
        gcs.double.world.takes_at_most = None


# --- Azure -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("away", ["azure"], indirect=True)
def test_azure_is_private_and_closes_what_was_opened(away: World) -> None:
    store = away.store(bucket="")
    assert store.uri == "azblob://devstoreaccount1/trainplan/runs/r1"
    store.put("f", b"1")
    container: Any = away.bucket(bucket="")._container  # type: ignore[attr-defined]
    assert container.get_container_properties().public_access is None
    container.set_container_access_policy(signed_identifiers={}, public_access="blob")
    assert container.get_container_properties().public_access == "blob"
    away.store(bucket="").put("f", b"1")
    assert container.get_container_properties().public_access is None


# --- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("aws", {"bucket": "No Such Name"}, "bucket = 'No Such Name' is not"),
        ("aws", {"bucket": "b", "keep_days": "-1"}, "bucket = 'b' is not"),
        ("gcp", {"keep_days": "soon"}, "keep_days 'soon' are not days"),
        ("gcp", {"keep_days": "99999"}, "are not days"),
        ("gcp", {"endpoint": "localhost"}, "endpoint = 'localhost' is not"),
        ("gcp", {"endpoint": "http://127.0.0.1:1"}, "no Google Cloud project is named"),
        ("azure", {}, "no storage account is named"),
        ("nobody", {}, "'nobody' has no object storage"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, name: str, options: dict[str, str], message: str) -> None:
    settings = ProviderSettings(home=tmp_path, options=options, environment={}, now=lambda: NOW)
    with pytest.raises(BadRequestError, match=message) as raised:
        registry.bucket(name, settings)
    assert raised.value.hint


def test_a_run_id_is_a_name(away: World) -> None:
    for run_id in ("", ".", "..", "a/b", "-x"):
        with pytest.raises(BadRequestError):
            run_store(away.bucket(), RunId(run_id))


@pytest.mark.parametrize("size", [0, 1, 8 * 2**20, 84 * 10**9, 5 * 2**40])
def test_there_are_never_too_many_parts(size: int) -> None:
    assert -(-size // part_bytes(size)) <= 10_000
    assert part_bytes(size) % 2**18 == 0
