"""Tasks that are cancelled at any instant: what came for them is handed out, or goes back."""

import asyncio
import gc
import random
import time
from pathlib import Path
from typing import Any

import pytest

import snowmelt.aio
from ordinary.kinds import LEASE, Account
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import Empty, LeaseLost, OutcomeUnknown

LONG_LEASE = 60.0


async def gone(maker: snowmelt.aio.Pool) -> None:
    """Until nobody holds anything; less long than a lease, so that nothing has just run out."""
    gc.collect()  # what a cancelled task had in hand may lie in a circle with its exception
    end = time.monotonic() + LONG_LEASE / 3
    while left := (await maker.stats()).on_loan:
        assert time.monotonic() < end, f"{left} are with nobody"
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("face", ["get", "consume"])
async def test_a_task_that_is_cancelled_holds_nothing(
    node: LocalNode, name: str, face: str, times: int
) -> None:
    chance = random.Random(5)
    account = Account()
    async with snowmelt.aio.connect(node.url) as cluster:
        maker = cluster.pool(name, buffers=100_000, lease=LONG_LEASE)
        taker = cluster.pool(name, lease=LONG_LEASE)
        await maker.put(account.putting(0))
        account.kept.add(b"0")
        await (await taker.get()).nack()

        async def take() -> None:
            if face == "get":
                one = await taker.get()
                account.came(bytes(one.body))
                await one.ack()
                account.done[bytes(one.body)] += 1
                return
            async for one in taker.consume(prefetch=2):
                account.came(bytes(one.body))

        for number in range(1, 200 * times):
            task = asyncio.ensure_future(take())
            if chance.random() < 0.7:
                await asyncio.sleep(chance.uniform(0, 0.002))
            body = account.putting(number)
            await maker.put(body)
            account.kept.add(body)
            for _ in range(chance.randrange(200)):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        del task  # what it was cancelled in refers to what it had
        await gone(maker)
        left = []
        while (await maker.stats()).stock:
            one = await taker.get()
            left.append(bytes(one.body))
            await one.ack()
        if face == "get":
            account.check(left)
        else:
            assert account.kept <= account.begun | set(left)
        await taker.close()


async def test_at_most_once_what_nobody_was_given_is_not_lost(
    node: LocalNode, name: str, times: int
) -> None:
    chance = random.Random(6)
    came: list[bytes] = []
    async with snowmelt.aio.connect(node.url) as cluster:
        options = {"delivery": "at_most_once", "lease": LONG_LEASE}
        maker = cluster.pool(name, buffers=100_000, **options)
        taker = cluster.pool(name, **options)
        await maker.put(b"0")
        came.append((await taker.get()).body)

        async def take() -> None:
            async with taker.consume(prefetch=3) as loop:
                async for one in loop:
                    came.append(one.body)
                    await asyncio.sleep(0)

        count = 100 * times
        for number in range(1, count):
            task = asyncio.ensure_future(take())
            await maker.put(b"%d" % number)
            await asyncio.sleep(chance.uniform(0, 0.003))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        del task  # what it was cancelled in refers to what it had
        await gone(maker)
        came += [one.body async for one in taker.consume(timeout=3)]
        assert sorted(came, key=int) == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("kind", ["fifo", "priority"])
@pytest.mark.parametrize("place", ["node", "folder"])
async def test_a_leasing_task_that_is_cancelled_loses_nothing(
    node: LocalNode, tmp_path: Path, name: str, kind: str, place: str, times: int
) -> None:
    chance = random.Random(7)
    account = Account()
    opened: Any = snowmelt.aio.open(tmp_path)
    if place == "node":
        opened = snowmelt.aio.connect(node.url)
    async with opened as cluster:
        queue = getattr(cluster, kind)(name, lease=LEASE, max_deliveries=1000)

        async def take() -> None:
            one = await queue.get()
            account.came(one.body)
            await one.ack()
            account.done[one.body] += 1

        for number in range(100 * times):
            task = asyncio.ensure_future(take())
            await asyncio.sleep(chance.uniform(0, 0.004))
            body = account.putting(number)
            await queue.put(body)
            account.kept.add(body)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        left = []
        while (told := await queue.stats()).ready or told.leased:
            try:
                one = await queue.get(timeout=0.5)
                left.append(one.body)
                await one.ack()
            except (Empty, LeaseLost, OutcomeUnknown):
                continue
        # An acknowledgement that was cancelled may have been heard; then it does not come again.
        account.check(left)


class Cancelling(asyncio.SelectorEventLoop):
    """Cancels a task so many turns after something crossed over to it from another thread."""

    victim: asyncio.Task[None] | None = None
    turns = 0

    def call_soon_threadsafe(self, *given: Any, **named: Any) -> asyncio.Handle:
        handle = super().call_soon_threadsafe(*given, **named)
        super().call_soon_threadsafe(self._turn, self.turns)
        return handle

    def _turn(self, left: int) -> None:
        if left:
            self.call_soon(self._turn, left - 1)
        elif self.victim is not None:
            self.victim.cancel()
            self.victim = None


@pytest.mark.parametrize("face", ["get", "consume"])
@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_a_task_that_is_cancelled_in_the_turn_of_its_answer_holds_nothing(
    node: LocalNode, name: str, face: str, turns: int, times: int
) -> None:
    async def main(loop: Cancelling) -> None:
        loop.turns = turns
        async with snowmelt.aio.connect(node.url) as cluster:
            pool = cluster.pool(name, buffers=1000, lease=LONG_LEASE)

            async def take() -> None:
                if face == "get":
                    await (await pool.get()).ack()
                else:
                    async for _ in pool.consume(prefetch=1):
                        pass

            kept = []  # with all that they had in hand when they were cancelled
            for _ in range(20 * times):
                task = loop.create_task(take())
                kept.append(task)
                await asyncio.sleep(0.001)
                loop.victim = task
                await pool.put(b"one")
                await asyncio.sleep(0.002)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            loop.victim = None
            await gone(pool)
            kept.clear()
            async for _ in pool.consume(timeout=0):
                pass

    with asyncio.Runner(loop_factory=Cancelling) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, Cancelling)
        runner.run(main(loop))
