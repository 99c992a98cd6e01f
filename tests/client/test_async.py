"""What only the async client has: many calls at once."""

import asyncio

import pytest

import snowmelt.aio
from client.fakes import fake, greeted
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import OutcomeUnknown


def test_many_calls_wait_at_once_and_each_gets_its_own_answer(node: LocalNode) -> None:
    async def main() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            bodies = [b"%d" % at for at in range(2000)]
            assert await asyncio.gather(*map(cluster.ping, bodies)) == bodies

    asyncio.run(asyncio.wait_for(main(), 30))


def test_one_slow_call_does_not_hold_the_others() -> None:
    async def main(where: str) -> None:
        async with snowmelt.aio.connect(f"snowmelt://{where}") as cluster:
            calls = [cluster.ping(timeout=at / 10) for at in range(1, 6)]
            began = asyncio.get_running_loop().time()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(one) for one in results} == {OutcomeUnknown}
            assert asyncio.get_running_loop().time() - began < 1.0

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
