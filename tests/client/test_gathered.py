"""What many tasks ask of one queue at once, on a real node: together, and each its own."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

import snowmelt.aio
from snowmelt.aio import Fifo, PriorityQueue
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import BadOption, Full, TooLarge

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
            ready = (await jobs.stats()).ready_by_priority
            assert ready == {0: 10, 1: 10, 2: 10}

    asyncio.run(scene())


def test_a_queue_that_gets_full_refuses_only_those_who_find_no_room(play: Play) -> None:
    async def scene(queue: Queue) -> None:
        puts = [queue.put(b"%d" % at, timeout=0.5) for at in range(TASKS)]
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
