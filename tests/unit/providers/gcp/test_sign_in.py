"""Who is signed in to Google Cloud, by the file that Google's library finds; nothing is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.doubles.google.server import GoogleServer
from tests.unit.providers.gcp.account_side import Project, reset
from trainplan.providers.base import PreflightState
from trainplan.providers.errors import CredentialsError, PermissionDeniedError
from trainplan.providers.gcp.account import GcpAccount, signed_in
from trainplan.providers.gcp.errors import OFF, error_of_reply, in_short
from trainplan.providers.gcp.settings import GcpSettings
from trainplan.providers.gcp.tpu.api import Refused
from trainplan.providers.gcp.tpu.errors import error_of, is_off

PERSON = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
# As recorded in GoogleCloudPlatform/cloud-foundation-fabric issue 2622 (read 2026-11-25).
NO_QUOTA_PROJECT = {
    "error": {
        "code": 403,
        "message": (
            "Your application is authenticating by using local Application Default Credentials. The "
            "cloudresourcemanager.googleapis.com API requires a quota project, which is not set by default."
        ),
        "status": "PERMISSION_DENIED",
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"}],
    }
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "GOOGLE_CLOUD_QUOTA_PROJECT", "CLOUDSDK_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "adc.json"))
    return tmp_path / "adc.json"


def headers_of(credentials: Any) -> dict[str, str]:
    headers: dict[str, str] = {}
    credentials.apply(headers, token="t")
    return headers


def test_a_persons_calls_count_against_the_project_that_is_worked_in(file: Path) -> None:
    file.write_text(json.dumps(PERSON))
    account = GcpAccount(GcpSettings(project="worked-in"))
    assert headers_of(account.credentials)["x-goog-user-project"] == "worked-in"


def test_a_quota_project_of_ones_own_stays(file: Path) -> None:
    file.write_text(json.dumps({**PERSON, "quota_project_id": "paid-by"}))
    found, _ = signed_in("worked-in")
    assert headers_of(found)["x-goog-user-project"] == "paid-by"


def test_a_service_account_is_left_as_it_is(file: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    named = {"client_email": "a@b.iam.gserviceaccount.com", "token_uri": "http://127.0.0.1:9", "project_id": "its-own"}
    file.write_text(json.dumps({"type": "service_account", "private_key": key.decode(), **named}))
    found, usual = signed_in("worked-in")
    assert usual == "its-own"
    assert "x-goog-user-project" not in headers_of(found)


def test_a_sign_in_without_a_quota_project_is_told_from_an_api_that_is_off() -> None:
    text = json.dumps(NO_QUOTA_PROJECT)
    error = error_of_reply(403, text, "cloudresourcemanager/v1/projects/p:getIamPolicy")
    assert isinstance(error, CredentialsError)
    assert error.code not in OFF
    assert "set-quota-project" in error.hint
    assert "requires a quota project" in in_short(error)
    said: Any = NO_QUOTA_PROJECT["error"]
    on_tpus = error_of(Refused(said["status"], said["message"], said["details"]), "tpu/v2")
    assert (type(on_tpus), is_off(on_tpus)) == (CredentialsError, False)


def test_the_doctor_and_a_set_up_say_so_at_once(server: GoogleServer, tmp_path: Path) -> None:
    """Not that an API is off, for which a set-up would wait, and which it could not switch on."""
    reset(server)
    project = Project(server, tmp_path)
    project.iam.no_quota_project = True
    line = project.lines()["services"]
    assert "requires a quota project" in line.detail
    assert "set-quota-project" in line.fix
    assert line.state is PreflightState.UNKNOWN
    with pytest.raises(CredentialsError, match="requires a quota project"):
        project.provider.lacking()


def test_a_quota_project_that_one_may_not_use_is_named_with_its_role() -> None:
    reply = {"error": {"message": "Caller does not have required permission to use project p.", "details": [
        {"reason": "USER_PROJECT_DENIED"}]}}  # fmt: skip
    error = error_of_reply(403, json.dumps(reply), "serviceusage/v1/projects/p/services")
    assert isinstance(error, PermissionDeniedError)
    assert "roles/serviceusage.serviceUsageConsumer" in error.hint
