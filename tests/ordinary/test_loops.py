"""Event loops that are closed with something outstanding, and the ones after them."""

import asyncio
import gc
import warnings
from collections.abc import Iterator

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import WrongLoop


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Nobody can close the connections of a closed loop: they go before the next test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def abandoned(pool: snowmelt.aio.Pool) -> asyncio.Task:
    """An event loop that is closed while a get waits; its task is all that is left of it."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(pool.get(timeout=30))
    loop.run_until_complete(asyncio.sleep(0.05))
    loop.close()
    return task


def test_a_closed_event_loop_with_a_get_outstanding_ends_nothing(
    node: LocalNode, name: str
) -> None:
    with snowmelt.connect(node.url) as cluster:
        maker = cluster.pool(name, buffers=10, lease=1)
        maker.put(b"first")
        shared = snowmelt.aio.connect(node.url).pool(name, lease=60)
        task = abandoned(shared)  # it has got the first, and nobody ever takes it from there
        second = abandoned(shared)
        maker.put(b"second")

        async def rest(seconds: float) -> set[bytes]:
            return {one.body async for one in shared.consume(timeout=seconds)}

        try:
            came = asyncio.run(rest(1))
            assert b"second" in came
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                task._log_destroy_pending = second._log_destroy_pending = False
                del task, second
                gc.collect()
            came |= asyncio.run(rest(2))
            assert came == {b"first", b"second"}
            told = maker.stats()
            assert (told.stock, told.on_loan) == (0, 0)
        finally:
            asyncio.run(shared.close())


def test_a_pool_serves_one_event_loop_after_the_other(node: LocalNode, name: str) -> None:
    async def once(pool: snowmelt.aio.Pool, body: bytes) -> bytes:
        await pool.put(body)
        async with await pool.get() as one:
            return bytes(one.body)

    pool = snowmelt.aio.connect(node.url).pool(name)
    try:
        for number in range(5):
            assert asyncio.run(once(pool, b"%d" % number)) == b"%d" % number
    finally:
        asyncio.run(pool.close())


def test_a_fifo_of_one_event_loop_is_refused_in_another(node: LocalNode, name: str) -> None:
    async def made() -> snowmelt.aio.Fifo:
        queue = snowmelt.aio.connect(node.url).fifo(name)
        await queue.put(b"one")
        return queue

    with asyncio.Runner() as runner:
        queue = runner.run(made())
        with pytest.raises(WrongLoop), asyncio.Runner() as other:
            other.run(queue.put(b"two"))
