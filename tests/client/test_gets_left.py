"""Gets that nobody waits for any more, at real nodes: in nobody's way, and keeping nothing."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
import warm
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import Empty

LONG = 1_000.0
MANY = 1_000
ALONE = 100
"""Who wants so many goes in no call with others."""
PARTITIONS = pytest.mark.parametrize("partitions", [1, 8])
PLACES = pytest.mark.parametrize("place", ["node", "folder"])


def opened(place: str, folder: Path, node: LocalNode) -> Any:
    return snowmelt.aio.connect(node.url) if place == "node" else snowmelt.aio.open(folder)


async def nobody_waits(queue: Any, within: float = 10.0) -> None:
    end = time.monotonic() + within
    while (await queue.stats()).waiting_gets:
        assert time.monotonic() < end, (await queue.stats()).waiting_gets
        await asyncio.sleep(0.02)


async def took(queue: Any) -> float:
    """How long it takes that some items come and go, one after the other."""
    begun = time.monotonic()
    for at in range(60):
        await queue.put(b"%d" % at)
        async with await queue.get(timeout=10) as item:
            assert item.body == b"%d" % at
    return time.monotonic() - begun


@PARTITIONS
@PLACES
async def test_many_cancelled_gets_are_in_nobodys_way(
    place: str, partitions: int, node: LocalNode, name: str, tmp_path: Path
) -> None:
    async with opened(place, tmp_path / "queues", node) as cluster:
        queue = cluster.fifo(name, partitions=partitions, lease=60)
        await queue.create(timeout=60)
        before = await took(queue)
        gets = [
            asyncio.ensure_future(queue.get_many(ALONE, timeout=LONG)) for _ in range(MANY // 2)
        ]
        gets += [asyncio.ensure_future(queue.get(timeout=LONG)) for _ in range(MANY // 2)]
        while (await queue.stats()).waiting_gets <= MANY // 2:
            await asyncio.sleep(0.02)
        for one in gets:
            one.cancel()
        await asyncio.gather(*gets, return_exceptions=True)
        await nobody_waits(queue)
        assert await took(queue) < 4 * before + 1
        told = await queue.stats()
        assert (told.ready, told.leased, told.failed, told.expired) == (0, 0, 0, 0)


@PARTITIONS
@PLACES
async def test_what_came_for_a_cancelled_get_is_the_next_ones_at_once(
    place: str, partitions: int, node: LocalNode, name: str, tmp_path: Path
) -> None:
    async with opened(place, tmp_path / "queues", node) as cluster:
        queue = cluster.fifo(name, partitions=partitions, lease=60)
        await queue.create(timeout=60)
        await queue.put(b"first")
        await (await queue.get()).ack()
        for at in range(60):
            getting = asyncio.ensure_future(queue.get_many(ALONE, timeout=LONG))
            if at % 3:
                await asyncio.sleep(0.003 * (at % 3))
            putting = asyncio.ensure_future(queue.put(b"%d" % at))
            await asyncio.sleep(0.0005 * (at % 7))
            getting.cancel()
            await asyncio.gather(getting, return_exceptions=True)
            await putting
            if not getting.cancelled():
                await getting.result().ack()
                continue
            begun = time.monotonic()
            async with await queue.get(timeout=20) as item:
                assert (item.body, item.failures) == (b"%d" % at, 0)
            assert time.monotonic() - begun < 5
        assert (await queue.stats()).failed == 0


@PARTITIONS
async def test_a_get_of_a_queue_that_is_not_there_looks_for_it_no_more(
    partitions: int, node: LocalNode, name: str
) -> None:
    del partitions
    async with snowmelt.aio.connect(node.url) as cluster:
        getting = asyncio.ensure_future(cluster.fifo(name).get_many(ALONE, timeout=LONG))
        await asyncio.sleep(0.3)
        others = asyncio.all_tasks()
        getting.cancel()
        await asyncio.gather(getting, return_exceptions=True)
        await asyncio.sleep(0.5)
        assert asyncio.all_tasks() < others


PROGRAM = """
import sys, threading, snowmelt
cluster = snowmelt.connect(sys.argv[1])
queue = cluster.fifo(sys.argv[2])
queue.put(b"begun")
queue.get().ack()
for _ in range(20):
    threading.Thread(target=queue.get_many, args=(100,), kwargs={"timeout": 1_000}).start()
print("all wait", flush=True)
threading.Event().wait()
"""


@PARTITIONS
def test_the_gets_of_a_killed_program_are_in_nobodys_way(
    partitions: int, node: LocalNode, name: str
) -> None:
    with snowmelt.connect(node.url) as cluster:
        queue = cluster.fifo(name, partitions=partitions, lease=60)
        queue.create()
        program = warm.Popen(
            [sys.executable, "-c", PROGRAM, node.url, name], stdout=subprocess.PIPE, text=True
        )
        with program:
            try:
                assert program.stdout is not None
                assert program.stdout.readline() == "all wait\n"
                end = time.monotonic() + 20
                while queue.stats().waiting_gets < 20:
                    assert time.monotonic() < end
                    time.sleep(0.02)
            finally:
                program.kill()
        begun = time.monotonic()
        queue.put(b"one")
        with queue.get(timeout=20) as item:
            assert (item.body, item.failures) == (b"one", 0)
        assert time.monotonic() - begun < 5
        assert queue.stats().waiting_gets == 0


class Alarm(Exception):
    """A handler of signals raises it."""


@contextmanager
def alarm(after: float) -> Iterator[None]:
    def raises(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, raises)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@PARTITIONS
def test_a_get_whose_thread_was_interrupted_is_in_nobodys_way(
    queues: Any, partitions: int, name: str
) -> None:
    queue = queues.fifo(name, partitions=partitions, lease=60)
    queue.put(b"first")
    queue.get().ack()
    for get in (queue.get, queue.get_many):
        with pytest.raises(Alarm), alarm(0.3):
            get(timeout=LONG)
        queue.put(b"one")
        begun = time.monotonic()
        with queue.get(timeout=20) as item:
            assert (item.body, item.failures) == (b"one", 0)
        assert time.monotonic() - begun < 5
    assert queue.stats().waiting_gets == 0


@PARTITIONS
def test_nothing_came_is_not_said_before_the_time_is_over(
    queues: Any, partitions: int, name: str
) -> None:
    queue = queues.fifo(name, partitions=partitions)
    queue.create()
    for timeout in (0.3, 1.2):
        begun = time.monotonic()
        with pytest.raises(Empty):
            queue.get(timeout=timeout)
        assert time.monotonic() - begun >= timeout
