"""The result of a drill: what names an account is taken out of every text, and no file with such a thing is one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rows import each_row
from trainplan.extensions.drill.behaviours import SETTLES
from trainplan.extensions.drill.grounds import FOLDER, add_result, ground_of, ground_text, results
from trainplan.extensions.drill.redaction import is_clean, redacted
from trainplan.extensions.drill.result import DrillResult, Verdict, read_result, without_secrets, write_result
from trainplan.extensions.drill.steps import PROVES, Step
from trainplan.planner.errors import BadInputError, StateError

SECRETS = {
    "AWS account": "123456789012",
    "AWS account with dashes": "1234-5678-9012",
    "ARN": "arn:aws:iam::123456789012:role/trainplan-machine",
    "AWS access key": "AKIAIOSFODNN7EXAMPLE",
    "AWS secret key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "instance": "i-0123456789abcdef0",
    "volume": "vol-0fedcba987654321",
    "interface": "eni-01234567",
    "security group": "sg-0a1b2c3d4e5f60718",
    "project path": "projects/my-own-project/zones/us-east1-b",
    "self link": "https://www.googleapis.com/compute/v1/projects/my-own-project/zones/z/instances/n",
    "service account": "trainplan@my-own-project.iam.gserviceaccount.com",
    "Google token": "ya29.a0AfH6SMBx-0123456789abcdefghij",
    "Google key": "AIzaSyA-0123456789abcdefghijklmnopqrstu",
    "subscription": "00c0ffee-1234-4321-aaaa-0123456789ab",
    "resource": "/subscriptions/00c0ffee/resourceGroups/mine/providers/Microsoft.Compute/virtualMachines/vm",
    "storage host": "mystorage.blob.core.windows.net",
    "bucket": "s3://somebodys-bucket/runs/1",
    "signed address": "https://host.example/path?sig=abc%2Fdef&se=2026",
    "signature": "sig=abcdefgh12345678",
    "e-mail": "some.body@example.org",
    "IPv4": "203.0.113.17",
    "IPv6": "2001:db8::8a2e:370:7334",
    "whole IPv6": "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP",
    "bearer": "Bearer abcdefghijklmnop",
    "password": "password: hunter2",
    "hash": "d41d8cd98f00b204e9800998ecf8427e",
    "run": "261123-0badcafe",
    "home": "/home/somebody/.local/share/trainplan",
    "Windows home": "C:\\Users\\somebody\\plan",
    "host name": "ip-10-0-0-1.ec2.internal",
    "private key": "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----",
}
ACCOUNT_NAME = "somebodys-own-name"


def a_result(**changes: Any) -> dict[str, Any]:
    """A result as its file has it."""
    steps = [
        {"step": step, "verdict": "proven", "detail": "as it should be", "seconds": 1.5, "proves": []}
        for step in PROVES
    ]
    return {
        "format": 1, "provider": "aws", "day": "2026-11-23", "version": "0.9.1", "regions": ["us-east-1"],
        "machine_type": "t3.medium", "device": "cpu", "usd_per_hour": "0.0416", "usd_estimate": "0.05",
        "seconds": 1800.0, "steps": steps,
    } | changes  # fmt: skip


def texts(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a text stands."""
    match value:
        case str():
            yield at
        case dict():
            for key, held in value.items():
                yield from texts(held, (*at, key))
        case list():
            for number, held in enumerate(value):
                yield from texts(held, (*at, number))
        case _:
            return


def planted(value: Any, at: tuple[Any, ...], secret: str) -> Any:
    """A copy with the secret put into the text there."""
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = f"{inner[at[-1]]} {secret} and more"
    return copy


@each_row("kind", SECRETS)
def test_a_secret_in_any_text_of_a_result_is_taken_out(kind: str) -> None:
    secret = SECRETS[kind]
    whole = a_result()
    for at in texts(whole):
        clean = json.dumps(without_secrets(planted(whole, at, secret), ()))
        assert secret not in clean, at
        assert json.dumps(secret)[1:-1] not in clean, at
        for word in ("123456789012", "somebody", "my-own-project", "00c0ffee", "hunter2"):
            assert word not in clean, at


@pytest.mark.parametrize("kind", SECRETS)
def test_a_file_with_a_secret_in_any_text_is_no_result(kind: str, tmp_path: Path) -> None:
    whole, path = a_result(), tmp_path / "drill.json"
    for at in texts(whole):
        path.write_text(json.dumps(planted(whole, at, SECRETS[kind])))
        with pytest.raises(BadInputError) as said:
            read_result(path)
        assert SECRETS[kind] not in str(said.value)


def test_names_that_are_known_are_taken_out_wherever_they_stand() -> None:
    whole = a_result()
    for at in texts(whole):
        assert (
            ACCOUNT_NAME
            not in json.dumps(without_secrets(planted(whole, at, ACCOUNT_NAME.upper()), [ACCOUNT_NAME])).lower()
        )


def test_a_redacted_text_is_clean() -> None:
    for secret in SECRETS.values():
        assert is_clean(redacted(f"it says {secret}: no"))


@given(st.lists(st.one_of(st.text(max_size=40), st.sampled_from(sorted(SECRETS.values()))), max_size=12))
def test_any_text_is_clean_once_it_is_redacted(parts: list[str]) -> None:
    """Else a drill whose vendor said it would end without a result."""
    text = "".join(parts)
    assert is_clean(redacted(text))
    assert is_clean(redacted(text, ["name", "id", "tex"]))


def test_what_steps_say_and_settle_is_clean() -> None:
    told = [text for behaviours in SETTLES.values() for text in behaviours]
    assert [text for text in map(str, (*told, *PROVES.values(), *Step)) if not is_clean(text)] == []


@pytest.mark.parametrize(
    "text",
    ["Standard_D2s_v5", "n1-standard-4+1xT4", "m7i-flex.large", "us-gov-west-1", "australiacentral", "2.1.0.dev3"],
)
def test_machines_regions_and_versions_stay(text: str) -> None:
    assert redacted(text) == text


def test_a_file_reads_back(tmp_path: Path) -> None:
    result = DrillResult.model_validate(a_result())
    path = write_result(result, tmp_path)
    assert path.name == "drill-aws-2026-11-23.json"
    assert read_result(path) == result
    assert write_result(result, tmp_path).name == "drill-aws-2026-11-23-2.json"


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2}, {"provider": "local"}, {"more": 1}, {"steps": []}, {"seconds": -1}, {"usd_per_hour": "-1"},
        {"steps": a_result()["steps"][::-1]}, {"day": "yesterday"}, {"regions": ["a\nb"]},
    ],
)  # fmt: skip
def test_what_is_no_result_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "drill.json"
    path.write_text(json.dumps(a_result(**changes)))
    with pytest.raises(BadInputError, match="no result of a drill"):
        read_result(path)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b" " * 300_000, b"null"])
def test_any_other_file_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "drill.json"
    path.write_bytes(data)
    with pytest.raises(BadInputError):
        read_result(path)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be read"):
        read_result(tmp_path / "nothing.json")


def test_an_imported_result_is_a_ground(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    path = write_result(DrillResult.model_validate(a_result()), tmp_path)
    name = SETTLES["aws", Step.LEFTOVERS][0]
    assert "no drill so far" in ground_text(results(tmp_path))
    where = add_result(path, tmp_path)
    kept = results(tmp_path)
    assert [known.file_name for known in ground_of(name, kept).proven] == [where.name]
    assert f"- {name} (aws `leftovers`): proven by drill-aws-2026-11-23.json" in ground_text(kept).splitlines()
    with pytest.raises(BadInputError, match="already"):
        add_result(path, tmp_path)


def test_a_failed_step_is_told_of_its_behaviours(tmp_path: Path) -> None:
    steps = [{**row, "verdict": Verdict.FAILED} if row["step"] == "replay" else row for row in a_result()["steps"]]
    result = DrillResult.model_validate(a_result(steps=steps))
    name = SETTLES["aws", Step.REPLAY][0]
    assert f"- {name} (aws `replay`): not so in {result.file_name}" in ground_text([result]).splitlines()


def test_the_simulated_cloud_is_no_ground(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    path = write_result(DrillResult.model_validate(a_result(provider="sim")), tmp_path)
    with pytest.raises(BadInputError, match="simulated"):
        add_result(path, tmp_path)


def test_without_a_checkout_nothing_is_imported(tmp_path: Path) -> None:
    path = write_result(DrillResult.model_validate(a_result()), tmp_path)
    with pytest.raises(BadInputError, match="there is no"):
        add_result(path, tmp_path)
