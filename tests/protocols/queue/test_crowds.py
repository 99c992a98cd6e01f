"""Whatever a client can make many of has a bound at its queue, and what is beyond it is refused."""

from typing import Any

import msgspec
from master_bench import Bench
from node_bench import NodeBench

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo.calls import (
    Assign,
    Assigned,
    Describe,
    Get,
    ListQueues,
    Publish,
    Purge,
    Put,
    PutDone,
    Receipt,
    Release,
    Settle,
    Settled,
)
from snowmelt.protocols.fifo.doubts import Doubts
from snowmelt.protocols.fifo.intake import PUT_COST
from snowmelt.protocols.fifo.leases import Leases
from snowmelt.protocols.fifo.producers import Producers

EMPTY = bytes(8)
"""The offsets of one item without a byte."""


def crowded(**limits: int) -> NodeBench:
    bench = NodeBench()
    desk = bench.node._desk
    desk.limits = msgspec.structs.replace(desk.limits, **limits)
    bench.open()
    return bench


def put(sequence: int = 1, producer: str = "p", **more: Any) -> Put:
    return Put("q", producer, sequence, EMPTY, b"", **more)


def refused(answer: Any, error: str, text: str) -> None:
    assert isinstance(answer, Declined), answer
    assert answer.error == error
    assert text in answer.text


def test_groups() -> None:
    bench = crowded(groups=2)
    bench.put(items=9)
    asks = [Assign("q", f"g{at}", 0, "r", 0, 1, 100) for at in range(3)]
    told = [bench.answer(ask) for ask in asks]
    refused(told[2], "Full", "queue 'q' has 2 groups already; release some")
    assert bench.answer(asks[1]) == told[1]
    bench.answer(Release("q", "g0"))
    assert isinstance(bench.answer(asks[2]), Assigned)


def test_staged_batches() -> None:
    bench = crowded(staged=2)
    receipts = [bench.answer(put(at, hold=seconds(9))) for at in range(2)]
    refused(bench.answer(put(3, hold=seconds(9))), "Full", "2 batches are staged in queue 'q'")
    assert isinstance(bench.answer(put(4)), PutDone)
    bench.answer(Publish("q", "p", 9, (receipts[0],)))
    assert isinstance(bench.answer(put(5, hold=seconds(9))), Receipt)


def test_staged_batches_that_nobody_published_go_in_turns() -> None:
    bench = crowded(offers=2)
    for at in range(5):
        bench.answer(put(at, hold=seconds(1)))
    bench.pass_time(10)
    assert bench.answer(Describe("q")).staged == 0


def test_producers_that_named_themselves_and_others() -> None:
    limits = msgspec.structs.replace(NodeBench().node._desk.limits, producers=2, clients=1)
    producers = Producers({}, Doubts(), limits)
    for name in ("a", "b", "c-1"):
        assert producers.crowded(name) == ""
        producers.note(name, 1, Interval(0, 1), wall=0)
    assert "2 producers named themselves at this queue" in producers.crowded("c")
    assert "1 clients put into this queue within a day" in producers.crowded("c-2")
    assert producers.crowded("a") == producers.crowded("c-1") == ""


def test_one_producer_more_is_refused_and_nothing_is_put() -> None:
    bench = Bench()
    bench.queue.producers.crowded = lambda name: f"no {name}"  # type: ignore[method-assign]
    bench.offer(0, 1)
    bench.flush()
    assert bench.queue.tail == 0


def test_puts_without_a_byte_that_wait() -> None:
    bench = crowded(waiting_bytes=3 * PUT_COST)
    bench.held = True
    numbers = [bench.ask(put(at)) for at in range(4)]
    refused(bench.told.pop(numbers[3]), "Unavailable", "bytes of puts are waiting at this node")
    bench.release()
    assert all(isinstance(bench.told[number], PutDone) for number in numbers[:3])


def test_attempts_of_one_put() -> None:
    bench = crowded(attempts=2)
    bench.answer(Purge("q"))
    bench.open("b", items_max=1)
    bench.put("b")
    waiting = msgspec.structs.replace(put(7, patience=seconds(60)), queue="b")
    numbers = [bench.ask(waiting) for _ in range(3)]
    refused(bench.told.pop(numbers[2]), "OutcomeUnknown", "2 attempts of this put wait")
    bench.answer(Purge("b"))
    assert all(isinstance(bench.told[number], PutDone) for number in numbers[:2])


def test_puts_that_wait_are_offered_again_in_turns() -> None:
    bench = crowded(offers=2)
    bench.open("b", items_max=1)
    bench.put("b")
    for at in range(5):
        bench.ask(msgspec.structs.replace(put(7 + at, patience=seconds(3_600)), queue="b"))
    bench.pass_time(5)
    assert bench.answer(Describe("b")).waiting_puts == 5
    taken = bench.node._intake._offered["b"].values()
    assert min(one.offered for one in taken) > bench.now - seconds(3)


def test_moments_of_items_that_are_gone_are_forgotten() -> None:
    bench = crowded()
    for at in range(500):
        bench.answer(put(at, due=-seconds(100_000)))
        bench.answer(Purge("q"))
    queue = bench.node._scribe.masters["q"].journal.queue
    assert len(queue._dues) <= 65


def test_a_lease_that_is_extended_for_ever_keeps_one_deadline() -> None:
    leases = Leases(seconds(30), {})
    first = OperationId(NodeId("c-1"), 1)
    leases.grant(first, IntervalSet([Interval(0, 1)]), Instant(0))
    other = leases.grant(OperationId(NodeId("c-2"), 1), IntervalSet([Interval(1, 2)]), Instant(0))
    for now in range(1_000):
        leases.extend(other, Instant(now))
    assert len(leases._deadlines) < 100
    assert [one.operation for one in leases.over(Instant(seconds(30)))] == [first]
    assert [one.token for one in leases.over(Instant(seconds(31)))] == [other.token]


def test_questions_after_all_queues() -> None:
    bench = crowded()
    desk = bench.node._desk
    desk.limits = msgspec.structs.replace(desk.limits, questions=0)
    assert bench.ask(ListQueues()) not in bench.told  # it is asked again


def test_a_lease_is_still_settled_as_before() -> None:
    bench = crowded()
    bench.put(items=2)
    token = bench.answer(Get("q", 2, 100, seconds(0))).token
    assert bench.answer(Settle("q", token, done=(Interval(0, 2),))) == Settled(0)
