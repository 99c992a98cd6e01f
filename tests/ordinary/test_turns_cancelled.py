"""Tasks that are cancelled at any await of a turn: nobody holds anything, no number comes twice."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from ordinary.turns import PROMPT
from snowmelt.cli.local import LocalNode


async def had_soon(cluster: snowmelt.aio.Cluster, name: str) -> int:
    """Nobody holds it who does not know; what it carries."""
    begin = asyncio.get_running_loop().time()
    async with cluster.baton(name) as held:
        assert asyncio.get_running_loop().time() - begin < PROMPT
        return int(held.value or b"0")


async def cancelled_at_random(
    work: Callable[[], Awaitable[None]], count: int, chance: random.Random
) -> None:
    for _ in range(count):
        task = asyncio.ensure_future(work())
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(task), chance.uniform(0, 0.004))
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("way", ["with", "save", "drop", "wait_for"])
async def test_a_task_that_is_cancelled_holds_nothing(
    node: LocalNode, name: str, way: str, times: int
) -> None:
    chance, begun, done = random.Random(3), 0, 0
    async with snowmelt.aio.connect(node.url) as cluster:
        baton = cluster.baton(name)

        async def work() -> None:
            nonlocal begun, done
            if way == "drop":
                await baton.acquire()
                return
            if way == "wait_for":  # which may drop what it waited for
                await (await asyncio.wait_for(baton.acquire(), 20)).release()
                return
            async with baton as held:
                value = b"%d" % (int(held.value or b"0") + 1)
                if way == "save":
                    await held.save(value)
                held.value = value
                begun += 1
            done += 1

        await cancelled_at_random(work, 150 * times, chance)
        assert done <= await had_soon(cluster, name) <= begun
        async with asyncio.timeout(20):  # what was given up is not renewed
            while len(asyncio.all_tasks()) > 5:
                await asyncio.sleep(0.02)


async def test_tasks_that_are_cancelled_count_and_no_number_comes_twice(
    node: LocalNode, name: str, times: int
) -> None:
    chance, taken = random.Random(4), list[int]()
    async with snowmelt.aio.connect(node.url) as cluster:
        counter = cluster.counter(name[:80])

        async def work() -> None:
            taken.extend(await counter.next(chance.choice((1, 7, 1500))))

        await cancelled_at_random(work, 150 * times, chance)
        taken.extend(await counter.next())
        assert len(set(taken)) == len(taken)
        assert taken == sorted(taken)


async def test_a_place_that_is_given_up_stays_given_up(node: LocalNode, name: str) -> None:
    async with snowmelt.aio.connect(node.url) as cluster:
        baton = cluster.baton(name)
        held = await baton.acquire()
        waiting = [asyncio.ensure_future(baton.acquire()) for _ in range(20)]
        await asyncio.sleep(0.1)
        for task in waiting:
            task.cancel()
        told: list[Any] = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(one) for one in told} == {asyncio.CancelledError}
        await held.release()
        await had_soon(cluster, name)


async def test_a_listener_that_is_cancelled_misses_nothing(
    node: LocalNode, name: str, times: int
) -> None:
    chance, heard = random.Random(5), list[bytes]()
    async with snowmelt.aio.connect(node.url) as cluster:
        topic = cluster.multicast(name[:80])
        listening = await topic.subscribe(timeout=10)
        for number in range(100 * times):
            task = asyncio.ensure_future(listening.__anext__())
            await asyncio.sleep(chance.uniform(0, 0.002))
            if chance.random() < 0.5:
                task.cancel()
            publishing = asyncio.ensure_future(topic.publish(b"%d" % number))
            with suppress(asyncio.CancelledError):
                heard.append((await task).body)
            await publishing
        while len(heard) < 100 * times:
            heard.append((await listening.__anext__()).body)
        assert heard == [b"%d" % number for number in range(100 * times)]
        assert listening.missed == 0
