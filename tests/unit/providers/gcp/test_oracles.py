"""Google's permissions and recorded replies, which nobody here wrote, against the product's tables and translators."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from google.cloud import compute_v1

from tests.doubles import needs
from tests.doubles.clock import NOON
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_CLIENT, LABEL_RUN, ProviderSettings
from trainplan.providers.errors import InstanceNotFoundError
from trainplan.providers.gcp import api
from trainplan.providers.gcp.errors import error_of_operation, error_of_reply
from trainplan.providers.gcp.listing import Lists
from trainplan.providers.gcp.permissions import FILES
from trainplan.providers.gcp.preflight import _table
from trainplan.providers.gcp.provider import make
from trainplan.providers.gcp.reply import _STATES, KINDS, instance_of, is_done, last_of, parts_of, why_ended
from trainplan.providers.gcp.request import LABEL_OURS, OURS

LABELS = {LABEL_OURS: OURS, LABEL_RUN: "r1", LABEL_ATTEMPT: "1", LABEL_CLIENT: "c1"}
NOT_OURS = {
    # Permissions of parts of a request that this project never sends.
    "compute.instances.insert": {
        "compute.instances.pscInterfaceCreate",
        "compute.instanceTemplates.useReadOnly",
        "compute.machineImages.useReadOnly",
    },
    "compute.addresses.delete": {"compute.addresses.deleteInternal"},
}


@pytest.fixture
def oracle(oracles: Path) -> dict[str, Any]:
    return dict(json.loads((oracles / "google-permissions.json").read_text(encoding="utf-8")))


@pytest.fixture
def replies(oracles: Path) -> list[dict[str, Any]]:
    """The bodies that Google really sent."""
    rows = json.loads((oracles / "recorded" / "google.json").read_text(encoding="utf-8"))
    bodies = [row["reply"].get("body") for row in rows]
    return [body for body in bodies if isinstance(body, dict)]


def of_kind(replies: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    found = [body for body in replies if body.get("kind") == kind]
    assert found, f"no reply of the kind {kind} is recorded"
    return found


def through(kind: type[Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """As google-cloud-compute hands it over, which drops what it does not know."""
    return api._json(kind.from_json(json.dumps(body), ignore_unknown_fields=True))


# --- permissions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_every_permission_of_a_role_exists(oracle: dict[str, Any], name: str) -> None:
    assert set(FILES[name].permissions) <= set(oracle["permissions"])


def test_the_table_of_needs_is_the_oracles(oracle: dict[str, Any]) -> None:
    methods = {name: row for service in oracle["methods"].values() for name, row in service.items()}
    said: dict[str, set[str]] = {}
    for row in needs.rows():
        # The dataset has no permissions on a billing account, and was not asked for those of BigQuery.
        if row.cloud == "google" and row.permission and row.ground not in ("google-budgets", "google-bigquery"):
            assert row.permission in oracle["permissions"]
            if row.ground == "google-dataset":
                said.setdefault(row.call, set()).add(row.permission)
    for method, names in said.items():
        theirs = {row["name"] for row in methods[method].get("permissions", ())}
        assert names == theirs - NOT_OURS.get(method, set()), method


# --- recorded replies --------------------------------------------------------------------------------------------


def test_every_recorded_instance_is_read(replies: list[dict[str, Any]]) -> None:
    bodies = of_kind(replies, "compute#instance")
    for page in of_kind(replies, "compute#instanceAggregatedList"):
        bodies += [row for placement in page.get("items", {}).values() for row in placement.get("instances", ())]
    for body in bodies:
        told = through(compute_v1.Instance, {**body, "labels": LABELS})
        assert told["status"] in _STATES
        found = instance_of(told)
        assert (found.run_id, found.attempt) == ("r1", 1)
        assert found.launched_at is not None
        assert parts_of(found.ref.id) == ("instances", last_of(body["zone"]), body["name"])
    assert {body["status"] for body in bodies} >= {"RUNNING", "TERMINATED"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_recorded_list_is_read(replies: list[dict[str, Any]], kind: str, tmp_path: Path) -> None:
    singular = kind.removesuffix("es") if kind == "addresses" else kind.removesuffix("s")
    for body in of_kind(replies, f"compute#{singular}AggregatedList"):
        rows = [row for placement in body.get("items", {}).values() for row in placement.get(kind, ())]
        for row in rows:
            row |= {"labels": LABELS, "id": "1"}  # whoever recorded them changed some ids to what 64 bits do not hold
        pages = {kind: through(getattr(compute_v1, f"{singular.title()}AggregatedList"), body)}
        pages[kind].pop("nextPageToken", None)  # the page after it was not recorded
        found = Lists(_Recorded(pages), make(_settings(tmp_path)).account).owned(None)  # type: ignore[arg-type]
        assert len(found) == len(rows)
        assert {one.kind for one in found} <= {singular}
        assert all(one.created_at is not None and one.client == "c1" for one in found)


def test_every_recorded_operation_is_read(replies: list[dict[str, Any]]) -> None:
    for body in of_kind(replies, "compute#operation"):
        told = through(compute_v1.Operation, body)
        assert is_done(told) is (body["status"] == "DONE")
        assert error_of_operation(told, "compute/instances.insert") is None
        assert why_ended([told]) is None


def test_every_recorded_project_tells_its_quotas(replies: list[dict[str, Any]]) -> None:
    counted = [_table(body) for body in of_kind(replies, "compute#project") if "quotas" in body]
    assert counted
    assert min(table["GPUS_ALL_REGIONS"][0] for table in counted if "GPUS_ALL_REGIONS" in table) == 0
    for table in counted:
        assert all(limit >= 0 and used >= 0 for limit, used in table.values())


def test_every_recorded_refusal_has_its_reaction(replies: list[dict[str, Any]]) -> None:
    refused = [body for body in replies if "error" in body]
    assert {body["error"]["code"] for body in refused} == {404}
    for body in refused:
        assert isinstance(error_of_reply(404, json.dumps(body), "compute/instances.get"), InstanceNotFoundError)


class _Recorded:
    """An API of which only aggregated lists are asked; kinds without a recording are empty."""

    def __init__(self, pages: Mapping[str, dict[str, Any]]) -> None:
        self._pages = pages

    def everywhere(self, kind: str, project: str, matching: str, page: str) -> dict[str, Any]:
        return self._pages.get(kind, {})


def _settings(home: Path) -> ProviderSettings:
    given = {"project": "p", "endpoint": "http://127.0.0.1:9"}
    return ProviderSettings(home=home, options=given, environment={}, now=lambda: NOON)
