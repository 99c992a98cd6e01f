"""What only the face with `await` can do: wait for several, and be cancelled."""

import asyncio

import pytest

import snowmelt
import snowmelt.aio
from client.pool_process import Other, pattern
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import Unreachable


async def test_objects_go_round(node: LocalNode) -> None:
    async with (
        snowmelt.aio.connect(node.url) as cluster,
        cluster.pool("round", buffers=10) as maker,
        cluster.pool("round") as taker,
    ):
        await maker.put(b"one")
        assert await maker.put_many([b"two", b"three"]) == 2
        await maker.await_room()
        async with await taker.get() as one:
            assert one.body == b"one"
        async with await taker.get_many() as objects:
            assert [bytes(body) for body in objects.batch] == [b"two", b"three"]
        with pytest.raises(snowmelt.Empty):
            await taker.get(timeout=0.1)
        await maker.put_many([b"four", b"five"])
        assert [one.body async for one in taker.consume(timeout=1)] == [b"four", b"five"]
        assert (await maker.stats()).settled == 5
        await taker.close()
        await taker.close()
        with pytest.raises(Unreachable, match="this pool is closed"):
            await taker.get()


async def test_many_gets_wait_at_once(node: LocalNode) -> None:
    async with (
        snowmelt.aio.connect(node.url) as cluster,
        cluster.pool("at-once", buffers=100) as maker,
        cluster.pool("at-once") as taker,
    ):
        gets = [asyncio.create_task(taker.get()) for _ in range(50)]
        await asyncio.sleep(0.1)
        await maker.put_many([b"%d" % number for number in range(50)])
        got = await asyncio.gather(*gets)
        assert sorted(int(one.body) for one in got) == list(range(50))
        await asyncio.gather(*(one.ack() for one in got))


async def test_full_buffers_make_a_put_wait(node: LocalNode) -> None:
    async with (
        snowmelt.aio.connect(node.url) as cluster,
        cluster.pool("full", buffers=1) as pool,
    ):
        await pool.put(b"one")
        with pytest.raises(snowmelt.Full):
            await pool.put(b"two", timeout=0.1)
        second = asyncio.create_task(pool.put(b"two"))
        await asyncio.sleep(0.05)
        assert not second.done()
        await (await pool.get()).ack()
        await second
        await (await pool.get()).ack()


@pytest.mark.parametrize("size", [100, 3_000_000])
async def test_what_arrives_for_a_get_that_was_cancelled_goes_back(
    node: LocalNode, size: int
) -> None:
    """Cancelled at many moments: before it is asked, on the way, and when it has just come."""
    with Other(node.url, f"cancelled-{size}", buffers=30, lease=60) as maker:
        async with snowmelt.aio.connect(node.url) as cluster:
            pool = cluster.pool(f"cancelled-{size}")
            maker.tell("put_sized", first=0, count=20, size=size)
            await (await pool.get()).nack()
            got: list[bytes] = []
            for at in range(40):
                get = asyncio.create_task(pool.get())
                await asyncio.sleep(at * 0.0002)
                get.cancel()
                try:
                    one = await get
                except asyncio.CancelledError:
                    continue
                got.append(bytes(one.body))
                await one.ack()
            while len(got) < 20:
                one = await pool.get(timeout=15)  # far less than a lease
                got.append(bytes(one.body))
                await one.ack()
            assert sorted(got) == [pattern(number, size) for number in range(20)]
            with pytest.raises(snowmelt.Empty):
                await pool.get(timeout=0.5)
