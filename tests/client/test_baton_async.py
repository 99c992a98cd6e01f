"""What a baton does with `await`: many at once, cancelled, and lost."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalCluster
from timing import TRIES


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path_factory.mktemp("nodes"), 0.5) as cluster:
        cluster.start()
        yield cluster


@pytest.mark.wide
async def test_tasks_share_one_baton_and_pass_the_value_on(nodes: LocalCluster) -> None:
    inside, fences = 0, []
    async with snowmelt.aio.connect(nodes.url) as cluster:
        baton = cluster.baton("shared")

        async def work() -> None:
            nonlocal inside
            for _ in range(10):
                async with baton as held:
                    inside += 1
                    assert inside == 1
                    await asyncio.sleep(0.001)
                    held.check()
                    held.value = b"%d" % (int(held.value or b"0") + 1)
                    fences.append(held.fence)
                    inside -= 1

        await asyncio.gather(*(work() for _ in range(10)))
        assert sorted(set(fences)) == fences
        async with baton as held:
            assert held.value == b"100"
            await held.save(b"safe")
            assert {one.state for one in await baton.status()} == {"held", "elsewhere"}

        async def fail() -> None:
            async with baton as held:
                held.value = b"half done"
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        async with baton as held:
            assert held.value == b"safe"


async def test_a_hold_outlives_its_lease_and_is_given_up_once(nodes: LocalCluster) -> None:
    async with snowmelt.aio.connect(nodes.url) as cluster:
        held = await cluster.baton("long").acquire()
        end = time.monotonic() + 6
        while time.monotonic() < end:
            held.check()
            assert held.seconds_left > 2.5
            await asyncio.sleep(0.05)
        assert not await held.wait_lost(0.1)
        with pytest.raises(snowmelt.NotGranted):
            await cluster.baton("long").acquire(timeout=0.2)
        await held.release()
        with pytest.raises(snowmelt.BatonLost, match="was given up already"):
            await held.release()
        assert not await held.wait_lost(5)


async def test_a_wait_that_is_cancelled_is_in_nobodys_way(nodes: LocalCluster) -> None:
    async with snowmelt.aio.connect(nodes.url) as cluster:
        baton = cluster.baton("cancelled")
        took = []
        while not took or (took[-1] > 4 and len(took) < TRIES):
            held = await baton.acquire()
            waiting = [asyncio.create_task(baton.acquire()) for _ in range(20)]
            await asyncio.sleep(0.2)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            await held.release()
            begin = time.monotonic()
            await (await baton.acquire()).release()
            took.append(time.monotonic() - begin)
        assert took[-1] < 4, "not for the lease of who was cancelled"


async def test_a_wait_that_is_cancelled_as_it_is_granted_holds_nothing(
    nodes: LocalCluster,
) -> None:
    async with snowmelt.aio.connect(nodes.url) as cluster:
        baton = cluster.baton("crossed")
        for turn in range(50):
            task = asyncio.create_task(baton.acquire())
            await asyncio.sleep(turn * 2e-5)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await (await task).release()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) < 25, "a hold that is over is not renewed any more"
        begin = time.monotonic()
        await (await baton.acquire()).release()
        assert time.monotonic() - begin < 4, "not for the lease of who was cancelled"


async def test_a_closed_cluster_ends_its_holds(nodes: LocalCluster) -> None:
    before = len(asyncio.all_tasks())
    async with snowmelt.aio.connect(nodes.url) as cluster:
        held = await cluster.baton("closed").acquire()
    with pytest.raises(snowmelt.BatonLost, match="the cluster was closed"):
        held.check()
    assert await held.wait_lost(1)
    assert len(asyncio.all_tasks()) == before


async def test_a_counter_shared_by_tasks_gives_each_number_once(nodes: LocalCluster) -> None:
    async with snowmelt.aio.connect(nodes.url) as cluster:
        counter = cluster.counter("ids")
        taken = await asyncio.gather(*(counter.next(count) for count in range(1, 40)))
        numbers = sorted(number for interval in taken for number in interval)
        assert numbers == list(range(sum(range(1, 40))))
        with pytest.raises(snowmelt.BadOption):
            await counter.next(0)


async def test_a_holder_whose_node_dies_is_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    with LocalCluster(2, tmp_path_factory.mktemp("two"), 0.5) as cluster:
        cluster.start()
        one, two = cluster.nodes
        async with snowmelt.aio.connect(two.url) as mine, snowmelt.aio.connect(one.url) as other:
            held = await mine.baton("index").acquire()
            two.kill()
            assert await held.wait_lost(10)
            with pytest.raises(snowmelt.BatonLost):
                await held.release()
            async with other.baton("index") as after:
                assert after.fence > held.fence
