"""What many tasks ask of one queue at once, on a real node: together, and each its own."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

import snowmelt.aio
from snowmelt.aio import Fifo, PriorityQueue
from snowmelt.cli.local import LocalNode
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.priority.steps import RankedSteps
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.errors import BadOption, Empty, Full, LeaseLost, TooLarge

TASKS = 64
Queue = Fifo | PriorityQueue
Scene = Callable[[Queue], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture(params=["fifo", "priority"])
def play(node: LocalNode, request: pytest.FixtureRequest) -> Play:
    """Runs a scene with a queue of its own, of each kind."""

    async def main(scene: Scene, **options: object) -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            make = getattr(cluster, request.param)
            await scene(make(f"{request.param}-{request.node.originalname}", **options))

    return lambda scene, **options: asyncio.run(asyncio.wait_for(main(scene, **options), 60))


async def bodies(queue: Queue) -> list[bytes]:
    return [item.body for item in await queue.get_many(10_000, timeout=0)]


def test_tasks_that_put_at_once_each_have_a_position_of_their_own(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        async def work(task: int) -> list[tuple[int, bytes]]:
            named = [b"%d-%d" % (task, at) for at in range(20)]
            return [(await queue.put(body), body) for body in named]

        done = [pair for each in await asyncio.gather(*map(work, range(TASKS))) for pair in each]
        assert len({place for place, _ in done}) == len(done) == TASKS * 20
        assert await bodies(queue) == [body for _, body in sorted(done)]

    play(scene)


def test_one_task_s_puts_keep_their_order(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        puts = [queue.put(b"%d" % at, headers={"of": str(at % 3)}) for at in range(200)]
        places = await asyncio.gather(*puts)
        assert places == sorted(places)
        assert await bodies(queue) == [b"%d" % at for at in range(200)]

    play(scene)


def test_headers_stay_with_the_body_they_came_with(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        await asyncio.gather(
            *(
                queue.put(b"%d" % at, headers={"at": str(at % 2)} if at % 3 else None)
                for at in range(60)
            )
        )
        for item in await queue.get_many(60):
            at = int(item.body)
            assert item.headers == ({"at": str(at % 2)} if at % 3 else {})

    play(scene)


def test_a_body_that_is_refused_refuses_nobody_else(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        puts = [queue.put(b"%d" % at) for at in range(10)]
        puts.insert(5, queue.put(bytes((64 << 20) + 1)))
        told = await asyncio.gather(*puts, return_exceptions=True)
        assert [type(one) for one in told if isinstance(one, BaseException)] == [TooLarge]
        assert await bodies(queue) == [b"%d" % at for at in range(10)]

    play(scene)


def test_a_priority_that_the_queue_has_not_refuses_its_own_put_alone(node: LocalNode) -> None:
    async def scene() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            jobs = cluster.priority("own-fault", priorities=3)
            puts = [jobs.put(b"%d" % at, priority=at % 4) for at in range(40)]
            told = await asyncio.gather(*puts, return_exceptions=True)
            assert [isinstance(one, BadOption) for one in told] == [at % 4 == 3 for at in range(40)]
            places = Counter(at % 4 for at, one in enumerate(told) if isinstance(one, int))
            assert places == {0: 10, 1: 10, 2: 10}
            assert (await jobs.stats()).ready_of == (10, 10, 10)

    asyncio.run(scene())


def test_a_queue_that_gets_full_refuses_only_those_who_find_no_room(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        puts = [queue.put(b"%d" % at, timeout=0) for at in range(TASKS)]
        told = await asyncio.gather(*puts, return_exceptions=True)
        assert Counter(map(type, told)) == {int: 40, Full: TASKS - 40}
        assert len(await bodies(queue)) == 40

    play(scene, max_items=40)


def test_a_put_waits_for_room_while_others_are_refused(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        await queue.put(b"first")
        patient = asyncio.ensure_future(queue.put(b"patient", timeout=20))
        told = await asyncio.gather(
            *(queue.put(b"hasty", timeout=0) for _ in range(5)), return_exceptions=True
        )
        assert Counter(map(type, told)) == {Full: 5}
        await (await queue.get()).ack()
        await patient
        assert await bodies(queue) == [b"patient"]

    play(scene, max_items=1)


def test_a_task_that_is_cancelled_takes_only_its_own_put_along(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        await queue.put(b"first")
        puts = [asyncio.ensure_future(queue.put(b"%d" % at)) for at in range(TASKS)]
        await asyncio.sleep(0)
        for one in puts[::4]:
            one.cancel()
        told = await asyncio.gather(*puts, return_exceptions=True)
        cancelled = {at for at, one in enumerate(told) if isinstance(one, asyncio.CancelledError)}
        assert cancelled == set(range(0, TASKS, 4))
        found = set(await bodies(queue))
        assert found >= {b"%d" % at for at in range(TASKS) if at not in cancelled}

    play(scene)


def test_tasks_that_get_at_once_each_have_items_of_their_own(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        named = [b"%d" % at for at in range(TASKS * 10)]
        await queue.put_many(named)

        async def work() -> list[bytes]:
            came = []
            for _ in range(10):
                async with await queue.get() as item:
                    came.append(item.body)
            return came

        came = [
            body for each in await asyncio.gather(*(work() for _ in range(TASKS))) for body in each
        ]
        assert sorted(came) == sorted(named)
        with pytest.raises(Empty):
            await queue.get(timeout=0)
        stats = await queue.stats()
        assert (stats.ready, stats.leased) == (0, 0)

    play(scene)


def test_acknowledgements_ride_on_the_next_gets_of_all_tasks(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        await queue.put_many([b"%d" % at for at in range(TASKS * 6)])

        async def work(task: int) -> list[bytes]:
            came, held = [], None
            for _ in range(3):
                held = await queue.get_many(1 + task % 3, ack=held)
                came += [item.body for item in held]
                assert 1 <= len(held) <= 1 + task % 3
            assert held is not None
            await held.ack()
            return came

        came = [body for each in await asyncio.gather(*map(work, range(TASKS))) for body in each]
        assert len(set(came)) == len(came)
        stats = await queue.stats()
        assert (stats.ready + len(came), stats.leased) == (TASKS * 6, 0)

    play(scene)


def test_gets_that_wait_are_served_one_by_one_as_items_come(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        waiting = [asyncio.ensure_future(queue.get(timeout=20)) for _ in range(8)]
        for at in range(8):
            await queue.put(b"%d" % at)
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=10)
            assert done, "an item is there, and nobody has it"
            waiting = [one for one in waiting if one not in done]
            for one in done:
                await one.result().ack()
            if not waiting:
                break
        assert not waiting

    play(scene)


def test_a_get_that_waits_for_nothing_is_told_at_once_beside_one_that_waits(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        patient = asyncio.ensure_future(queue.get(timeout=30))
        async with asyncio.timeout(10):
            for _ in range(3):
                with pytest.raises(Empty):
                    await queue.get(timeout=0)
        await queue.put(b"one")
        assert (await patient).body == b"one"

    play(scene)


def test_what_cancelled_gets_were_leased_goes_back_and_nothing_else(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        await queue.put_many([b"%d" % at for at in range(TASKS)])
        gets = [asyncio.ensure_future(queue.get()) for _ in range(TASKS)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for one in gets[::2]:
            one.cancel()
        told = await asyncio.gather(*gets, return_exceptions=True)
        kept = [one for one in told if not isinstance(one, BaseException)]
        assert len(kept) == TASKS // 2
        rest: set[bytes] = set()
        while len(rest) < TASKS // 2:
            rest |= {item.body for item in await queue.get_many(TASKS)}
        assert {item.body for item in kept} | rest == {b"%d" % at for at in range(TASKS)}
        await asyncio.gather(*(item.ack() for item in kept))

    play(scene)


def test_who_is_cancelled_as_its_item_comes_gives_it_back(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        for at in range(20):
            getting = asyncio.ensure_future(queue.get())
            other = asyncio.ensure_future(queue.get())
            await queue.put_many([b"%d" % at, b"%d" % at])
            done, _ = await asyncio.wait([getting, other], return_when=asyncio.FIRST_COMPLETED)
            for one in (getting, other):
                one.cancel()
            for one in await asyncio.gather(getting, other, return_exceptions=True):
                if not isinstance(one, BaseException):
                    await one.release()
            assert done
            left = 2
            while left:
                items = await queue.get_many(2)
                assert {item.failures for item in items} == {0}
                left -= len(items)
                await items.ack()

    play(scene)


def test_each_lease_is_lost_to_its_own_holder_alone(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        await queue.put_many([b"%d" % at for at in range(6)])
        items = await asyncio.gather(*(queue.get() for _ in range(6)))
        await items[0].release()
        await items[1].nack(reason="hot")
        told = await asyncio.gather(*(item.ack() for item in items[2:]), return_exceptions=True)
        assert told == [None] * 4
        again = await queue.get_many(6)
        assert {item.body: item.failures for item in again} == {
            items[0].body: 0,
            items[1].body: 1,
        }

    play(scene)


def test_a_lease_that_ran_out_refuses_its_own_acknowledgement_alone(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        await queue.put(b"old")
        old = await queue.get()
        async with asyncio.timeout(20):
            again = await queue.get(timeout=15)  # when its lease is over
        assert again.failures == 1
        await queue.put_many([b"%d" % at for at in range(5)])
        new = await asyncio.gather(*(queue.get() for _ in range(5)))
        told = await asyncio.gather(
            *(item.ack() for item in (*new[:3], old, *new[3:], again)), return_exceptions=True
        )
        assert [type(one) for one in told if one is not None] == [LeaseLost]
        assert isinstance(told[3], LeaseLost)
        assert (await queue.stats()).leased == 0

    play(scene, lease=1)


def test_items_of_one_call_are_extended_and_lost_apart(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        await queue.put_many([b"%d" % at for at in range(4)])
        held = await asyncio.gather(*(queue.get_many(1) for _ in range(4)))
        assert len({items.token for items in held}) == 1
        await held[0].extend()
        await asyncio.gather(*(items.ack() for items in held[1:]))
        await held[0].ack()
        await held[0].ack()  # nothing is left of it
        stats = await queue.stats()
        assert (stats.ready, stats.leased) == (0, 0)

    play(scene)


def test_an_answer_that_came_while_the_loop_was_busy_counts(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        await queue.put(b"first")
        puts = [asyncio.ensure_future(queue.put(b"%d" % at, timeout=0.5)) for at in range(4)]
        for _ in range(5):  # until they are on their way
            await asyncio.sleep(0)
        time.sleep(2)  # longer than any of them waits
        assert all([await one for one in puts])

    play(scene)


def test_what_one_forgot_comes_back_though_another_of_its_call_extends_its_own(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        await queue.put_many([b"a", b"b"])
        worked_on, _ = await asyncio.gather(queue.get(), queue.get())

        async def work() -> None:
            while True:
                await asyncio.sleep(0.2)
                await worked_on.extend()

        working = asyncio.ensure_future(work())
        again = await queue.get(timeout=10)
        assert (again.body, again.failures, again.reason) == (b"b", 1, "the lease ended")
        working.cancel()
        await asyncio.gather(worked_on.ack(), again.ack())
        assert (await queue.stats()).leased == 0

    play(scene, lease=1)


@pytest.mark.parametrize("kind", ["fifo", "priority"])
def test_a_put_goes_with_those_alone_that_are_asked_for_no_longer(kind: str) -> None:
    def key(timeout: float) -> object:
        steps = FifoSteps if kind == "fifo" else RankedSteps
        return steps("any", None, ProducerSequence()).one(b"", None, None, 0.0, timeout).key

    assert key(0.5) == key(0.5) != key(5.0)
