"""The digest of a public image's tag, asked of its registries in turn (the distribution API of the OCI)."""

from __future__ import annotations

import hashlib
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trainplan.providers.errors import BadRequestError, TransientError

_SECONDS = 20.0
_MOST_BYTES = 4 * 1024 * 1024
_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_HOSTS = {"docker.io": "registry-1.docker.io"}
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Reference(NamedTuple):
    """`registry/name:tag` in its parts."""

    registry: str
    name: str
    tag: str

    @property
    def url(self) -> str:
        """Where the manifest is. Plain http on loopback, as container engines do."""
        host = _HOSTS.get(self.registry, self.registry)
        scheme = "http" if host.rsplit(":", 1)[0] in _LOOPBACK else "https"
        return f"{scheme}://{host}/v2/{self.name}/manifests/{urllib.parse.quote(self.tag)}"


def digest_of(references: Sequence[str]) -> str:
    """`sha256:…` of the first reference whose registry tells; all of them name the same content.

    Raises TransientError where none does, with what each said.
    """
    lines = []
    for reference in references:
        try:
            return _ask_registry(_parts(reference))
        except urllib.error.HTTPError as error:
            with error:
                lines.append(f"{reference}: {error.code} {error.reason}")
        except (OSError, ValueError) as error:
            lines.append(f"{reference}: {error}")
    raise TransientError(
        f"no registry tells which image it has: {'; '.join(lines)}",
        hint="check the network connection, name a registry that answers in the setting `mirrors`, or bring an image "
        "of your own by digest (`container:` in the job)",
    )


def mirrored(references: Sequence[str], mirrors: Sequence[str]) -> tuple[str, ...]:
    """The references at the person's own mirrors of Docker's registry first, then as they are.

    Raises BadRequestError for a mirror that is no name of a registry.
    """
    parsed = [_parts(reference) for reference in references]
    docker = next((candidate for candidate in parsed if candidate.registry == "docker.io"), parsed[0])
    for mirror in mirrors:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.:/_-]*", mirror):
            raise BadRequestError(f"mirrors: {mirror!r} is no registry", hint="registry.example.com/docker-hub")
    return (*(f"{mirror.rstrip('/')}/{docker.name}:{docker.tag}" for mirror in mirrors), *references)


def _parts(reference: str) -> Reference:
    registry, _, rest = reference.partition("/")
    name, _, tag = rest.rpartition(":")
    if not (registry and name and tag):
        raise ValueError(f"{reference!r} is not registry/name:tag")
    return Reference(registry, name, tag)


def _ask_registry(reference: Reference) -> str:
    try:
        headers, body = _get(reference.url, {})
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise
        with error:
            token = _token(error.headers.get("WWW-Authenticate") or "")
        headers, body = _get(reference.url, {"Authorization": f"Bearer {token}"})
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    text = headers.get("docker-content-digest", digest)
    if not _DIGEST.fullmatch(text) or text != digest:
        raise ValueError(f"the registry says {text}, its answer hashes to {digest}")
    return digest


def _token(challenge: str) -> str:
    """An anonymous token, from where the registry says that they are given out."""
    kind, _, rest = challenge.partition(" ")
    document = dict(_PARAMETER.findall(rest))
    if kind.lower() != "bearer" or not document.get("realm", "").startswith(("https://", "http://")):
        raise ValueError("it wants a sign-in")
    query = urllib.parse.urlencode({name: document[name] for name in ("service", "scope") if name in document})
    _, body = _get(f"{document['realm']}?{query}", {})
    reply = json.loads(body)
    token = (reply.get("token") or reply.get("access_token")) if isinstance(reply, dict) else None
    if not isinstance(token, str):
        raise ValueError("it gave no token")
    return token


def _get(url: str, headers: Mapping[str, str]) -> tuple[Mapping[str, str], bytes]:
    request = urllib.request.Request(url, headers={"Accept": _ACCEPT, **headers})
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        body = answer.read(_MOST_BYTES + 1)
        if len(body) > _MOST_BYTES:
            raise ValueError("its answer is far too long")
        return {name.lower(): value for name, value in answer.headers.items()}, body
