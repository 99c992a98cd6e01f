"""Thousands who wait at a queue cost its other users nothing."""

import msgspec
from counted import Steps
from node_bench import NodeBench

from snowmelt.core.ends import SPARE
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announced, Requested
from snowmelt.protocols.calling import Declined, Gone
from snowmelt.protocols.queue.api.calls import Describe, Get, Leased, Put, Settle
from snowmelt.protocols.queue.leader.waiting import WaitingGets


def waiting(gets: int) -> NodeBench:
    """So many gets of other clients wait, each until another moment, and long."""
    bench = NodeBench()
    bench.open()
    for at in range(gets):
        get = Get("q", 1, 1, seconds(1_000 + at))
        bench.give(Requested(OperationId(NodeId(f"c-{at}"), 1), get))
    return bench


def test_a_call_and_a_tick_do_not_look_at_all_who_wait() -> None:
    costs = []
    for gets in (20, 2_000):
        bench = waiting(gets)
        with Steps() as steps:
            bench.answer(Describe("q"))
            bench.ask(Get("q", 1, 1, seconds(0.5)))
            bench.pass_time(1)
            bench.give(Announced(Gone(NodeId("c-7"))))
        assert bench.answer(Describe("q")).waiting_gets == gets - 1
        costs.append(steps.count)
    assert costs[1] < 2 * costs[0]


def test_who_waits_is_told_when_its_own_time_is_over() -> None:
    bench = NodeBench()
    bench.open()
    late, soon = bench.ask(Get("q", 1, 1, seconds(9))), bench.ask(Get("q", 1, 1, seconds(3)))
    bench.pass_time(4)
    assert (soon in bench.told, late in bench.told) == (True, False)
    bench.pass_time(6)
    assert isinstance(bench.told[late], Leased)
    assert bench.answer(Describe("q")).waiting_gets == 0


def test_all_whose_time_is_over_at_once_are_told_at_once() -> None:
    bench = NodeBench()
    bench.open()
    gets = [bench.ask(Get("q", 1, 1, seconds(3))) for _ in range(5)]
    bench.pass_time(3.1)
    assert [one in bench.told for one in gets] == [True] * 5


def test_what_a_get_settles_is_not_kept_while_it_waits() -> None:
    many = tuple(Interval(at, at + 1) for at in range(0, 2_000, 2))
    gets = WaitingGets()
    operation = OperationId(NodeId("c-1"), 1)
    gets.add_get(operation, Get("q", 1, 1, seconds(9), Settle("q", 1, many)), "", Instant(0))
    assert gets.gets[operation].get == Get("q", 1, 1, seconds(9))


def test_deadlines_of_those_who_were_served_do_not_heap_up() -> None:
    gets = WaitingGets()
    for number in range(1_000):
        operation = OperationId(NodeId("c-1"), number)
        gets.add_get(operation, Get("q", 1, 1, seconds(9_000)), "", Instant(number))
        gets.leave(gets.first(Instant(number)).operation)
    assert len(gets._ends._heap) <= SPARE + 2


def test_so_many_may_wait_and_more_are_refused() -> None:
    bench = waiting(0)
    desk = bench.node._outbox
    desk.limits = msgspec.structs.replace(desk.limits, waiting_gets=2)
    numbers = [bench.ask(Get("q", 1, 1, seconds(60))) for _ in range(3)]
    refused = bench.told.pop(numbers[2])
    assert isinstance(refused, Declined)
    assert (refused.error, refused.text) == ("Unavailable", "2 gets wait at queue 'q' already")
    assert bench.answer(Get("q", 1, 1, seconds(0))).token == 0


def test_puts_that_wait_for_room_are_not_all_looked_at_either() -> None:
    costs = []
    for puts in (20, 2_000):
        bench = NodeBench()
        bench.open(items_max=1)
        bench.put(items=1)
        for at in range(puts):
            put = Put("q", f"c-{at}", 1, bytes(8), b"", patience=seconds(1_000 + at))
            bench.give(Requested(OperationId(NodeId(f"c-{at}"), 1), put))
        with Steps() as steps:
            bench.answer(Describe("q"))
            bench.ask(Put("q", "p", 2, bytes(8), b"", patience=seconds(0.5)))
            bench.pass_time(1)
            bench.give(Announced(Gone(NodeId("c-7"))))
        assert bench.answer(Describe("q")).waiting_puts == puts - 1
        costs.append(steps.count)
    assert costs[1] < 2 * costs[0]
