"""A loop that has ended has told what was acknowledged, or raises; a dropped one waits not."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import OutcomeUnknown, SnowmeltError

Queue = Callable[[snowmelt.Cluster], Any]
BOTH = pytest.mark.parametrize(
    "queue",
    [lambda at: at.fifo("left", lease=1), lambda at: at.priority("left", lease=1)],
    ids=["fifo", "priority"],
)


@contextmanager
def silent(node: LocalNode) -> Iterator[None]:
    os.kill(node.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(node.pid, signal.SIGCONT)


@BOTH
def test_a_break_waits_for_no_silent_node(own_node: LocalNode, queue: Queue) -> None:
    with snowmelt.connect(own_node.url) as cluster:
        left = queue(cluster)
        left.put_many([b"one", b"two"])
        for item in left.consume(prefetch=2):
            item.ack()
            with silent(own_node):
                begun = time.monotonic()
                break
        assert time.monotonic() - begun < 5
        while left.stats().ready != 1:  # told behind the scenes
            assert time.monotonic() - begun < 20
            time.sleep(0.02)
        assert left.get().body == b"two"


@pytest.mark.soak  # it is waited for ten seconds
def test_a_loop_that_ends_with_a_silent_node_raises(own_node: LocalNode) -> None:
    async def on_a_loop() -> None:
        async with snowmelt.aio.connect(own_node.url) as cluster:
            left = cluster.fifo("waits")
            await left.put_many([b"one", b"two"])
            loop = left.consume(prefetch=2)
            await (await anext(loop)).ack()
            both_hold.wait(10)
            silenced.wait(10)
            with pytest.raises(OutcomeUnknown, match="acknowledgements in waits from position 0"):
                await loop.aclose()

    def in_order() -> None:
        with snowmelt.connect(own_node.url) as cluster:
            left = cluster.priority("left")
            left.put_many([b"one", b"two"])
            told = pytest.raises(OutcomeUnknown, match="1 acknowledgements in left from")
            with told, left.consume(prefetch=2) as loop:
                next(loop).ack()
                both_hold.wait(10)
                silenced.wait(10)

    both_hold, silenced = threading.Barrier(3), threading.Event()
    with ThreadPoolExecutor(2) as threads:
        ends = [threads.submit(in_order), threads.submit(lambda: asyncio.run(on_a_loop()))]
        both_hold.wait(10)
        with silent(own_node):
            silenced.set()
            wait(ends, 30)
        for end in ends:
            end.result(1)


@BOTH
def test_an_acknowledgement_that_waits_is_in_the_journal(own_node: LocalNode, queue: Queue) -> None:
    with snowmelt.connect(own_node.url) as cluster:
        left = queue(cluster)
        left.put_many([b"one", b"two", b"three"])
        with suppress(SnowmeltError), left.consume(prefetch=2) as loop:
            next(loop).ack(wait=True)
            own_node.kill()
            own_node.start()
        bodies: list[bytes] = []
        while len(bodies) < 2:
            bodies += [item.body for item in left.get_many(timeout=20)]
        assert sorted(bodies) == [b"three", b"two"]
