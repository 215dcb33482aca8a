"""The three object stores as client and machine find them: moto's S3 server, Azurite, and the double of Google's."""

from __future__ import annotations

import base64
import json
import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.doubles.azurite import ACCOUNT, ACCOUNT_KEY, azurite
from tests.doubles.gcs import GcsDouble
from tests.e2e.yard.network import Relay
from tests.e2e.yard.yard import BLOB, Yard


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """`options` and `environment` are the client's settings; `relay` is the machine's way, `endpoints` its addresses.

    `token` is the machine's own where the store looks at it.
    """

    cloud: str
    relay: Relay
    options: Mapping[str, str]
    endpoints: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    token: str = "token-of-the-machine"


@contextmanager
def s3(yard: Yard) -> Iterator[Store]:
    """moto's server in a process of this one."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        url = "http://{}:{}".format(*server.get_host_and_port())
        relay = yard.relay(url)
        environment = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_CONFIG_FILE": "/nowhere",
            "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        options = {"region": "eu-west-1", "bucket": _bucket(), "endpoint": url}
        yield Store(cloud="aws", relay=relay, options=options, environment=environment, endpoints={"s3": relay.url})
    finally:
        server.stop()


@contextmanager
def gcs(yard: Yard) -> Iterator[Store]:
    with GcsDouble() as double:
        relay = yard.relay(double.url)
        options = {"project": "a-project", "bucket": _bucket(), "endpoint": double.url}
        yield Store(cloud="gcp", relay=relay, options=options, endpoints={"gcs": relay.url})


@contextmanager
def blob(yard: Yard, folder: Path) -> Iterator[Store]:
    """Azurite over TLS, which looks at the machine's token; the client has the account's key."""
    options = ["--oauth", "basic", "--cert", str(yard.certificate), "--key", str(yard.certificate)]
    with azurite(folder, *options, "--disableProductStyleUrl") as url:
        relay = yard.relay(url)
        yield Store(
            cloud="azure",
            relay=relay,
            options={"account": ACCOUNT, "bucket": _bucket(), "endpoint": url},
            environment={"AZURE_STORAGE_KEY": ACCOUNT_KEY, "REQUESTS_CA_BUNDLE": str(yard.authority)},
            endpoints={"blob": f"https://{BLOB}:{relay.port}"},
            token=_managed_identity(),
        )


def _managed_identity() -> str:
    """A token as Azure's metadata service gives it: Azurite checks everything of it but who signed it."""
    claims = {
        "aud": "https://storage.azure.com",
        "iss": f"https://sts.windows.net/{uuid.uuid4()}/",
        "iat": 1_500_000_000,
        "nbf": 1_500_000_000,
        "exp": 4_000_000_000,
        "oid": str(uuid.uuid4()),
    }
    parts = ({"typ": "JWT", "alg": "RS256"}, claims)
    return ".".join([*(_unpadded(json.dumps(part).encode()) for part in parts), _unpadded(b"signature")])


def _unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bucket() -> str:
    return f"b-{uuid.uuid4().hex[:12]}"
