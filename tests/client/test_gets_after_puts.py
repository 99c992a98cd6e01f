"""A get of a queue with priorities comes after what its client's puts have gathered."""

import asyncio
import threading

import pytest

import snowmelt.aio
from snowmelt.client.priority.face import PriorityQueue
from snowmelt.client.priority.steps import RankedSteps
from snowmelt.client.queue.options import ProducerSequence, ranked_settings
from snowmelt.core.batch import Batch
from snowmelt.core.errors import Full
from snowmelt.core.instant import seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.queue.api.calls import (
    Get,
    ItemRun,
    Leased,
    NodeAddress,
    Open,
    Opened,
    Put,
    PutDone,
)

HERE = NodeAddress(NodeId("n1"), Address("127.0.0.1", 1))
SETTINGS = ranked_settings(priorities=4, replicas=1)


def test_tasks_put_before_others_get(node, name):
    async def scene():
        async with snowmelt.aio.connect(node.url) as cluster:
            jobs = cluster.priority(name, priorities=4)
            for turn in range(20):
                await jobs.put_many([b"old"] * 5, priority=2)
                first = asyncio.ensure_future(jobs.put(b"first", priority=3))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                urgent = asyncio.ensure_future(jobs.put(b"urgent", priority=0))
                await asyncio.sleep(0)
                item = await jobs.get()
                assert item.body == b"urgent", f"{turn}: what was put before is passed"
                await asyncio.gather(first, urgent, item.ack())
                await jobs.purge()

    asyncio.run(scene())


class Node:
    """Answers puts; the first one late, and any without patience that there is no room."""

    def __init__(self, *, full=False):
        self.heard = []
        self.late = threading.Event()
        self.came = threading.Event()
        self.full = full

    def call(self, body, timeout, target=None, weight=0):
        del timeout, target, weight
        if isinstance(body, Open):
            return Opened(body.queue, SETTINGS, HERE, HERE)
        self.heard.append(body)
        if isinstance(body, Get):
            one = Batch.of([b"one"])
            part = ItemRun(0, bytes(one.offsets), bytes(one.blob))
            return Leased(7, (part,), (), seconds(30))
        if len(self.heard) == 1:
            self.came.set()
            self.late.wait(20)
        elif self.full and not body.patience:
            raise Full("no room")
        return PutDone(0, body.count, 1, True)


@pytest.mark.parametrize("full", [False, True])
def test_threads_put_before_others_get(full):
    node = Node(full=full)
    jobs = PriorityQueue(node, RankedSteps("jobs", SETTINGS, ProducerSequence()))
    line = jobs._puts._coalescer
    line._in_flight._late = seconds(100)  # so that what gathers does so for as long as this takes
    told = []
    one = threading.Thread(target=lambda: told.append(jobs.put(b"first", priority=3)))
    other = threading.Thread(target=lambda: told.append(jobs.put(b"urgent")))
    one.start()
    assert node.came.wait(20)
    other.start()
    while not line.waiting:
        pass
    assert jobs.get(timeout=60).body == b"one"
    words = [(type(body), getattr(body, "blob", b"")) for body in node.heard]
    assert words[:3] == [(Put, b"first"), (Put, b"urgent"), (Get, b"")]
    node.late.set()
    one.join(20)
    other.join(20)
    assert told == [0, 0]
    patient = [body.patience > 0 for body in node.heard if isinstance(body, Put)]
    assert patient == ([True, False, True] if full else [True, False])
    line.check()
