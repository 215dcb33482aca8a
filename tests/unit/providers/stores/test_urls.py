"""Data that somebody else keeps: where an address points, and how much is there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.doubles.proxy import Break, Fault, Proxy
from tests.unit.providers.stores.worlds import World
from trainplan.providers.errors import BadRequestError, PermissionDeniedError, TransientError
from trainplan.providers.stores.patience import Patience
from trainplan.providers.stores.urls import BucketAddress, bucket_address, size_bytes


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://b/imagenet/train", BucketAddress(provider="aws", bucket="b", prefix="imagenet/train")),
        ("gs://b", BucketAddress(provider="gcp", bucket="b", prefix="")),
        ("az://acc/box/a/b/", BucketAddress(provider="azure", bucket="box", prefix="a/b", account="acc")),
    ],
)
def test_where_an_address_points(url: str, expected: BucketAddress) -> None:
    assert bucket_address(url) == expected


@pytest.mark.parametrize("url", ["s3://", "ftp://b/x", "az://account", "b/x", ""])
def test_addresses_that_point_nowhere(url: str) -> None:
    with pytest.raises(BadRequestError, match="no address of a bucket"):
        bucket_address(url)


def test_how_much_lies_in_a_bucket(away: World) -> None:
    store = away.store()
    store.put("set/a", b"12345")
    store.put("set/b/c", b"678")
    store.put("set-2/d", b"9")
    bucket = away.options["bucket"]
    roots = {"aws": f"s3://{bucket}", "gcp": f"gs://{bucket}", "azure": f"az://devstoreaccount1/{bucket}"}
    root = roots[away.name]
    assert size_bytes(f"{root}/runs/r1/set", away.settings()) == 8
    assert size_bytes(f"{root}/runs/r1/set/a", away.settings()) == 5
    assert size_bytes(root, away.settings()) == 9
    with pytest.raises(BadRequestError, match="is empty or does not exist"):
        size_bytes(f"{root}/runs/r1/se", away.settings())


@pytest.fixture
def web() -> Iterator[Proxy]:
    """A web server that answers what the test wants."""
    with Proxy("http://127.0.0.1:9") as proxy:
        yield proxy


@pytest.mark.parametrize(
    ("status", "error"), [(404, BadRequestError), (403, PermissionDeniedError), (503, TransientError)]
)
def test_the_web_says_no(web: Proxy, away: World, status: int, error: type[Exception]) -> None:
    web.faults.append(Fault(Break.REFUSED, status=status, times=9))
    with pytest.raises(error):
        size_bytes(f"{web.url}/set.tar", away.settings(), Patience(sleep=away.slept.append))


@pytest.mark.parametrize("away", ["gcs"], indirect=True)
def test_how_much_lies_on_the_web(web: Proxy, away: World) -> None:
    web.faults += [Fault(Break.CLOSED), Fault(Break.REFUSED, "HEAD", status=200, body=b"x" * 1234)]
    assert size_bytes(f"{web.url}/set.tar", away.settings(), Patience(sleep=away.slept.append)) == 1234
    assert away.slept == [0.5]
