"""Staged puts of a priority queue, blocking, with await, and in a folder."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import BadOption, NotStaged
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.calls import Share
from timing import until


@pytest.fixture(params=["node", "folder"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[snowmelt.Cluster]:
    opened: AbstractContextManager[snowmelt.Cluster]
    if request.param == "node":
        opened = snowmelt.connect(request.getfixturevalue("node").url)
    else:
        opened = snowmelt.open(tmp_path)  # type: ignore[assignment]  # of the same face
    with opened as cluster:
        yield cluster


def test_what_is_staged_comes_when_it_is_published_and_once(cluster: snowmelt.Cluster) -> None:
    jobs = cluster.priority("staged", priorities=3, producer="loader")
    receipts = jobs.stage([(2, b"%d" % number) for number in range(100)], headers={"a": b"\xff"})
    receipts += jobs.stage([(1, b"first"), (2, b"last")])
    assert (jobs.stats().ready, jobs.stats().staged) == (0, 102)
    assert jobs.publish(receipts, sequence=1) == (Interval(0, 1), Interval(0, 101))
    got = jobs.get_many(timeout=5)
    assert [item.body for item in got][:3] == [b"first", b"0", b"1"]
    assert [item.headers for item in got][:2] == [{}, {"a": b"\xff"}]
    got.ack()
    jobs.publish(receipts, sequence=1)
    assert (jobs.stats().ready, jobs.stats().staged, jobs.stats().leased) == (0, 0, 0)


def test_what_was_erased_is_told(cluster: snowmelt.Cluster) -> None:
    jobs = cluster.priority("erased")
    receipts = jobs.stage([b"a", b"b"], hold=1)
    until(lambda: not jobs.stats().staged)
    with pytest.raises(NotStaged, match="1 of 1 batches are not staged in queue 'erased'"):
        jobs.publish(receipts)
    with pytest.raises(BadOption, match="hold is 0"):
        jobs.stage([b"a"], hold=0)


def test_what_goes_into_several_queues_is_planned_in_one_of_priorities(
    cluster: snowmelt.Cluster,
) -> None:
    jobs = cluster.priority("planned", priorities=2, producer="loader")
    log = cluster.fifo("log-of-planned", producer="loader")
    shares = [
        Share(jobs.name, tuple(jobs.stage([(1, b"b"), (0, b"a")])), 0),
        Share(log.name, tuple(log.stage([b"c"])), 0),
    ]
    planned = jobs.plan(shares, sequence=1)
    jobs.publish(planned.shares[0].receipts, sequence=2)
    log.publish(planned.shares[1].receipts, sequence=1)
    jobs.publish([], sequence=1)
    assert [item.body for item in jobs.get_many(timeout=5)] == [b"a", b"b"]
    assert log.get(timeout=5).body == b"c"


def test_with_await_it_is_the_same(node: LocalNode) -> None:
    async def staged() -> list[bytes]:
        async with snowmelt.aio.connect(node.url) as cluster:
            jobs = cluster.priority("awaited")
            receipts = await jobs.stage([b"one", b"two"])
            assert await jobs.publish(receipts) == (Interval(0, 2),)
            return [item.body for item in await jobs.get_many(timeout=5)]

    assert asyncio.run(staged()) == [b"one", b"two"]
