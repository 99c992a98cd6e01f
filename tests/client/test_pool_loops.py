"""A loop over a pool hands out whatever comes first, and ends when nothing came for its time."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.client.pool.face import Pool
from snowmelt.client.pool.loop_state import ObjectLoopState
from snowmelt.client.pool.open_pools import OpenPool
from snowmelt.core.errors import DataLost, Unreachable
from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.node import Expired, Reply, Requested, SetTimer
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool.calls import (
    Ack,
    Acked,
    Got,
    Nack,
    PoolGet,
    PoolPut,
    PoolReceipt,
    Stop,
    Stopped,
    Withdraw,
)
from snowmelt.protocols.pool.messages import ObjectSpan
from snowmelt.runtime.peer import Engine, PeerConfig
from timing import until

ONE = b"\0\0\0\0\1\0\0\0"


class Alarm(Enum):
    GETS = "gets"


class Newest:
    """Gives what is put to the get that was asked last, so that the oldest finds nothing."""

    def __init__(self) -> None:
        self.gets: dict[int, tuple[Any, Instant]] = {}
        self.tokens = iter(range(1, 1000))
        self.held: set[int] = set()
        self.back: list[int] = []
        self.done: list[int] = []

    def handle(self, event: Any, now: Instant) -> list[Any]:
        match event:
            case Requested(operation, PoolGet(_, _, patience)):
                self.gets[operation.number] = operation, later(now, patience)
                return [self._timer()]
            case Requested(operation, PoolPut(_, blob, _)):
                number, (asked, _) = self.gets.popitem()
                token = next(self.tokens)
                self.held.add(token)
                got = Got(NodeId("c-a"), token, (ObjectSpan(number, ONE),), blob, 1, Duration(0))
                return [Reply(asked, got), Reply(operation, PoolReceipt(1, Interval(0, 1)))]
            case Requested(operation, Ack(token)):
                self.held.discard(token)
                self.done.append(token)
                return [Reply(operation, Acked())]
            case Requested(operation, Nack(token)):
                self.held.discard(token)
                self.back.append(token)
                return [Reply(operation, Acked())]
            case Requested(_, Withdraw(number)):
                asked = self.gets.pop(number, None)
                return [] if asked is None else [Reply(asked[0], Declined("Empty", "withdrawn"))]
            case Requested(operation, Stop()):
                return [Reply(operation, Stopped(0))]
            case Expired():
                over = [number for number, (_, end) in self.gets.items() if end <= now]
                nothing = Declined("Empty", "nothing was found")
                replies: list[Any] = [Reply(self.gets.pop(one)[0], nothing) for one in over]
                return [*replies, *([self._timer()] if self.gets else [])]
            case _:
                return []

    def _timer(self) -> SetTimer:
        return SetTimer(Alarm.GETS, min(end for _, end in self.gets.values()))

    def check(self) -> None:
        pass


@pytest.fixture
def newest() -> Iterator[tuple[Pool, Newest, Callable[[], None]]]:
    machine = Newest()
    engine = Engine(machine, PeerConfig(name=NodeId("c-b")))
    pool = Pool(OpenPool("frames", engine, None, False))

    def put() -> None:
        end = time.monotonic() + 10
        while not machine.gets:
            assert time.monotonic() < end
            time.sleep(0.001)
        engine.call(PoolPut(ONE, b"x", Duration(0)), 5)

    yield pool, machine, put
    engine.close()


def test_no_object_waits_behind_an_older_get(
    newest: tuple[Pool, Newest, Callable[[], None]],
) -> None:
    pool, machine, put = newest
    came: list[bytes] = []
    done = machine.done

    def work() -> None:
        came.extend(bytes(one.body) for one in pool.consume(prefetch=2, timeout=60))

    thread = threading.Thread(target=work)
    thread.start()
    for count in range(1, 6):
        put()
        end = time.monotonic() + 20
        while len(came) < count:
            assert time.monotonic() < end
            time.sleep(0.001)
    pool.close()
    thread.join(10)
    assert not thread.is_alive(), "a loop ends with its pool"
    assert done == [1, 2, 3, 4, 5]


def test_a_loop_whose_pool_is_closed_between_a_look_and_a_wait_ends(
    newest: tuple[Pool, Newest, Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, _, _ = newest
    loop = pool.consume(prefetch=2, timeout=60)
    wait = loop._port.wait

    def closed_first(state: ObjectLoopState, until: Instant) -> None:
        pool.close()
        wait(state, until)

    monkeypatch.setattr(loop._port, "wait", closed_first)
    assert list(loop) == []


def test_a_get_that_finds_nothing_ends_no_loop_to_which_objects_come(
    newest: tuple[Pool, Newest, Callable[[], None]],
) -> None:
    pool, machine, put = newest
    came: list[bytes] = []
    begin = time.monotonic()

    def work() -> None:
        came.extend(bytes(one.body) for one in pool.consume(prefetch=2, timeout=2))

    thread = threading.Thread(target=work)
    thread.start()
    for at in (1.2, 2.4, 3.6):  # the oldest get is empty after two seconds
        time.sleep(max(0.0, begin + at - time.monotonic()))
        put()
    thread.join(20)
    assert len(came) == 3
    assert sorted(machine.done) == [1, 2, 3]
    assert machine.held == set()


def test_what_came_and_was_not_handed_out_goes_back_the_last_first(
    newest: tuple[Pool, Newest, Callable[[], None]],
) -> None:
    pool, machine, put = newest
    with pool.consume(prefetch=3, timeout=5) as loop:
        thread = threading.Thread(target=lambda: [put() for _ in range(4)])
        thread.start()
        next(loop)
        thread.join(10)
    until(lambda: len(machine.back) == 4)
    assert machine.back == [4, 3, 2, 1]
    assert (machine.held, machine.done, machine.gets) == (set(), [], {})


def test_a_loop_that_is_dropped_withdraws_what_it_asked_for(
    newest: tuple[Pool, Newest, Callable[[], None]],
) -> None:
    pool, machine, put = newest
    threading.Timer(0.05, put).start()
    for _ in pool.consume(prefetch=5):
        break
    until(lambda: not (machine.gets or machine.held))
    assert machine.back == [1]


class Body(bytearray):
    """Something that tells when it is gone."""


def test_a_closed_pool_keeps_none_of_its_objects(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        pool = cluster.pool("closed-pools")
        body = Body(1 << 20)
        pool.put(body)
        held = pool.get()
        pool.put(memoryview(body))
        there = ref(body)
        with pytest.raises(DataLost):
            pool.close(timeout=0)
        del body
        assert there() is None
        with pytest.raises(Unreachable):
            held.ack()


# --- whose object it is ---------------------------------------------------------------------------

BODIES = [b"%d" % number for number in range(5)]


class Failed(Exception):
    """The work on an object did not succeed."""


def comes_again(pool: Pool) -> list[bytes]:
    found = []
    for _ in BODIES:
        with pool.get(timeout=10) as one:
            found.append(one.body)
    return sorted(found)


def fails(loop: Any) -> None:
    with suppress(Failed):
        for _ in loop:
            raise Failed


def test_what_threads_had_that_failed_and_ended_comes_again(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster, cluster.pool("frames", lease=0.2) as pool:
        pool.put_many(BODIES)
        loop = pool.consume(prefetch=0)
        for _ in BODIES:  # one after the other, so that each has the number of the one before
            thread = threading.Thread(target=fails, args=[loop])
            thread.start()
            thread.join()
        assert comes_again(pool) == BODIES
        assert pool.stats().settled == len(BODIES)
        loop.close()


def test_what_is_dropped_without_a_word_comes_again_though_its_loop_goes_on(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster, cluster.pool("frames", lease=0.5) as pool:
        pool.put_many(BODIES)
        loop = pool.consume(prefetch=0)
        next(loop)
        dropped = [pool.get(timeout=10).body for _ in BODIES[1:]]
        assert sorted(next(loop).body for _ in dropped) == sorted(dropped)
        loop.close()
        pool.get(timeout=10).ack()


def test_a_loop_that_was_left_by_an_exception_and_is_begun_anew_acknowledges_nothing(
    tmp_path: Path,
) -> None:
    with snowmelt.open(tmp_path) as cluster, cluster.pool("frames") as pool:
        pool.put_many(BODIES)
        loop = pool.consume(prefetch=0)
        for _ in range(3 * len(BODIES)):
            fails(loop)
        assert pool.stats().settled == 0
        loop.close()
        assert comes_again(pool) == BODIES


def test_what_tasks_had_that_were_cancelled_comes_again(tmp_path: Path) -> None:
    async def works(loop: Any) -> None:
        async for _ in loop:
            await asyncio.sleep(60)

    async def supervised() -> None:
        async with snowmelt.aio.open(tmp_path) as cluster:
            pool = cluster.pool("frames", lease=0.2)
            await pool.put_many(BODIES)
            loop, ended = pool.consume(prefetch=0), []
            for _ in BODIES:
                ended.append(asyncio.create_task(works(loop)))
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(ended[-1], 0.1)
            found = []
            for _ in BODIES:
                async with await pool.get(timeout=10) as one:
                    found.append(one.body)
            assert sorted(found) == BODIES
            assert (await pool.stats()).settled == len(BODIES)
            await loop.aclose()
            await pool.close()

    asyncio.run(supervised())


def test_what_is_done_is_heard_of_within_a_second_however_long_the_next_one_takes(
    node: LocalNode, name: str
) -> None:
    with snowmelt.connect(node.url) as here, snowmelt.connect(node.url) as there:
        giver, taker = here.pool(name, buffers=100), there.pool(name)
        giver.put_many([b"one"] * 100)
        looped = taker.consume(timeout=5)
        for _ in range(60):
            next(looped)
        begun = time.monotonic()
        until(lambda: giver.stats().settled == 59)
        assert time.monotonic() - begun < 4  # and not with the next one's end
        for _ in range(40):
            next(looped).ack()
        looped.close()
