"""Options of this machine, and the registry that hands them over."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from trainplan.providers import registry
from trainplan.providers.abilities import Preparer
from trainplan.providers.base import ProviderSettings
from trainplan.providers.errors import BadRequestError
from trainplan.providers.local.settings import EngineChoice, LocalSettings, parse_settings


def settings(home: Path, **options: str) -> ProviderSettings:
    return ProviderSettings(home=home, options=options, environment={}, now=lambda: datetime(2026, 11, 21, tzinfo=UTC))


def test_defaults() -> None:
    assert parse_settings({}) == LocalSettings()


def test_everything_set() -> None:
    given = {"engine": "podman", "usd_per_hour": "0.12", "base_image": "b:1", "build_flags": "--a 'b c'"}
    given["podman_build_flags"] = "--d"
    assert parse_settings(given) == LocalSettings(
        engine=EngineChoice.PODMAN,
        usd_per_hour=Decimal("0.12"),
        base_image="b:1",
        build_flags=("--a", "b c"),
        podman_build_flags=("--d",),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "lxc"}, "lxc"),
        ({"usd_per_hour": "-1"}, "-1"),
        ({"usd_per_hour": "NaN"}, "NaN"),
        ({"usd_per_hour": "much"}, "much"),
        ({"build_flags": "'open"}, "build_flags"),
        ({"flags": "x"}, "flags"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse_settings(options)


def test_registry_makes_a_provider_and_touches_nothing(tmp_path: Path) -> None:
    made = registry.provider("local", settings(tmp_path))
    assert made.name == "local"
    assert isinstance(made, Preparer)
    assert list(tmp_path.iterdir()) == []


def test_registry_names_what_it_knows(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match="lokal") as caught:
        registry.provider("lokal", settings(tmp_path))
    assert "local" in caught.value.hint
