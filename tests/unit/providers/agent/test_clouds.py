"""What the agent asks of each cloud besides its store: notices, secrets, registries, and the end of the machine."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.providers.agent.cloud import Cloud, cloud
from tests.unit.providers.agent.machine import NOON, FakeClock, FakeDocker
from trainplan.providers.agent import vault
from trainplan.providers.agent.end import DEATH_SECONDS, End
from trainplan.providers.agent.notices import Notices
from trainplan.providers.agent.registries import host_of, login_for
from trainplan.providers.agent.requests import Access
from trainplan.providers.agent.vault import Redactor, SecretError, resolve, write_env_file

URIS = {"aws": "s3://bucket/p", "gcp": "gs://bucket/p", "azure": "azblob://account/box/p"}


@pytest.fixture
def double() -> Iterator[Cloud]:
    with cloud() as known:
        yield known


def access(double: Cloud, kind: str) -> Access:
    return Access(double.boot(kind, URIS[kind]), now=lambda: NOON)


OURS, POLICYS = "/subscriptions/s/identities/trainplan-machine", "/subscriptions/s/identities/added-by-a-policy"


def test_azure_is_told_which_identity_is_meant_where_a_machine_has_several(double: Cloud) -> None:
    """Microsoft's description of the metadata service has `msi_res_id`; without it a machine with two gets no token."""
    double.identities = (OURS, POLICYS)
    with pytest.raises(OSError, match="400"):
        access(double, "azure").credentials()
    boot = {**double.boot("azure", URIS["azure"]), "identity": OURS}
    assert Access(boot, now=lambda: NOON).credentials() == "azure-token https://storage.azure.com/"


def test_ec2_tells_the_instant(double: Cloud) -> None:
    notices = Notices(access(double, "aws"))
    assert notices.look() is None
    double.spot = {"action": "terminate", "time": "2026-11-21T12:02:00Z"}
    notice = notices.look()
    assert notice is not None
    assert notice.at == NOON + 120
    assert len(double.imds_tokens) == 1, "the token is kept"


def test_a_token_of_ec2_that_expired_is_asked_for_again(double: Cloud) -> None:
    notices = Notices(access(double, "aws"))
    notices.look()
    double.imds_tokens.clear()
    double.spot = {"action": "terminate", "time": "2026-11-21T12:02:00Z"}
    assert notices.look() is None
    assert notices.look() is not None


def test_a_rebalance_recommendation_is_left_alone(double: Cloud) -> None:
    Notices(access(double, "aws")).look()
    assert double.calls_of("GET", "rebalance") == []


@pytest.mark.parametrize(
    ("path", "answer", "seconds"),
    [
        ("instance/preempted", "TRUE", 30),
        ("instance/maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE", 60),
        ("instance/maintenance-event", "MIGRATE_ON_HOST_MAINTENANCE", None),
        ("instance/maintenance-event", "NONE", None),
    ],
)
def test_google_tells_yes_or_no(double: Cloud, path: str, answer: str, seconds: float | None) -> None:
    double.google[path] = answer
    notice = Notices(access(double, "gcp")).look()
    assert (notice and notice.at - NOON) == seconds


def event(**changes: Any) -> dict[str, Any]:
    usual = {
        "EventId": "602d9444",
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": ["vm-1"],
        "EventStatus": "Scheduled",
        "NotBefore": "Sat, 21 Nov 2026 12:00:30 GMT",
    }
    return {**usual, **changes}


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({}, 30),
        ({"EventType": "Terminate"}, 30),
        ({"EventStatus": "Started", "NotBefore": ""}, 30),
        ({"EventType": "Freeze"}, None),
        ({"EventType": "Reboot"}, None),
        ({"Resources": ["vm-2"]}, None),
    ],
)
def test_azure_tells_events_of_which_some_are_ours(double: Cloud, changes: dict[str, Any], at: float | None) -> None:
    double.events = [event(**changes)]
    notice = Notices(access(double, "azure")).look()
    assert (notice and notice.at - NOON) == at


def test_azure_is_told_that_it_need_not_wait(double: Cloud) -> None:
    double.events = [event()]
    notices = Notices(access(double, "azure"))
    notice = notices.look()
    assert notice is not None
    assert double.acknowledged == []
    notices.acknowledge(notice)
    assert double.acknowledged == ["602d9444"]


def test_a_metadata_service_that_does_not_answer_disturbs_nothing() -> None:
    def nobody(*arguments: Any, **more: Any) -> Any:
        raise OSError("timed out")

    for kind, uri in URIS.items():
        assert Notices(Access({"cloud": kind, "run_uri": uri}, send=nobody)).look() is None


ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:key-AbCdEf"


@pytest.mark.parametrize(
    ("kind", "reference", "secrets"),
    [
        ("aws", f"aws-sm:{ARN}", {ARN: "hunter2"}),
        ("aws", f"aws-sm:{ARN}#field", {ARN: '{"field": "hunter2"}'}),
        ("gcp", "gcp-sm:projects/p/secrets/s/versions/latest", {"projects/p/secrets/s/versions/latest": "hunter2"}),
        ("azure", "akv:https://vlt.vault.azure.net/secrets/key", {"key": "hunter2"}),
    ],
)
def test_secrets_are_read_by_the_machines_identity(
    double: Cloud, kind: str, reference: str, secrets: dict[str, str]
) -> None:
    double.secrets = secrets
    assert resolve(access(double, kind), reference) == "hunter2"


def test_the_region_of_a_secret_is_its_own(double: Cloud) -> None:
    double.secrets = {ARN: "x"}
    resolve(access(double, "aws"), f"aws-sm:{ARN}")
    assert "/eu-central-1/secretsmanager/" in double.calls_of("POST", "/")[0]["authorization"]


@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        ("aws", "plain text"),
        ("aws", f"aws-sm:{ARN}"),
        ("azure", "akv:https://evil.example/secrets/key"),
        ("azure", "akv:http://v.vault.azure.net/secrets/key"),
    ],
)
def test_references_that_lead_nowhere(double: Cloud, kind: str, reference: str) -> None:
    with pytest.raises(SecretError):
        resolve(access(double, kind), reference)
    assert double.calls_of("GET", "/secrets") == []


def test_a_secret_without_permission_may_come_later(double: Cloud) -> None:
    with pytest.raises(OSError, match="403"):
        resolve(access(double, "gcp"), "gcp-sm:projects/p/secrets/s/versions/1")


def test_the_environment_file_is_for_root_alone(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"
    write_env_file(path, {"A": "x=y z", "B": "$HOME"})
    assert path.read_text() == "A=x=y z\nB=$HOME\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(SecretError, match="several lines"):
        write_env_file(path, {"PEM": "a\nb"})


@pytest.mark.parametrize(
    "answer",
    ["key s3cr3t/+x", '{"k": "s3cr3t/+x"}', "?k=s3cr3t%2F%2Bx", "Basic czNjcjN0Lyt4"],
)
def test_secrets_are_covered_in_every_dress(answer: str) -> None:
    covered = Redactor(["s3cr3t/+x", "abc"]).text(answer)
    assert "***" in covered
    assert "s3cr3t" not in covered
    assert Redactor(["abc"]).text("abc") == "abc", "what is that short covers half of every text"


@pytest.mark.parametrize(
    ("image", "host"),
    [
        ("tensorflow/tensorflow@sha256:0", ""),
        ("python@sha256:0", ""),
        ("europe-docker.pkg.dev/p/r/i@sha256:0", "europe-docker.pkg.dev"),
        ("localhost:5000/i@sha256:0", "localhost:5000"),
    ],
)
def test_hosts_of_images(image: str, host: str) -> None:
    assert host_of(image) == host


@pytest.mark.parametrize(
    ("kind", "image", "login"),
    [
        ("aws", "123.dkr.ecr.eu-west-1.amazonaws.com/i@sha256:0", ("AWS", "password of 123")),
        ("gcp", "europe-docker.pkg.dev/p/r/i@sha256:0", ("oauth2accesstoken", "google-token")),
        (
            "azure",
            "mine.azurecr.io/i@sha256:0",
            ("00000000-0000-0000-0000-000000000000", "refresh for mine.azurecr.io"),
        ),
        ("gcp", "123.dkr.ecr.eu-west-1.amazonaws.com/i@sha256:0", None),
        ("aws", "evil.dkr.ecr.eu-west-1.amazonaws.com.evil.example/i@sha256:0", None),
        ("gcp", "evil-docker.pkg.dev.evil.example/i@sha256:0", None),
        ("aws", "tensorflow/tensorflow@sha256:0", None),
    ],
)
def test_the_identity_logs_in_at_its_own_clouds_registry(
    double: Cloud, kind: str, image: str, login: tuple[str, str] | None
) -> None:
    assert login_for(access(double, kind), image) == login


GOOGLE = {"kind": "gcp_delete", "project": "p", "zone": "z-1", "name": "plan-r1-1"}
AZURE = {"kind": "azure_group", "subscription": "s", "group": "rg-plan-r1", "machine": "vm-1"}
GROUP = "/subscriptions/s/resourceGroups/rg-plan-r1"
MACHINE = f"{GROUP}/providers/Microsoft.Compute/virtualMachines/vm-1"


def end_calls(double: Cloud, kind: str, how: dict[str, str]) -> tuple[list[str], float]:
    """The commands that were run at the end, and how long it took."""
    clock = FakeClock()
    docker = FakeDocker(clock)
    End(how, access(double, kind), docker, clock).machine()
    return [" ".join(words) for words in docker.words], clock.instant - NOON


def test_a_power_off_is_enough_where_nothing_else_bills(double: Cloud) -> None:
    words, _ = end_calls(double, "aws", {"kind": "power_off"})
    assert words[:2] == ["systemctl poweroff --no-block", "systemctl poweroff -ff"]
    assert "sysrq-trigger" in words[2]
    assert double.requests == []


@pytest.mark.parametrize(
    ("kind", "how", "call"),
    [
        ("gcp", GOOGLE, "DELETE /compute/v1/projects/p/zones/z-1/instances/plan-r1-1"),
        (
            "gcp",
            {"kind": "tpu_delete", "project": "p", "zone": "z", "queued_resource": "q"},
            "DELETE /v2/projects/p/locations/z/queuedResources/q",
        ),
        (
            "gcp",
            {"kind": "tpu_delete", "project": "p", "zone": "z", "node": "n"},
            "DELETE /v2/projects/p/locations/z/nodes/n",
        ),
        ("azure", AZURE, f"DELETE {GROUP}"),
    ],
)
def test_the_cloud_deletes_what_a_power_off_leaves(double: Cloud, kind: str, how: dict[str, str], call: str) -> None:
    double.answers[call] = 202
    words, took = end_calls(double, kind, how)
    assert [f"{verb} {path.partition('?')[0]}" for verb, path, _ in double.requests][-1] == call
    assert words[0] == "systemctl poweroff --no-block", "the power goes all the same, last"
    assert took >= DEATH_SECONDS


def test_where_the_group_may_not_be_deleted_the_machine_is(double: Cloud) -> None:
    double.answers = {f"DELETE {GROUP}": 403, f"DELETE {MACHINE}": 403, f"POST {MACHINE}/deallocate": 202}
    end_calls(double, "azure", AZURE)
    calls = [path.partition("?")[0] for verb, path, _ in double.requests if verb != "GET"]
    assert calls == [GROUP, MACHINE, f"{MACHINE}/deallocate"]


@pytest.mark.parametrize(
    ("kind", "how", "path", "minutes", "tries"),
    [
        ("gcp", GOOGLE, "/compute/v1/projects/p/zones/z-1/instances/plan-r1-1", 2, 7),
        ("azure", AZURE, GROUP, 30, 35),
    ],
)
def test_a_role_that_is_late_is_waited_for_and_then_the_power_goes(
    double: Cloud, kind: str, how: dict[str, str], path: str, minutes: int, tries: int
) -> None:
    """For half an hour on Azure, where a power-off ends no bill."""
    double.answers[f"DELETE {path}"] = 403
    words, took = end_calls(double, kind, how)
    assert words[0] == "systemctl poweroff --no-block"
    assert minutes * 60 < took - 3 * 60 < minutes * 60 + 80
    assert len(double.calls_of("DELETE", path if kind == "gcp" else f"{GROUP}?")) == tries


def test_names_cannot_lead_the_delete_call_elsewhere(double: Cloud) -> None:
    end_calls(double, "gcp", {**GOOGLE, "name": "a/../../other?x=1"})
    assert all(
        "/instances/a%2F..%2F..%2Fother%3Fx%3D1" in path for verb, path, _ in double.requests if verb == "DELETE"
    )


def test_the_vaults_forms_are_no_secret_themselves() -> None:
    assert vault.Redactor().longest == 0
    assert vault.Redactor(["12345678"]).longest >= 8
