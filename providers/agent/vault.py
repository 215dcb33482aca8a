"""Secrets: references resolved by the machine's identity, kept in memory, and cut out of everything that is said."""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path
from typing import Iterable, Mapping
from urllib.parse import quote, urlsplit

from trainplan.providers.agent.requests import Access, signed

# Each form is matched whole, so that no part of a reference can lead a call to another host. Sources: the regions as
# botocore's endpoints.json has them for each partition; the characters of names and the twelve digits of an account in
# the vendors' references of Secrets Manager, Secret Manager and Key Vault.
_ARN = re.compile(
    r"arn:(?P<partition>aws|aws-cn|aws-us-gov):secretsmanager:(?P<region>[a-z]{2}(-[a-z]+){1,2}-[0-9]{1,2}):[0-9]{12}"
    r":secret:[A-Za-z0-9/_+=.@-]{1,519}"
)
_AWS_NAME = re.compile(r"(?!arn:)[A-Za-z0-9/_+=.@-]{1,512}")
_AWS_FIELD = re.compile(r"\S+")
_GOOGLE = re.compile(r"projects/[a-z0-9.:-]{1,64}/secrets/[A-Za-z0-9_-]{1,255}/versions/[A-Za-z0-9_-]{1,63}")
_AZURE = re.compile(
    r"https://(?P<vault>[A-Za-z0-9-]{3,24})\.(?P<suffix>vault\.azure\.net|vault\.azure\.cn|vault\.usgovcloudapi\.net)"
    r"(?P<path>/secrets/[A-Za-z0-9-]{1,127}(/[A-Za-z0-9]{1,64})?)"
)
_SHORTEST = 4
_COVER = "***"


class SecretError(Exception):
    """A reference that cannot be resolved; the text names the reference, never a value."""


def is_reference(text: str) -> bool:
    """Whether it is a reference that `resolve` would ask a vendor for."""
    kind, _, address = text.partition(":")
    return (
        (kind == "aws-sm" and _aws_parts(address) is not None)
        or (kind == "gcp-sm" and _GOOGLE.fullmatch(address) is not None)
        or (kind == "akv" and _AZURE.fullmatch(address) is not None)
    )


def resolve(access: Access, reference: str) -> str:
    """The value behind `aws-sm:ARN[#FIELD]`, `gcp-sm:projects/P/secrets/S/versions/V` or `akv:https://VAULT/secrets/NAME`.

    Raises SecretError, and OSError where nobody answers.
    """
    kind, _, address = reference.partition(":")
    ask = {"aws-sm": _from_aws, "gcp-sm": _from_google, "akv": _from_azure}.get(kind)
    if ask is None:
        raise SecretError(f"{reference} is no reference to a secret (aws-sm:, gcp-sm:, akv:)")
    try:
        return ask(access, address)
    except (KeyError, ValueError, TypeError) as error:
        raise SecretError(f"{reference}: the answer has no value ({type(error).__name__})") from error


def write_env_file(path: Path, values: Mapping[str, str]) -> None:
    """Write the file for docker's --env-file, readable by root. Raises SecretError for a value of several lines."""
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
        """The number of bytes of the longest secret, in any of its forms."""
        return max(map(len, self._forms), default=0)

    def clean(self, data: bytes) -> bytes:
        """The data with every secret covered."""
        for form in self._forms:
            data = data.replace(form, _COVER.encode())
        return data

    def text(self, message: str) -> str:
        """The message without secrets."""
        return self.clean(message.encode()).decode(errors="replace")


def _forms(value: str) -> Iterable[str]:
    """Return a secret as it is, stripped, and as it appears in JSON, in an address and in base64."""
    plain = value.strip()
    encoded = base64.b64encode(value.encode()).decode()
    return (value, plain, json.dumps(plain)[1:-1], quote(plain, safe=""), encoded)


def _aws_parts(address: str) -> tuple[str, str, str] | None:
    """(secret, region, field); region "" for a name, field "" for the whole value. None for what is neither."""
    secret, hash_sign, field = address.partition("#")
    if hash_sign and not _AWS_FIELD.fullmatch(field):
        return None
    arn = _ARN.fullmatch(secret)
    if arn is None:
        return (secret, "", field) if _AWS_NAME.fullmatch(secret) else None
    in_china = arn.group("region").startswith("cn-")
    if in_china != (arn.group("partition") == "aws-cn"):
        return None
    return secret, arn.group("region"), field


def _from_aws(access: Access, address: str) -> str:
    parts = _aws_parts(address)
    if parts is None:
        raise SecretError(f"aws-sm:{address} is neither the name nor the ARN of a secret of Secrets Manager")
    secret, region, field = parts[0], parts[1] or str(access.boot["region"]), parts[2]
    dot_cn = ".cn" if region.startswith("cn-") else ""
    url = access.end("secretsmanager", f"https://secretsmanager.{region}.amazonaws.com{dot_cn}") + "/"
    body = json.dumps({"SecretId": secret}).encode()
    headers = {"content-type": "application/x-amz-json-1.1", "x-amz-target": "secretsmanager.GetSecretValue"}
    headers = signed("POST", url, headers, body, (region, "secretsmanager"), (access.credentials(), access.now()))
    document = json.loads(_answered(access, "POST", url, headers, body))
    value = document.get("SecretString")
    text = base64.b64decode(document["SecretBinary"]).decode() if value is None else str(value)
    return str(json.loads(text)[field]) if field else text


def _from_google(access: Access, address: str) -> str:
    if not _GOOGLE.fullmatch(address):
        raise SecretError(f"gcp-sm:{address} is not projects/P/secrets/S/versions/V")
    url = access.end("gcp_secrets", "https://secretmanager.googleapis.com") + f"/v1/{quote(address)}:access"
    document = json.loads(_answered(access, "GET", url, {"authorization": f"Bearer {access.credentials()}"}))
    return base64.b64decode(document["payload"]["data"]).decode()


def _from_azure(access: Access, address: str) -> str:
    parts = _AZURE.fullmatch(address)
    if parts is None:
        raise SecretError(f"akv:{address} is not the address of a secret in a key vault")
    resource = f"https://{parts.group('suffix')}"
    host = f"https://{parts.group('vault')}.{parts.group('suffix')}"
    url = access.end("key_vault", host) + f"{parts.group('path')}?api-version=7.4"
    document = json.loads(_answered(access, "GET", url, {"authorization": f"Bearer {access.credentials(resource)}"}))
    return str(document["value"])


def _answered(access: Access, method: str, url: str, headers: dict[str, str], body: bytes | None = None) -> bytes:
    status, _, text = access.send(method, url, headers, body)
    if status in (401, 403, 429) or status >= 500:
        access.forget()
        raise OSError(f"{urlsplit(url).hostname} answered {status}: {text[:200].decode(errors='replace')}")
    if status != 200:
        raise SecretError(f"{urlsplit(url).hostname} answered {status}: {text[:200].decode(errors='replace')}")
    return text
