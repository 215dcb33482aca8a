"""Planted defects of AWS's provider: what careless software does at EC2."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import trainplan.providers.aws.account as account
import trainplan.providers.aws.listing as listing
import trainplan.providers.aws.request as request
from tests.faults.planting import of_the_engine, planting
from tests.faults.shared_defects import gone_without_a_sign_in, refused_without_an_answer, taken_as_whole
from trainplan.providers.aws.provider import AwsProvider

AWS = of_the_engine()
defect = planting("aws", AWS)


def _create(change: Callable[[dict[str, Any]], None]) -> None:
    """Change what every create asks for."""
    real = request.run_instances

    def made(*given: Any) -> Any:
        call = real(*given)
        parameters: dict[str, Any] = dict(call.parameters)
        change(parameters)
        return replace(call, parameters=parameters)

    request.run_instances = made


def _without(kind: str) -> None:
    listing._LISTS = tuple(known for known in listing._LISTS if known.kind != kind)


@defect("each send has a token of its own")
def _() -> None:
    count, real = itertools.count(), AwsProvider._sent

    def sent(self: Any, call: Any, *given: Any) -> Any:
        if call.operation == "RunInstances":
            call = replace(call, parameters={**call.parameters, "ClientToken": f"{next(count)}"})
        return real(self, call, *given)

    AwsProvider._sent = sent


@defect("the token of a run, without the number of the attempt")
def _() -> None:
    real = request.token_of
    request.token_of = lambda asked: real(replace(asked, attempt=1))


defect("a create without an answer is taken as refused")(refused_without_an_answer(AwsProvider))


@defect("disks are not listed")
def _() -> None:
    _without("volume")


@defect("a machine that is not shown yet is taken as gone")
def _() -> None:
    AwsProvider.listing_lag = property(lambda _: timedelta(0))


@defect("schedules are not listed")
def _() -> None:
    listing.Listing._schedules = lambda *_: []


@defect("only the first page of a list is read")
def _() -> None:
    def one(api: Any, service: str, region: str, operation: str, asked: Any, key: str) -> Any:
        return list(api.call(service, region, operation, asked).get(key, ()))

    account.all_pages = listing.all_pages = one


@defect("only the home region is listed")
def _() -> None:
    account.AwsAccount.regions = lambda self: (self.api.home,)


defect("a list that is not whole is taken as whole")(taken_as_whole(AwsProvider))


defect("an expired sign-in is taken as a machine that is gone")(gone_without_a_sign_in(AwsProvider))


@defect("the tag that the reaper reads is not part of the create")
def _() -> None:
    real = request.tags_of
    request.tags_of = lambda asked: [tag for tag in real(asked) if tag["Key"] != request.EXPIRES]


@defect("the machine's own timer is decades late")
def _() -> None:
    def later(parameters: dict[str, Any]) -> None:
        text = str(parameters["UserData"])
        parameters["UserData"] = text.replace('[ "$now" -lt 17', '[ "$now" -lt 27')

    _create(later)
