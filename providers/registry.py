"""The table of vendors: one row says everything that the others need to know of a provider that launches.

What has to be known of a vendor outside its own folder stands in its row here, and nowhere else: whoever treats one
unlike the others asks this table. Its modules are named as text, and imported when the provider is chosen.

A package of somebody else's adds a row with an entry point (providers/plug_ins.py); it is read when it is asked for.
A vendor with prices and without a row is only estimated. What `pricing` must know of vendors stands there, for it
cannot import this table: how they round time (pricing/data/rates.toml), whose lists are read (pricing/sources).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from trainplan.providers.errors import BadRequestError, ProviderError
from trainplan.providers.plug_ins import GROUP, PlugIn, found, guarded, in_one_line

if TYPE_CHECKING:
    from trainplan.pricing.cost import ProviderRates
    from trainplan.providers.base import Provider, ProviderSettings
    from trainplan.providers.cloud.bill import BillTeller

THIS_MACHINE, SIMULATED, CLUSTER = "local", "sim", "slurm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """Environment variables that bring or lead to credentials, files below the person's home that hold them, and what
    signs a person in. Machines that are given an identity by the cloud itself leave none of these."""

    variables: tuple[str, ...]
    files: tuple[str, ...]
    sign_in: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A vendor's object storage. `scheme` begins the addresses that a person writes, `machine_scheme` those that a
    rented machine reads; `has_account`: the address names an account before the bucket. `default_region` is where a
    bucket is made that nobody has named a region for, "" where there is none to fall back on. `make` is its factory.
    """

    scheme: str
    machine_scheme: str
    make: str
    default_region: str = ""
    has_account: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountName:
    """What tells which account of a vendor is in use: a setting, else one of the environment variables, else
    `default` ("": only the vendor knows)."""

    variables: tuple[str, ...]
    option: str = ""
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim:
    """How often the vendor takes a spot machine back: `share` of them within `within_hours`.

    `source` says who says so; `is_judged`: nobody publishes it, it is a figure chosen between those that are known.
    """

    share: float
    within_hours: float
    source: str
    is_judged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A provider.

    `make` is the factory of its Provider. `rates` is what a provider charges that the catalog does not have
    (ProviderRates). `rents`: it bills by the hour. `has_table`: it rents nothing, and has a table of its own in the
    settings all the same; the keys of a table are known to its provider. `bill` is the factory of who lists what
    bills. `secret_kind` is how a reference to its own store of secrets begins. `reclaim` is None for a rate that is not
    known, or known offer by offer from a Spot Advisor (`has_advisor`; planner/forecast/spot.py). `account` tells which
    account is in use. `notice_seconds` is what the vendor gives before it takes a machine back. `is_proven`: its
    launches are killed at each of their calls in tests/faults, and nothing is left; else a launch says so.
    """

    name: str
    make: str
    rates: str = ""
    rents: bool = True
    has_table: bool = False
    bill: str = ""
    storage: Storage | None = None
    secret_kind: str = ""
    traces: Traces | None = None
    reclaim: Reclaim | None = None
    has_advisor: bool = False
    notice_seconds: int = 0
    account: AccountName | None = None
    is_proven: bool = False


VENDORS = (
    Vendor(name=THIS_MACHINE, make="trainplan.providers.local.provider:make", rents=False, is_proven=True),
    Vendor(
        name=SIMULATED,
        make="trainplan.providers.sim.provider:make",
        rates="trainplan.providers.sim.catalogue:RATES",
        rents=False,
        is_proven=True,
    ),
    Vendor(
        name=CLUSTER,
        make="trainplan.providers.slurm.provider:make",
        rates="trainplan.providers.slurm.offers:RATES",
        rents=False,
        has_table=True,
        traces=Traces(variables=(), files=(), sign_in="set directory in [slurm]: docs/slurm.md"),
        is_proven=True,
    ),
    Vendor(
        name="aws",
        make="trainplan.providers.aws.provider:make",
        bill="trainplan.providers.aws.bill:make",
        storage=Storage(
            scheme="s3", machine_scheme="s3", make="trainplan.providers.aws.store:make", default_region="us-east-1"
        ),
        secret_kind="aws-sm",
        # botocore's credentials guide, read 2026-11-21.
        traces=Traces(
            variables=(
                "AWS_ACCESS_KEY_ID",
                "AWS_PROFILE",
                "AWS_DEFAULT_PROFILE",
                "AWS_SHARED_CREDENTIALS_FILE",
                "AWS_CONFIG_FILE",
                "AWS_WEB_IDENTITY_TOKEN_FILE",
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            ),
            files=(".aws/credentials", ".aws/config"),
            sign_in="aws configure, or aws sso login",
        ),
        has_advisor=True,
        notice_seconds=120,
        # The id of an account is known to AWS alone: the profile that it is asked with stands for it.
        account=AccountName(variables=("AWS_PROFILE", "AWS_DEFAULT_PROFILE"), default="default"),
        is_proven=True,
    ),
    Vendor(
        name="gcp",
        make="trainplan.providers.gcp.provider:make",
        bill="trainplan.providers.gcp.bill:make",
        storage=Storage(
            scheme="gs", machine_scheme="gs", make="trainplan.providers.gcp.store:make", default_region="us-central1"
        ),
        secret_kind="gcp-sm",
        # google-auth's application default credentials, read 2026-11-21.
        traces=Traces(
            variables=("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "GOOGLE_CLOUD_PROJECT"),
            files=(
                ".config/gcloud/application_default_credentials.json",
                "AppData/Roaming/gcloud/application_default_credentials.json",
            ),
            sign_in="gcloud auth application-default login",
        ),
        # Of preemptible machines: 5-15 % a day on a seven-day average, project by project (a later text says per seven
        # days; the worse one is taken). Its capacity history API has newer figures, for those with an account.
        reclaim=Reclaim(share=0.10, within_hours=24, source="Google on preemptible machines: 5-15 % a day"),
        notice_seconds=30,
        account=AccountName(variables=("GOOGLE_CLOUD_PROJECT",), option="project"),
        is_proven=True,
    ),
    Vendor(
        name="azure",
        make="trainplan.providers.azure.provider:make",
        bill="trainplan.providers.azure.bill:make",
        storage=Storage(
            scheme="az", machine_scheme="azblob", make="trainplan.providers.azure.store:make", has_account=True
        ),
        secret_kind="akv",
        # azure-identity's DefaultAzureCredential, read 2026-11-21.
        traces=Traces(
            variables=(
                "AZURE_CLIENT_ID",
                "AZURE_TENANT_ID",
                "AZURE_SUBSCRIPTION_ID",
                "AZURE_CONFIG_DIR",
                "IDENTITY_ENDPOINT",
                "MSI_ENDPOINT",
            ),
            files=(".azure/azureProfile.json", ".azure/msal_token_cache.json"),
            sign_in="az login",
        ),
        # Azure quotes evictions per hour, in bands of 5 points (Resource Graph, SpotResources); which band a size is in
        # is not known without an account. Middle of the lowest band.
        reclaim=Reclaim(
            share=0.025,
            within_hours=1,
            source="the lowest band that Azure reports, 0-5 % an hour, taken for every size",
            is_judged=True,
        ),
        notice_seconds=30,
        account=AccountName(variables=("AZURE_SUBSCRIPTION_ID",), option="subscription"),
        is_proven=True,
    ),
)
"""In the order in which they are asked."""

_BY_NAME = {one.name: one for one in VENDORS}
FACTORIES = {one.name: one.make for one in VENDORS}
"""Where a run can be launched, without plug-ins."""
CLOUDS = tuple(one.name for one in VENDORS if one.rents)
"""Where a launch rents for money, without plug-ins."""
PROVEN_CLOUDS = tuple(one.name for one in VENDORS if one.rents and one.is_proven)
"""Those of CLOUDS that a drill runs at: it holds what was proven on doubles against an account."""
TABLES = tuple(one.name for one in VENDORS if one.rents or one.has_table)
"""Those with a table of their own in the settings, without plug-ins."""


def names() -> tuple[str, ...]:
    """Return the names of the providers where a run can be launched, plug-ins that can be used last."""
    return (*FACTORIES, *_usable_plug_ins())


def clouds() -> tuple[str, ...]:
    """Return the names of those where a launch rents for money."""
    return (*CLOUDS, *(name for name, row in _usable_plug_ins().items() if row.rents))


def vendor(name: str) -> Vendor | None:
    """The row of this provider; None for one that is neither in the table nor a plug-in that can be used."""
    return _BY_NAME.get(name) or _usable_plug_ins().get(name)


def is_plug_in(name: str) -> bool:
    """Whether a package of somebody else's brings it, whether it can be used or not."""
    return name not in _BY_NAME and name in found_plug_ins()


def plug_in_problems() -> tuple[str, ...]:
    """One line for each plug-in that cannot be used: why, and what to do."""
    plugs = found_plug_ins().values()
    return tuple(f"provider {one.name}: {one.problem}: {one.hint}" for one in plugs if one.problem)


@cache
def found_plug_ins() -> Mapping[str, PlugIn]:
    """Every plug-in that is installed, read once: an environment does not change under a command."""
    return {name: _checked(plug_in) for name, plug_in in found(GROUP, "provider", _BY_NAME).items()}


def _usable_plug_ins() -> dict[str, Vendor]:
    return {name: one.loaded for name, one in found_plug_ins().items() if isinstance(one.loaded, Vendor)}


def _checked(plug_in: PlugIn) -> PlugIn:
    """The plug-in, with what keeps its row from being used; the row is not kept then."""
    row, problem = plug_in.loaded, plug_in.problem
    if problem:
        return plug_in
    if not isinstance(row, Vendor):
        problem = f"{plug_in.value} is not a trainplan.providers.registry.Vendor"
    elif row.name != plug_in.name:
        problem = f"its entry point is called {plug_in.name} and its row {row.name!r}: both must be the same"
    # The agent on a rented machine reads and writes the stores that it was built with.
    elif row.storage is not None or row.secret_kind:
        problem = "its row has a storage or a secret_kind, which only the vendors of trainplan have"
    return plug_in._replace(loaded=None if problem else row, problem=problem)


def is_here(provider: str) -> bool:
    """Whether it is this machine: nothing is rented, and nobody else has the run directories."""
    return provider == THIS_MACHINE


def is_own(provider: str) -> bool:
    """Whether the person's own computer or cluster trains: no agent of ours runs there, and what is in the run
    directory was written under the person's own account."""
    return provider in (THIS_MACHINE, CLUSTER)


def is_estimated_only(provider: str) -> bool:
    """Whether its offers are priced and ranked, and nothing can be launched on them from here."""
    return vendor(provider) is None


def is_simulated(provider: str) -> bool:
    """Whether the provider rents nothing real."""
    return provider == SIMULATED


def provider(name: str, settings: ProviderSettings) -> Provider:
    """The provider of this name. Raises BadRequestError for a name that is not there, options that are wrong, and a
    plug-in that cannot be used."""
    if name in FACTORIES:
        return cast("Provider", _factory(FACTORIES[name])(settings))
    row = _row_of(name)
    made = _of_stranger(row, row.make, lambda: _factory(row.make)(settings))
    return cast("Provider", guarded(made, found_plug_ins()[name]))


def _row_of(name: str) -> Vendor:
    """The row of a provider. Raises BadRequestError for one that is not there or cannot be used."""
    row, plug_in = vendor(name), None if name in _BY_NAME else found_plug_ins().get(name)
    if row is not None:
        return row
    if plug_in is not None:
        raise BadRequestError(f"provider {name} cannot be used: {plug_in.problem}", hint=plug_in.hint)
    hint = f"no package that is installed brings it; known: {', '.join(names())}"
    raise BadRequestError(f"there is no provider {name!r} to launch on", hint=hint)


def _of_stranger(row: Vendor, where: str, make: Callable[[], object]) -> object:
    """What `make` makes of a module that a row names. A plug-in's module may raise whatever it likes: that becomes a
    BadRequestError."""
    if row.name in _BY_NAME:
        return make()
    try:
        return make()
    except ProviderError:
        raise
    except (Exception, SystemExit) as error:
        hint = found_plug_ins()[row.name].hint
        raise BadRequestError(f"provider {row.name}: {where} failed: {in_one_line(error)}", hint=hint) from error


def account_in_use(name: str, options: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """The account of a vendor that launches from here go to, as its settings or the environment name it; "" where
    nothing does."""
    row = vendor(name)
    if row is None or row.account is None:
        return ""
    names = (options.get(row.account.option, ""), *(environment.get(key, "") for key in row.account.variables))
    return next((value for value in names if value), row.account.default)


def lists_offers(name: str) -> bool:
    """Whether a provider tells its offers and rates itself, beside the catalog; the simulated cloud, which does, is
    compared with nothing."""
    row = vendor(name)
    return row is not None and bool(row.rates) and not is_simulated(name)


def rates_told_by(name: str) -> ProviderRates:
    """What a provider charges that the catalog does not have. Raises BadRequestError where it tells no rates."""
    row = vendor(name)
    if row is None or not row.rates:
        raise BadRequestError(f"{name!r} tells no rates of its own", hint="the catalog has those of vendors")
    return cast("ProviderRates", _of_stranger(row, row.rates, lambda: _imported(row.rates)))


def is_proven(name: str) -> bool:
    """Whether what a killed launch leaves there is tested, call by call."""
    row = vendor(name)
    return row is not None and row.is_proven


def bill_teller(name: str, settings: ProviderSettings) -> BillTeller | None:
    """Return the object that lists what bills in the account; None for a provider without bills. Raises
    BadRequestError.
    """
    row = vendor(name)
    if row is None or not row.bill:
        return None
    return cast("BillTeller", _of_stranger(row, row.bill, lambda: _factory(row.bill)(settings)))


def _factory(where: str) -> Callable[[ProviderSettings], object]:
    return cast("Callable[[ProviderSettings], object]", _imported(where))


def _imported(where: str) -> object:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)
