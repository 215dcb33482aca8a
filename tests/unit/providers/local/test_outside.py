"""What a build and a container need to reach an index: by name, and nothing else of the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainplan.providers.local.outside import CERTIFICATES_FILE, Outside, certificate_variables, look_outside


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """The /etc of a system without settings."""
    folder = tmp_path / "etc"
    folder.mkdir()
    return folder


def put(path: Path, text: str = "CERTIFICATE") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_is_nothing(system: Path) -> None:
    assert look_outside({"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "PIP_CERT": "/no/such"}, system) == Outside()


def test_pips_files_are_read_in_pips_order(system: Path, tmp_path: Path) -> None:
    put(system / "pip.conf", "[global]\nindex-url = https://system.example/simple\ntimeout = 5\nretries = 3\n")
    put(tmp_path / ".config/pip/pip.conf", "[global]\nindex-url = https://person.example/simple\ntarget = /elsewhere\n")
    named = put(tmp_path / "named.conf", "[install]\ntrusted-host = named.example\n")
    environment = {"HOME": str(tmp_path), "PIP_CONFIG_FILE": str(named), "PIP_DEFAULT_TIMEOUT": "60"}
    assert look_outside(environment, system).pip == {
        "index-url": "https://person.example/simple",
        "trusted-host": "named.example",
        "timeout": "60",
        "retries": "3",
    }
    changed = look_outside({**environment, "PIP_INDEX_URL": "https://shell.example/simple"}, system)
    assert changed.pip["index-url"] == "https://shell.example/simple"
    assert look_outside({**environment, "PIP_CONFIG_FILE": os.devnull}, system).pip == {"timeout": "60"}


def test_a_file_that_is_no_settings_is_left_to_pip(system: Path) -> None:
    put(system / "pip.conf", "index-url = https://no.section\n")
    assert look_outside({}, system).pip == {}


def test_a_container_gets_settings_as_variables_and_folders_of_packages(system: Path, tmp_path: Path) -> None:
    environment = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": f"{tmp_path} /no/such/folder",
        "PIP_EXTRA_INDEX_URL": "file:///opt/simple https://other.example/simple",
        "https_proxy": "http://proxy.example:3128",
        "NO_PROXY": "localhost",
        "SECRET": "x",
    }
    outside = look_outside(environment, system)
    assert outside.variables == {
        "PIP_EXTRA_INDEX_URL": "https://other.example/simple",
        "PIP_FIND_LINKS": f"{tmp_path} /no/such/folder",
        "PIP_NO_INDEX": "1",
        "https_proxy": "http://proxy.example:3128",
        "NO_PROXY": "localhost",
    }
    assert outside.folders == (str(tmp_path),)
    assert outside.pip_conf == "[global]\nextra-index-url = https://other.example/simple\n"


def test_certificates_that_the_person_names_go_before_the_systems(system: Path, tmp_path: Path) -> None:
    trusted = put(system / "pki/tls/certs/ca-bundle.crt")
    assert look_outside({}, system) == Outside(certificates=trusted)
    mine = put(tmp_path / "mine.pem")
    for environment in ({"REQUESTS_CA_BUNDLE": str(mine)}, {"PIP_CERT": "/no/such", "SSL_CERT_FILE": str(mine)}):
        assert look_outside(environment, system) == Outside(certificates=mine, has_named_certificates=True)
    put(system / "pip.conf", f"[global]\ncert = {mine}\n")
    assert look_outside({}, system).certificates == mine
    assert set(certificate_variables().values()) == {CERTIFICATES_FILE}


@pytest.mark.parametrize(
    ("outside", "is_here"),
    [
        (Outside(proxies={"HTTPS_PROXY": "http://127.0.0.1:3128"}), True),
        (Outside(proxies={"http_proxy": "localhost:3128"}), True),
        (Outside(pip={"extra-index-url": "https://a.example/simple http://[::1]:8080/simple"}), True),
        (Outside(proxies={"NO_PROXY": "localhost", "HTTP_PROXY": "http://proxy.example"}), False),
        (Outside(pip={"index-url": "https://10.0.0.7/simple"}), False),
        (Outside(proxies={"HTTP_PROXY": "http://[::"}), False),
    ],
)
def test_what_listens_on_this_computer_alone(outside: Outside, is_here: bool) -> None:
    assert outside.is_on_this_computer is is_here
