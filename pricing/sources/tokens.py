"""Who asks: the vendors' own libraries find the account of this computer, where they are installed and it has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainplan.pricing.sources.offerings import BearerToken

_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_AZURE_SCOPE = "https://management.azure.com/.default"


def google_account(environment: Mapping[str, str]) -> BearerToken | None:
    """Application default credentials; the scope is empty where no project is known. None without any."""
    try:
        import google.auth
        import google.auth.exceptions
        from google.auth.transport.requests import Request
    except ImportError:
        return None
    try:
        credentials, project = google.auth.default(scopes=[_GOOGLE_SCOPE])
        # What is found has no token yet.
        credentials.refresh(Request())
    except google.auth.exceptions.GoogleAuthError:
        return None
    return _account(credentials.token, environment.get("GOOGLE_CLOUD_PROJECT") or project)


def azure_account(environment: Mapping[str, str]) -> BearerToken | None:
    """Return the account of `az login` or the environment for AZURE_SUBSCRIPTION_ID. None without it or without
    credentials.
    """
    subscription = environment.get("AZURE_SUBSCRIPTION_ID")
    if not subscription:
        return None
    try:
        from azure.core.exceptions import AzureError
        from azure.identity import DefaultAzureCredential
    except ImportError:
        return None
    try:
        with DefaultAzureCredential() as credential:
            return _account(credential.get_token(_AZURE_SCOPE).token, subscription)
    except AzureError:
        return None


def _account(token: Any, scope: Any) -> BearerToken | None:
    return BearerToken(token, scope if isinstance(scope, str) else "") if isinstance(token, str) and token else None
