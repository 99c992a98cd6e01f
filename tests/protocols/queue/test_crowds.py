"""Whatever a client can make many of has a bound at its queue, and what is beyond it is refused."""

from typing import Any

import msgspec
from node_bench import NodeBench

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced
from snowmelt.protocols.calling import Declined, Gone
from snowmelt.protocols.queue.api.calls import (
    Assign,
    Assigned,
    Describe,
    Get,
    PublishStaged,
    Purge,
    Put,
    PutDone,
    Receipt,
    ReleaseGroup,
    Settle,
    Settled,
)
from snowmelt.protocols.queue.api.statuses import ListQueues
from snowmelt.protocols.queue.leader.deadlines import Deadlines
from snowmelt.protocols.queue.leader.open_calls import PUT_COST
from snowmelt.protocols.queue.limits import QueueLimits

EMPTY = bytes(8)
"""The offsets of one item without a byte."""


def crowded(**limits: int) -> NodeBench:
    bench = NodeBench(QueueLimits(**limits))
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
    refused(told[2], "Full", "queue 'q' has 2 groups already, of 2")
    assert bench.answer(asks[1]) == told[1]
    bench.answer(ReleaseGroup("q", "g0"))
    assert isinstance(bench.answer(asks[2]), Assigned)


def test_staged_batches() -> None:
    bench = crowded(staged=2)
    receipts = [bench.answer(put(at, hold=seconds(9))) for at in range(2)]
    refused(bench.answer(put(3, hold=seconds(9))), "Full", "2 batches are staged in queue 'q'")
    assert isinstance(bench.answer(put(4)), PutDone)
    bench.answer(PublishStaged("q", "p", 9, (receipts[0],)))
    assert isinstance(bench.answer(put(5, hold=seconds(9))), Receipt)


def test_what_is_staged_is_bounded_as_the_queue_is() -> None:
    bench = NodeBench()
    bench.open(items_max=100)
    many = Batch.of([b""] * 400)
    offsets = bytes(many.offsets)
    puts = [Put("q", "p", at, offsets, b"", hold=seconds(9)) for at in range(4)]
    staged = [bench.answer(one) for one in puts]
    assert all(isinstance(one, Receipt) for one in staged)  # failed tries, and the next one
    told = bench.answer(put(5, hold=seconds(9)))
    refused(told, "Full", "1600 items are staged in queue 'q'; allowed are 1600, since it may hold")


def test_one_client_leaves_places_to_the_gets_of_others() -> None:
    bench = crowded(waiting_gets=100)
    greedy = [bench.ask_as("c-greedy", Get("q", 1, 100, seconds(60))) for _ in range(100)]
    waits = [number for number in greedy if number not in bench.told]
    assert 60 < len(waits) < 90
    refused(bench.told[greedy[-1]], "Unavailable", "gets wait at queue 'q' already")
    other = bench.ask_as("c-other", Get("q", 1, 100, seconds(60)))
    assert other not in bench.told
    bench.give(Announced(Gone(NodeId("c-greedy"))))
    again = [bench.ask_as("c-more", Get("q", 1, 100, seconds(60))) for _ in range(60)]
    assert not any(number in bench.told for number in again)


def test_puts_into_a_full_queue_leave_room_for_those_into_others() -> None:
    bench = NodeBench(QueueLimits(waiting_bytes=20 * PUT_COST))
    bench.open(items_max=1)
    bench.open("other")
    assert isinstance(bench.answer(put()), PutDone)
    told = [bench.ask_as("c-greedy", put(at, patience=seconds(9999))) for at in range(2, 40)]
    refused(bench.told[told[-1]], "Full", "queue 'q' holds 1 items")
    assert 4 < len([number for number in told if number not in bench.told]) <= 10
    other = msgspec.structs.replace(put(), queue="other")
    bench.held = True
    asked = [bench.ask_as("c-honest", msgspec.structs.replace(other, sequence=at)) for at in (1, 2)]
    assert not any(number in bench.told for number in asked)
    bench.release()
    assert all(isinstance(bench.told[number], PutDone) for number in asked)
    bench.give(Announced(Gone(NodeId("c-greedy"))))
    hand = bench.node._copies.bodies
    assert (hand.open_bytes.total, hand.parked_bytes.total) == (0, 0)


def test_a_put_under_the_number_of_a_get_that_waits_ends_no_node() -> None:
    bench = NodeBench()
    bench.open(items_max=1)
    assert isinstance(bench.answer(put()), PutDone)
    bench.ask_as("c-holds", Get("q", 1, 100, seconds(60)))
    waits = bench.ask_as("c-one", put(2, patience=seconds(99)))
    number = bench.ask_as("c-two", Get("q", 1, 100, seconds(60)))
    assert not bench.told.keys() & {waits, number}
    bench.ask_as("c-two", put(2, patience=seconds(99)), number)
    bench.give(Announced(Gone(NodeId("c-two"))))
    assert waits not in bench.told


def test_staged_batches_that_nobody_published_go_in_turns() -> None:
    bench = crowded()
    for at in range(5):
        bench.answer(put(at, hold=seconds(1)))
    bench.pass_time(10)
    assert bench.answer(Describe("q")).staged == 0


def test_one_producer_more_is_refused_and_nothing_is_put() -> None:
    bench = crowded(producers=2, clients=1)
    for name in ("a", "b", "c-1"):
        assert isinstance(bench.answer(put(producer=name)), PutDone)
    refused(bench.answer(put(producer="c")), "Full", "2 producers named themselves at this queue")
    refused(bench.answer(put(producer="c-2")), "Full", "1 clients put into this queue within a day")
    assert bench.state.tails[0] == 3
    assert isinstance(bench.answer(put(2, "a")), PutDone)
    assert isinstance(bench.answer(put(2, "c-1")), PutDone)


def test_puts_without_a_byte_that_wait() -> None:
    bench = crowded(waiting_bytes=5 * PUT_COST)
    bench.held = True
    numbers = [bench.ask(put(at)) for at in range(4)]
    refused(bench.told.pop(numbers[3]), "Unavailable", "bytes for puts are taken at this node")
    bench.ask(put(0), numbers[0])  # asked again, and refused by nobody
    assert numbers[0] not in bench.told
    bench.release()
    assert all(isinstance(bench.told[number], PutDone) for number in numbers[:3])
    assert bench.node._copies.bodies.open_bytes.total == 0
    assert isinstance(bench.answer(put(3)), PutDone)


def test_gets_that_wait_for_items_keep_nobody_from_putting_some() -> None:
    bench = crowded(waiting_answers=3)
    numbers = [bench.ask(Get("q", 1, 100, seconds(60))) for _ in range(5)]
    assert isinstance(bench.answer(put()), PutDone)
    assert [number for number in numbers if number in bench.told] == numbers[:1]


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


def test_moments_of_items_that_are_gone_are_forgotten() -> None:
    bench = crowded()
    for at in range(500):
        bench.answer(put(at, due=-seconds(100_000)))
        bench.answer(Purge("q"))
    assert len(bench.state.dues) <= 65


def test_a_lease_that_is_extended_for_ever_keeps_one_deadline() -> None:
    ends = Deadlines(seconds(30))
    ends.begin(1, Instant(0))
    for now in range(1_000):
        ends.begin(2, Instant(now))
    assert len(ends._heap) < 100
    assert ends.over(Instant(seconds(30))) == [1]
    assert ends.over(Instant(seconds(31))) == [2]


def test_questions_after_all_queues() -> None:
    bench = crowded(questions=0)
    assert bench.ask(ListQueues()) not in bench.told  # it is asked again


def test_a_lease_is_still_settled_as_before() -> None:
    bench = crowded()
    bench.put(items=2)
    token = bench.answer(Get("q", 2, 100, seconds(0))).token
    assert bench.answer(Settle("q", token, done=(Interval(0, 2),))) == Settled(0)
