"""A worker with `await`: as the blocking one; its handlers are tasks, and may be cancelled."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt import Retry
from snowmelt.aio import Worker

AT_ONCE = Retry(first=0)
SOON = 0.05

Opened = Callable[[], Any]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    @asynccontextmanager
    async def opened() -> AsyncIterator[snowmelt.aio.EmbeddedCluster]:
        async with snowmelt.aio.open(tmp_path) as cluster:
            yield cluster

    return opened


def gated() -> tuple[asyncio.Event, asyncio.Event, Callable[[Any], Awaitable[None]]]:
    """Whether a handler has begun, whether it may go on, and the handler."""
    begun, on = asyncio.Event(), asyncio.Event()

    async def handle(_: Any) -> None:
        begun.set()
        await on.wait()

    return begun, on, handle


async def test_tasks_work_at_once_and_what_is_done_is_acknowledged(opened: Opened) -> None:
    together = asyncio.Barrier(4)

    async def handle(_: Any) -> None:
        await together.wait()

    async with opened() as cluster:
        for queue in (cluster.fifo("orders"), cluster.priority("jobs")):
            await queue.put_many([b"x"] * 8)
            await Worker(queue, handle, tasks=4).run(timeout=SOON)
            status = await queue.stats()
            assert (status.ready, status.leased) == (0, 0)


async def test_what_failed_comes_again_or_is_dead(opened: Opened) -> None:
    seen: list[tuple[str, int]] = []

    async def handle(item: Any) -> None:
        seen.append((item.value, item.failures))
        if item.value == "never":
            raise KeyError(item.value)
        if item.failures < 2:
            raise asyncio.CancelledError  # of something that it waited for; it is not cancelled

    async with opened() as cluster:
        orders = cluster.fifo("orders", codec="json")
        await orders.put_many(["never", "later"])
        worker = Worker(orders, handle, retry={BaseException: AT_ONCE, KeyError: None})
        await worker.run(timeout=SOON)
        assert seen == [("never", 0), ("later", 0), ("later", 1), ("later", 2)]
        (dead,) = await orders.peek(dead=True)
        assert dead.reason.startswith("KeyError: 'never' (test_worker_async.py, line ")


async def test_a_stop_waits_for_what_is_in_hand_and_gives_back_the_rest(opened: Opened) -> None:
    async with opened() as cluster:
        orders = cluster.fifo("orders")
        await orders.put_many([b"%d" % number for number in range(10)])
        begun, on, handle = gated()
        async with Worker(orders, handle, prefetch=5) as worker:
            await begun.wait()
            worker.stop()
            while (await orders.stats()).leased > 1:
                pass
            on.set()
        status = await orders.stats()
        assert (status.ready, status.leased) == (9, 0)


async def test_what_is_cancelled_goes_back_and_counts_as_no_failure(opened: Opened) -> None:
    async with opened() as cluster:
        orders, frames = cluster.fifo("orders"), cluster.pool("frames")
        await orders.put(b"one")
        await frames.put(b"one")
        for queue in (orders, frames):
            begun, _, handle = gated()
            async with Worker(queue, handle, grace=0.05):  # it takes longer than that
                await begun.wait()
            begun, _, handle = gated()
            run = asyncio.create_task(Worker(queue, handle).run())
            await begun.wait()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
        async with await frames.get() as frame:
            assert frame.body == b"one"
        item = await orders.get()
        assert (item.body, item.failures) == (b"one", 0)


async def test_what_ends_programs_ends_the_worker_and_counts_as_failed(opened: Opened) -> None:
    async def handle(_: Any) -> None:
        raise SystemExit(3)

    async with opened() as cluster:
        orders = cluster.fifo("orders")
        await orders.put(b"one")
        with pytest.raises(SystemExit):
            await Worker(orders, handle, tasks=2, retry=AT_ONCE).run()
        assert (await orders.get()).failures >= 1


async def test_options_that_cannot_be_are_named(opened: Opened) -> None:
    async def handle(_: Any) -> None: ...

    async with opened() as cluster:
        orders = cluster.fifo("orders")
        for handler, options, words in (
            (handle, {"tasks": 0}, "tasks is 0; allowed: 1 to 10000"),
            (
                handle,
                {"threads": 2},
                "option is 'threads'; allowed: retry, prefetch, grace, limit, signals, step, tasks",
            ),
            (print, {}, "allowed: an async function; snowmelt.Worker takes others"),
        ):
            with pytest.raises(snowmelt.BadOption) as raised:
                Worker(orders, handler, **options)
            assert words in str(raised.value)
        with pytest.raises(snowmelt.BadOption, match=r"a pool of snowmelt\.aio"):
            Worker(None, handle)


async def test_a_cluster_that_is_closed_ends_it() -> None:
    async def handle(_: Any) -> None: ...

    async with snowmelt.aio.connect("snowmelt://127.0.0.1:1") as nobody:
        with pytest.raises(snowmelt.Unreachable):
            await Worker(nobody.fifo("orders"), handle).run()
    with pytest.raises(snowmelt.Closed):
        await Worker(nobody.fifo("orders"), handle).run()
