"""What nobody uses costs nothing: ticks are for the queues that asked for them."""

from counted import Counted
from node_bench import NodeBench

from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.calls import Get, Settle
from snowmelt.protocols.queue.leader.leader import Leader


def many(queues: int) -> NodeBench:
    bench = NodeBench()
    for number in range(queues):
        bench.open(f"q{number}")
    bench.pass_time(60)
    return bench


def test_a_tick_is_for_the_queues_that_are_due() -> None:
    bench = many(200)
    bench.put("q7")
    assert bench.answer(Get("q7", 1, 1 << 20, seconds(0))).token
    with Counted(Leader.tick) as ticks:
        bench.pass_time(60)  # a lease ends
    assert 1 <= ticks.count <= 3
    assert bench.answer(Get("q7", 1, 1 << 20, seconds(0))).token


def test_a_node_with_nothing_to_do_is_not_woken() -> None:
    assert many(200).pass_time(3600) == 0


def test_leases_that_were_settled_wake_nobody() -> None:
    bench = many(1)
    bench.put("q0", items=100)
    for at in range(100):
        leased = bench.answer(Get("q0", 1, 1 << 20, seconds(0)))
        bench.answer(Settle("q0", leased.token, done=(Interval(at, at + 1),)))
        bench.pass_time(0.1)
    assert bench.pass_time(3600) <= 3
