"""A hostile writer of the bucket and the indexes of data sets: none of them ends a command with a traceback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.doubles.fake_machine import FakeStore
from tests.rows import each_row
from trainplan.planner.datasets.store import list_data_sets
from trainplan.providers.cloud.data_files import INDEX, MOST_INDEX_BYTES, index_files
from trainplan.providers.errors import BadRequestError

GOOD = {"content": "a" * 64, "name": "cats", "files": 1, "size_bytes": 9, "shards": []}
BAD: tuple[bytes, ...] = (
    b"", b"{", b"null", b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"shards":' * 50_000, b'{"shards": 5}',
    b'{"shards": [5]}', b'{"shards": [{"name": "../x", "sha256": "", "size_bytes": 1}]}', b'{"shards": [{}]}',
    json.dumps(GOOD | {"files": "many"}).encode(), json.dumps(GOOD | {"shards": [{"size_bytes": 1e999}]}).encode(),
    b" " * (MOST_INDEX_BYTES + 1) + json.dumps(GOOD).encode(),
)  # fmt: skip


@each_row("index", BAD, ids=range(len(BAD)))
def test_an_index_that_cannot_be_read_is_an_error_that_names_it(index: bytes) -> None:
    with pytest.raises(BadRequestError, match=r"s3://bucket/data/abc/index\.json cannot be read"):
        index_files(index, "s3://bucket/data/abc", "abc")


class Sizes(FakeStore):
    provider = "aws"
    uri = "s3://bucket/data"

    def sizes(self, prefix: str = "") -> dict[str, int]:
        return {path: len(self.files[path]) for path in self.list(prefix)}


@pytest.mark.parametrize("index", BAD[:-1], ids=range(len(BAD) - 1))
def test_a_list_of_data_sets_goes_on(index: bytes) -> None:
    store: Any = Sizes()
    store.put(f"{'b' * 64}/{INDEX}", json.dumps(GOOD | {"content": "b" * 64}).encode())
    store.put(f"{'a' * 64}/{INDEX}", index)
    found = {kept.content: kept.data for kept in list_data_sets(store, None)}
    assert set(found) == {"a" * 64, "b" * 64}
    assert found["b" * 64] is not None
