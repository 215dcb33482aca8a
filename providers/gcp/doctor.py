"""What every launch on Google Cloud needs of a project, looked at in parallel
(trainplan.providers.abilities.Doctor)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from trainplan.providers.base import Check, PreflightState
from trainplan.providers.cloud.alarm import check
from trainplan.providers.cloud.checks import LIMIT, Limit, check_lines, failed, ok, refused, unknown
from trainplan.providers.errors import BadRequestError, CredentialsError, PermissionDeniedError, ProviderError
from trainplan.providers.gcp.alarm import LATE, GoogleAlarm
from trainplan.providers.gcp.errors import OFF, in_short
from trainplan.providers.gcp.kinds import ALL_CPUS, ALL_GPUS
from trainplan.providers.gcp.permissions import ACT_AS, ADVICE, CLIENT_ROLES, PREFIX, ROLES
from trainplan.providers.gcp.quotas import NO_TPUS_EITHER, TRIAL_FIRST
from trainplan.providers.gcp.request import LABEL_OURS, OURS
from trainplan.providers.gcp.setup_steps import FOR_TPUS, NEEDED_SERVICES, SERVICES, StandingResources, missing_bindings
from trainplan.providers.gcp.tpu.deadline import QUEUE, REGION

if TYPE_CHECKING:
    from trainplan.providers.gcp.account import GcpAccount

_OK, _REFUSED, _UNKNOWN = PreflightState.OK, PreflightState.REFUSED, PreflightState.UNKNOWN
_SETUP = "plan setup gcp"
_REFUSING = (CredentialsError, PermissionDeniedError, BadRequestError)
_TAKES = "it takes hours to days, and may be refused"
_MEANWHILE = "meanwhile processors launch"
_GPU_QUOTAS = f"at least 1 {ALL_GPUS} and 1 of the GPU's own quota in its region (NVIDIA_T4_GPUS; on spot "
_GPU_QUOTAS += "PREEMPTIBLE_NVIDIA_T4_GPUS)"
_MADE_BY_SETUP = ("network", "machine account", "machine roles")
_SIZES = (8, 4, 2)
"""vCPUs of the E2 machines in the catalog."""
_QUOTAS = "https://console.cloud.google.com/iam-admin/quotas?project="


def examine(at: StandingResources, limit: Limit = LIMIT) -> Sequence[Check]:
    """Quotas come first, since they take longest: GPUs and vCPUs of all regions. Then who is signed in, billing, APIs,
    network, what may be done, the machines' account and what it may do, whether others work in the project, the queue
    that ends TPUs, the bucket. One line each. Creates nothing, raises nothing."""
    looks: dict[str, Callable[[StandingResources], Check]] = {
        "GPUs": _gpus,
        "vCPUs": _cpus,
        "identity": lambda at: at.account.identity(),
        "billing": lambda at: at.account.billing(),
        "services": _services,
        "regions": _regions,
        "network": _network,
        "permissions": _permissions,
        "machine account": _machine_account,
        "machine roles": _machine_roles,
        "scope": _scope,
        "timers": _timers,
        "bucket": _bucket,
        "alarm": lambda at: check(GoogleAlarm(at).found, LATE, _SETUP),
    }
    return check_lines({name: partial(look, at) for name, look in looks.items()}, partial(_of_error, at), limit)


def custom_role(account: GcpAccount) -> Check:
    """Whether Google takes custom roles with every permission of ours, by its own list
    (trainplan.providers.abilities.Prober).

    https://cloud.google.com/iam/docs/reference/rest/v1/permissions/queryTestablePermissions: `customRolesSupportLevel`.
    """
    asked = {name for role in ROLES for name in role.permissions}
    body = {"fullResourceName": f"//cloudresourcemanager.googleapis.com/projects/{account.project}", "pageSize": 1000}
    levels: dict[str, str] = {}
    while True:
        page = account.ask("POST", "iam", "/v1/permissions:queryTestablePermissions", None, body)
        rows = [row for row in page.get("permissions", ()) if row.get("name") in asked]
        levels |= {str(row["name"]): str(row.get("customRolesSupportLevel", "SUPPORTED")) for row in rows}
        if not page.get("nextPageToken"):
            break
        body = {**body, "pageToken": str(page["nextPageToken"])}
    without = sorted(name for name, level in levels.items() if level == "NOT_SUPPORTED")
    if without:
        return refused("custom-role", f"no custom role may have {', '.join(without)}", _SETUP)
    if not levels:
        return unknown("custom-role", "Google lists none of the permissions of trainplan's roles")
    return ok("custom-role", f"{len(levels)} of {len(asked)} permissions are listed, all for custom roles")


def _services(at: StandingResources) -> Check:
    on = at.services()
    off = [name for name in SERVICES if name not in on]
    if not off:
        return ok("services", f"{', '.join(SERVICES)} are on")
    fix = f"{_SETUP}, or gcloud services enable {' '.join(f'{name}.googleapis.com' for name in off)}"
    if not set(off) & set(NEEDED_SERVICES):
        why = "which TPUs v2 to v5e need" if set(off) & set(FOR_TPUS) else "which tells whether the project is billed"
        detail = f"{', '.join(off)} {'are' if len(off) > 1 else 'is'} off, {why}; the rest is on"
        return ok("services", detail, fix)
    return refused("services", f"{', '.join(off)} are off", fix)


def _regions(at: StandingResources) -> Check:
    """Every region's answer, in one line. Whether a policy of the organisation closes one, only a create tells."""
    home = f"/compute/v1/projects/{at.project}"
    entries = at.account.ask("GET", "compute", f"{home}/regions", {"maxResults": "500"})
    status = {str(row["name"]): str(row.get("status") or "UP") for row in entries.get("items", ())}
    silent = _silent_regions(at.account.ask("GET", "compute", f"{home}/aggregated/instances", {"maxResults": "500"}))
    allowed = at.account.settings.regions

    def answer(name: str) -> str:
        if name in silent:
            return "no answer"
        if status[name] != "UP":
            return status[name].lower()
        return "open" if not allowed or name in allowed else "open, not in the setting `regions`"

    reply = {name: answer(name) for name in sorted(status)}
    groups = {text: [name for name in reply if reply[name] == text] for text in dict.fromkeys(reply.values())}
    detail = f"{len(reply)} looked at; " + "; ".join(f"{text}: {', '.join(names)}" for text, names in groups.items())
    missing_names = sorted(allowed - set(status))
    detail += f"; set, but not open to this project: {', '.join(missing_names)}" if missing_names else ""
    if "open" not in groups:
        fix = "name a region that is open in the setting `regions`" if allowed else "look again in a while"
        return Check(name="regions", state=_REFUSED if allowed else _UNKNOWN, detail=detail, fix=fix)
    return Check(name="regions", state=_UNKNOWN if silent else _OK, detail=detail)


def _silent_regions(reply: Mapping[str, Any]) -> frozenset[str]:
    """The regions of a list's placements that could not be reached."""
    warned = [location for location, rows in reply.get("items", {}).items() if _is_unreached(rows.get("warning") or {})]
    locations = [location.rpartition("/")[2] for location in (*warned, *reply.get("unreachables", ()))]
    return frozenset(
        location.rpartition("-")[0] if re.search(r"-[a-z]$", location) else location for location in locations
    )


def _is_unreached(warning: Mapping[str, Any]) -> bool:
    return warning.get("code") not in (None, "NO_RESULTS_ON_PAGE")


def _network(at: StandingResources) -> Check:
    name = at.network_name
    if at.network() is None:
        fix = f"{_SETUP} makes it, without a rule that lets anybody in; or name one of yours in the setting `network`"
        return refused("network", f"there is no network {name!r}", fix)
    return ok("network", name)


def _permissions(at: StandingResources) -> Check:
    found_names = [name for role in CLIENT_ROLES for name in role.permissions]
    permitted = at.permitted(found_names)
    lacking = sorted(set(found_names) - permitted - set(ADVICE))
    if lacking:
        names = " and ".join(at.role_name(role) for role in CLIENT_ROLES)
        fix = f"ask whoever owns the project for the roles {names} (docs/permissions/gcp has the commands)"
        return refused("permissions", f"you may not {', '.join(lacking)}", fix)
    without = sorted(set(ADVICE) - permitted)
    if without:
        return ok("permissions", f"all that launches take; without {', '.join(without)} there is no advice on capacity")
    return ok("permissions", f"all {len(found_names)} that launches take")


def _machine_account(at: StandingResources) -> Check:
    """Check the machines' service account, and whether it may be attached to a machine, which needs a permission on the
    account itself.
    """
    email = at.account.machine_account
    entries = at.machine_account()
    if entries is None:
        return refused("machine account", f"there is no {email}", _SETUP)
    if entries.get("disabled"):
        fix = f"gcloud iam service-accounts enable {email}"
        return refused("machine account", f"{email} is switched off", fix)
    path, body = f"/v1/projects/{at.project}/serviceAccounts/{email}:testIamPermissions", {"permissions": [ACT_AS]}
    if ACT_AS not in at.account.ask("POST", "iam", path, None, body).get("permissions", ()):
        fix = (
            f"gcloud iam service-accounts add-iam-policy-binding {email} --member user:YOU "
            "--role roles/iam.serviceAccountUser"
        )
        return refused("machine account", f"you may not give {email} to a machine", fix)
    return ok("machine account", email)


def _machine_roles(at: StandingResources) -> Check:
    """The person's own account may have its rights from elsewhere: what is not seen is left open."""
    lacking = [grant["role"].rpartition("/")[2] for grant in missing_bindings(at.grants(), at.policy())]
    if not lacking:
        names = ", ".join(grant["role"].rpartition("/")[2] for grant in at.grants())
        return ok("machine roles", f"{names}, for what is ours")
    state = _REFUSED if at.account_is_ours else _UNKNOWN
    detail = f"{', '.join(lacking)} is not granted, or for more than it has to be"
    return Check(name="machine roles", state=state, detail=detail, fix=_SETUP)


def _scope(at: StandingResources) -> Check:
    """Whether the project is for these runs alone: Google has no condition for TPUs and tasks (docs/permissions)."""
    path = f"/compute/v1/projects/{at.project}/aggregated/instances"
    reply = at.account.ask("GET", "compute", path, {"maxResults": "500"})
    rows = [row for scope in reply.get("items", {}).values() for row in scope.get("instances", ())]
    others = [row for row in rows if (row.get("labels") or {}).get(LABEL_OURS) != OURS]
    if not others:
        detail = "the project holds no machines but those of runs"
        return ok("scope", detail)
    more = " or more" if reply.get("nextPageToken") else ""
    within = [row for row in others if str(row.get("name", "")).startswith(PREFIX)]
    reach = (
        f"{len(within)} of them begin with {PREFIX} and can be deleted by trainplan's roles"
        if within
        else (f"trainplan's roles cannot delete them, since no name begins with {PREFIX}")
    )
    detail = f"the project holds {len(others)}{more} machines that are not of runs: {reach}; TPUs have no limit"
    return ok("scope", detail, "a project for these runs alone (docs/permissions)")


def _timers(at: StandingResources) -> Check:
    entries = at.queue()
    if entries is None:
        detail = f"there is no queue {QUEUE!r} in {REGION}, so no TPU v2 to v5e is launched; the rest does without"
        return ok("timers", detail, _SETUP)
    state = str(entries.get("state", "RUNNING"))
    if state != "RUNNING":
        fix = f"gcloud tasks queues resume {QUEUE} --location {REGION}"
        detail = f"the queue {QUEUE!r} in {REGION} is {state.lower()}: no TPU v2 to v5e is launched"
        return ok("timers", detail, fix)
    return ok("timers", f"the queue {QUEUE!r} in {REGION} ends TPUs at their deadline")


def _bucket(at: StandingResources) -> Check:
    name = at.bucket.name
    if at.is_bucket():
        return ok("bucket", f"gs://{name}")
    return ok("bucket", f"gs://{name} is made by the first launch, in {at.bucket.location}")


def _gpus(at: StandingResources) -> Check:
    """The one quota that holds for every GPU, and at 0 for TPUs too, as Google's guide says; those of regions and
    markets are each offer's own. At 0 it is UNKNOWN, for the TPUs: what is refused here keeps everything from being
    launched, and processors are."""
    for row in at.account.described().get("quotas", ()):
        if row.get("metric") == ALL_GPUS:
            limit, used = float(row.get("limit", 0)), float(row.get("usage", 0))
            if limit:
                return ok("GPUs", f"{ALL_GPUS}: {used:g} of {limit:g} in use")
            detail = f"{ALL_GPUS} is 0: no GPU can be launched; whether TPUs can is not known: {NO_TPUS_EITHER}"
            return unknown("GPUs", detail, f"{TRIAL_FIRST}; then {_ask_for_gpus(at)}")
    detail, fix = f"the quota {ALL_GPUS} is not shown", f"{_QUOTAS}{at.project}"
    return unknown("GPUs", detail, fix)


def _ask_for_gpus(at: StandingResources) -> str:
    return f"ask for {_GPU_QUOTAS} at {_QUOTAS}{at.project}: {_TAKES}; {_MEANWHILE}"


def _cpus(at: StandingResources) -> Check:
    """How large a machine without an accelerator may be, in all regions together and in the bucket's region."""
    project = at.account.described()
    path = f"/compute/v1/projects/{at.project}/regions/{at.bucket.location}"
    region = at.account.once(f"region/{at.bucket.location}", lambda: at.account.ask("GET", "compute", path))
    rows = {str(row.get("metric")): row for row in (*region.get("quotas", ()), *project.get("quotas", ()))}
    names = [name for name in (ALL_CPUS, "CPUS") if name in rows]
    if not names:
        fix = f"{_QUOTAS}{at.project}"
        return unknown("vCPUs", "no quota of vCPUs is shown", fix)
    lines = [f"{name} {rows[name].get('usage', 0):g} of {rows[name].get('limit', 0):g} in use" for name in names]
    room = min(float(rows[name].get("limit", 0)) - float(rows[name].get("usage", 0)) for name in names)
    fits = next((size for size in _SIZES if size <= room), 0)
    most = f"e2-standard-{fits} is the largest E2 in the catalog that fits" if fits else "no machine fits"
    fix = "" if fits == _SIZES[0] else f"ask for more at {_QUOTAS}{at.project}: {_TAKES}"
    detail = f"{', '.join(lines)} ({at.bucket.location}): {most}"
    return Check(name="vCPUs", state=_OK if fits else _REFUSED, detail=detail, fix=fix)


def _of_error(at: StandingResources, name: str, error: ProviderError) -> Check:
    if error.code in OFF:
        return _behind_what_is_off(name, error, at)
    return failed(name, error, _REFUSING if name == "identity" else ())


def _behind_what_is_off(name: str, error: ProviderError, at: StandingResources) -> Check:
    """A line whose API the project does not use: what set-up makes is not there, and quotas are a new project's."""
    if name in ("GPUs", "vCPUs"):
        detail = "not shown while the API compute is off; a new project has"
        if name == "GPUs":
            fix = f"{_SETUP} first; {TRIAL_FIRST}; then {_ask_for_gpus(at)}"
            return unknown(name, f"{detail} {ALL_GPUS} 0, and {NO_TPUS_EITHER}", fix)
        fix = f"{_SETUP} first; then ask for more at {_QUOTAS}{at.project}: {_TAKES}"
        return unknown(name, f"{detail} 8 to 24 in a region", fix)
    if name == "timers":
        detail = f"there is no queue {QUEUE!r} in {REGION}, so no TPU v2 to v5e is launched; the rest does without"
        return ok(name, detail, _SETUP)
    state = _REFUSED if name in _MADE_BY_SETUP else _UNKNOWN
    return Check(name=name, state=state, detail=in_short(error), fix=_SETUP)
