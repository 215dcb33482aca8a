"""What programs of this computer need to reach the world outside: certificates, pip's settings, proxies.

A build and a container get these, by name, and nothing else of the environment.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

_CERTIFICATES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")
"""Variables of pip, requests, OpenSSL and curl that name a file of certificates."""
_BUNDLES = (
    "ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Alpine
    "pki/tls/certs/ca-bundle.crt",  # Fedora, Red Hat
    "ssl/ca-bundle.pem",  # SUSE
)
"""Where systems keep the certificates that their owner trusts, a firm's own among them; below /etc."""
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_PIP = ("index-url", "extra-index-url", "trusted-host", "find-links", "no-index", "proxy", "timeout", "retries")
"""Settings of pip that lead to an index, as pip.conf has them (pip's documentation, Configuration)."""
_ADDRESSES = ("index-url", "extra-index-url", "proxy")
CERTIFICATES_FILE = "/certificates.pem"
"""Where a container has the certificates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """`certificates` is a file of this computer: one that the person named (`has_named_certificates`), else what the
    system trusts; `pip` are settings as pip.conf has them, `proxies` variables."""

    certificates: Path | None = None
    has_named_certificates: bool = False
    pip: Mapping[str, str] = field(default_factory=dict)
    proxies: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_on_this_computer(self) -> bool:
        """Whether a proxy or an index listens on this computer alone: a network of a container's own has it not."""
        texts = [value for name, value in self.proxies.items() if name.upper() != "NO_PROXY"]
        texts += [word for key in _ADDRESSES for word in self.pip.get(key, "").split()]
        return any(map(_is_loopback, texts))

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of this computer in which pip looks for packages."""
        return tuple(word for word in self.pip.get("find-links", "").split() if Path(word).is_dir())

    @property
    def pip_conf(self) -> str:
        """Pip's settings as a build reads them, which sees no folder of this computer; empty for none."""
        values = {key: value for key, value in self.pip.items() if key not in ("find-links", "no-index")}
        return "".join(["[global]\n", *(f"{key} = {value}\n" for key, value in values.items())]) if values else ""

    @property
    def variables(self) -> dict[str, str]:
        """What a container's environment gets, but for certificates. Addresses may have passwords in them."""
        return {**{f"PIP_{key.upper().replace('-', '_')}": value for key, value in self.pip.items()}, **self.proxies}


def look_outside(environment: Mapping[str, str], system: Path = Path("/etc")) -> Outside:
    """What the environment, pip's files and the system (`system`: /etc) say."""
    settings = _pip_settings(environment, system)
    named = [environment.get(name, "") for name in _CERTIFICATES[:1]] + [settings.get("cert", "")]
    named += [environment.get(name, "") for name in _CERTIFICATES[1:]]
    certificates = next((path for text in named if text and (path := Path(text)).is_file()), None)
    trusted = next((path for name in _BUNDLES if (path := system / name).is_file()), None)
    return Outside(
        certificates=certificates or trusted,
        has_named_certificates=certificates is not None,
        pip={key: value for key in _PIP if (value := _outside(key, settings.get(key, "")))},
        proxies={name: environment[name] for one in _PROXIES for name in (one, one.lower()) if environment.get(name)},
    )


def certificate_variables() -> dict[str, str]:
    """The variables that lead programs of a container to the certificates."""
    return dict.fromkeys(_CERTIFICATES, CERTIFICATES_FILE)


def _pip_settings(environment: Mapping[str, str], system: Path) -> dict[str, str]:
    """As pip reads them: of the system, then of the person, then of the environment, each over what was before."""
    values: dict[str, str] = {}
    for path in _pip_files(environment, system):
        config = configparser.RawConfigParser()
        try:
            config.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue  # pip itself says what is wrong with it
        for section in ("global", "install"):
            if config.has_section(section):
                values |= {key.replace("_", "-"): value for key, value in config.items(section) if value}
    for key in (*_PIP, "cert"):
        if value := environment.get(f"PIP_{key.upper().replace('-', '_')}"):
            values[key] = value
    if timeout := environment.get("PIP_DEFAULT_TIMEOUT"):
        values["timeout"] = timeout
    return values


def _pip_files(environment: Mapping[str, str], system: Path) -> Iterator[Path]:
    named = environment.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return  # pip reads none then
    yield system / "xdg" / "pip" / "pip.conf"
    yield system / "pip.conf"
    if home := environment.get("HOME"):
        yield Path(home) / ".pip" / "pip.conf"
        yield Path(home) / "Library" / "Application Support" / "pip" / "pip.conf"
        yield Path(environment.get("XDG_CONFIG_HOME") or Path(home) / ".config") / "pip" / "pip.conf"
    if data := environment.get("APPDATA"):
        yield Path(data) / "pip" / "pip.ini"
    if named:
        yield Path(named)


def _outside(key: str, value: str) -> str:
    """The value in one line, without addresses of files: a container does not see them."""
    words = value.split()
    if key in ("index-url", "extra-index-url"):
        words = [word for word in words if not word.startswith(("file:", "/", "."))]
    return " ".join(words)


def _is_loopback(address: str) -> bool:
    try:
        host = urlsplit(address if "://" in address else f"http://{address}").hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
