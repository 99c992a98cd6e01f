"""What only the async client has: many calls at once."""

import asyncio
import socket

import pytest

import snowmelt.aio
from client.fakes import fake, greeted
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import OutcomeUnknown
from snowmelt.core.instant import SECOND
from snowmelt.protocols.calling import FIRST_WAIT
from snowmelt.protocols.echo import Echo


def test_many_calls_wait_at_once_and_each_gets_its_own_answer(node: LocalNode) -> None:
    async def main() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            bodies = [b"%d" % at for at in range(2000)]
            assert await asyncio.gather(*map(cluster.ping, bodies)) == bodies

    asyncio.run(asyncio.wait_for(main(), 30))


def test_one_slow_call_does_not_hold_the_others() -> None:
    async def main(where: str) -> None:
        async with snowmelt.aio.connect(f"snowmelt://{where}") as cluster:
            calls = [cluster.ping(timeout=0.3) for _ in range(20)]
            began = asyncio.get_running_loop().time()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(one) for one in results} == {OutcomeUnknown}
            assert asyncio.get_running_loop().time() - began < 4, "they wait at once"

    with fake(greeted) as where:
        asyncio.run(asyncio.wait_for(main(where), 30))


def test_closing_leaves_what_still_waits_unknown() -> None:
    async def main(where: str) -> None:
        async with snowmelt.aio.connect(f"snowmelt://{where}") as cluster:
            call = asyncio.ensure_future(cluster.ping(timeout=20))
            while not cluster._client._transport.sent:
                await asyncio.sleep(0.001)
        with pytest.raises(OutcomeUnknown, match="closed before the answer came"):
            await call

    with fake(greeted) as where:
        asyncio.run(asyncio.wait_for(main(where), 30))


def test_a_call_that_its_caller_gave_up_harms_no_other(node: LocalNode) -> None:
    async def main() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            for _ in range(20):
                call = asyncio.ensure_future(cluster.ping(bytes(100_000)))
                await asyncio.sleep(0)
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
            assert await cluster.ping(b"hey") == b"hey"
            assert cluster._client._answers == {}

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_node_whose_connection_ends_is_not_waited_for(node: LocalNode) -> None:
    def parting(one: socket.socket) -> None:
        greeted(one)
        one.recv(1 << 16)  # the call, and then its process is gone
        one.shutdown(socket.SHUT_RDWR)

    async def main(where: str) -> float:
        async with snowmelt.aio.connect(f"snowmelt://{where},127.0.0.1:{node.port}") as cluster:
            begin = asyncio.get_running_loop().time()
            call = cluster._client.call(Echo(b"hey"), 20.0, weight=64 << 20)  # not soon asked again
            assert (await call).body == b"hey"
            return asyncio.get_running_loop().time() - begin

    with fake(parting) as where:
        assert asyncio.run(asyncio.wait_for(main(where), 30)) < 10


def test_what_was_cancelled_is_not_asked_again_elsewhere() -> None:
    heard: list[bytes] = []

    def listening(one: socket.socket) -> None:
        greeted(one)
        while data := one.recv(1 << 16):
            heard.append(data)

    async def main(first: str, second: str) -> None:
        async with snowmelt.aio.connect(f"snowmelt://{first},{second}") as cluster:
            call = asyncio.ensure_future(cluster.ping(b"only once"))
            while not heard:
                await asyncio.sleep(0.001)
            call.cancel()
            await asyncio.sleep(2 * FIRST_WAIT / SECOND)

    with fake(listening) as first, fake(listening) as second:
        asyncio.run(asyncio.wait_for(main(first, second), 30))
    assert b"".join(heard).count(b"only once") == 1
