"""`peek` of what is leased, or delayed: who has it since when, and what comes when."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import snowmelt
from snowmelt.core.errors import BadOption, NoSuchQueue

MAKERS: dict[str, Any] = {
    "fifo": lambda cluster: cluster.fifo("q"),
    "parted": lambda cluster: cluster.fifo("q", partitions=3),
    "numbered": lambda cluster: cluster.priority("q", priorities=4, largest_first=True),
    "any": lambda cluster: cluster.priority("q", priorities=float),
    "any, parted": lambda cluster: cluster.priority("q", partitions=3),
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[snowmelt.EmbeddedCluster]:
    with snowmelt.open(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("kind", MAKERS)
def test_every_kind_of_queue_shows_what_is_leased_and_what_is_delayed(
    cluster: snowmelt.EmbeddedCluster, kind: str
) -> None:
    queue = MAKERS[kind](cluster)
    rank = {} if kind in ("fifo", "parted") else {"priority": 2}
    for at in range(6):
        queue.put(b"%d" % at, headers={"at": str(at)}, **rank)
    for delay in (500, 300, 400):
        queue.put(b"in %d" % delay, delay=delay, **rank)
    held = queue.get(timeout=5)
    more = queue.get_many(3, timeout=5)
    leased = queue.peek(100, state="leased")
    assert leased[0].body == held.body
    assert sorted(one.body for one in leased) == [b"0", b"1", b"2", b"3"]
    for one in leased:
        assert one.headers["at"] == one.body.decode()
        assert (one.pid, one.held > 0, 20 < one.left <= 30) == (os.getpid(), True, True)
        assert one.put_at is not None
        assert one.priority == (2 if rank else 0)
    assert len(queue.peek(2, state="leased")) == 2
    delayed = queue.peek(state="delayed")
    assert [one.body for one in delayed] == [b"in 300", b"in 400", b"in 500"]
    assert [290 < delayed[0].left <= 300, delayed[0].program, delayed[0].held] == [True, "", 0.0]
    assert [one.body for one in queue.peek(2, state="delayed")] == [b"in 300", b"in 400"]
    assert [one.body for one in queue.peek(state="ready")] == [b"4", b"5"]
    held.ack()
    more.release()
    assert queue.peek(state="leased") == []
    queue.get(timeout=5).nack(reason="too hot", delay=900)
    (*_, last) = queue.peek(state="delayed")
    assert (last.failures, last.reason, last.left > 890) == (1, "too hot", True)
    queue.get(timeout=5).nack(reason="no", dead=True)
    assert queue.peek(state="dead") == queue.peek(dead=True)


def test_large_bodies_are_all_shown(cluster: snowmelt.EmbeddedCluster) -> None:
    queue, large = cluster.fifo("q"), 3 << 20
    for at in range(4):
        queue.put(bytes([at]) * large)
    queue.get_many(4)
    assert [one.body[:1] for one in queue.peek(state="leased")] == [b"\0", b"\1", b"\2", b"\3"]
    assert {len(one.body) for one in queue.peek(state="leased")} == {large}


def test_what_can_not_be_asked_is_named(cluster: snowmelt.EmbeddedCluster) -> None:
    queue = cluster.fifo("q")
    with pytest.raises(NoSuchQueue):
        queue.peek(state="leased")
    queue.put(b"x")
    for wrong in ("gone", "", None, 7, ["leased"]):
        with pytest.raises(BadOption, match="'ready', 'leased', 'delayed' or 'dead'"):
            queue.peek(state=wrong)
    with pytest.raises(BadOption, match="where dead is True"):
        queue.peek(state="leased", dead=True)
    with pytest.raises(BadOption, match="count is 0"):
        queue.peek(0, state="leased")
