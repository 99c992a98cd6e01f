"""Staged puts of a priority queue, blocking, with await, and in a folder."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import BadOption, NotStaged


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
    jobs = cluster.priority("staged", priorities=3)
    receipt = jobs.stage([(2, b"%d" % number) for number in range(100)], headers={"a": b"\xff"})
    other = jobs.stage([b"first"], priority=1)
    assert (jobs.stats().ready, jobs.stats().staged) == (0, 101)
    jobs.publish(receipt)
    jobs.publish(other)
    got = jobs.get_many(timeout=5)
    assert [item.body for item in got][:3] == [b"first", b"0", b"1"]
    assert [item.headers for item in got][:2] == [{}, {"a": b"\xff"}]
    got.ack()
    jobs.publish(receipt)
    assert (jobs.stats().ready, jobs.stats().staged, jobs.stats().leased) == (0, 0, 0)


def test_what_was_erased_is_told(cluster: snowmelt.Cluster) -> None:
    jobs = cluster.priority("erased")
    receipt = jobs.stage([b"a", b"b"], hold=1)
    time.sleep(1.1)
    with pytest.raises(NotStaged, match="2 of 2 items are not staged in queue 'erased' any more"):
        jobs.publish(receipt)
    with pytest.raises(BadOption, match="hold is 0"):
        jobs.stage([b"a"], hold=0)


def test_with_await_it_is_the_same(node: LocalNode) -> None:
    async def staged() -> list[bytes]:
        async with snowmelt.aio.connect(node.url) as cluster:
            jobs = cluster.priority("awaited")
            receipt = await jobs.stage([b"one", b"two"])
            await jobs.publish(receipt)
            await jobs.publish(receipt)
            return [item.body for item in await jobs.get_many(timeout=5)]

    assert asyncio.run(staged()) == [b"one", b"two"]
