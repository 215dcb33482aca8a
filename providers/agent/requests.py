"""Reads the run directory with the machine's own identity. Also sent by itself: all that the first boot needs."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import http.client
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple

Headers = Dict[str, str]
Reply = Tuple[int, Headers, bytes]
Send = Callable[..., Reply]
Signer = Tuple[Tuple[str, str, Optional[str]], float]
"""(key id, secret, session token), and the instant in seconds since 1970."""
METADATA = "http://169.254.169.254"


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Nowhere: a token must not go to another host."""


def send(
    method: str, url: str, headers: Headers | None = None, body: bytes | None = None, timeout: float = 20.0
) -> Reply:
    """(status, headers in lower case, body). Raises OSError where nobody answers. Past every proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay)
    request = urllib.request.Request(url, data=body, headers=headers or {}, method=method)
    try:
        try:
            answer = opener.open(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error


def signed(
    method: str, url: str, headers: Headers, body: bytes | None, scope: tuple[str, str], signer: Signer
) -> Headers:
    """The headers with an AWS signature (version 4). `scope` is (region, service)."""
    parts = urllib.parse.urlsplit(url)
    key, now = signer
    stamp = datetime.datetime.fromtimestamp(now, datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    entries = {**headers, "host": parts.netloc, "x-amz-date": stamp}
    entries["x-amz-content-sha256"] = hashlib.sha256(body or b"").hexdigest()
    if key[2]:
        entries["x-amz-security-token"] = key[2]
    entries = {name.lower(): value for name, value in entries.items()}
    names = ";".join(sorted(entries))
    pairs = sorted(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    query = urllib.parse.urlencode(pairs, quote_via=urllib.parse.quote, safe="-_.~")
    lines = [method, parts.path or "/", query, *(f"{n}:{entries[n].strip()}" for n in sorted(entries)), "", names]
    question = "\n".join([*lines, entries["x-amz-content-sha256"]])
    day = "/".join([stamp[:8], *scope, "aws4_request"])
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, day, hashlib.sha256(question.encode()).hexdigest()])
    secret = ("AWS4" + key[1]).encode()
    for part in day.split("/"):
        secret = hmac.new(secret, part.encode(), "sha256").digest()
    mark = hmac.new(secret, text.encode(), "sha256").hexdigest()
    entries["authorization"] = f"AWS4-HMAC-SHA256 Credential={key[0]}/{day}, SignedHeaders={names}, Signature={mark}"
    del entries["host"]
    return entries


class Access:
    """Calls with the machine's identity. `boot` is boot.json: cloud, run_uri, region, endpoints."""

    def __init__(self, boot: dict[str, Any], send: Send = send, now: Callable[[], float] = time.time) -> None:
        self.boot, self.send, self.now = boot, send, now
        self.scheme, _, rest = boot["run_uri"].partition("://")
        self.store_name, _, self.prefix = rest.strip("/").partition("/")
        if self.scheme == "azblob":
            box, _, self.prefix = self.prefix.partition("/")
            self.store_name += "/" + box
        self._tokens: dict[str, tuple[Any, float]] = {}

    def end(self, name: str, usual: str) -> str:
        """Where a service answers."""
        return str(self.boot.get("endpoints", {}).get(name, usual)).rstrip("/")

    def metadata(self, path: str, headers: Headers, method: str = "GET") -> tuple[int, str]:
        """(status, body) of the metadata service."""
        status, _, body = self.send(method, self.end("metadata", METADATA) + path, headers, timeout=5.0)
        return status, body.decode(errors="replace").strip()

    def _ask(self, path: str, headers: Headers, method: str = "GET") -> str:
        status, body = self.metadata(path, headers, method)
        if status != 200:
            raise OSError(f"the metadata service answered {status} to {path.partition('?')[0]}")
        return body

    def credentials(self, resource: str = "https://storage.azure.com/") -> Any:
        """AWS: (id, secret, token). Google and Azure: a bearer token. Kept until five minutes before it expires."""
        if resource not in self._tokens or self.now() > self._tokens[resource][1]:
            self._tokens[resource] = getattr(self, "_" + self.boot["cloud"])(resource)
        return self._tokens[resource][0]

    def forget(self) -> None:
        """The credentials were refused: ask for new ones."""
        self._tokens.clear()

    def imds(self) -> Headers:
        """The header that EC2's metadata service wants."""
        ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
        return {"X-aws-ec2-metadata-token": self._ask("/latest/api/token", ttl, "PUT")}

    def _aws(self, _: str) -> tuple[Any, float]:
        token, path = self.imds(), "/latest/meta-data/iam/security-credentials/"
        role = self._ask(path, token).split("\n")[0]
        document = json.loads(self._ask(path + role, token))
        ends = datetime.datetime.strptime(document["Expiration"], "%Y-%m-%dT%H:%M:%S%z").timestamp()
        return (document["AccessKeyId"], document["SecretAccessKey"], document["Token"]), ends - 300

    def _gcp(self, _: str) -> tuple[Any, float]:
        path = "/computeMetadata/v1/instance/service-accounts/default/token"
        return self._bearer(self._ask(path, {"Metadata-Flavor": "Google"}))

    def _azure(self, resource: str) -> tuple[Any, float]:
        # With several identities on the machine (policies add some), Azure wants to be told which one is meant.
        by_name = {"msi_res_id": self.boot["identity"]} if self.boot.get("identity") else {}
        question = urllib.parse.urlencode({"api-version": "2018-02-01", "resource": resource, **by_name})
        return self._bearer(self._ask("/metadata/identity/oauth2/token?" + question, {"Metadata": "true"}))

    def _bearer(self, body: str) -> tuple[Any, float]:
        document = json.loads(body)
        return document["access_token"], self.now() + int(document["expires_in"]) - 300

    def url(self, path: str) -> str:
        """Where an object of the run directory is."""
        key = urllib.parse.quote(f"{self.prefix}/{path}".strip("/"), safe="/-_.~")
        if self.scheme == "gs":
            endpoint = self.end("gcs", "https://storage.googleapis.com")
            return f"{endpoint}/storage/v1/b/{self.store_name}/o/{key.replace('/', '%2F')}"
        return f"{self.bucket()}/{key}"

    def bucket(self) -> str:
        """Where the bucket or container itself is (S3, Azure)."""
        account, _, box = self.store_name.partition("/")
        if self.scheme == "azblob":
            endpoint = self.end("blob", "")
            return f"{endpoint}/{account}/{box}" if endpoint else f"https://{account}.blob.core.windows.net/{box}"
        endpoint, region = self.end("s3", ""), self.boot["region"]
        dot_cn = ".cn" if region.startswith("cn-") else ""
        return f"{endpoint}/{account}" if endpoint else f"https://{account}.s3.{region}.amazonaws.com{dot_cn}"

    def call(
        self, method: str, url: str, headers: Headers | None = None, body: bytes | None = None, timeout: float = 20.0
    ) -> Reply:
        """Like `send`, with the identity that the store wants."""
        headers = {"content-type": "application/octet-stream", **(headers or {})}
        if self.scheme == "s3":
            signer = (self.credentials(), self.now())
            headers = signed(method, url, headers, body, (self.boot["region"], "s3"), signer)
        else:
            headers["authorization"] = "Bearer " + self.credentials()
        if self.scheme == "azblob":
            headers["x-ms-version"] = "2021-12-02"
        return self.send(method, url, headers, body, timeout)


def main(arguments: list[str]) -> int:
    """`BOOT_JSON (PATH SHA256 TARGET)...`. Exit code 1: not there yet; 3: not what was promised; 4: refused for now."""
    access = Access(json.loads(Path(arguments[0]).read_text(encoding="utf-8")))
    for path, digest, target in zip(*[iter(arguments[1:])] * 3):
        try:
            alt = "?alt=media" if access.scheme == "gs" else ""
            status, _, body = access.call("GET", access.url(path) + alt)
        except (OSError, ValueError, KeyError) as error:
            status, body = 0, str(error).encode()
        if status != 200:
            sys.stderr.write(f"{path}: {status} {body[:300].decode(errors='replace')}\n")
            return 4 if status in (401, 403) else 1
        if hashlib.sha256(body).hexdigest() != digest:
            sys.stderr.write(f"{path} differs from its sha256\n")
            return 3
        new = Path(target + ".new")
        new.write_bytes(body)
        new.replace(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
