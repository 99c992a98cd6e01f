"""A priority queue as programs hold it, blocking, with await, and in a folder."""

import asyncio
import pickle
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.core.batch import Batch
from snowmelt.core.errors import (
    BadOption,
    CallerError,
    Empty,
    Full,
    LeaseLost,
    NoSuchQueue,
    OutcomeUnknown,
    QueueExists,
    Unreachable,
)
from snowmelt.core.interval import Interval
from timing import in_vain


@pytest.fixture(params=["node", "folder"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[snowmelt.Cluster]:
    """A node, or a folder: the same calls do the same."""
    opened: AbstractContextManager[snowmelt.Cluster]
    if request.param == "node":
        opened = snowmelt.connect(request.getfixturevalue("node").url)
    else:
        opened = snowmelt.open(tmp_path)  # type: ignore[assignment]  # of the same face
    with opened as cluster:
        yield cluster


def test_closing_ends_gets_of_other_threads_that_wait(cluster: snowmelt.Cluster, name: str) -> None:
    queue = cluster.priority(name, priorities=4)
    queue.put(b"opens it")
    queue.get(timeout=5).ack()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(queue.get, timeout=60) for _ in range(3)]
        time.sleep(0.3)
        cluster.close()
        for one in waiting:
            with pytest.raises((OutcomeUnknown, Unreachable), match="closed"):
                one.result(10)


def bodies(queue: snowmelt.PriorityQueue) -> list[tuple[int, bytes]]:
    """All that is there, done."""
    found = []
    for item in queue.consume(timeout=0):
        found.append((item.priority, item.body))
        item.ack()
    return found


def test_the_most_urgent_come_first_and_within_a_priority_the_first(
    cluster: snowmelt.Cluster, name: str
) -> None:
    jobs = cluster.priority(name, priorities=3)
    first = jobs.put(b"sweep", priority=2)
    assert jobs.put(b"dust", priority=2) == first + 1
    mixed = [(1, b"mail"), (0, b"fire"), (1, b"call")]
    assert jobs.put_many(mixed) == (Interval(0, 1), Interval(0, 2)), "the most urgent first"
    assert jobs.put_many([b"smoke", b"flood"], priority=0) == (Interval(1, 3),)
    seen = jobs.peek()
    told = [(0, b"fire"), (0, b"smoke"), (0, b"flood"), (1, b"mail"), (1, b"call")]
    told += [(2, b"sweep"), (2, b"dust")]
    assert [(one.priority, one.body) for one in seen] == told
    with jobs.get_many(4) as items:
        assert [(one.priority, one.body) for one in items] == told[:4]
        assert items.batch == items.batch
        assert len(items.positions) == 2, "of two priorities"
    stats = jobs.stats()
    assert (stats.ready, stats.ready_of, stats.tails) == (3, (0, 1, 2), (3, 2, 2))
    assert bodies(jobs) == told[4:]
    assert name in cluster.queues()


def test_the_largest_may_be_the_most_urgent(cluster: snowmelt.Cluster, name: str) -> None:
    jobs = cluster.priority(name, priorities=5, largest_first=True)
    jobs.put_many([(0, b"late"), (4, b"now"), (2, b"soon")])
    with jobs.get_many(3) as items:
        assert [(one.priority, one.body) for one in items] == [
            (4, b"now"),
            (2, b"soon"),
            (0, b"late"),
        ]
        next(iter(items)).nack(reason="not yet")
    assert bodies(jobs) == [(4, b"now")]


def test_what_failed_comes_ahead_of_later_ones_and_in_the_end_is_dead(
    cluster: snowmelt.Cluster, name: str
) -> None:
    jobs = cluster.priority(name, priorities=2, max_deliveries=2)
    jobs.put(b"bad", priority=1, headers={"kind": "job", "hash": b"\xff"})
    with pytest.raises(KeyError), jobs.get():
        raise KeyError("part")
    jobs.put(b"good", priority=1)
    item = jobs.get()
    assert (item.body, item.failures, item.reason) == (b"bad", 1, "KeyError: 'part'")
    assert item.headers == {"kind": "job", "hash": b"\xff"}
    put_at = item.put_at
    assert put_at is not None
    item.nack(reason="again")
    assert bodies(jobs) == [(1, b"good")]
    (dead,) = jobs.peek(dead=True)
    assert (dead.body, dead.failures, dead.reason, dead.priority) == (b"bad", 2, "again", 1)
    assert dead.put_at == put_at
    assert (jobs.stats().dead, jobs.redrive(), jobs.redrive()) == (1, 1, 0)
    with jobs.get() as item:
        assert (item.body, item.failures) == (b"bad", 0)


def test_a_lease_ends_and_is_extended_and_told_when_it_is_lost(
    cluster: snowmelt.Cluster, name: str
) -> None:
    jobs = cluster.priority(name, lease=1)
    jobs.put(b"one")
    late = jobs.get()
    item = jobs.get(timeout=10)
    assert (item.body, item.failures, item.reason) == (b"one", 1, "the lease ended")
    with pytest.raises(LeaseLost):
        late.ack()
    item.extend()
    item.release()
    with jobs.get() as item:
        assert item.failures == 1, "what was released did not fail"


def test_what_is_delayed_waits_and_a_purge_takes_all_that_waits(
    cluster: snowmelt.Cluster, name: str
) -> None:
    jobs = cluster.priority(name)
    jobs.put(b"later", delay=0.4, priority=0)
    assert jobs.stats().delayed == 1
    assert jobs.get(timeout=10).body == b"later"
    jobs.put(b"much later", delay=60, priority=0)
    jobs.put_many([b"a", b"b"], priority=3)
    assert jobs.purge() == 3
    assert (jobs.stats().leased, jobs.stats().delayed) == (1, 0)


def test_a_full_queue_waits_for_room_and_says_so(cluster: snowmelt.Cluster, name: str) -> None:
    jobs = cluster.priority(name, max_items=2)
    jobs.put_many([b"a", b"b"])
    with pytest.raises(Full, match=r"holds 2 items in 2 bytes; its bounds are 2 items$"):
        jobs.put(b"c", timeout=0)
    jobs.get().ack()
    jobs.put(b"c", timeout=10)
    assert jobs.stats().ready == 2


def test_a_loop_gathers_its_acknowledgements_and_gives_the_rest_back(
    cluster: snowmelt.Cluster, name: str
) -> None:
    jobs = cluster.priority(name, priorities=2)
    jobs.put_many((number % 2, b"%d" % number) for number in range(2500))
    with jobs.consume(prefetch=100) as loop:
        for count, item in enumerate(loop, start=1):
            item.ack()
            if count == 1300:
                break
    stats = jobs.stats()
    assert (stats.ready, stats.leased, stats.ready_of) == (1200, 0, (0, 1200))
    with jobs.get_many(700) as items:
        more = jobs.get_many(10, ack=items)
        more.release()
    assert [body for _, body in bodies(jobs)] == [b"%d" % n for n in range(1501, 2500, 2)]


def test_a_get_brings_what_its_bytes_allow_and_one_at_least(
    cluster: snowmelt.Cluster, name: str
) -> None:
    jobs = cluster.priority(name)
    jobs.put_many([bytes(400)] * 5)
    with jobs.get_many(bytes_max=1000) as items:
        assert len(items) == 2
    with jobs.get_many(bytes_max=1) as items:
        assert len(items) == 1
    assert [(one.failures, len(one.body)) for one in jobs.get_many()] == [(0, 400)] * 2


def test_an_empty_queue_is_told_at_once_or_when_the_time_is_over(
    cluster: snowmelt.Cluster, name: str
) -> None:
    jobs = cluster.priority(name)
    with pytest.raises(Empty, match="there is no such queue yet"):
        jobs.get(timeout=0)
    with pytest.raises(NoSuchQueue, match=name):
        jobs.stats()
    jobs.put(b"one")
    jobs.get().ack()
    began = time.monotonic()
    told = in_vain(Empty, lambda: jobs.get(timeout=0.3))
    assert f"nothing came into {name} in 0.3 s" in str(told)
    assert time.monotonic() - began > 0.2
    with pytest.raises(Empty):
        jobs.get_many(5, timeout=0)
    assert list(jobs.consume(timeout=0)) == []


def test_what_can_not_be_is_refused_with_the_way_out(cluster: snowmelt.Cluster, name: str) -> None:
    jobs = cluster.priority(name, priorities=3)
    with pytest.raises(BadOption, match=f"priority is 3; allowed: 0 to 2 in {name}"):
        jobs.put(b"x", priority=3)
    for wrong in (-1, 256, True, "0", 1.0):
        with pytest.raises(BadOption, match="priority is"):
            jobs.put(b"x", priority=wrong)  # type: ignore[arg-type]
    for wrong in (-1, 256, False, 0.0):
        for items in ([b"x"], Batch.of([b"x"])):
            with pytest.raises(BadOption, match="priority is"):
                jobs.put_many(items, priority=wrong)  # type: ignore[arg-type]
        with pytest.raises(BadOption, match="priority is"):
            jobs.put_many([(wrong, b"x")])  # type: ignore[list-item]
    for kinds in (0, 257, True, "float", 2.0, None):
        with pytest.raises(BadOption, match=r"priorities is .*; allowed: 1 to 256, int or float"):
            cluster.priority("other", priorities=kinds)  # type: ignore[arg-type]
    jobs.put(b"x", priority=2)
    with pytest.raises(QueueExists, match=r"priorities=3, asked 2"):
        cluster.priority(name, priorities=2).put(b"x")
    with pytest.raises(TypeError, match="not both"):
        jobs.put_many([(0, b"x"), b"y"])  # type: ignore[list-item]
    for pairs in ([[0, b"x"]], [(0, b"x"), [0, b"y"]], iter([[0, b"x"]])):
        with pytest.raises(TypeError, match=r"a tuple, not list; say tuple\(pair\)"):
            jobs.put_many(pairs)
    with pytest.raises(TypeError, match="a body is bytes"):
        jobs.put("text")  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="option is 'shards'"):
        cluster.priority(name, shards=1)  # type: ignore[call-arg]
    with pytest.raises(BadOption, match="largest_first is 1"):
        cluster.priority(name, largest_first=1)  # type: ignore[arg-type]
    with pytest.raises(CallerError):
        cluster.priority("a/b").put(b"x")
    with pytest.raises(TypeError, match="connect there"):
        pickle.dumps(jobs)


@pytest.mark.parametrize("priorities", [4, int], ids=["four", "any"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda log: log.peek(100),
        lambda log: log.stats(),
        lambda log: log.get(timeout=0),
        lambda log: log.put(b"x"),
    ],
    ids=["peek", "stats", "get", "put"],
)
def test_a_queue_with_priorities_is_shown_as_no_fifo(
    cluster: snowmelt.Cluster, name: str, ask: Callable[[snowmelt.Fifo], Any], priorities: Any
) -> None:
    """What any priorities have was shown again and again, all with priority 0."""
    cluster.priority(name, priorities=priorities).put_many([(at % 3, b"x") for at in range(9)])
    for log in (cluster.fifo(name), cluster.fifo(name, lease=5)):
        with pytest.raises(QueueExists):
            ask(log)
    assert cluster.priority(name).stats().ready == 9
    with pytest.raises(QueueExists, match=r"and no fifo: take it by cluster\.priority"):
        ask(cluster.fifo(name))


def test_a_name_finds_its_queue_of_whichever_kind(cluster: snowmelt.Cluster, name: str) -> None:
    cluster.priority(name).put(b"x")
    assert isinstance(cluster.queue(name), snowmelt.PriorityQueue)
    assert isinstance(cluster.queue("nowhere"), snowmelt.Fifo)
    assert name in cluster.queues(kind="priority")
    assert name not in cluster.queues(kind="fifo")
    with pytest.raises(QueueExists, match=r"take it by cluster\.priority"):
        cluster.fifo(name).put(b"x")
    with pytest.raises(QueueExists, match="priorities=any int, asked 1"):
        cluster.fifo(name, lease=30).put(b"x")


def test_a_folder_keeps_its_queue_and_leases_end_with_their_process(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        jobs = cluster.priority("jobs", priorities=2, lease=600)
        jobs.put_many([(1, b"one"), (0, b"two")])
        jobs.get()
    with snowmelt.open(tmp_path) as cluster:
        jobs = cluster.priority("jobs")
        with jobs.get(timeout=0) as item:
            assert (item.body, item.failures, item.reason) == (b"two", 1, "the lease ended")
        assert jobs.put(b"three", priority=1) > 0
    with snowmelt.open(tmp_path) as cluster:
        assert bodies(cluster.priority("jobs")) == [(1, b"one"), (1, b"three")]


async def _at_once(jobs: snowmelt.aio.PriorityQueue) -> None:
    """Fifty tasks put; who waits is woken, and who is cancelled holds nothing."""
    await asyncio.gather(*(jobs.put(b"%d" % n, priority=n % 3) for n in range(50)))
    stats = await jobs.stats()
    assert stats.ready_of == (17, 17, 16)
    assert [one.priority for one in await jobs.peek(20)] == [0] * 17 + [1] * 3
    found = []
    async with jobs.consume(timeout=0) as loop:
        async for item in loop:
            found.append(item.priority)
            await item.ack()
    assert found == sorted(found)
    assert len(found) == 50
    waiting = asyncio.ensure_future(jobs.get(timeout=20))
    await asyncio.sleep(0.1)
    await jobs.put_many([(2, b"patient"), (0, b"urgent")])
    async with await waiting as item:
        assert item.body == b"urgent"
    cancelled = asyncio.ensure_future(jobs.get(timeout=20))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    items = await jobs.get_many(5, timeout=20)
    assert [one.body for one in items] == [b"patient"]
    await items.nack(reason="no")
    assert (await jobs.purge(), await jobs.redrive(), (await jobs.stats()).dead) == (1, 0, 0)


async def test_tasks_share_a_queue(node: LocalNode, name: str) -> None:
    async with snowmelt.aio.connect(node.url) as cluster:
        await _at_once(cluster.priority(name, priorities=3))
        assert name in await cluster.queues()
        assert isinstance(await cluster.queue(name), snowmelt.aio.PriorityQueue)


async def test_tasks_share_a_folder(tmp_path: Path) -> None:
    async with snowmelt.aio.open(tmp_path) as cluster:
        await _at_once(cluster.priority("jobs", priorities=3))


@pytest.mark.wide
def test_any_node_is_a_door_and_one_that_dies_costs_what_it_takes_to_miss_it(
    tmp_path: Path,
) -> None:
    with LocalCluster(3, tmp_path, 0.5) as local:
        local.start()
        with snowmelt.connect(local.nodes[2].url) as own, snowmelt.connect(local.url) as cluster:
            jobs = cluster.priority("jobs", priorities=2, replicas=2, lease=600)
            jobs.put_many((n % 2, b"%d" % n) for n in range(300))
            assert own.priority("jobs").stats().ready == 300
            held = own.priority("jobs").get_many(100)
            local.nodes[2].kill()
            jobs.put(b"while it is away", priority=1, timeout=60)
            left = {bytes(body) for body in held.batch}
            done = set()
            for item in jobs.consume(timeout=3):
                done.add(item.body)
                item.ack()
            assert done | left == {b"while it is away", *(b"%d" % n for n in range(300))}
            assert not done & left, "whoever leased them has them still"
            local.nodes[2].start()
            local.wait_for(["n1", "n2", "n3"], 60)
            held.ack()
            assert jobs.stats().ready == 0
