"""Generators that hold a baton and are dropped, closed elsewhere, or left by their loop."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack

import pytest

import snowmelt
import snowmelt.aio
from ordinary.turns import had_soon
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import SnowmeltError


def holding(baton: snowmelt.client.baton.face.Baton, rounds: int = 3) -> Iterator[int]:
    for _ in range(rounds):
        with baton as held:
            held.value = b"%d" % (int(held.value or b"0") + 1)
            yield held.fence


@pytest.mark.parametrize("way", ["dropped", "collected", "closed by another thread", "left"])
def test_a_generator_that_is_not_ended_gives_up_what_it_holds(
    node: LocalNode, name: str, way: str
) -> None:
    with snowmelt.connect(node.url) as cluster:
        baton = cluster.baton(name)
        for _ in range(5):
            one = holding(baton)
            next(one)
            if way == "collected":
                circle = [one]
                circle.append(circle)  # type: ignore[arg-type]
                del one, circle
                gc.collect()
            elif way == "closed by another thread":
                closing = threading.Thread(target=one.close)
                closing.start()
                closing.join(20)
                assert not closing.is_alive()
            elif way == "left":
                for _ in one:
                    break
                del one
            else:
                del one
            had_soon(cluster, name)


def test_each_with_of_one_baton_gives_up_its_own(node: LocalNode, name: str) -> None:
    with snowmelt.connect(node.url) as cluster:
        baton = cluster.baton(name)
        one = holding(baton)
        next(one)
        with ExitStack() as stack:
            stack.callback(one.close)
            with pytest.raises(snowmelt.NotGranted):
                baton.acquire(timeout=0.1)
        with ExitStack() as stack:
            held = stack.enter_context(cluster.baton(name, timeout=10))
            held.check()
        had_soon(cluster, name)


def test_what_is_dropped_is_given_up_and_what_is_kept_is_not(node: LocalNode, name: str) -> None:
    with snowmelt.connect(node.url) as cluster:
        baton = cluster.baton(name)
        held = baton.acquire()
        held.value = b"half done"
        del held
        had_soon(cluster, name)
        with baton as held:
            assert held.value == b"", "it goes on as by a holder that failed"
            with pytest.raises(snowmelt.NotGranted):
                baton.acquire(timeout=1.5)
            held.check()


def test_a_thread_that_ends_gives_up_what_it_held(node: LocalNode, name: str) -> None:
    with snowmelt.connect(node.url) as cluster:

        def work() -> None:
            held = cluster.baton(name).acquire()
            held.check()

        for _ in range(5):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            had_soon(cluster, name)


async def holding_async(baton: snowmelt.aio.Baton) -> AsyncIterator[int]:
    while True:
        async with baton as held:
            yield held.fence


@pytest.mark.parametrize("way", ["left", "closed", "dropped", "cancelled"])
async def test_an_async_generator_that_is_not_ended_gives_up_what_it_holds(
    node: LocalNode, name: str, way: str
) -> None:
    async with snowmelt.aio.connect(node.url) as cluster:
        baton = cluster.baton(name, timeout=10)
        for _ in range(5):
            one = holding_async(baton)
            if way == "left":
                async for _ in one:
                    break
            elif way == "cancelled":

                async def loop(one: AsyncIterator[int] = one) -> None:
                    async for _ in one:
                        await asyncio.sleep(0)

                task = asyncio.ensure_future(loop())
                await asyncio.sleep(0.02)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                del task, loop
            else:
                await anext(one)
            if way == "closed":
                await one.aclose()  # type: ignore[attr-defined]
            del one
            gc.collect()  # what an exception has seen is dropped when it is
            async with asyncio.timeout(3):
                await (await baton.acquire()).release()
        async with AsyncExitStack() as stack:
            held = await stack.enter_async_context(baton)
            held.check()
        await (await baton.acquire()).release()


@pytest.mark.filterwarnings("ignore")  # connections that nobody closed
def test_a_loop_that_is_closed_leaves_nothing_behind(node: LocalNode, name: str) -> None:
    kept: list[object] = []

    async def hold() -> None:
        cluster = snowmelt.aio.connect(node.url)
        held = await cluster.baton(name).acquire()
        await cluster.baton(name + ".counted").acquire()
        kept.extend((cluster, held))

    async def close() -> None:
        await kept[0].close()  # type: ignore[attr-defined]

    asyncio.run(hold())  # it closes its loop, and nobody closed the cluster
    asyncio.run(close())
    held = kept.pop()
    with pytest.raises(SnowmeltError):
        asyncio.run(held.release())  # type: ignore[attr-defined]
    del held
    kept.clear()
    gc.collect()
    with snowmelt.connect(node.url) as cluster, cluster.baton(name, timeout=20) as after:
        after.check()


def test_another_loop_is_refused_and_harms_nothing(node: LocalNode, name: str) -> None:
    async def hold() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            baton = cluster.baton(name)
            async with baton as held:

                async def elsewhere() -> None:
                    with pytest.raises(SnowmeltError, match="another event loop"):
                        await baton.acquire()
                    with pytest.raises(SnowmeltError, match="another event loop"):
                        await held.save(b"x")

                await asyncio.to_thread(asyncio.run, elsewhere())
                held.check()
            await (await baton.acquire(timeout=3)).release()

    asyncio.run(hold())
