"""The short way within a machine: who takes it, and who goes by TCP."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import snowmelt
from runtime.network import serving
from runtime.peering import GET, Simple, engine, know, put
from runtime.test_tls import Papers
from snowmelt.cli.local import LocalCluster
from snowmelt.core.names import Address
from snowmelt.runtime import near
from snowmelt.runtime.peer import Engine
from snowmelt.wire.framing import Kind

HERE = Address("127.0.0.1", 1_024 + os.getpid() % 30_000)
"""Another for each process of tests, and none that a free port is taken from."""
NOBODY = 65_534
pytestmark = pytest.mark.skipif(not near.POSSIBLE, reason="this system has no abstract names")


@contextmanager
def listener(address: Address = HERE) -> Iterator[socket.socket]:
    stream = near.listen(address, 8)
    assert stream is not None
    with stream:
        yield stream


def ways(of: Engine) -> list[bool]:
    """Of each of its links, whether it is near."""
    return [near.is_near(link.socket) for link in of._links._links]


def passes_an_object(giver: Engine, taker: Engine, taking: Simple) -> None:
    know(taker, taking, giver)
    giver.call(put(b"object"), 5)
    assert bytes(taker.call(GET, 5).blob) == b"object"


def test_who_dials_an_address_finds_who_listens_beside_it() -> None:
    with listener() as listening:
        dialled = near.reach(HERE)
        assert dialled is not None
        accepted, _ = listening.accept()
        with dialled, accepted:
            dialled.send(b"word")
            assert accepted.recv(9) == b"word"
            assert near.is_near(dialled)
        assert near.reach(Address("127.0.0.1", HERE.port + 1)) is None
        assert near.reach(Address("127.0.0.2", HERE.port)) is None
    assert near.reach(HERE) is None


def test_localhost_is_one_of_its_names() -> None:
    with listener():
        dialled = near.reach(Address("localhost", HERE.port))
        assert dialled is not None
        dialled.close()


def test_what_is_not_on_loopback_has_no_such_way() -> None:
    assert near.listen(Address("10.0.0.5", HERE.port), 8) is None
    assert near.reach(Address("10.0.0.5", HERE.port)) is None


def test_a_name_is_had_by_one_only() -> None:
    with listener():
        assert near.listen(HERE, 8) is None


def test_when_too_many_knock_the_next_goes_another_way() -> None:
    with listener():
        knocking = [near.reach(HERE) for _ in range(32)]
        assert None in knocking
        for one in knocking:
            if one is not None:
                one.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_users_process_is_not_spoken_to_and_tcp_serves() -> None:
    text = (
        "import os, socket, sys; os.setuid(int(sys.argv[2])); "
        "one = socket.socket(socket.AF_UNIX); one.bind(chr(0) + sys.argv[1]); one.listen(); "
        "print('listens', flush=True); sys.stdin.read()"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = Address("127.0.0.1", free.getsockname()[1])
    command = [sys.executable, "-c", text, near._name(address)[1:], str(NOBODY)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "listens\n"
        assert near.reach(address) is None
        with engine("c-a", listen=address) as (giver, _), engine("c-b") as (taker, taking):
            passes_an_object(giver, taker, taking)
            assert ways(taker) == [False]
        other.communicate("", timeout=100)


def test_links_of_a_pool_on_loopback_are_near() -> None:
    with engine("c-a") as (giver, _), engine("c-b") as (taker, taking):
        passes_an_object(giver, taker, taking)
        assert ways(taker) == [True]
        assert ways(giver) == [True]


def test_a_client_is_near_its_node_and_far_where_it_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalCluster(1, tmp_path, 0.5) as local:
        local.start()
        for possible in (True, False):
            monkeypatch.setattr(near, "POSSIBLE", possible)
            with snowmelt.connect(local.url) as cluster:
                cluster.fifo("orders").put(b"order")
                client = cluster._client.lend()
                client.inquire(5, Kind.INQUIRE)
                lines = [line.socket.family for line in client._lines.values()]
                assert lines == [socket.AF_UNIX if possible else socket.AF_INET]
                cluster._client.take_back(client)


async def test_a_node_that_wants_tls_is_not_near(tmp_path: Path) -> None:
    papers = Papers(tmp_path)
    async with serving(tmp_path, credentials=papers.of("n1")) as node:
        assert near.reach(node.address) is None
    async with serving(tmp_path / "plain") as node:
        dialled = near.reach(node.address)
        assert dialled is not None
        dialled.close()


def test_without_a_descriptor_left_there_is_no_near_way_and_no_other_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket, "socket", none_left)
    assert near.listen(HERE, 8) is None
    assert near.reach(HERE) is None
