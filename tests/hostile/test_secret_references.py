"""A hostile author of a job: no secret reference leads a call, and the machine's token, to a host of their own."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.builders import a_job
from tests.rows import each_row
from trainplan.providers.agent.requests import Access
from trainplan.providers.agent.vault import SecretError, is_reference, resolve
from trainplan.providers.cloud.secrets import references
from trainplan.providers.errors import BadRequestError

NOON = 1_700_000_000.0
ACCOUNT = "123456789012"
HOSTILE = {
    "aws": (
        f"aws-sm:arn:aws:secretsmanager:evil.example/x?:{ACCOUNT}:secret:a",
        f"aws-sm:arn:aws:secretsmanager:evil.example#:{ACCOUNT}:secret:a",
        f"aws-sm:arn:aws:secretsmanager:eu-west-1.evil.example:{ACCOUNT}:secret:a",
        f"aws-sm:arn:aws:secretsmanager:eu-west-1@evil.example/:{ACCOUNT}:secret:a",
        f"aws-sm:arn:aws:secretsmanager::{ACCOUNT}:secret:a",
        f"aws-sm:arn:aws:secretsmanager:cn-north-1:{ACCOUNT}:secret:a",
        f"aws-sm:arn:aws:s3:eu-west-1:{ACCOUNT}:secret:a",
        "aws-sm:arn:aws:secretsmanager:eu-west-1:1:secret:a",
        "aws-sm:arn:",
        "aws-sm:",
        "aws-sm:a?b",
        "aws-sm:a#",
        f"x aws-sm:arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:a",
    ),
    "gcp": (
        "gcp-sm:projects/p/secrets/../../../../v1/projects/p/secrets/s/versions/1",
        "gcp-sm:projects/p/secrets/s/versions/1:destroy",
        "gcp-sm:projects/p/secrets/s/versions/1?x=",
        "gcp-sm:projects/p/secrets/s",
    ),
    "azure": (
        "akv:https://evil.example/secrets/key",
        "akv:https://evil.example/.vault.azure.net/secrets/key",
        "akv:https://evil.example?.vault.azure.net/secrets/key",
        "akv:https://evil.example#.vault.azure.net/secrets/key",
        "akv:https://evil.example\\@vlt.vault.azure.net/secrets/key",
        "akv:https://user@vlt.vault.azure.net/secrets/key",
        "akv:https://vlt.vault.azure.net:444/secrets/key",
        "akv:https://a.b.vault.azure.net/secrets/key",
        "akv:https://vlt.vault.azure.net/keys/key",
        "akv:https://vlt.vault.azure.net/secrets/key?x=1",
        "akv:http://vlt.vault.azure.net/secrets/key",
    ),
}
URIS = {"aws": "s3://bucket/runs/r", "gcp": "gs://bucket/runs/r", "azure": "azblob://account/box/runs/r"}
CREDENTIALS = {
    "aws": b'{"AccessKeyId":"k","SecretAccessKey":"s","Token":"t","Expiration":"2030-01-01T00:00:00Z"}',
    "gcp": b'{"access_token":"t","expires_in":3599}',
    "azure": b'{"access_token":"t","expires_in":3599}',
}
VALUE = b'{"SecretString":"v","payload":{"data":"dg=="},"value":"v"}'


class Recorder:
    """The vendors' hosts: a metadata service that gives credentials; every other address is kept and answered."""

    def __init__(self, cloud: str) -> None:
        self.cloud = cloud
        self.urls: list[str] = []

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None, timeout: float = 20.0
    ) -> tuple[int, dict[str, str], bytes]:
        if url.startswith("http://169.254.169.254/"):
            return 200, {}, b"role" if url.endswith("security-credentials/") else CREDENTIALS[self.cloud]
        self.urls.append(url)
        return 200, {}, VALUE

    def access(self) -> Access:
        boot = {"cloud": self.cloud, "run_uri": URIS[self.cloud], "region": "eu-west-1"}
        return Access(boot, send=self.send, now=lambda: NOON)


@each_row(("cloud", "reference"), [(cloud, text) for cloud, texts in HOSTILE.items() for text in texts])
def test_a_hostile_reference_is_asked_of_nobody(cloud: str, reference: str) -> None:
    asked = Recorder(cloud)
    assert not is_reference(reference)
    with pytest.raises(SecretError):
        resolve(asked.access(), reference)
    assert asked.urls == []


@pytest.mark.parametrize(("cloud", "reference"), [(cloud, texts[0]) for cloud, texts in HOSTILE.items()])
def test_it_is_refused_before_anything_is_rented(cloud: str, reference: str) -> None:
    with pytest.raises(BadRequestError, match="TOKEN is no reference") as caught:
        references(a_job(secrets={"TOKEN": reference}), cloud)
    assert "evil" not in caught.value.message


@pytest.mark.parametrize(
    ("cloud", "reference", "url"),
    [
        (
            "aws",
            f"aws-sm:arn:aws:secretsmanager:ap-southeast-2:{ACCOUNT}:secret:trainplan/a-AbCdEf",
            "https://secretsmanager.ap-southeast-2.amazonaws.com/",
        ),
        (
            "aws",
            f"aws-sm:arn:aws-us-gov:secretsmanager:us-gov-west-1:{ACCOUNT}:secret:a",
            "https://secretsmanager.us-gov-west-1.amazonaws.com/",
        ),
        (
            "aws",
            f"aws-sm:arn:aws-cn:secretsmanager:cn-north-1:{ACCOUNT}:secret:a",
            "https://secretsmanager.cn-north-1.amazonaws.com.cn/",
        ),
        ("aws", "aws-sm:trainplan/hub", "https://secretsmanager.eu-west-1.amazonaws.com/"),
        (
            "gcp",
            "gcp-sm:projects/p/secrets/s/versions/latest",
            "https://secretmanager.googleapis.com/v1/projects/p/secrets/s/versions/latest:access",
        ),
        (
            "azure",
            "akv:https://vlt.vault.azure.net/secrets/key",
            "https://vlt.vault.azure.net/secrets/key?api-version=7.4",
        ),
    ],
)
def test_a_good_reference_is_asked_of_its_vendor(cloud: str, reference: str, url: str) -> None:
    asked = Recorder(cloud)
    assert is_reference(reference)
    assert resolve(asked.access(), reference) == "v"
    assert asked.urls == [url]
