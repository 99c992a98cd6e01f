"""What lies with nodes that are away: nobody is given it, nothing of it fails, the rest goes on."""

from typing import Any

import pytest
from tests.protocols.fifo.cluster_bench import ClusterBench
from tests.protocols.fifo.master_bench import KEEPERS, MEMBERS, OTHER, THIRD

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.fifo.aside import TOLD
from snowmelt.protocols.fifo.calls import Describe, Fetch, Get, Leased, Peek, Purge, Settle
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.protocols.fifo.streams import Presence
from snowmelt.protocols.membership import View


def where(leased: Leased) -> list[int]:
    """The positions that were given."""
    parts = [at for part in leased.parts for at in range(part.start, part.start + part.count)]
    return sorted([*parts, *(at for one in leased.spans for at in range(one.start, one.stop))])


def two_keep(bench: ClusterBench, **settings: Any) -> tuple[str, str, str]:
    """A queue with items 0, 2 and 4 on one node and 1, 3, 5 on another, neither its master."""
    master = bench.open(replicas=1, **settings)
    far, near = [name for name in ("n1", "n2", "n3", "n4") if name not in (master, "n1")][:2]
    for at in range(6):
        assert bench.put(far if at % 2 == 0 else near, at) is not None
    return master, far, near


def without(bench: ClusterBench, name: str) -> None:
    """A node is killed, and missed."""
    bench.kill(name)
    bench.view()
    bench.run(0.1)


def test_what_lies_with_a_node_that_is_away_is_passed_over_and_comes_when_it_is_back() -> None:
    bench = ClusterBench(4)
    master, far, _ = two_keep(bench)
    without(bench, far)
    first = bench.get(master, items=1)
    assert (where(first), first.away) == ([1], (Interval(0, 1),))
    rest = bench.get(master)
    assert (where(rest), rest.away) == ([3, 5], tuple(Interval(at, at + 1) for at in (0, 2, 4)))
    nothing = bench.get(master)
    assert (nothing.token, nothing.away) == (0, rest.away)
    waiting = bench.call(master, Get("q", 100, 1 << 20, seconds(9), None))
    bench.run(1)
    assert waiting not in bench.answers
    bench.start(far)
    bench.view()
    bench.run(0.3)
    back = bench.answers[waiting]
    assert (where(back), back.away) == ([0, 2, 4], ())
    assert all(span.failures == 0 and span.keepers and not span.away for span in back.spans)
    for span in back.spans:
        assert bench.ask(far, Fetch("q", span, 1 << 20)).parts


def test_what_was_given_back_while_its_node_is_away_waits_for_it() -> None:
    bench = ClusterBench(4)
    master, far, near = two_keep(bench)
    held = bench.get(master)
    assert where(held) == list(range(6))
    without(bench, far)
    bench.ask(master, Settle("q", held.token, back=(Interval(0, 6),)))
    assert where(bench.get(master)) == [1, 3, 5]
    without(bench, near)
    assert bench.get(master).token == 0
    bench.start(near)
    bench.start(far)
    bench.view()
    bench.run(0.1)
    again = bench.get(master)
    assert where(again) == [0, 2, 4]  # of the others the lease lasts


def test_who_only_looks_sees_what_is_away_as_what_waits() -> None:
    bench = ClusterBench(4)
    master, far, _ = two_keep(bench)
    without(bench, far)
    assert where(bench.get(master)) == [1, 3, 5]
    assert bench.ask(master, Describe("q")).ready == 3
    shown = bench.ask(master, Peek("q", 10, 1 << 20, 0, False))
    assert where(shown) == [0, 2, 4]
    assert all(span.away and not span.keepers for span in shown.spans)
    assert bench.ask(master, Purge("q")).items == 3
    assert bench.ask(master, Describe("q")).ready == 0
    assert bench.get(master).away == ()


def test_a_disk_that_is_gone_for_ever_is_not_waited_for() -> None:
    bench = ClusterBench(4)
    master, far, _ = two_keep(bench)
    without(bench, far)
    assert where(bench.get(master)) == [1, 3, 5]
    bench.born_anew(far)
    bench.start(far)
    bench.view()
    bench.run(3)
    status = bench.ask(master, Describe("q"))
    assert (status.lost, status.ready) == (3, 0)
    assert bench.get(master).away == ()


def test_only_who_keeps_items_says_that_they_are_not_there() -> None:
    bench = ClusterBench(4)
    master, far, near = two_keep(bench)
    held = bench.get(master)
    [first, *_] = held.spans
    told = bench.ask(near, Fetch("q", first, 1 << 20))  # in the place of one that is silent
    assert (told.error, told.text) == (
        "Unavailable",
        f"{near} does not keep what begins at position 0",
    )
    assert bench.ask(far, Fetch("q", first, 1 << 20)).parts
    bench.ask(master, Settle("q", held.token, done=(Interval(0, 6),)))
    bench.run(1)
    assert bench.ask(far, Fetch("q", first, 1 << 20)).gone == 1


def queue_of(count: int) -> Queue:
    """Items in turns of the second and the third keeper, of whom the second is away."""
    queue = Queue("q", QueueSettings())
    for at in range(count):
        stream, keeper = ((OTHER, KEEPERS[1]), (THIRD, KEEPERS[2]))[at % 2]
        queue.show(queue.admit(stream, at // 2, 1, 10, (keeper,)))
    queue.aside.viewed(queue.runs, Presence(View(1, 1, NodeId("n1"), MEMBERS[::2])))
    return queue


def take(queue: Queue, items: int) -> list[int]:
    operation = OperationId(NodeId("c-1"), queue.leases.next_token)
    lease = queue.lease(operation, items, 1 << 20, Instant(0))
    return [] if lease is None else [at for part in lease.left for at in part]


@pytest.mark.parametrize("items", [1, 3, 100])
def test_all_that_can_be_had_comes_in_order_whatever_lies_between(items: int) -> None:
    queue, taken = queue_of(40), []
    while got := take(queue, items):
        taken += got
        queue.check()
    assert taken == list(range(1, 40, 2))
    assert queue.aside.items.total == 20
    queue.aside.viewed(queue.runs, Presence(View(1, 2, NodeId("n1"), MEMBERS)))
    assert take(queue, 100) == list(range(0, 40, 2))


def test_each_item_is_passed_over_once_and_not_all_of_them_are_told() -> None:
    queue = queue_of(400)
    for _ in range(200):
        take(queue, 1)
    looked = []
    queue.aside.put = looked.append  # type: ignore[method-assign]
    assert take(queue, 1) == []
    assert looked == []
    assert (queue.aside.items.pieces, len(queue.aside.told)) == (200, TOLD)
    assert queue.aside.waiting == queue.aside.items
    queue.aside.viewed(queue.runs, Presence(View(1, 2, NodeId("n1"), MEMBERS)))
    assert take(queue, 400) == list(range(0, 400, 2))
    queue.check()


def test_a_group_is_given_all_in_order_whoever_is_away() -> None:
    queue = queue_of(6)
    assert list(queue.take(4, 1 << 20)) == [Interval(0, 4)]
    assert take(queue, 4) == [5]
