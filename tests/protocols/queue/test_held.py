"""What is in whose hands, and what comes when, as a leader shows it."""

from collections.abc import Iterator
from typing import Any

import pytest
from nodes_bench import Nodes

from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import Peeked, Settle
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.api.statuses import ChangeItem, PeekHeld
from snowmelt.protocols.queue.leader.deadlines import Deadlines
from snowmelt.protocols.queue.leader.held import bodies_of, held_runs
from snowmelt.protocols.queue.state.state import Lease, QueueState

NOW = Instant(seconds(1_000))


def places(peeked: Peeked) -> list[int]:
    return [place for one in peeked.held for place in Interval(one.start, one.stop)]


def shown(nodes: Nodes, *, delayed: bool = False, **more: Any) -> Peeked:
    told: Peeked = nodes.ask(PeekHeld("q", more.pop("most", 100), 1 << 20, delayed, **more))
    return told


@pytest.mark.parametrize("replicas", [1, 3])
def test_leases_come_as_they_were_given_and_outlive_their_leader(replicas: int) -> None:
    nodes = Nodes(3)
    nodes.open(replicas=replicas)
    nodes.put([b"%d" % at for at in range(9)], 1)
    first, second = nodes.get(2), nodes.get(3)
    nodes.ask(Settle("q", first.token, back=(Interval(0, 1),), secret=first.secret))
    third = nodes.get(1)  # what came back: its lease is the last one
    nodes.pass_time(2)
    told = shown(nodes)
    assert places(told) == [1, 2, 3, 4, 0]
    assert [len(one.client) > 0 for one in told.held] == [True] * 3
    assert [one.held >= 2 and 0 < one.left <= 28 for one in told.held] == [True] * 3
    assert [one.start for one in told.parts] == [0]  # all bodies came along
    assert told.parts[0].count == 5
    assert places(shown(nodes, most=2)) == [1, 2]
    assert {one.client for one in shown(nodes, names=False).held} == {""}
    nodes.restart(nodes.status().leader)
    nodes.view(*nodes.members)
    nodes.pass_time(5)
    told = shown(nodes)
    assert places(told) == [1, 2, 3, 4, 0]
    assert all(0 < one.left <= 30 for one in told.held)
    for one in (second, third):
        where = tuple([Interval(part.start, part.start + part.count) for part in one.parts])
        nodes.settle(one.token, *where)
    assert places(shown(nodes)) == [1]
    nodes.pass_time(40)
    assert shown(nodes) == Peeked((), ())


def test_what_is_delayed_comes_as_it_is_due() -> None:
    nodes = Nodes(1)
    nodes.open()
    nodes.put([b"late", b"late"], 1, due=-seconds(50))
    nodes.put([b"soon"], 2, due=-seconds(10))
    nodes.put([b"now"], 3)
    held = nodes.get(1)
    back = (Interval(3, 4),)
    nodes.ask(Settle("q", held.token, back=back, due=-seconds(30), secret=held.secret))
    told = shown(nodes, delayed=True)
    assert places(told) == [2, 3, 0, 1]
    lasts = [one.left for one in told.held]
    assert lasts == sorted(lasts)
    assert [one.left > 0 and not one.client and not one.held for one in told.held] == [True] * 3
    nodes.ask(ChangeItem("q", 2, drop=False))  # its moment is kept, and is over
    assert places(shown(nodes, delayed=True)) == [3, 0, 1]
    assert shown(nodes) == Peeked((), ())
    nodes.pass_time(60)
    assert shown(nodes, delayed=True) == Peeked((), ())


@pytest.mark.parametrize("wrong", [{"items_max": -1}, {"bytes_max": 0}, {"items_max": 1 << 40}])
def test_what_is_out_of_bounds_is_named(wrong: dict[str, int]) -> None:
    nodes = Nodes(1)
    nodes.open()
    told = nodes.ask(PeekHeld("q", **{"items_max": 1, "bytes_max": 1, **wrong}))
    assert isinstance(told, Declined)
    assert next(iter(wrong)) in told.text


def test_bodies_that_do_not_fit_are_named_alone() -> None:
    nodes = Nodes(1)
    nodes.open()
    for at in range(4):
        nodes.put([b"x" * 1_000], at + 1)
    nodes.get(4)
    told = nodes.ask(PeekHeld("q", 10, 2_500))
    assert places(told) == [0, 1, 2, 3]
    assert sum([one.count for one in told.parts]) == 2


class Counted(dict[int, Lease]):
    """Leases of which only the first are looked at."""

    looked = 0

    def items(self) -> Iterator[tuple[int, Lease]]:  # type: ignore[override]
        for one in super().items():
            self.looked += 1
            yield one


def test_so_many_are_looked_at_as_are_shown_of_a_hundred_thousand() -> None:
    state, count = QueueState(QueueSettings()), 100_000
    state.put(count, count, term=1)
    for at in range(count):
        state.take(OperationId(NodeId("c-1"), at), at + 1, [Interval(at, at + 1)])
    state.leases = counted = Counted(state.leases)
    deadlines = Deadlines(Duration(seconds(30)))
    runs = held_runs(state, deadlines, NOW, 0, PeekHeld("q", 10, 100))
    assert [one.start for one in runs] == list(range(10))
    assert counted.looked == 11  # and one more is begun
    assert sum([one.size for one in bodies_of(state, runs, 1 << 20)]) == 10


def test_what_was_delayed_twice_until_one_moment_is_shown_once() -> None:
    state = QueueState(QueueSettings())
    state.put(4, 40, term=1, due=int(seconds(9)))
    state.dues.append((int(seconds(9)), 1, 3))
    runs = held_runs(state, Deadlines(Duration(1)), NOW, 0, PeekHeld("q", 10, 100, delayed=True))
    assert [(one.start, one.stop, one.left) for one in runs] == [(0, 4, 9.0)]
