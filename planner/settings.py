"""Where state lives, and what the person and the machine's owner have set: environment and `settings.toml`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.planner.home.files import why_no_home
from trainplan.pricing.money import written_amount
from trainplan.providers.registry import CLOUDS, TABLES, account_in_use, is_here, is_plug_in, is_simulated
from trainplan.providers.stores.regions import bucket_region
from trainplan.workloads.regular_file import regular_text
from trainplan.workloads.terms import PROJECT_PATTERN

if TYPE_CHECKING:
    from trainplan.pricing.credits import Credit
    from trainplan.pricing.own_rates import OwnRate

Engine = Literal["auto", "docker", "podman", "process"]
_ENGINES = ("auto", "docker", "podman", "process")
MACHINE_SETTINGS = Path("/etc/trainplan/settings.toml")
"""For everybody on this machine; `make engine` writes how images are built here."""
MOST_USD_PER_HOUR = 1_000_000
MOST_TAX_PERCENT = 100
_MONTHLY = "budget_usd_per_month"
_OF_PROJECTS = "project_budgets_usd_per_month"
_KEYS = (
    "engine",
    "usd_per_hour",
    "base_image",
    "build_flags",
    "podman_build_flags",
    "sim_speed",
    "sim_scenario",
    "computer",
    "budget_usd_per_month",
    "notify",
    "tax_percent",
    "project",
)
_OTHER_TABLES = ("prices", _OF_PROJECTS)
_OF_PRICE_LISTS = ("prices_url", "offerings_url", "advisor_url", "api_key")
"""Variables of the same form that `plan prices refresh` reads (docs/prices.md); no provider knows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`home` holds journal, measurements, data sets and run directories.

    `engine` runs containers on this machine (`auto`: Docker or Podman, whichever answers, else a process);
    `usd_per_hour` is what an hour of this machine costs its owner; `base_image`, `build_flags` and
    `podman_build_flags` (for Podman alone) steer the building of the trainer image where the defaults cannot work.
    `sim_speed` and `sim_scenario` are the simulated cloud's (docs/simulated-cloud.md). `clouds` are the tables of the
    real ones, by name, `prices` the one of own rates.
    `budget_usd_per_month` caps what launches on clouds may cost in a calendar month (planner/runs/money/spending.py).
    `computer` names this computer, or the several that share the home (docs/security.md); None: the system's own id.
    `bucket_regions` are where the clouds' buckets are, by name, those that something tells; `accounts` which account of
    each cloud is in use, "" where nothing tells. `notify` is what receives the events of runs: a web address alone,
    or a command with its arguments (planner/runs/telling/notifications.py); empty: nothing. `tax_percent` is what is
    added to prices by those who bill the person, for instance 19; 0: an estimate says nothing of it.
    `project` is that of jobs which name none, and `project_budgets_usd_per_month` caps months as
    `budget_usd_per_month` does, project by project.
    """

    home: Path
    engine: Engine = "auto"
    usd_per_hour: Decimal = Decimal(0)
    base_image: str | None = None
    build_flags: tuple[str, ...] = ()
    podman_build_flags: tuple[str, ...] = ()
    sim_speed: str | None = None
    sim_scenario: str | None = None
    clouds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    prices: Mapping[str, Any] = field(default_factory=dict)
    computer: str | None = None
    budget_usd_per_month: Decimal | None = None
    bucket_regions: Mapping[str, str] = field(default_factory=dict)
    accounts: Mapping[str, str] = field(default_factory=dict)
    notify: tuple[str, ...] = ()
    tax_percent: Decimal = Decimal(0)
    project: str = ""
    project_budgets_usd_per_month: Mapping[str, Decimal] = field(default_factory=dict)

    @property
    def own_rates(self) -> tuple[OwnRate, ...]:
        """What the person really pays, out of the table `prices`. Raises BadInputError naming the entry."""
        if not self.prices:
            return ()
        from trainplan.pricing.own_rates import OwnRateError, parse_own_rates

        try:
            return parse_own_rates(self.prices)
        except OwnRateError as error:
            raise BadInputError(f"{self.home / 'settings.toml'}: {error}", error.hint) from None

    @property
    def own_credits(self) -> tuple[Credit, ...]:
        """The person's credits, out of the table `prices`. Raises BadInputError naming the entry."""
        if not self.prices:
            return ()
        from trainplan.pricing.credits import parse_credits
        from trainplan.pricing.own_rates import OwnRateError

        try:
            return parse_credits(self.prices)
        except OwnRateError as error:
            raise BadInputError(f"{self.home / 'settings.toml'}: {error}", error.hint) from None

    @property
    def refreshes_daily(self) -> bool:
        """Whether the table `prices` has `refresh = "daily"`. Raises BadInputError for anything else there."""
        table: object = self.prices
        value = table.get("refresh") if isinstance(table, Mapping) else None
        if value not in (None, "daily"):
            raise BadInputError(
                f"{self.home / 'settings.toml'}: prices.refresh {value!r} is not known",
                'refresh = "daily" reads the price lists once a day; without it they are read where you ask for it',
            )
        return value == "daily"

    @property
    def journal(self) -> Path:
        """The file of the journal."""
        return self.home / "journal.sqlite"

    @property
    def measurements(self) -> Path:
        """The file of this home's own measurements."""
        return self.home / "measurements.jsonl"

    @property
    def calibrations(self) -> Path:
        """The file of what this home's processors did in two seconds."""
        return self.home / "calibrations.jsonl"

    def options_of(self, provider: str) -> dict[str, str]:
        """What a provider takes of these, as text."""
        values = _set_values(self) if is_here(provider) else {}
        if is_simulated(provider):
            values = {"sim_speed": self.sim_speed, "sim_scenario": self.sim_scenario}
        values |= self.clouds.get(provider, {})
        return {name: value for name, value in values.items() if value is not None}


def _set_values(settings: Settings) -> dict[str, str | None]:
    return {
        "engine": settings.engine,
        "usd_per_hour": str(settings.usd_per_hour),
        "base_image": settings.base_image,
        "build_flags": shlex.join(settings.build_flags) or None,
        "podman_build_flags": shlex.join(settings.podman_build_flags) or None,
    }


def load_settings(environment: Mapping[str, str], machine: Path = MACHINE_SETTINGS) -> Settings:
    """Environment over `$PLAN_HOME/settings.toml` over the machine's own over defaults.

    Raises BadInputError naming the file and the key.
    """
    home = home_of(environment)
    source = home / "settings.toml"
    own = _read(source)
    if "computer" in own:
        raise BadInputError(
            f"{source}: computer would go with the home wherever it is copied",
            f"set PLAN_COMPUTER, or computer in {machine}",
        )
    values = _read(machine) | own
    for key in _KEYS:
        if value := environment.get(f"PLAN_{key.upper()}"):
            values[key] = value
    tables = (*TABLES, *(name for name in values if name not in (*_KEYS, *TABLES, *_OTHER_TABLES)))
    clouds = {name: _cloud(name, values.get(name, {}), environment, source) for name in tables}
    return Settings(
        home=home,
        engine=_engine(values.get("engine", "auto"), source),
        usd_per_hour=_money(values.get("usd_per_hour", 0), source),
        base_image=_image(values.get("base_image"), source),
        build_flags=_flags("build_flags", values, source),
        podman_build_flags=_flags("podman_build_flags", values, source),
        sim_speed=_text(values.get("sim_speed")),
        sim_scenario=_text(values.get("sim_scenario")),
        clouds={name: settings for name, settings in clouds.items() if settings},
        prices=values.get("prices", {}),
        computer=_text(values.get("computer")),
        budget_usd_per_month=_monthly_budget(machine, own, environment, source),
        bucket_regions={
            name: region for name, settings in clouds.items() if (region := bucket_region(name, settings, environment))
        },
        notify=_notify(values.get("notify", ""), source),
        tax_percent=_percent(values.get("tax_percent", 0), source),
        accounts={name: account_in_use(name, clouds[name], environment) for name in CLOUDS},
        project=_project(values.get("project", ""), f"{source} or PLAN_PROJECT: project"),
        project_budgets_usd_per_month=_project_budgets(machine, own, source),
    )


def _monthly_budget(
    machine: Path, own: Mapping[str, Any], environment: Mapping[str, str], source: Path
) -> Decimal | None:
    """The lowest of the limits that are set: one for everybody on this computer is not raised by a home."""
    stated = (_read(machine).get(_MONTHLY), own.get(_MONTHLY), environment.get(f"PLAN_{_MONTHLY.upper()}") or None)
    limits = []
    for where, value in zip((machine, source, f"PLAN_{_MONTHLY.upper()}"), stated, strict=True):
        if value is None:
            continue
        limits.append(_limit(value, f"{where}: {_MONTHLY}"))
    return min(limits, default=None)


def _project_budgets(machine: Path, own: Mapping[str, Any], source: Path) -> dict[str, Decimal]:
    """The same for each project that has one."""
    budgets: dict[str, Decimal] = {}
    for where, table in ((machine, _read(machine).get(_OF_PROJECTS, {})), (source, own.get(_OF_PROJECTS, {}))):
        if not isinstance(table, dict):
            raise BadInputError(f"{where}: {_OF_PROJECTS} is not a table", f"[{_OF_PROJECTS}]\nthesis = 50")
        for name, value in table.items():
            limit = _limit(value, f"{where}: {_OF_PROJECTS}: {name}")
            project = _project(name, f"{where}: {_OF_PROJECTS}:")
            budgets[project] = min(limit, budgets.get(project, limit))
    return budgets


def _limit(value: object, where: str) -> Decimal:
    limit = written_amount(value)
    if limit is None:
        raise BadInputError(f"{where} {value!r} is not an amount of dollars", "for example 200")
    return limit


def _project(value: object, where: str) -> str:
    """As a job names it."""
    if not isinstance(value, str) or not re.fullmatch(PROJECT_PATTERN, value):
        raise BadInputError(
            f"{where} {value!r} is no name of a project", "small letters, digits, - and _, such as thesis-2"
        )
    return value


def home_of(environment: Mapping[str, str]) -> Path:
    """Where state lives: PLAN_HOME, or the platform's place. Raises BadInputError where nothing can be kept there."""
    home = _home(environment)
    if why := why_no_home(home):
        raise BadInputError(f"PLAN_HOME: {why}", f"set it to a folder of your own, for example {home.parent}/trainplan")
    return home


def _home(environment: Mapping[str, str]) -> Path:
    if value := environment.get("PLAN_HOME"):
        try:
            return Path(value).expanduser().absolute()
        except RuntimeError as error:  # the home of a user that is not there
            raise BadInputError(f"PLAN_HOME: {value}: {error}", "set it to a folder of yours") from None
    import platformdirs

    return platformdirs.user_data_path("trainplan", appauthor=False)


def _read(source: Path) -> dict[str, Any]:
    try:
        if not source.exists():
            return {}
    except OSError as error:
        raise ThisMachineError(f"cannot look for {source}: {error.strerror}", "set PLAN_HOME elsewhere") from None
    import tomllib

    try:
        values = tomllib.loads(regular_text(source))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{source}: {error}", "mend or remove it; every setting has a default") from None
    for key in values:
        if key not in (names := (*_KEYS, *TABLES, *_OTHER_TABLES)) and not is_plug_in(key):
            raise BadInputError(f"{source}: there is no setting {key!r}", f"known: {', '.join(names)}")
    return values


def _engine(value: object, source: Path) -> Engine:
    for engine in _ENGINES:
        if value == engine:
            return engine  # type: ignore[return-value]  # a str out of the closed list
    raise BadInputError(f"{source} or PLAN_ENGINE: engine {value!r} is not one of {', '.join(_ENGINES)}")


def _money(value: object, source: Path) -> Decimal:
    rate = written_amount(value, MOST_USD_PER_HOUR)
    if rate is None:
        raise BadInputError(f"{source} or PLAN_USD_PER_HOUR: {value!r} is not dollars an hour", "for example 0.12")
    return rate


def _percent(value: object, source: Path) -> Decimal:
    percent = written_amount(value, MOST_TAX_PERCENT)
    if percent is None:
        raise BadInputError(f"{source} or PLAN_TAX_PERCENT: {value!r} is not a percentage", "for example 19")
    return percent


def _image(value: object, source: Path) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise BadInputError(f"{source}: base_image {value!r} is not the name of an image")


def _cloud(name: str, table: object, environment: Mapping[str, str], source: Path) -> dict[str, str]:
    """A cloud's settings as text: of the file, and over it what the environment says (PLAN_AWS_BUCKET is bucket)."""
    if not isinstance(table, dict) or not all(map(_is_value, table.values())):
        raise BadInputError(f"{source}: {name} is not a table of texts and numbers", f'[{name}]\nregion = "…"')
    prefix = f"PLAN_{name.upper()}_"
    values = {key.removeprefix(prefix).lower(): value for key, value in environment.items() if key.startswith(prefix)}
    options = {key: value for key, value in values.items() if value and key not in _OF_PRICE_LISTS}
    return {key: ",".join(value) if isinstance(value, list) else str(value) for key, value in table.items()} | options


def _is_value(value: object) -> bool:
    """A text, a number, or a list of texts (`regions`), which is kept with commas."""
    return isinstance(value, str | int) or (isinstance(value, list) and all(isinstance(one, str) for one in value))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _notify(value: object, source: Path) -> tuple[str, ...]:
    """A web address, or a command as a list or in one line as for a shell. An address is never part of an error: who
    knows it can write to it."""
    where, hint = f"{source} or PLAN_NOTIFY: notify", 'for example "https://…", or ["/home/me/told", "--loud"]'
    if isinstance(value, str) and "://" in value:
        if why := _wrong_address(value):
            raise BadInputError(f"{where} {why}", "https, or http on this computer: http://127.0.0.1:8000/runs")
        return (value,)
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise BadInputError(f"{where} is no command: {error}", "close the quotes") from None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words) or (words and not words[0]):
        raise BadInputError(f"{where} is neither a web address nor a command", hint)
    if len(words) == 1 and "://" in words[0]:
        return _notify(words[0], source)
    return tuple(words)


def _wrong_address(address: str) -> str:
    """Why nothing is posted there; "" where it is."""
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return f"is no web address: {error}"
    if any(letter.isspace() or not letter.isprintable() or not letter.isascii() for letter in address) or not host:
        return "is no web address"
    if parts.username is not None or parts.password is not None:
        return "has a user or a password in its address"
    if parts.scheme == "https":
        return ""
    try:
        is_here = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_here = False
    return "" if parts.scheme == "http" and is_here else f"would send to {host} unencrypted"


def _flags(key: str, values: Mapping[str, object], source: Path) -> tuple[str, ...]:
    """Flags as a list, or in one line as for a shell."""
    value = values.get(key, "")
    if isinstance(value, list) and all(isinstance(flag, str) for flag in value):
        return tuple(value)
    try:
        if isinstance(value, str):
            return tuple(shlex.split(value))
    except ValueError as error:
        raise BadInputError(f"{source} or PLAN_{key.upper()}: {value!r}: {error}", "close the quotes") from None
    raise BadInputError(f"{source}: {key} {value!r} are not flags", 'for example ["--network=host"]')
