"""An item may be set aside as dead by whoever has it, however often it may be delivered yet."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio

KINDS = ("fifo", "few priorities", "any priorities")


def queue(cluster: snowmelt.EmbeddedCluster, kind: str) -> Any:
    if kind == "fifo":
        return cluster.fifo("jobs")
    return cluster.priority("jobs", priorities=3 if kind.startswith("few") else int)


@pytest.mark.parametrize("kind", KINDS)
def test_a_nack_may_say_dead_and_the_item_is_there_until_it_is_driven_back(
    tmp_path: Path, kind: str
) -> None:
    with snowmelt.open(tmp_path) as cluster:
        jobs = queue(cluster, kind)
        jobs.put_many([b"bad", b"good", b"worse"])
        for item in jobs.consume(timeout=0):
            item.ack() if item.body == b"good" else item.nack(reason=f"{item.body!r}", dead=True)
    with snowmelt.open(tmp_path) as cluster:
        jobs = queue(cluster, kind)
        assert (jobs.stats().dead, jobs.stats().ready) == (2, 0)
        seen = jobs.peek(dead=True)
        assert [(one.body, one.reason) for one in seen] == [
            (b"bad", "b'bad'"),
            (b"worse", "b'worse'"),
        ]
        assert jobs.redrive() == 2
        with jobs.get_many() as items:
            assert [item.body for item in items] == [b"bad", b"worse"]


def test_the_same_with_await_after_a_delivery_that_failed(tmp_path: Path) -> None:
    async def work() -> None:
        async with snowmelt.aio.open(tmp_path) as cluster:
            orders = cluster.fifo("orders")
            await orders.put(b"bad")
            await (await orders.get()).nack(reason="once")
            await (await orders.get()).nack(reason="for good", dead=True)
            (seen,) = await orders.peek(dead=True)
            assert (seen.body, seen.reason) == (b"bad", "for good")
            assert (await orders.stats()).ready == 0

    asyncio.run(work())
