"""Who is signed in to Google Cloud, in which project, and what the account may do: looked up once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trainplan.providers.cloud.answers import Answers
from trainplan.providers.cloud.checks import ok, refused, unknown
from trainplan.providers.errors import (
    BadRequestError,
    CredentialsError,
    PermissionDeniedError,
    ProviderError,
)
from trainplan.providers.gcp.errors import SIGN_IN, error_of_reply, in_short, translated, unreadable
from trainplan.providers.gcp.settings import MACHINE_ACCOUNT, GcpSettings

if TYPE_CHECKING:
    from trainplan.providers.base import Check
    from trainplan.providers.cloud.server_time import ServerClock

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_SECONDS = 60.0


class GcpAccount(Answers):
    """The sign-in that every call of one provider object uses. Nothing is read or asked before it is needed. `clock`
    hears the date of every answer, a refusal's too."""

    def __init__(self, settings: GcpSettings, clock: ServerClock | None = None) -> None:
        super().__init__()
        self.settings = settings
        self.clock = clock
        self._opened: Any = None
        self._opening = threading.RLock()

    @cached_property
    def credentials(self) -> Any:
        """google-auth's. Raises CredentialsError."""
        return self._signed_in[0]

    @cached_property
    def project(self) -> str:
        """The id of the project. Raises CredentialsError, BadRequestError."""
        name = self.settings.project or self._signed_in[1]
        if not name:
            raise BadRequestError(
                "no Google Cloud project is named",
                hint="set `project` in the table [gcp] of the settings, or GOOGLE_CLOUD_PROJECT",
            )
        return str(name)

    @property
    def machine_account(self) -> str:
        """The e-mail address of the service account that machines have."""
        return self.settings.service_account or f"{MACHINE_ACCOUNT}@{self.project}.iam.gserviceaccount.com"

    def address(self, service: str) -> str:
        """Where an API of Google answers: `service` is its first label (compute, tpu, iam, …)."""
        return (self.settings.endpoint or f"https://{service}.googleapis.com").rstrip("/")

    def ask(
        self, method: str, service: str, path: str, query: Mapping[str, str] | None = None, body: object = None
    ) -> dict[str, Any]:
        """Send one call of an API by its JSON once; `path` begins with a slash. Raises ProviderError."""
        with translated(f"{service}{path}"):
            answer = self._session.request(
                method,
                f"{self.address(service)}{path}",
                params=dict(query or {}),
                json=body,
                timeout=_SECONDS,
            )
            if not 200 <= answer.status_code < 300:
                raise error_of_reply(answer.status_code, answer.text, f"{service}{path}")
            reply = answer.json() if answer.content else {}
        if not isinstance(reply, dict):
            raise unreadable(f"{service}{path}", "it is no object")
        return reply

    def pages(self, service: str, path: str, query: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
        """The replies of a list, page by page. Raises ProviderError."""
        page: dict[str, str] = {}
        while True:
            reply = self.ask("GET", service, path, {**(query or {}), **page})
            yield reply
            if not reply.get("nextPageToken"):
                return
            page = {"pageToken": str(reply["nextPageToken"])}

    def described(self) -> dict[str, Any]:
        """The project as Compute Engine describes it, with the quotas of all regions. Raises ProviderError."""
        return self.once("project", lambda: self.ask("GET", "compute", f"/compute/v1/projects/{self.project}"))

    def identity(self) -> Check:
        """Whether the sign-in is good for the project."""
        try:
            self.described()
        except (CredentialsError, PermissionDeniedError, BadRequestError) as error:
            return refused("identity", in_short(error), error.hint)
        except ProviderError as error:
            return unknown("identity", error.message, error.hint)
        return ok("identity", f"project {self.project}")

    def billing(self) -> Check:
        """Whether the project has an open billing account, where one may look."""
        try:
            path = f"/v1/projects/{self.project}/billingInfo"
            reply = self.once("billing", lambda: self.ask("GET", "cloudbilling", path))
        except ProviderError as error:
            detail = f"whether the project is billed cannot be seen: {in_short(error)}"
            return unknown("billing", detail, error.hint)
        if not reply.get("billingEnabled"):
            fix = f"gcloud billing projects link {self.project} --billing-account ACCOUNT"
            return refused("billing", "no billing account pays", fix)
        return ok("billing", "a billing account pays")

    def close(self) -> None:
        """Close the session, if one was opened."""
        if self._opened is not None:
            self._opened.close()

    @property
    def _session(self) -> Any:
        with self._opening, translated("Google Cloud"):
            if self._opened is None:
                from google.auth.transport.requests import AuthorizedSession

                self._opened = self.heard_by(AuthorizedSession(self.credentials, max_refresh_attempts=1))
            return self._opened

    def heard_by(self, session: Any) -> Any:
        """A session of requests, whose answers tell Google's time from now on; anything else is left as it is."""

        def hear(answer: Any, **_: Any) -> None:
            if self.clock is not None:
                self.clock.read_date(answer.headers.get("Date"))

        if hasattr(session, "hooks"):
            session.hooks["response"].append(hear)
        return session

    @cached_property
    def _signed_in(self) -> tuple[Any, str | None]:
        with translated("Google Cloud"):
            import google.auth
            from google.auth.credentials import AnonymousCredentials

            if self.settings.endpoint is not None:  # another endpoint than Google's has no sign-in
                return AnonymousCredentials(), None
            with contextlib.suppress(google.auth.exceptions.RefreshError):
                return signed_in(self.settings.project)
        raise CredentialsError("the sign-in to Google Cloud has ended", hint=SIGN_IN)


def signed_in(project: str | None) -> tuple[Any, str | None]:
    """Google's credentials of this computer, and the project that they name. Raises google.auth's errors.

    A person's sign-in that names no quota project gets the one that is worked in: several of Google's APIs refuse a
    person's calls without one (https://cloud.google.com/docs/quotas/set-quota-project), and `gcloud auth
    application-default login` writes one only where gcloud has a project. A service account's calls count against its
    own project, and are left as they are.
    """
    import google.auth
    from google.auth import external_account_authorized_user
    from google.oauth2 import credentials as persons

    found, usual = google.auth.default(scopes=[SCOPE])
    worked_in = project or usual
    of_a_person = isinstance(found, (persons.Credentials, external_account_authorized_user.Credentials))
    if of_a_person and worked_in and not found.quota_project_id:
        found = found.with_quota_project(worked_in)
    return found, usual
