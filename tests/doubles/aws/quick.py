"""What moto and the SDK work out anew for every call, worked out once: the same answers for half of the time.

Thousands of launches go through one double (`make faults PROVIDER=aws`), and most of it was spent here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.doubles import quick_headers

if TYPE_CHECKING:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication


def application() -> DomainDispatcherApplication:
    """moto's own. A host is of the same service every time: moto goes through its own folder for each call."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    made = DomainDispatcherApplication(create_backend_app)
    made.get_backend_for_host = functools.cache(made.get_backend_for_host)
    return made


def install() -> None:
    """Only in the double's own process, for good."""
    quick_headers.install()
    import moto.core.responses as responses
    import moto.kms.models as kms

    # The methods of a class do not change; moto inspects it for each call.
    responses.method_names_from_class = functools.cache(responses.method_names_from_class)
    # Every world's disks are encrypted, and nobody signs with their key: one pair will do.
    kms.generate_private_key = functools.cache(kms.generate_private_key)
    read_once()


def read_once() -> None:
    """For the rest of this process, the double's or a test's: what the SDK reads and makes anew for each session."""
    from botocore import session
    from botocore.client import ClientCreator
    from botocore.loaders import JSONFileLoader

    if hasattr(session.create_loader, "cache_info"):
        return
    # Every turn of the reaper has a session of its own, which reads all that AWS says of EC2.
    real = JSONFileLoader().load_file
    load = functools.cache(real)
    JSONFileLoader.load_file = lambda _, path: load(path)
    # Each session looks through the SDK's folders, and each client has a method for each of EC2's 700 operations.
    session.create_loader = functools.cache(session.create_loader)
    for name in ("_load_service_model", "_load_service_endpoints_ruleset", "_create_client_class"):
        setattr(ClientCreator, name, _once_for_each_service(getattr(ClientCreator, name)))


def _once_for_each_service(make: Callable[..., Any]) -> Callable[..., Any]:
    """A method of the SDK's client creator, whose first argument names the service."""
    made: dict[str, Any] = {}

    def known(creator: object, service: str, *arguments: Any, **options: Any) -> Any:
        if service not in made:
            made[service] = make(creator, service, *arguments, **options)
        return made[service]

    return known
