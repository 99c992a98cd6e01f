"""The async fifo on a real node: the same as the blocking one, and many calls at once."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

import snowmelt.aio
from snowmelt.aio import Fifo
from snowmelt.cli.local import LocalNode
from snowmelt.client.baton.renewer_async import Wakeup
from snowmelt.client.queue import open_once
from snowmelt.client.queue.open_once import OpenOnce
from snowmelt.core.errors import Empty, LeaseLost, OutcomeUnknown, QueueExists
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.calls import Open

Scene = Callable[[Fifo], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture
def play(node: LocalNode, request: pytest.FixtureRequest) -> Play:
    """Runs a scene with a queue of its own."""

    async def main(scene: Scene, **options: object) -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            name = "a-" + request.node.name
            await scene(cluster.fifo(name, **options))
            assert name in await cluster.queues()

    return lambda scene, **options: asyncio.run(asyncio.wait_for(main(scene, **options), 60))


def test_what_is_put_comes_out_in_order_once(play: Play) -> None:
    async def scene(orders: Fifo) -> None:
        assert await orders.put(b"zero", headers={"kind": "number"}) == 0
        assert await orders.put_many([b"%d" % at for at in range(1, 3000)]) == (Interval(1, 3000),)
        async with await orders.get() as item:
            assert (item.body, item.position, item.headers) == (b"zero", 0, {"kind": "number"})
        async with await orders.get_many(500) as items:
            assert [bytes(body) for body in items.batch] == [b"%d" % at for at in range(1, 501)]
        came = []
        async for one in orders.consume(prefetch=700, timeout=0):
            came.append(one.body)
            await one.ack()
        assert came == [b"%d" % at for at in range(501, 3000)]
        with pytest.raises(Empty):
            await orders.get(timeout=0)

    play(scene)


def test_many_calls_are_under_way_at_once(play: Play) -> None:
    async def scene(orders: Fifo) -> None:
        getting = [asyncio.ensure_future(orders.get(timeout=20)) for _ in range(10)]
        places = await asyncio.gather(*(orders.put(b"%d" % at) for at in range(300)))
        assert sorted(places) == list(range(300))
        got = await asyncio.gather(*getting)
        assert sorted(item.position for item in got) == list(range(10))
        await asyncio.gather(*(item.ack() for item in got))
        assert (await orders.stats()).ready == 290

    play(scene)


def test_words_about_a_lease(play: Play) -> None:
    async def scene(orders: Fifo) -> None:
        await orders.put_many([b"one", b"two", b"three"])
        with pytest.raises(KeyError):
            async with await orders.get():
                raise KeyError("name")
        item = await orders.get()
        assert (item.failures, item.reason) == (1, "KeyError: 'name'")
        (beside, *_) = await orders.peek()
        assert item.put_at == beside.put_at
        assert beside.put_at is not None
        await item.nack(reason="hot")
        items = await orders.get_many()
        assert [item.failures for item in items] == [2, 0, 0]
        first, second, _ = items
        await first.ack()
        await second.release()
        await items.extend()
        assert (await orders.get()).body == b"two"
        with pytest.raises(Empty):
            await orders.get_many(ack=items, timeout=0)
        assert (await orders.stats()).done == 2

    play(scene)


def test_a_loop_keeps_its_leases_and_gives_back_what_it_did_not_acknowledge(play: Play) -> None:
    async def scene(orders: Fifo) -> None:
        await orders.put_many([b"%d" % at for at in range(6)])
        async with aclosing(orders.consume(timeout=5)) as loop:
            async for item in loop:
                assert item.failures == 0
                if item.position == 3:
                    break
                await asyncio.sleep(0.6)
                await item.ack()
        async with await orders.get_many(timeout=0) as items:
            assert [item.position for item in items] == [3, 4, 5]
            assert {item.failures for item in items} == {0}
        assert (await orders.stats()).done == 6

    play(scene, lease=1.5)


def test_a_loop_that_is_cancelled_gives_back_what_it_holds(play: Play) -> None:
    async def scene(orders: Fifo) -> None:
        await orders.put_many([b"one", b"two"])
        began = asyncio.Event()

        async def work() -> None:
            async with aclosing(orders.consume()) as loop:
                async for item in loop:
                    await item.ack()
                    began.set()
                    await asyncio.sleep(60)

        working = asyncio.create_task(work())
        await began.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        async with await orders.get(timeout=0) as item:
            assert (item.body, item.failures) == (b"two", 0)

    play(scene)


def test_what_comes_for_a_get_that_was_cancelled_goes_back_at_once(play: Play) -> None:
    async def scene(orders: Fifo) -> None:
        await orders.put(b"first")
        await (await orders.get()).ack()
        for get in (orders.get, orders.get_many):
            waiting = asyncio.ensure_future(get(timeout=20))
            await asyncio.sleep(0.1)  # so that it waits at the node
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await orders.put(b"one")
        async with await orders.get(timeout=5) as item:
            assert (item.body, item.failures) == (b"one", 0)

    play(scene, lease=60)


def test_a_loop_cancelled_while_it_waits_keeps_nothing(play: Play) -> None:
    async def scene(orders: Fifo) -> None:
        async def work() -> None:
            async for item in orders.consume():
                raise AssertionError(item)

        working = asyncio.create_task(work())
        await asyncio.sleep(0.1)  # so that it waits at the node
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        await orders.put(b"one")
        assert (await orders.get(timeout=5)).failures == 0

    play(scene, lease=60)


def test_a_lease_that_ended_is_lost(play: Play) -> None:
    async def scene(orders: Fifo) -> None:
        await orders.put(b"one")
        item = await orders.get()
        again = await orders.get(timeout=5)
        with pytest.raises(LeaseLost):
            await item.ack()
        await again.ack()

    play(scene, lease=1)


def test_the_queue_as_a_whole(node: LocalNode) -> None:
    async def main() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            orders = cluster.fifo("a-whole", max_deliveries=1)
            await orders.put_many([b"%d" % at for at in range(10)])
            await (await orders.get()).nack(reason="bad")
            assert [one.body for one in await orders.peek(dead=True)] == [b"0"]
            assert await orders.redrive() == 1
            await orders.pause()
            with pytest.raises(Empty):
                await orders.get(timeout=0)
            await orders.resume()
            assert await orders.purge() == 10
            with pytest.raises(QueueExists):
                await cluster.fifo("a-whole", max_deliveries=2).put(b"x")
            loader = cluster.fifo("a-whole", producer="loader")
            assert await loader.put(b"x", sequence=5) == await loader.put(b"x", sequence=5)

    asyncio.run(asyncio.wait_for(main(), 60))


class Silent:
    """Nodes that are there and say nothing: a call ends when its time is over."""

    async def call(self, _: Any, timeout: float, *more: Any) -> Any:
        del more
        await asyncio.sleep(timeout)
        raise OutcomeUnknown("no answer to call 1 in the time given")

    def keep(self, work: Any) -> None: ...

    def before_closing(self, one: Any) -> None: ...

    def leave(self, task: Any) -> None: ...


def test_who_opens_a_queue_of_silent_nodes_is_not_told_that_there_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_once, "_GRACE", 5.0)  # a busy machine wakes a task late

    async def opened() -> list[Any]:
        port = OpenOnce(Silent())
        calls = [port.call(Open("jobs", None), 0.1) for _ in range(3)]
        return await asyncio.gather(*calls, return_exceptions=True)

    assert [type(one) for one in asyncio.run(opened())] == 3 * [OutcomeUnknown]


class Opening:
    """A port whose answer comes when it is said."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def call(self, *_: object) -> str:
        return await self.answer


@pytest.mark.parametrize("turns", range(4))
def test_who_is_cancelled_in_the_moment_in_which_his_queue_is_opened_is_cancelled(
    turns: int,
) -> None:
    async def main() -> None:
        port = Opening()
        asking = asyncio.create_task(OpenOnce(port).call(Open("jobs", None), 60.0))
        await asyncio.sleep(0.01)
        port.answer.set_result("opened")
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled = asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled() is cancelled

    asyncio.run(main())


@pytest.mark.parametrize("turns", range(4))
def test_so_is_who_waits_for_a_bell_in_the_moment_in_which_it_rings(turns: int) -> None:
    async def main() -> None:
        bell = Wakeup()
        waiting = asyncio.create_task(bell.wait(60.0))
        await asyncio.sleep(0.01)
        bell.ring()
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled = waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled() is cancelled

    asyncio.run(main())
