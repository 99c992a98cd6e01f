"""One item by itself: looked at, dropped, brought back, moved, wherever it is."""

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

import snowmelt
from snowmelt.client.queue.one_item import ItemOverview
from snowmelt.core.errors import BadOption, Empty, LeaseLost
from snowmelt.protocols.queue.api.statuses import ItemStanding


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[snowmelt.EmbeddedCluster]:
    with snowmelt.open(tmp_path) as opened:
        yield opened


def test_each_standing_is_told(cluster: snowmelt.EmbeddedCluster) -> None:
    queue = cluster.fifo("q", max_deliveries=9)
    for body in (b"ended", b"leased", b"dead", b"ready"):
        queue.put(body, headers={"to": "x"})
    later = queue.put(b"delayed", delay=600)
    queue.get().ack()
    leased, dead = queue.get(), queue.get()
    dead.nack(reason="too hot", dead=True)
    told = [queue.item(at) for at in range(6)]
    assert [one.standing for one in told] == [
        ItemStanding.ENDED,
        ItemStanding.LEASED,
        ItemStanding.DEAD,
        ItemStanding.READY,
        ItemStanding.DELAYED,
        ItemStanding.NEVER,
    ]
    held = told[1]
    assert (held.pid, held.position, held.bytes > 0) == (os.getpid(), leased.position, True)
    assert 0 < held.left <= 60
    assert held.put_at is not None
    assert (told[2].failures, told[2].reason) == (1, "too hot")
    assert 590 < told[later].left <= 600
    assert [one.seen and (one.seen.body, one.seen.headers["to"]) for one in told[1:4]] == [
        (b"leased", "x"),
        (b"dead", "x"),
        (b"ready", "x"),
    ]
    assert told[0].seen is told[5].seen is None


def test_the_life_of_an_item_is_told_wherever_it_is(cluster: snowmelt.EmbeddedCluster) -> None:
    queue = cluster.fifo("q")
    queue.create()
    queue.trace(0)  # from here on its steps are kept
    at = queue.put(b"one", headers={"to": "x"})
    queue.get().nack(reason="too hot")
    queue.get().ack()
    life = queue.trace(at)
    assert [one.kind for one in life.entries] == [
        "put",
        "leased",
        "failed",
        "leased",
        "acknowledged",
    ]
    put, leased, failed, *_ = life.entries
    assert (leased.pid, leased.length) == (os.getpid(), 30.0)
    assert (failed.reason, failed.failures, failed.number) == ("too hot", 1, leased.number)
    assert put.before is not None
    assert (life.unknown, life.partition, life.now.standing) == ("", None, ItemStanding.ENDED)
    parted = cluster.fifo("parted", partitions=3)
    some = [parted.put(b"%d" % one) for one in range(6)]
    lives = [parted.trace(one) for one in some]
    assert [one.now.seen and one.now.seen.body for one in lives] == [
        b"%d" % one for one in range(6)
    ]
    assert {one.partition for one in lives} == {0, 1, 2}
    ranked = cluster.priority("ranked", priorities=3)
    assert ranked.put(b"one", priority=2) == 0
    assert ranked.trace(0, priority=2).now.standing is ItemStanding.READY
    assert ranked.trace(0, priority=1).now.standing is ItemStanding.NEVER
    with pytest.raises(BadOption, match="priority"):
        ranked.trace(0)


def test_what_is_brought_back_comes_next_and_its_holder_is_told(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    queue = cluster.fifo("q", max_deliveries=3)
    queue.put_many([b"one", b"two", b"three"])
    held = queue.get_many(2)
    assert queue.change_item(1, "ready")
    again = queue.get()
    assert (again.body, again.failures) == (b"two", 0)
    with pytest.raises(LeaseLost):
        held.ack()
    again.ack()
    assert queue.item(0).standing is ItemStanding.ENDED  # the rest of the lease was done
    later = queue.put(b"later", delay=600)
    assert queue.change_item(later, "ready")
    assert not queue.change_item(later, "ready")
    queue.get().nack(reason="no", dead=True)  # b"three"
    assert queue.change_item(2, "ready")
    assert [queue.get().body, queue.get().body] == [b"three", b"later"]
    assert not queue.change_item(99, "ready")


@pytest.mark.parametrize("partitions", [1, 2])
def test_what_else_a_holder_has_is_done_after_one_was_brought_back(
    cluster: snowmelt.EmbeddedCluster, partitions: int
) -> None:
    queue = cluster.fifo("q", partitions=partitions)
    places = [queue.put(b"%d" % at) for at in range(6)]
    held = list(queue.get_many(6))
    assert len(held) == 6
    assert any(part.change_item(places[1], "ready") for part in queue.parts())
    for one in held:
        with pytest.raises(LeaseLost) if one.position == places[1] else nullcontext():
            one.ack()
    assert [one.position for one in queue.get_many(6, timeout=5)] == [places[1]]


@pytest.mark.parametrize("timeout", [0, 1])
def test_a_loop_acknowledges_the_rest_after_one_was_brought_back(
    cluster: snowmelt.EmbeddedCluster, timeout: float
) -> None:
    queue = cluster.fifo("q")
    queue.put_many([b"%d" % at for at in range(6)])
    seen = []
    with pytest.raises(LeaseLost, match="1 acknowledgements in q from position 1 on"):  # noqa: PT012
        for one in queue.consume(timeout=timeout):
            if one.position == 1 and 1 not in seen:
                assert queue.change_item(1, "ready")
            seen.append(one.position)
            one.ack()
    assert sorted(seen) == [0, 1, 1, 2, 3, 4, 5]
    assert queue.stats().done == 6


def test_who_waits_gets_what_is_brought_back(cluster: snowmelt.EmbeddedCluster) -> None:
    queue = cluster.fifo("q")
    queue.put(b"one")
    queue.get()
    with pytest.raises(Empty):
        queue.get(timeout=0)
    queue.change_item(0, "ready")
    assert queue.get(timeout=5).body == b"one"


def test_what_is_dropped_is_gone_whoever_has_it(
    cluster: snowmelt.EmbeddedCluster, tmp_path: Path
) -> None:
    queue = cluster.fifo("q")
    queue.put_many([b"leased", b"ready", b"stays"])
    held = queue.get()
    assert queue.change_item(0, "dropped")
    assert queue.change_item(1, "dropped")
    assert not queue.change_item(1, "dropped")
    with pytest.raises(LeaseLost):
        held.extend()
    status = queue.stats()
    assert (status.ready, status.leased, status.purged) == (1, 0, 2)
    cluster.close()
    with snowmelt.open(tmp_path) as again:
        assert [one.body for one in again.fifo("q").peek()] == [b"stays"]


def test_one_that_is_moved_is_in_the_other_queue_alone(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path / "a") as one, snowmelt.open(tmp_path / "b") as other:
        queue, there = one.fifo("q"), other.fifo("q")
        queue.put(b"first")
        at = queue.put(b"moves", headers={"why": "x"}, key="tenant")
        there.put(b"before")
        assert queue.change_item(at, there)
        assert [item.body for item in queue.peek()] == [b"first"]
        assert [(item.body, dict(item.headers), item.key) for item in there.peek()][1] == (
            b"moves",
            {"why": "x"},
            b"tenant",
        )
        with pytest.raises(BadOption, match="an item that is in q"):
            queue.change_item(at, there)


def test_where_priorities_are_numbered_the_priority_is_named(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    ranked, keyed = cluster.priority("r", priorities=10), cluster.priority("k")
    ranked.put(b"low", priority=9)
    ranked.put(b"high", priority=2)
    seen: ItemOverview = ranked.item(0, priority=2)
    assert seen.seen is not None
    assert (seen.seen.body, seen.seen.priority, seen.priority) == (b"high", 2, 2)
    with pytest.raises(BadOption, match="that of the item"):
        ranked.item(0)
    assert ranked.change_item(0, "dropped", priority=9)
    keyed.put(b"a", priority=-7)
    assert ranked.change_item(0, keyed, priority=2)
    assert [(one.body, one.priority) for one in keyed.peek()] == [(b"a", -7), (b"high", 2)]
    assert keyed.item(0).standing is ItemStanding.READY
    keyed.get()
    assert keyed.change_item(0, "ready")
    assert keyed.get().body == b"a"


def test_of_a_queue_of_several_partitions_one_is_asked(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    queue = cluster.fifo("q", partitions=2)
    queue.put(b"one")
    with pytest.raises(BadOption, match=r"queue\.parts\(\)"):
        queue.item(0)
    told = [part.item(0).standing for part in queue.parts()]
    assert sorted(told, key=str) == [ItemStanding.NEVER, ItemStanding.READY]


@pytest.mark.parametrize("position", [-1, 1.5, "0", True, 1 << 63])
def test_a_position_that_is_none_is_named(cluster: snowmelt.EmbeddedCluster, position: int) -> None:
    queue = cluster.fifo("q")
    queue.put(b"x")
    with pytest.raises(BadOption, match="position"):
        queue.item(position)
    with pytest.raises(BadOption, match="'dropped', 'ready' or a queue"):
        queue.change_item(0, "gone")
