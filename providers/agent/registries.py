"""Logging in to the person's own registry with the machine's identity."""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import urlencode

from trainplan.providers.agent.requests import Access, signed

_ECR = re.compile(r"^(\d+)\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$")
_GOOGLE = re.compile(r"^([a-z0-9-]+-docker\.pkg\.dev|([a-z]+\.)?gcr\.io)$")
_AZURE = re.compile(r"^[a-zA-Z0-9]+\.azurecr\.io$")
_ARM = "https://management.azure.com/"


def host_of(image: str) -> str:
    """The registry of an image, "" for the public default."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else ""


def login_for(access: Access, image: str) -> tuple[str, str] | None:
    """User and password for the registry of an image; None where the machine's identity is worth nothing there.

    Raises OSError or ValueError where the cloud gives none.
    """
    pair = REGISTRIES.get(access.boot["cloud"])
    host = pair[0].match(host_of(image)) if pair else None
    return pair[1](access, host) if pair and host else None


def _aws(access: Access, host: re.Match[str]) -> tuple[str, str]:
    return _ecr(access, host.group(1), host.group(2), host.group(3) or "")


def _google(access: Access, host: re.Match[str]) -> tuple[str, str]:  # noqa: ARG001 - one form for all
    return "oauth2accesstoken", access.credentials()


def _azure(access: Access, host: re.Match[str]) -> tuple[str, str]:
    return "00000000-0000-0000-0000-000000000000", _acr(access, host.group())


REGISTRIES = {"aws": (_ECR, _aws), "gcp": (_GOOGLE, _google), "azure": (_AZURE, _azure)}
"""Each cloud's own registry: its hosts, and how a machine logs in there."""


def _ecr(access: Access, account: str, region: str, dot_cn: str) -> tuple[str, str]:
    url = access.end("ecr", f"https://api.ecr.{region}.amazonaws.com{dot_cn}") + "/"
    target = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
    headers = {"content-type": "application/x-amz-json-1.1", "x-amz-target": target}
    body = json.dumps({"registryIds": [account]}).encode()
    headers = signed("POST", url, headers, body, (region, "ecr"), (access.credentials(), access.now()))
    item = json.loads(_answered(access, url, headers, body))
    user, _, password = base64.b64decode(item["authorizationData"][0]["authorizationToken"]).decode().partition(":")
    return user, password


def _acr(access: Access, host: str) -> str:
    url = access.end("acr", f"https://{host}") + "/oauth2/exchange"
    request = {"grant_type": "access_token", "service": host, "access_token": access.credentials(_ARM)}
    headers = {"content-type": "application/x-www-form-urlencoded"}
    return str(json.loads(_answered(access, url, headers, urlencode(request).encode()))["refresh_token"])


def _answered(access: Access, url: str, headers: dict[str, str], body: bytes) -> bytes:
    status, _, text = access.send("POST", url, headers, body)
    if status != 200:
        raise OSError(f"{url} answered {status}: {text[:200].decode(errors='replace')}")
    return text
