"""The processes of a group learn from rank 0 where each of them listens."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from trainplan.workloads.trainer.errors import TrainerError
from trainplan.workloads.trainer.process_group import ProcessGroup
from trainplan.workloads.trainer.workers import exchanged_addresses

SECONDS = 60.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def member(rank: int, port: int, processes: int = 3) -> ProcessGroup:
    return ProcessGroup(rank=rank, processes=processes, coordinator=f"127.0.0.1:{port}")


def test_all_get_the_same_list_in_order_of_rank() -> None:
    port = free_port()
    with ThreadPoolExecutor() as pool:
        lists = list(pool.map(lambda rank: exchanged_addresses(member(rank, port), SECONDS), [2, 1, 0]))
    assert lists[0] == lists[1] == lists[2]
    assert len(set(lists[0])) == 3
    assert all(address.startswith("127.0.0.1:") for address in lists[0])
    assert str(port) not in {address.rpartition(":")[2] for address in lists[0]}


@pytest.mark.parametrize(
    "sent",
    [b"GET / HTTP/1.1\r\n\r\n", b'{"rank": 7, "port": 1}\n', b'{"rank": 0, "port": 1}\n', b"[]\n", b"\xff\n", b""],
)
def test_whoever_else_knocks_is_sent_away(sent: bytes) -> None:
    port = free_port()
    with ThreadPoolExecutor() as pool:
        rank_0 = pool.submit(exchanged_addresses, member(0, port, 2), SECONDS)
        while True:
            try:
                stranger = socket.create_connection(("127.0.0.1", port))
            except ConnectionError:  # not yet
                continue
            break
        with stranger:
            stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(100) == b""
        rank_1 = pool.submit(exchanged_addresses, member(1, port, 2), SECONDS)
        assert len(rank_0.result()) == 2
        assert rank_0.result() == rank_1.result()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_to_which_nobody_comes_says_so(rank: int) -> None:
    with pytest.raises(TrainerError, match=r"the 2 processes did not come together at 127\.0\.0\.1:\d+ within 0 s"):
        exchanged_addresses(member(rank, free_port(), 2), 0.01)
