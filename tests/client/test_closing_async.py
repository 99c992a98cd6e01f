"""An async client that is closed leaves no socket open: cancelled meanwhile, or beside silence."""

import asyncio
import gc
import os
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress

import pytest

import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import SnowmeltError


@pytest.fixture
def silent(own_node: LocalNode) -> Iterator[LocalNode]:
    """A node that a test stops; it goes on afterwards."""
    try:
        yield own_node
    finally:
        os.kill(own_node.pid, signal.SIGCONT)


@pytest.fixture(autouse=True)
def unclosed() -> Iterator[None]:
    """What was not closed, as Python's development mode says it."""
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    assert not [str(one.message) for one in caught]


def test_what_a_node_does_not_read_does_not_keep_a_closed_client(silent: LocalNode) -> None:
    async def main() -> float:
        cluster = snowmelt.aio.connect(silent.url)
        queue = cluster.fifo("silent")
        await queue.put(b"one")
        os.kill(silent.pid, signal.SIGSTOP)
        puts = [asyncio.ensure_future(queue.put(bytes(1 << 20), timeout=30)) for _ in range(1)]
        await asyncio.sleep(0.2)
        begun = time.monotonic()
        await cluster.close()
        took = time.monotonic() - begun
        assert all(isinstance(one, SnowmeltError) for one in await _answers(puts))
        return took

    assert asyncio.run(main()) < 5


def test_closing_that_is_cancelled_while_a_loop_ends_disconnects(silent: LocalNode) -> None:
    async def main() -> None:
        cluster = snowmelt.aio.connect(silent.url)
        queue = cluster.fifo("cancelled", lease=60)
        await queue.put_many([b"one", b"two"])
        loop = queue.consume(prefetch=2)
        await (await anext(loop)).ack()
        os.kill(silent.pid, signal.SIGSTOP)
        closing = asyncio.ensure_future(cluster.close())
        await asyncio.sleep(0.2)
        assert not closing.done()  # it tells what was acknowledged, and is not heard
        closing.cancel()
        with suppress(asyncio.CancelledError, SnowmeltError):
            await closing
        del loop

    asyncio.run(main())


async def _answers(tasks: list[asyncio.Future[object]]) -> list[object]:
    return await asyncio.gather(*tasks, return_exceptions=True)
