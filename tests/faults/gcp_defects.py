"""Planted defects of Google Cloud's provider: what careless software does at Compute Engine."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import trainplan.providers.gcp.compute as machines
import trainplan.providers.gcp.listing as lists
import trainplan.providers.gcp.reply as found
import trainplan.providers.gcp.request as insert
from tests.faults.planting import PASSED_OVER, STALE_READ, of_the_engine, planting
from tests.faults.shared_defects import only_powers_off
from trainplan.providers.errors import InstanceNotFoundError, ThrottledError
from trainplan.providers.gcp.compute import Machines

GCP = of_the_engine(also=(STALE_READ, PASSED_OVER))
defect = planting("gcp", GCP)


def _body(change: Callable[[dict[str, Any]], None]) -> None:
    """Change what every insert asks for."""
    real = insert._body

    def made(*given: Any) -> dict[str, Any]:
        body = real(*given)
        change(body)
        return body

    insert._body = made


@defect("each create has a name and a token of its own")
def _() -> None:
    real, count = Machines.launch, itertools.count()

    def send(self: Any, request: Any) -> Any:
        *puts, create = request.calls
        given = dict(create.parameters)
        name = f"{given['body']['name']}-x{next(count)}"
        given |= {"requestId": str(uuid.uuid4()), "body": {**given["body"], "name": name}}
        return real(self, replace(request, calls=(*puts, replace(create, parameters=given))))

    Machines.launch = send


@defect("the name and the token of a run, without the number of the attempt")
def _() -> None:
    insert.name_of = lambda request: f"plan-{request.run_id}-1"
    insert.token_of = lambda request, what="": str(uuid.uuid5(insert._SPACE, f"{request.run_id}{what}"))


@defect("what the machine fetches is sent after it was made")
def _() -> None:
    def send(self: Any, request: Any) -> Any:
        *puts, create = request.calls
        operation = self._inserted(create.parameters)
        project, zone = create.parameters["project"], create.parameters["zone"]
        if operation is not None:
            self._wait(project, zone, operation)
        for call in puts:
            self.rented.put(request.run_id, call)
        return self._make(request, found.id_of("instances", zone, create.parameters["body"]["name"]))

    Machines.launch = send


@defect("an operation's error is not read")
def _() -> None:
    machines.error_of_operation = lambda *_: None


@defect("no maxRunDuration")
def _() -> None:
    _body(lambda body: body["scheduling"].pop("maxRunDuration"))


defect("the machine only powers off")(only_powers_off)


@defect("the disk does not go with its machine")
def _() -> None:
    _body(lambda body: body["disks"][0].update(autoDelete=False))


@defect("disks are not listed")
def _() -> None:
    lists._BILLED = ("instances", "addresses")


@defect("a machine that has stopped is not listed")
def _() -> None:
    real = lists.Lists._everything

    def told(self: Any, *given: Any) -> Any:
        for placement, rows, warned in real(self, *given):
            yield placement, [row for row in rows if row.get("status") != "TERMINATED"], warned

    lists.Lists._everything = told


@defect("only the first page of a list is read")
def _() -> None:
    real = lists.Lists._everything

    def told(self: Any, *given: Any) -> Any:
        for number, page in enumerate(real(self, *given)):
            if number < 2:  # a zone without results comes before it
                yield page

    lists.Lists._everything = told


@defect("a placement that did not answer is taken as empty")
def _() -> None:
    lists._warned = lambda *_: []


@defect("the lag of lists is ignored")
def _() -> None:
    machines.LISTING_LAG = timedelta(0)


@defect("a look that was throttled is taken as a machine that is gone")
def _() -> None:
    real = Machines.get

    def seen(self: Any, ref: Any) -> Any:
        try:
            return real(self, ref)
        except ThrottledError as error:
            raise InstanceNotFoundError("it is not there") from error

    Machines.get = seen


@defect("a label without the run")
def _() -> None:
    real = insert.labels_of
    insert.labels_of = lambda request: {**real(request), "trainplan-run": "run"}
