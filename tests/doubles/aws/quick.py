"""What moto works out anew for every call, worked out once: the same answers for half of the time.

Thousands of launches go through one double (`make faults PROVIDER=aws`), and most of it was spent here.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

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
    from botocore.loaders import JSONFileLoader

    # The methods of a class do not change; moto inspects it for each call.
    responses.method_names_from_class = functools.cache(responses.method_names_from_class)
    # Every world's disks are encrypted, and nobody signs with their key: one pair will do.
    kms.generate_private_key = functools.cache(kms.generate_private_key)
    # Every turn of the reaper has a session of its own, which reads all that AWS says of EC2.
    real = JSONFileLoader().load_file
    load = functools.cache(real)
    JSONFileLoader.load_file = lambda _, path: load(path)
