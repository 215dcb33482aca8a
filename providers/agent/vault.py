"""Secrets: references resolved by the machine's identity, kept in memory, and cut out of everything that is said."""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING, Iterable, Mapping
from urllib.parse import quote, urlsplit

from providers.agent.reading import signed

if TYPE_CHECKING:
    from pathlib import Path

    from providers.agent.reading import Access

_SHORTEST = 4
_COVER = "***"


class SecretError(Exception):
    """A reference that cannot be resolved; the text names the reference, never a value."""


def resolve(access: Access, reference: str) -> str:
    """The value behind `aws-sm:ARN[#FIELD]`, `gcp-sm:projects/P/secrets/S/versions/V` or `akv:https://VAULT/secrets/NAME`.

    Raises SecretError, and OSError where nobody answers.
    """
    kind, _, place = reference.partition(":")
    ask = {"aws-sm": _from_aws, "gcp-sm": _from_google, "akv": _from_azure}.get(kind)
    if ask is None:
        raise SecretError(f"{reference} is no reference to a secret (aws-sm:, gcp-sm:, akv:)")
    try:
        return ask(access, place)
    except (KeyError, ValueError, TypeError) as error:
        raise SecretError(f"{reference}: the answer has no value ({type(error).__name__})") from error


def write_env_file(path: Path, values: Mapping[str, str]) -> None:
    """For docker's --env-file, readable by root alone. Raises SecretError for a value of several lines."""
    for name, value in values.items():
        if "\n" in value or "\r" in value:
            raise SecretError(f"{name} has several lines, which an environment file cannot hold; store it in base64")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in values.items())


class Redactor:
    """Covers secret values. `longest` bytes may have to be held back where text comes in pieces."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values for form in _forms(value) if len(form) >= _SHORTEST}
        self._forms = sorted((form.encode() for form in forms), key=len, reverse=True)

    @property
    def longest(self) -> int:
        return max(map(len, self._forms), default=0)

    def clean(self, data: bytes) -> bytes:
        for form in self._forms:
            data = data.replace(form, _COVER.encode())
        return data

    def text(self, said: str) -> str:
        return self.clean(said.encode()).decode(errors="replace")


def _forms(value: str) -> Iterable[str]:
    """As it is, stripped, and as it looks in JSON, in an address and in base64."""
    plain = value.strip()
    encoded = base64.b64encode(value.encode()).decode()
    return (value, plain, json.dumps(plain)[1:-1], quote(plain, safe=""), encoded)


def _from_aws(access: Access, place: str) -> str:
    arn, _, field = place.partition("#")
    region = arn.split(":")[3] if arn.startswith("arn:") else access.boot["region"]
    url = access.end("secretsmanager", f"https://secretsmanager.{region}.amazonaws.com") + "/"
    body = json.dumps({"SecretId": arn}).encode()
    headers = {"content-type": "application/x-amz-json-1.1", "x-amz-target": "secretsmanager.GetSecretValue"}
    headers = signed("POST", url, headers, body, (region, "secretsmanager"), (access.credentials(), access.now()))
    found = json.loads(_answered(access, "POST", url, headers, body))
    value = found.get("SecretString")
    text = base64.b64decode(found["SecretBinary"]).decode() if value is None else str(value)
    return str(json.loads(text)[field]) if field else text


def _from_google(access: Access, place: str) -> str:
    url = access.end("gcp_secrets", "https://secretmanager.googleapis.com") + f"/v1/{quote(place)}:access"
    found = json.loads(_answered(access, "GET", url, {"authorization": f"Bearer {access.credentials()}"}))
    return base64.b64decode(found["payload"]["data"]).decode()


def _from_azure(access: Access, place: str) -> str:
    parts = urlsplit(place)
    host = parts.hostname or ""
    if parts.scheme != "https" or not host.endswith(
        (".vault.azure.net", ".vault.azure.cn", ".vault.usgovcloudapi.net")
    ):
        raise SecretError(f"akv:{place} is not the address of a key vault")
    resource = f"https://{host.partition('.')[2]}"
    url = access.end("key_vault", f"https://{host}") + f"{parts.path}?api-version=7.4"
    found = json.loads(_answered(access, "GET", url, {"authorization": f"Bearer {access.credentials(resource)}"}))
    return str(found["value"])


def _answered(access: Access, method: str, url: str, headers: dict[str, str], body: bytes | None = None) -> bytes:
    status, _, text = access.send(method, url, headers, body)
    if status in (401, 403, 429) or status >= 500:
        access.forget()
        raise OSError(f"{urlsplit(url).hostname} answered {status}: {text[:200].decode(errors='replace')}")
    if status != 200:
        raise SecretError(f"{urlsplit(url).hostname} answered {status}: {text[:200].decode(errors='replace')}")
    return text
