"""A network that was silent is a way again soon: who was not heard is dialled anew."""

import asyncio
import socket
from pathlib import Path

import pytest

import snowmelt.aio
from runtime.network import serving, until
from snowmelt.client.connection import asynchronous, blocking
from snowmelt.runtime import near, unheard
from snowmelt.runtime.connection import stream_of


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no such end")
async def test_what_nodes_say_is_acknowledged_soon_or_their_connection_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near, "POSSIBLE", False)
    async with serving(tmp_path) as node, serving(tmp_path, "n2", join=(node.address,)) as other:
        await until(lambda: node.server.view is not None and len(node.server.view.members) == 2)
        streams = [
            stream_of(connection)
            for one in (node, other)
            for connection in one.server._transport.connections()
            if connection.role is not None
        ]
        option = socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT
        assert {one.getsockopt(*option) for one in streams} == {unheard.UNACKNOWLEDGED_MS}
        assert not any(map(unheard.is_unheard, streams))


class Once:
    """Says of the first connection that it is asked about that it is unheard, and of no other."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, _: object) -> bool:
        self.asked += 1
        return self.asked == 1


async def test_a_blocking_client_that_is_not_heard_asks_by_another_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "is_unheard", Once())
    async with serving(tmp_path) as node:

        def waits() -> bytes:
            with snowmelt.connect(f"snowmelt://{node.address}") as cluster:
                return cluster.fifo("q").get(timeout=30).body

        waiting = asyncio.create_task(asyncio.to_thread(waits))
        await until(lambda: node.server._transport.connections_total == 2)
        async with snowmelt.aio.connect(f"snowmelt://{node.address}") as cluster:
            await cluster.fifo("q").put(b"one")
        assert await waiting == b"one"


async def test_an_async_client_that_is_not_heard_asks_by_another_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asynchronous, "is_unheard", Once())
    async with (
        serving(tmp_path) as node,
        snowmelt.aio.connect(f"snowmelt://{node.address}") as cluster,
        snowmelt.aio.connect(f"snowmelt://{node.address}") as other,
    ):
        waiting = asyncio.create_task(cluster.fifo("q").get(timeout=30))
        await until(lambda: node.server._transport.connections_total == 2)
        await other.fifo("q").put(b"one")
        assert (await waiting).body == b"one"
