"""In which region a bucket is, before anybody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainplan.providers.stores.regions import bucket_region

CONFIG = "[default]\nregion = eu-west-1\n[profile work]\nregion = eu-central-1\n[profile bare]\noutput = json\n"


@pytest.mark.parametrize(
    ("provider", "options", "region"),
    [
        ("aws", {}, "us-east-1"),
        ("aws", {"region": "sa-east-1"}, "sa-east-1"),
        ("gcp", {}, "us-central1"),
        ("gcp", {"region": "europe-west4"}, "europe-west4"),
        ("azure", {}, ""),
        ("azure", {"region": "westeurope"}, "westeurope"),
        ("sim", {}, ""),
    ],
)
def test_the_setting_goes_before_where_a_bucket_would_be_made(
    provider: str, options: dict[str, str], region: str
) -> None:
    assert bucket_region(provider, options, {}) == region


@pytest.mark.parametrize(
    ("environment", "region"),
    [
        ({}, "eu-west-1"),
        ({"AWS_PROFILE": "work"}, "eu-central-1"),
        ({"AWS_DEFAULT_PROFILE": "work", "AWS_PROFILE": "bare"}, "eu-central-1"),
        ({"AWS_PROFILE": "bare"}, "us-east-1"),
        ({"AWS_PROFILE": "gone"}, "us-east-1"),
        ({"AWS_DEFAULT_REGION": "ap-south-1"}, "ap-south-1"),
    ],
)
@pytest.mark.parametrize("where", ["HOME", "AWS_CONFIG_FILE"])
def test_aws_is_asked_where_its_sdk_looks(tmp_path: Path, where: str, environment: dict[str, str], region: str) -> None:
    file = tmp_path / ".aws" / "config"
    file.parent.mkdir()
    file.write_text(CONFIG, encoding="utf-8")
    found = {where: str(file if where == "AWS_CONFIG_FILE" else tmp_path)} | environment
    assert bucket_region("aws", {}, found) == region
    assert bucket_region("aws", {"region": "us-west-2"}, found) == "us-west-2"
    assert bucket_region("gcp", {}, found) == "us-central1"


@pytest.mark.parametrize("content", [b"region = nowhere\n", b"\xff\xfe", b""])
def test_a_file_that_cannot_be_read_tells_nothing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config"
    file.write_bytes(content)
    assert bucket_region("aws", {}, {"AWS_CONFIG_FILE": str(file)}) == "us-east-1"
