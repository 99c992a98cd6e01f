"""Who uses a queue, told some at a time; a new leader tells what it was given."""

from nodes_bench import Nodes

from snowmelt.core.instant import SECOND, Instant
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.api.statuses import Consumers, ListConsumers
from snowmelt.protocols.queue.leader.consumers import Using
from snowmelt.protocols.queue.leader.deadlines import Deadlines
from snowmelt.protocols.queue.state.state import Lease

ONE = (b"\x00\x00\x00\x00\x03\x00\x00\x00", b"one")


def operation(client: str, number: int = 1) -> OperationId:
    return OperationId(NodeId(client), number)


def test_rows_are_told_some_at_a_time_by_name() -> None:
    using = Using()
    using.waits([operation(f"c-{at % 7}", at) for at in range(21)], [operation("c-9")])
    names: list[str] = []
    more = True
    while more:
        told = using.told(ListConsumers("q", names[-1] if names else "", 3))
        assert len(told.rows) <= 3
        names += [row.client for row in told.rows]
        assert all(row.gets == 3 for row in told.rows if row.client != "c-9")
        more = told.more
    assert names == [f"c-{at}" for at in range(7)] + ["c-9"]


def test_a_lease_is_held_since_it_was_told_first_however_often_it_is_renewed() -> None:
    deadlines, using = Deadlines(SECOND), Using()
    now = Instant(0)
    leases = {at: Lease(operation("c-1", at), IntervalSet([Interval(at, at + 2)])) for at in (1, 4)}
    deadlines.begin(1, now)
    deadlines.begin(1, Instant(SECOND // 2))
    using.holds(leases, deadlines, Instant(SECOND))
    (row,) = using.told(ListConsumers("q")).rows
    assert (row.items, row.held) == (4, 1.0)
    deadlines.forget(1)
    assert deadlines.held(1, Instant(SECOND)) == 0
    deadlines.begin(1, Instant(SECOND))
    assert deadlines.over(Instant(3 * SECOND)) == [1]
    assert deadlines.held(1, Instant(3 * SECOND)) == 0


def test_who_leads_next_knows_what_each_has_in_hand() -> None:
    nodes = Nodes(3)
    opened = nodes.ask(calls.Open("q", QueueSettings(replicas=3)))
    leader = str(opened.master.node)
    nodes.ask(calls.Put("q", "p", 1, *ONE), leader)
    nodes.ask(calls.Get("q", 1, 1 << 20, SECOND), leader)
    before: Consumers = nodes.ask(ListConsumers("q"), leader)
    assert [row.items for row in before.rows] == [1]
    nodes.view(*[name for name in nodes.nodes if name != leader])
    nodes.pass_time(3)
    other = next(name for name in nodes.nodes if name != leader)
    following = str(nodes.ask(calls.Open("q"), other).master.node)
    after: Consumers = nodes.ask(ListConsumers("q"), following)
    assert [(row.client, row.items) for row in after.rows] == [
        (row.client, row.items) for row in before.rows
    ]
