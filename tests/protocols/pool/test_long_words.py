"""Long words of other processes: what they cost grows with their length, and is bounded."""

from pool_bench import PoolBench

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.node import Received
from snowmelt.protocols.pool.alarms import Alarms
from snowmelt.protocols.pool.holding import HeldLoans
from snowmelt.protocols.pool.lending import LINE_MAX
from snowmelt.protocols.pool.messages import (
    TOKENS_AT_ONCE,
    ObjectsLent,
    ObjectSpan,
    Request,
    SettleLoan,
)
from snowmelt.protocols.pool.settings import HOPS_MAX
from work import lines_of


def pair(**settings):
    bench = PoolBench()
    producer, consumer = bench.add("p", **settings), bench.add("c")
    bench.meet(producer)
    return bench, producer, consumer


def test_every_other_object_of_a_loan_is_settled_with_work_that_grows_with_them():
    def work(count):
        _, producer, consumer = pair(buffers=count, lease=seconds(100))
        producer.put(*([b"x"] * count))
        got = consumer.fetch(count)
        odd = tuple(Interval(at, at + 1) for at in range(0, count, 2))
        lines = lines_of(lambda: producer.hear(Received("c", SettleLoan(0, got.token, odd))))
        told = producer.statistics
        assert (told.settled, told.on_loan) == (count // 2, count // 2)
        return lines

    assert work(1_000) < 2.5 * work(500)


def test_a_way_that_goes_round_and_round_one_process_is_walked_once_for_each_hop():
    bench = PoolBench()
    both = bench.add("p")
    bench.meet(both)
    both.put(b"x")
    assert both.told[both.get()] is not None  # it produces and consumes
    round_it = Request("x", 1, 1, 1, ("p",) * HOPS_MAX, wait=seconds(9))
    assert lines_of(lambda: both.hear(Received("x", round_it))) < 100 * HOPS_MAX
    assert both.statistics.in_line == 1


def test_so_many_wait_in_line_and_no_more():
    _, producer, _ = pair()
    for number in range(LINE_MAX):
        producer.peer.handle(Received("x", Request("x", number, 1, 1, ())), producer.bench.now)
    for number in range(100):
        producer.hear(Received("y", Request("y", number, 1, 1, ())))
    assert producer.statistics.in_line == LINE_MAX
    producer.hear(Received("x", Request("x", 5, 2, 1, ())))  # who waits may try again
    assert producer.statistics.in_line == LINE_MAX


def test_many_loans_of_one_producer_are_held_by_several_words():
    count = TOKENS_AT_ONCE + 100
    holding = HeldLoans(Alarms(), seconds(1))
    edges = bytes(Batch.of([b"x"]).offsets)
    for token in range(count):
        found = ObjectsLent(1, 1, 1, token, seconds(9), 0.0, (ObjectSpan(token, edges),), b"x")
        holding.begin(NodeId("p"), found, Instant(0))
    words = [one.message.tokens for one in holding.hold_due(NodeId("p"), Instant(0))]
    assert max(map(len, words)) == TOKENS_AT_ONCE
    assert len({token for tokens in words for token in tokens}) == count
