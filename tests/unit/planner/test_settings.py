"""Settings: which one wins, and bad ones named with where they stand."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from trainplan.planner.errors import BadInputError, PlanError, ThisMachineError
from trainplan.planner.settings import Settings, load_settings
from trainplan.providers.local.settings import parse_settings


def load(tmp_path: Path, own: str = "", machine: str = "", **environment: str) -> Settings:
    """Settings with `own` in $PLAN_HOME/settings.toml and `machine` in the machine's file."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    if own:
        (home / "settings.toml").write_text(own, encoding="utf-8")
    (tmp_path / "machine.toml").write_text(machine, encoding="utf-8")
    return load_settings({"PLAN_HOME": str(home)} | environment, tmp_path / "machine.toml")


def test_nothing_set_is_the_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings == Settings(
        home=tmp_path / "home",
        bucket_regions={"aws": "us-east-1", "gcp": "us-central1"},
        accounts={"aws": "default", "gcp": "", "azure": ""},
    )
    assert (settings.engine, settings.usd_per_hour, settings.base_image, settings.build_flags) == (
        "auto", Decimal(0), None, (),
    )  # fmt: skip
    assert settings.journal == tmp_path / "home" / "journal.sqlite"
    assert settings.measurements == tmp_path / "home" / "measurements.jsonl"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ('"https://hooks.example.org/a/b?c=d"', ("https://hooks.example.org/a/b?c=d",)),
        ('"http://127.0.0.1:8000/runs"', ("http://127.0.0.1:8000/runs",)),
        ('"http://[::1]/runs"', ("http://[::1]/runs",)),
        ('"http://localhost/runs"', ("http://localhost/runs",)),
        ("\"/bin/told --text 'a b'\"", ("/bin/told", "--text", "a b")),
        ('["/bin/told", "a b"]', ("/bin/told", "a b")),
        ('""', ()),
        ("[]", ()),
    ],
)
def test_who_is_told_of_runs(tmp_path: Path, value: str, words: tuple[str, ...]) -> None:
    assert load(tmp_path, f"notify = {value}").notify == words


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ('"http://hooks.example.org/secret"', "notify would send to hooks.example.org unencrypted"),
        ('["http://10.0.0.1/secret"]', "notify would send to 10.0.0.1 unencrypted"),
        ('"ftp://hooks.example.org/secret"', "notify would send to hooks.example.org unencrypted"),
        ('"https://me:secret@hooks.example.org"', "notify has a user or a password in its address"),
        ('"https:///secret"', "notify is no web address"),
        ('"https://a b/secret"', "notify is no web address"),
        ('"https://[/secret"', "notify is no web address"),
        ("3", "notify is neither a web address nor a command"),
        ('[""]', "notify is neither a web address nor a command"),
        ('"told \'me"', "notify is no command"),
    ],
)
def test_who_cannot_be_told_of_runs(tmp_path: Path, value: str, error: str) -> None:
    with pytest.raises(BadInputError) as caught:
        load(tmp_path, f"notify = {value}")
    assert error in caught.value.message
    assert "secret" not in caught.value.message + caught.value.hint
    assert caught.value.hint


def test_no_file_is_no_error(tmp_path: Path) -> None:
    settings = load_settings({"PLAN_HOME": str(tmp_path / "never made")}, tmp_path / "no file")
    assert settings.engine == "auto"
    assert not (tmp_path / "never made").exists()


MACHINE = 'engine = "docker"\nusd_per_hour = 0.5\nbase_image = "here:1"\nbuild_flags = ["--a"]\n'
OWN = 'engine = "podman"\nusd_per_hour = 0.25\n'


@pytest.mark.parametrize(
    ("own", "environment", "engine", "usd"),
    [
        ("", {}, "docker", "0.5"),
        (OWN, {}, "podman", "0.25"),
        (OWN, {"PLAN_ENGINE": "process"}, "process", "0.25"),
        (OWN, {"PLAN_USD_PER_HOUR": "0.1"}, "podman", "0.1"),
        (OWN, {"PLAN_ENGINE": "", "PLAN_USD_PER_HOUR": ""}, "podman", "0.25"),
    ],
)
def test_the_environment_wins_over_ones_own_over_the_machines(
    tmp_path: Path, own: str, environment: Mapping[str, str], engine: str, usd: str
) -> None:
    settings = load(tmp_path, own, MACHINE, **environment)
    assert (settings.engine, settings.usd_per_hour) == (engine, Decimal(usd))
    assert (settings.base_image, settings.build_flags) == ("here:1", ("--a",))


@pytest.mark.parametrize(
    ("own", "environment", "flags"),
    [
        ('build_flags = ["--a", "--b=c d"]', {}, ("--a", "--b=c d")),
        ("build_flags = \"--a '--b=c d'\"", {}, ("--a", "--b=c d")),
        ("", {"PLAN_BUILD_FLAGS": "--a '--b=c d'"}, ("--a", "--b=c d")),
        ("build_flags = []", {}, ()),
    ],
)
def test_flags_are_a_list_or_a_line(
    tmp_path: Path, own: str, environment: Mapping[str, str], flags: tuple[str, ...]
) -> None:
    assert load(tmp_path, own, **environment).build_flags == flags


def test_the_local_provider_understands_what_it_is_given(tmp_path: Path) -> None:
    """Both sides of the seam: flags with blanks in them come out as they went in."""
    settings = load(tmp_path, MACHINE + "", **{"PLAN_BUILD_FLAGS": "--a '--b=c d'"})
    understood = parse_settings(settings.options_of("local"))
    assert understood.engine == settings.engine
    assert understood.usd_per_hour == settings.usd_per_hour
    assert understood.base_image == settings.base_image
    assert understood.build_flags == settings.build_flags
    bare = parse_settings(load(tmp_path, "engine = 'auto'").options_of("local"))
    assert (bare.base_image, bare.build_flags) == (None, ())


PRICE_LISTS = {"PLAN_AZURE_PRICES_URL": "https://mirror.example", "PLAN_GCP_API_KEY": "key"}
"""For `plan prices refresh`; a provider would say that it has no such setting."""


def test_a_cloud_has_a_table_of_its_own(tmp_path: Path) -> None:
    own = '[aws]\nregion = "eu-west-1"\nkeep_days = 30\n[gcp]\nproject = "mine"\n'
    given = {"PLAN_AWS_REGION": "us-east-1", "PLAN_AZURE_ACCOUNT": "box", "PLAN_GCP_PROJECT": ""}
    settings = load(tmp_path, own, **given, **PRICE_LISTS)
    assert settings.options_of("aws") == {"region": "us-east-1", "keep_days": "30"}
    assert settings.options_of("gcp") == {"project": "mine"}
    assert settings.options_of("azure") == {"account": "box"}
    assert settings.options_of("sim") == {}


@pytest.mark.parametrize(
    ("own", "environment", "message"),
    [
        ("aws = 3", {}, "aws is not a table of texts and numbers"),
        ("[aws]\nregions = [1]", {}, "aws is not a table of texts and numbers"),
        ("[asw]\nregion = 'x'", {}, "there is no setting 'asw'"),
        ("engine = ", {}, "settings.toml: "),
        ("enigne = 'docker'", {}, "there is no setting 'enigne'"),
        ("engine = 'dokcer'", {}, "engine 'dokcer' is not one of auto, docker, podman, process"),
        ("engine = 3", {}, "engine 3 is not one of"),
        ("usd_per_hour = 'much'", {}, "'much' is not dollars an hour"),
        ("usd_per_hour = -1", {}, "-1 is not dollars an hour"),
        ("usd_per_hour = nan", {}, "nan is not dollars an hour"),
        ("usd_per_hour = true", {}, "True is not dollars an hour"),
        ("usd_per_hour = 1e300", {}, "is not dollars an hour"),
        ("base_image = 3", {}, "base_image 3 is not the name of an image"),
        ("build_flags = 3", {}, "build_flags 3 are not flags"),
        ("build_flags = [3]", {}, "build_flags [3] are not flags"),
        ('build_flags = "\'"', {}, "No closing quotation"),
        ("", {"PLAN_ENGINE": "DOCKER"}, "PLAN_ENGINE: engine 'DOCKER' is not one of"),
        ("", {"PLAN_USD_PER_HOUR": "1e999999"}, "PLAN_USD_PER_HOUR: '1e999999' is not dollars"),
        ("", {"PLAN_USD_PER_HOUR": "inf"}, "'inf' is not dollars an hour"),
        ("", {"PLAN_BUILD_FLAGS": "'"}, "No closing quotation"),
        ("x = " + "[" * 5000, {}, "settings.toml: "),
    ],
)
def test_a_bad_setting_is_named(tmp_path: Path, own: str, environment: Mapping[str, str], message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        load(tmp_path, own, **environment)
    assert message in caught.value.message


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInputError, match=r"settings\.toml"):
        load_settings({"PLAN_HOME": str(tmp_path)}, tmp_path / "none")


@pytest.mark.parametrize(
    ("home", "error"), [("~a-user-that-is-not-there/x", BadInputError), ("x" * 5000, ThisMachineError)]
)
def test_a_home_that_cannot_be_is_named(home: str, error: type[PlanError]) -> None:
    with pytest.raises(error, match=home[:20]):
        load_settings({"PLAN_HOME": home}, Path("none"))


def test_home_is_absolute_and_without_a_wish_below_the_users_own(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings({"PLAN_HOME": "state"}, tmp_path / "none").home == tmp_path / "state"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    found = load_settings({}, tmp_path / "none").home
    assert found.is_absolute()
    assert found.name == "trainplan"


def test_the_account_in_use_is_that_of_the_settings_else_of_the_environment(tmp_path: Path) -> None:
    environment = {"AWS_PROFILE": "research", "GOOGLE_CLOUD_PROJECT": "ours", "AZURE_SUBSCRIPTION_ID": "of-az"}
    settings = load(tmp_path, '[gcp]\nproject = "theirs"\n', **environment)
    assert settings.accounts == {"aws": "research", "gcp": "theirs", "azure": "of-az"}


def test_a_byte_order_mark_is_no_part_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_bytes(b"\xef\xbb\xbfusd_per_hour = 0.45\r\n")
    assert load_settings({"PLAN_HOME": str(tmp_path)}, tmp_path / "none").usd_per_hour == Decimal("0.45")
