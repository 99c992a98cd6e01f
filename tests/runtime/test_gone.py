"""A client that is gone waits for nothing any more: what comes goes to those who are there."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import snowmelt
import warm
from runtime.network import PATIENCE, Serving, Stranger, serving, until
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.client.fifo.face import Fifo
from snowmelt.core.instant import seconds
from snowmelt.protocols.calling import Call
from snowmelt.protocols.queue.api.calls import Describe, Get, Open, Opened, QueueStatus

CONSUMER = """
import sys, snowmelt
with snowmelt.connect(sys.argv[1]) as cluster:
    cluster.fifo("jobs").get(timeout=30)
"""
GET = Get("jobs", items_max=1, bytes_max=1 << 20, patience=seconds(30))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LocalNode]:
    with LocalCluster(1, tmp_path, 0.5) as cluster:
        cluster.start()
        yield cluster.nodes[0]


def waits_for(count: int, jobs: Fifo) -> None:
    end = time.monotonic() + PATIENCE
    while jobs.stats().waiting_gets != count:
        assert time.monotonic() < end, f"there are never {count} gets that wait"
        time.sleep(0.02)


def test_an_item_goes_at_once_to_another_when_a_consumer_was_killed(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        jobs = cluster.fifo("jobs")
        jobs.put(b"zero")
        jobs.get().ack()
        consumer = warm.Popen([sys.executable, "-c", CONSUMER, node.url])
        try:
            waits_for(1, jobs)
        finally:
            consumer.kill()
            consumer.wait(PATIENCE)
        waits_for(0, jobs)
        jobs.put(b"one")
        with jobs.get(timeout=20) as item:  # it was not leased to the one that was killed
            assert (item.body, item.failures) == (b"one", 0)


async def waiting(watcher: Stranger) -> int:
    watcher.say(Call(1, Describe("jobs")))
    status = (await watcher.answer()).body
    assert isinstance(status, QueueStatus)
    return status.waiting_gets


async def opened(node: Serving) -> Stranger:
    """Whoever sees how many gets wait."""
    await until(lambda: node.server.current)
    watcher = await (await Stranger.dial(node.address)).greet("c-watcher")
    watcher.say(Call(1, Open("jobs")))
    assert isinstance((await watcher.answer()).body, Opened)
    return watcher


async def test_a_get_waits_until_the_last_connection_of_its_client_ends(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, await opened(node) as watcher:
        async with await Stranger.dial(node.address) as last:
            async with await Stranger.dial(node.address) as first:
                await last.greet("c-twice")
                await first.greet("c-twice")  # the one that is answered
                first.say(Call(7, GET))
                await first.is_served()  # after the get
                assert await waiting(watcher) == 1
            await until(lambda: len(node.server.statistics().connections) == 2)
            assert await waiting(watcher) == 1
        await until(lambda: len(node.server.statistics().connections) == 1)
        assert await waiting(watcher) == 0


async def test_the_gets_of_others_wait_on(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, await opened(node) as watcher:
        watcher.say(Call(8, GET))
        async with await Stranger.dial(node.address) as other:
            await other.greet("c-other")
            other.say(Call(7, GET))
            await other.is_served()
            assert await waiting(watcher) == 2
        await until(lambda: len(node.server.statistics().connections) == 1)
        assert await waiting(watcher) == 1
