"""`project:` in a job is a label on what a launch creates, at every cloud; without it there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from tests.builders import a_job
from tests.unit.providers.cloud.test_own_ends import a_request
from trainplan.providers.aws.request import tags_of
from trainplan.providers.base import LABEL_PROJECT
from trainplan.providers.cloud.labels import labels_of
from trainplan.providers.gcp.request import labels_of as google_labels_of


@pytest.mark.parametrize("project", ["", "thesis"])
def test_it_is_on_all_that_is_made(project: str) -> None:
    request = a_request()
    request = replace(request, job=request.job.model_copy(update={"project": project}))
    told = [
        {row["Key"]: row["Value"] for row in tags_of(request)},
        labels_of(request),
        google_labels_of(request),
    ]
    assert [labels.get(LABEL_PROJECT, "") for labels in told] == [project] * 3


@pytest.mark.parametrize("project", ["Thesis", "a b", "-x", "x" * 64, "a/b", "é"])
def test_a_name_that_no_cloud_takes_is_refused(project: str) -> None:
    with pytest.raises(ValidationError):
        type(a_job()).model_validate(a_job().model_dump() | {"project": project})


def test_it_trains_nothing_else() -> None:
    job = a_job()
    assert job.model_copy(update={"project": "thesis"}).digest() == job.digest()
