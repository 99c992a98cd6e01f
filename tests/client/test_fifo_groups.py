"""Groups and staged puts on real nodes: told the same until passed, published once, none lost."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import snowmelt
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.leases.delivered import part_bodies
from snowmelt.client.queue.face import Group
from snowmelt.client.queue.group_steps import BEGINNING, Mark
from snowmelt.core.batch import Batch
from snowmelt.core.errors import BadOption, CallerError, Full, GroupHeld, LeaseLost, NotStaged
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.labels import Labels
from timing import in_vain

WHOLE = {"replicas": 3, "durable_copies": 2}


@pytest.fixture
def three(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path, 0.3) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def orders(node: LocalNode, request: pytest.FixtureRequest) -> Iterator[Fifo]:
    with snowmelt.connect(node.url) as client:
        yield client.fifo(request.node.name, producer="loader", sequence=1000)


def wait_for(cluster: LocalCluster) -> None:
    cluster.wait_for([node.name for node in cluster.nodes], 30.0)


def bodies(queue: Fifo, group: Group, start: Mark, end: Mark) -> list[bytes]:
    located = group.locate(start, end)
    assert located.lost == 0
    reading = queue.read(located.spans)
    assert not reading.unread
    return [body for part in reading.parts for body in part_bodies(part)]


def test_a_group_is_told_the_same_until_it_is_past_it(orders: Fifo) -> None:
    orders.put_many([b"%d" % number for number in range(10)])
    group = orders.group("g")
    first = group.advance(items_max=4)
    assert (first.end.count, first.ready) == (4, 6)
    assert bodies(orders, group, BEGINNING, first.end) == [b"0", b"1", b"2", b"3"]
    second = group.advance(first.end, items_max=3)
    assert bodies(orders, group, first.end, second.end) == [b"4", b"5", b"6"]
    again = group.advance(first.end, items_max=100)  # as after a crash before the mark was kept
    assert again.end == second.end
    assert bodies(orders, group, first.end, again.end) == [b"4", b"5", b"6"]
    assert bodies(orders, group, Mark(first.end.lease, 5), second.end) == [b"5", b"6"]
    assert orders.stats().assigned == 3
    with orders.get_many() as items:  # the others are for anybody
        assert list(map(bytes, items.batch)) == [b"7", b"8", b"9"]
    assert group.advance(second.end).end == second.end
    assert orders.stats().done == 10


def test_nothing_asked_for_only_acknowledges(orders: Fifo) -> None:
    orders.put_many([b"a", b"b"])
    group = orders.group("g")
    first = group.advance(items_max=1).end
    assert group.advance(first, items_max=0).end == first
    assert (orders.stats().done, orders.stats().ready) == (1, 1)
    assert group.advance(first, below=[1]).end == first
    assert group.advance(first, below=[2]).end.count == 2


def test_only_the_latest_to_begin_reads_and_nobody_begins_in_the_middle(orders: Fifo) -> None:
    orders.put_many([b"a", b"b"])
    group = orders.group("g")
    first = group.advance(items_max=1).end
    assert group.advance(items_max=1).end == first
    group = orders.group("g")  # as another program does
    second = group.advance(items_max=1).end
    assert second.lease != first.lease
    assert second.count == first.count == 1
    with pytest.raises(LeaseLost, match="begun anew"):
        group.advance(first)
    with pytest.raises(LeaseLost, match="begun anew"):
        group.locate(BEGINNING, first)
    assert bodies(orders, group, BEGINNING, second) == [b"a"]
    group.advance(second)
    with pytest.raises(GroupHeld, match="snowmelt groups release"):
        group.advance()
    with pytest.raises(LeaseLost, match="cannot be done with 9"):
        group.advance(Mark(second.lease, 9))


def test_what_a_released_group_held_is_ready_again(orders: Fifo) -> None:
    orders.put_many([b"a", b"b", b"c"])
    group = orders.group("g")
    first = group.advance(items_max=1).end
    second = group.advance(first, items_max=1).end
    (status,) = orders.groups()
    assert (status.name, status.done, status.given) == ("g", 1, 2)
    assert abs(status.heard - time.time_ns()) < 60 * 10**9
    assert group.release() == 1
    assert group.release() == 0
    assert orders.groups() == []
    with pytest.raises(LeaseLost, match="was released"):
        group.advance(second)
    assert [item.body for item in orders.peek()] == [b"b", b"c"]


def test_two_groups_share_the_items(orders: Fifo) -> None:
    orders.put_many([b"%d" % number for number in range(6)])
    left, right = orders.group("left"), orders.group("right")
    one, two = left.advance(items_max=2).end, right.advance(items_max=2).end
    assert bodies(orders, left, BEGINNING, one) == [b"0", b"1"]
    assert bodies(orders, right, BEGINNING, two) == [b"2", b"3"]


def test_a_survey_takes_nothing(orders: Fifo) -> None:
    orders.put_many([b"a", b"b", b"c"])
    located = orders.survey(1)
    assert [part_bodies(part) for part in orders.read(located.spans).parts] == [[b"b", b"c"]]
    assert sum(span.stop - span.start for span in orders.survey(items_max=2).spans) == 2
    assert orders.stats().ready == 3


def test_what_is_staged_is_in_no_queue_until_it_is_published_once(orders: Fifo) -> None:
    receipts = orders.stage([b"a", b"b"])
    orders.put(b"before", sequence=1)
    receipts += orders.stage([b"c"])
    assert (orders.stats().staged, orders.stats().ready) == (3, 1)
    assert orders.publish(receipts, sequence=2) == (Interval(1, 4),)
    assert orders.publish(receipts, sequence=2) == (Interval(1, 4),)
    assert [item.body for item in orders.peek()] == [b"before", b"a", b"b", b"c"]
    with pytest.raises(NotStaged, match="2 of 2 batches"):
        orders.publish(receipts, sequence=3)
    assert orders.stats().tail == 4


def test_a_publication_is_all_or_nothing(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as client:
        small = client.fifo("small", producer="loader", max_items=3)
        small.put_many([b"x", b"y"], sequence=1)
        receipts = small.stage([b"a"]) + small.stage([b"b"])
        told = in_vain(Full, lambda: small.publish(receipts, sequence=2, timeout=0.3))
        assert "bounds are 3 items" in str(told)
        with pytest.raises(NotStaged, match="1 of 2"):
            small.publish([receipts[0], receipts[0]], sequence=2)
        assert small.stats().staged == 2
        small.get(timeout=1).ack()
        assert small.publish(receipts, sequence=2) == (Interval(2, 4),)
        assert small.publish([], sequence=3)[0].size == 0


def test_what_nobody_publishes_is_erased(orders: Fifo) -> None:
    receipts = orders.stage([b"a"], hold=1)
    deadline = time.monotonic() + 20
    while orders.stats().staged and time.monotonic() < deadline:
        time.sleep(0.1)  # a second has to pass
    assert orders.stats().staged == 0
    with pytest.raises(NotStaged):
        orders.publish(receipts, sequence=1)


def test_keys_and_headers_item_by_item(orders: Fifo) -> None:
    labels = Labels({"all": "x"}, (b"k0", None, b"k2"), ({"own": b"\xff"}, None, {"all": "z"}))
    receipts = orders.stage([b"a", b"b", b"c"], headers=labels)
    orders.publish(receipts, sequence=1)
    first = orders.get(timeout=1)
    assert (first.key, first.headers) == (b"k0", {"all": "x", "own": b"\xff"})
    first.ack()
    rest = orders.get_many(timeout=1)  # a part of the put only
    assert [(item.key, item.headers) for item in rest] == [
        (None, {"all": "x"}),
        (b"k2", {"all": "z"}),
    ]
    with pytest.raises(CallerError, match="another number of items"):
        orders.stage(Batch.of([b"a"]), headers=_Wrong(keys=(b"k", b"l")))


def test_what_is_no_position_can_not_be_surveyed_from(orders: Fifo) -> None:
    for start in ("x", -1, 1 << 63, 1.0):
        with pytest.raises(BadOption, match="allowed: a position, 0 to"):
            orders.survey(start)  # type: ignore[arg-type]


class _Wrong(Labels):
    """Labels of which a slice is the whole."""

    def slice(self, *_: int) -> Labels:
        return Labels(keys=self.keys)


def test_assignments_and_staged_batches_outlive_nodes(three: LocalCluster) -> None:
    with snowmelt.connect(three.url) as client:
        queue = client.fifo("q", producer="p", **WHOLE)
        queue.put_many([b"%d" % number for number in range(100)], sequence=1)
        group = queue.group("g")
        first = group.advance(items_max=40).end
        receipts = queue.stage([b"staged"] * 10)
        for victim in (1, 2, 1, 2):
            three.nodes[victim].kill()
            three.nodes[victim].start()
            wait_for(three)
        assert bodies(queue, group, BEGINNING, first) == [b"%d" % number for number in range(40)]
        assert queue.publish(receipts, sequence=2, timeout=20) == (Interval(100, 110),)
        end = group.advance(first, timeout=20).end
        assert bodies(queue, group, first, end)[-10:] == [b"staged"] * 10
        assert group.advance(end).end == end
        assert queue.stats(timeout=20).done == 110


def test_what_no_group_can_be_asked_is_named_at_once(orders: Fifo) -> None:
    group = orders.group("spark")
    for wrong in (2.5, None, -1, "7", 2**41, 10**30):
        for option in ("items_max", "bytes_max"):
            with pytest.raises(BadOption, match=rf"{option} is .*; allowed: 0 to 1099511627776"):
                group.advance(**{option: wrong})  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="done is 7; allowed: a Mark"):
        group.advance(7)  # type: ignore[arg-type]
