"""The numbers that a failed operation names its code by: each is the name that Google's own table gives it."""

from __future__ import annotations

from google.rpc import code_pb2

from tests.rows import each_row
from trainplan.providers.gcp.tpu.errors import operation_error

OK, DATA_LOSS = 0, 15
"""No error, and the one code that stays unknown: what was lost nobody can tell."""


@each_row(("name", "number"), [row for row in code_pb2.Code.items() if row[1] not in (OK, DATA_LOSS)])
def test_each_number_is_the_name_that_google_gives_it(name: str, number: int) -> None:
    by_number = operation_error({"error": {"code": number, "message": "no"}}, "tpu")
    assert by_number is not None
    assert by_number.code == name


def test_a_number_that_is_in_no_table_is_told_as_it_is() -> None:
    found = operation_error({"error": {"code": 99, "message": "no"}}, "tpu")
    assert found is not None
    assert found.code == "99"
