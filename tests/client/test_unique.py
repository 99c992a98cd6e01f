"""Puts with a uniqueness key, as a program has them: on a node, and in a folder."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.core.errors import BadOption, Empty, TooLarge
from snowmelt.core.interval import Interval

Queues = Any  # a cluster of either kind


def test_what_is_there_is_not_put_again(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name)
    first = jobs.put(b"one", unique="order-7")
    assert jobs.put(b"two", unique="order-7") == first
    assert jobs.put(b"three", unique=b"order-8") != first
    jobs.get().ack()
    assert jobs.put(b"four", unique="order-7", unique_for=60) != first
    assert [item.body for item in jobs.get_many(9)] == [b"three", b"four"]
    with pytest.raises(Empty):
        jobs.get(timeout=0)


def test_a_call_of_many_is_there_as_a_whole(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name)
    where = jobs.put_many([b"a", b"b"], unique="import")
    assert jobs.put_many([b"c"], unique="import") == where
    assert jobs.put(b"d", unique="import") == where[0].start
    assert jobs.stats().ready == 2
    with pytest.raises(TooLarge, match="a uniqueness key"):
        jobs.put_many([b""] * 40_000, unique="large")


def test_by_priorities_it_stays_with_its_priority(queues: Queues, name: str) -> None:
    jobs = queues.priority(name, priorities=3)
    assert jobs.put(b"dust", priority=2, unique="u") == 0
    assert jobs.put(b"fire", priority=0, unique="u") == 0
    where = jobs.put_many([(0, b"a"), (2, b"b")], unique="v")
    assert where == (Interval(0, 1), Interval(1, 2))
    assert jobs.put_many([(1, b"c")], unique="v") == where
    assert jobs.get().body == b"a"


def test_of_many_at_once_one_is_put(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name)
    places: list[int] = []
    threads = [
        threading.Thread(target=lambda: places.append(jobs.put(b"x", unique="u")))
        for _ in range(16)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    assert places == [0] * 16
    assert jobs.stats().ready == 1


@pytest.mark.parametrize(
    "said",
    [{"unique": ""}, {"unique": 3}, {"unique": "x" * 257}, {"unique_for": 9},
     {"unique": "u", "unique_for": -1}, {"unique": "u", "unique_for": 8 * 86_400}],
)  # fmt: skip
def test_what_can_not_be_is_refused(queues: Queues, name: str, said: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match="unique"):
        queues.fifo(name).put(b"", **said)
    with pytest.raises(BadOption, match="unique"):
        queues.fifo(name).put_many([b""], **said)


@pytest.mark.parametrize("priorities", [1, 3])
def test_with_several_partitions_it_lives_in_one(
    queues: Queues, name: str, priorities: int
) -> None:
    jobs = queues.priority(name, priorities=3, partitions=3)
    if priorities == 1:
        jobs = queues.fifo(name, partitions=3)
    first = jobs.put_many([b"a", b"b"], unique="import")
    for at in range(5):
        jobs.put(b"%d" % at, unique=f"u{at}")
        assert jobs.put(b"again", unique=f"u{at}") == jobs.put(b"more", unique=f"u{at}")
        assert jobs.put_many([b"c"], unique="import") == first
    assert jobs.stats().ready == 7
    assert sorted(item.body for item in jobs.get_many(9)) == [b"%d" % at for at in range(5)] + [
        b"a", b"b"
    ]  # fmt: skip
    with pytest.raises(BadOption, match="none beside a key: in "):
        jobs.put(b"", unique="u", key="k")


def test_a_folder_knows_it_when_it_is_opened_again(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        assert cluster.fifo("jobs").put(b"a", unique="u") == 0
    with snowmelt.open(tmp_path) as cluster:
        jobs = cluster.fifo("jobs")
        assert jobs.put(b"b", unique="u") == 0
        jobs.purge()
        assert jobs.put(b"b", unique="u") == 1


async def _shared(path: Path) -> set[int]:
    async with snowmelt.aio.open(path) as cluster:
        jobs = cluster.fifo("jobs")
        return {await jobs.put(b"a", unique="u"), *[await jobs.put(b"b", unique="u")]}


def test_with_await(tmp_path: Path) -> None:
    assert asyncio.run(_shared(tmp_path)) == {0}
