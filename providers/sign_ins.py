"""What tells, without asking anybody and without any SDK, that somebody may be signed in to a cloud from here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Traces:
    """Environment variables that bring or lead to credentials, files below the person's home that hold them, and what
    signs a person in. Machines that are given an identity by the cloud itself leave none of these."""

    variables: tuple[str, ...]
    files: tuple[str, ...]
    sign_in: str


TRACES: Mapping[str, Traces] = {
    # botocore's credentials guide, read 2026-11-21.
    "aws": Traces(
        variables=(
            "AWS_ACCESS_KEY_ID",
            "AWS_PROFILE",
            "AWS_DEFAULT_PROFILE",
            "AWS_SHARED_CREDENTIALS_FILE",
            "AWS_CONFIG_FILE",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ),
        files=(".aws/credentials", ".aws/config"),
        sign_in="aws configure, or aws sso login",
    ),
    # google-auth's application default credentials, read 2026-11-21.
    "gcp": Traces(
        variables=("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "GOOGLE_CLOUD_PROJECT"),
        files=(
            ".config/gcloud/application_default_credentials.json",
            "AppData/Roaming/gcloud/application_default_credentials.json",
        ),
        sign_in="gcloud auth application-default login",
    ),
    # azure-identity's DefaultAzureCredential, read 2026-11-21.
    "azure": Traces(
        variables=(
            "AZURE_CLIENT_ID",
            "AZURE_TENANT_ID",
            "AZURE_SUBSCRIPTION_ID",
            "AZURE_CONFIG_DIR",
            "IDENTITY_ENDPOINT",
            "MSI_ENDPOINT",
        ),
        files=(".azure/azureProfile.json", ".azure/msal_token_cache.json"),
        sign_in="az login",
    ),
}


def may_be_signed_in(provider: str, environment: Mapping[str, str]) -> bool:
    """Whether there is a trace of credentials; a provider that needs none is always let in."""
    traces = TRACES.get(provider)
    if traces is None or any(environment.get(name) for name in traces.variables):
        return True
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or "~").expanduser()
    return any((home / name).is_file() for name in traces.files)


def how_to_sign_in(provider: str) -> str:
    """The command, "" where there is nothing to sign in to."""
    traces = TRACES.get(provider)
    return traces.sign_in if traces else ""
