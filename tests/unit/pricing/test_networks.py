"""The networks of machine types: every row is of a machine that is offered, with its source and day."""

from __future__ import annotations

import csv
from datetime import date

from trainplan.pricing.networks import NETWORK_COLUMNS, TABLE, network_of

TYPES = TABLE.parent / "instance_types.csv"


def test_every_row_is_of_a_machine_that_is_offered() -> None:
    with TYPES.open(newline="", encoding="utf-8") as file:
        types = list(csv.DictReader(file))
    names = {(row["provider"], row[key]) for row in types for key in ("instance_type", "family")}
    with TABLE.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
        assert tuple(reader.fieldnames or ()) == NETWORK_COLUMNS
    assert len(rows) > 80
    assert [(row["provider"], row["machine"]) for row in rows] == sorted({(r["provider"], r["machine"]) for r in rows})
    for row in rows:
        assert (row["provider"], row["machine"]) in names, row
        assert 0.1 <= float(row["gbit_per_second"]) <= 10_000, row
        assert date.fromisoformat(row["as_of"]) <= date(2026, 11, 28), row
        assert row["source"], row


def test_a_type_goes_before_its_family_and_what_nobody_states_is_none() -> None:
    p3 = network_of("aws", "p3.16xlarge", "p3")
    assert p3 is not None
    assert p3.gbit_per_second == 25
    by_family = network_of("gcp", "n1-standard-8+1xP100", "n1+P100")
    assert by_family is not None
    assert by_family.gbit_per_second == 32
    assert network_of("aws", "p2.xlarge", "p2") is None, "EC2 says High of it, which is no figure"
    assert network_of("gcp", "p3.16xlarge", "p3") is None
