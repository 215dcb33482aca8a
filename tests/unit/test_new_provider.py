"""`python -m scripts.new_provider`: what it writes is well formed, and fails by name until it is filled in."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.new_provider.__main__ import PRICES, main
from tests.unit.planner.cli.command import plan
from trainplan.planner.errors import ExitCode
from trainplan.pricing.compile import TEXT_DIR, compile_catalog
from trainplan.pricing.table_text import UNFILLED, TableError, table_rows
from trainplan.providers import registry
from trainplan.providers.base import Provider
from trainplan.providers.errors import BadRequestError

ROWS = {
    "offers/acme.csv": "any,acme-1,,1.5,2026-11-01,,acme-list,,,,,,,,\n",
    "instance_types.csv": "acme,acme-1,acme-1,x86_64,T4,1,1,16,8,32,1,active,,,\n",
    "sources.csv": "acme-list,listed,read somewhere\n",
    "rates.toml": (
        '[[provider]]\nname = "acme"\ndisk = ""\naddress = ""\nbilling_increment_seconds = 60\n'
        'billing_minimum_seconds = 0\nbilling_source = "somewhere, 2026-11-01"\n'
    ),
}
"""What a person fills in, and where."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(TEXT_DIR, tmp_path / PRICES, ignore=shutil.ignore_patterns("*.sqlite"))
    return tmp_path


@pytest.fixture
def no_plug_in_stays() -> Iterator[None]:
    registry.found_plug_ins.cache_clear()
    yield
    registry.found_plug_ins.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "trainplan_acme"]:
        del sys.modules[name]


def _fill_in(prices: Path, name: str) -> None:
    text = (prices / name).read_text("utf-8")
    shipped = (TEXT_DIR / name).read_text("utf-8") if (TEXT_DIR / name).exists() else f"{text.splitlines()[0]}\n"
    assert text.startswith(shipped), "what was there stays as it was"
    (prices / name).write_text(f"{shipped}{ROWS[name]}", encoding="utf-8", newline="")


def test_prices_that_are_not_filled_in_are_refused_with_their_file_until_they_are(root: Path) -> None:
    assert main(["acme", "--estimate-only"], root) == 0
    prices = root / PRICES
    for name in ("sources.csv", "instance_types.csv", "offers/acme.csv", "rates.toml"):
        with pytest.raises(TableError, match=rf"^{name.rpartition('/')[2]}"):
            compile_catalog(prices, root / "catalog.sqlite")
        _fill_in(prices, name)
    compile_catalog(prices, root / "catalog.sqlite")
    job = ("--model", "vgg16", "--dataset", "cifar10")
    shown = plan("estimate", *job, "--provider", "acme", "--catalog", root / "catalog.sqlite", "--json").json
    assert [row["instance_type"] for row in shown["candidates"]] == ["acme-1"]


@pytest.mark.parametrize("word", sorted(UNFILLED))
def test_a_word_that_was_left_is_refused_wherever_it_stands(word: str) -> None:
    with pytest.raises(TableError, match=rf"^offers\.csv:2: to be filled in: note {word}$"):
        list(table_rows(f"region,note\nhere,{word}\n", "offers.csv", (("region", "note"),), dict))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["aws"], "there is a provider aws already"),
        (["aws", "--estimate-only"], "there is a provider aws already"),
        (["Acme Cloud"], "lower-case letters, digits and _"),
    ],
)
def test_a_name_that_cannot_be_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    before = sorted(root.rglob("*"))
    with pytest.raises(SystemExit):
        main(arguments, root)
    assert why in capsys.readouterr().err
    assert sorted(root.rglob("*")) == before


def test_nothing_that_is_there_is_written_over(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["acme", "--estimate-only"], ["acme"]):
        main(arguments, root)
        before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
        with pytest.raises(SystemExit):
            main(arguments, root)
        assert "is there already" in capsys.readouterr().err
        assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("no_plug_in_stays")
def test_a_package_of_its_own_is_a_provider_that_says_what_is_not_written(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = root / "acme"
    main(["acme", "--package", str(package)], root)
    files = package / "trainplan_acme-0.1.0.dist-info"  # what pip makes of pyproject.toml
    files.mkdir()
    (files / "METADATA").write_text("Metadata-Version: 2.1\nName: trainplan-acme\nVersion: 0.1.0\n")
    entry = (package / "pyproject.toml").read_text("utf-8").partition('"trainplan.providers"]\n')[2].replace('"', "")
    (files / "entry_points.txt").write_text(f"[trainplan.providers]\n{entry}")
    monkeypatch.syspath_prepend(package)
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    assert registry.plug_in_problems() == ()
    shown = plan("doctor", "acme")
    assert shown.code != ExitCode.OK
    assert "in provider.py is not written" in shown.err + shown.out
    made: Any = registry.provider("acme", _settings(tmp_path))
    methods = [name for name in dir(Provider) if not name.startswith("_") and name != "name"]
    assert {"launch", "list_owned", "timers"} <= set(methods)
    for name in methods:
        with pytest.raises(BadRequestError, match=f"acme: {name} in provider.py is not written"):
            _used(made, name)
    with pytest.raises(BadRequestError, match="there is no setting 'nonsense'"):
        registry.provider("acme", _settings(tmp_path, nonsense="x"))


def _used(provider: Any, name: str) -> object:
    used = getattr(provider, name)
    return used() if name == "list_owned" else used(None)


def _settings(home: Path, **options: str) -> Any:
    from tests.doubles.clock import NOON
    from trainplan.providers.base import ProviderSettings

    return ProviderSettings(home=home, options=options, environment={}, now=lambda: NOON)
