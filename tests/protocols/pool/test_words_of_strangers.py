"""Whatever another process writes: nothing raises, nothing is lost, nothing comes twice."""

import math
from time import process_time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pool_bench import PoolBench, bodies_of

from snowmelt.core.batch import Batch
from snowmelt.core.errors import MessageError
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.node import Received
from snowmelt.protocols.calling import Answer
from snowmelt.protocols.pool.introductions import Introduced
from snowmelt.protocols.pool.messages import (
    HOPS_COUNTED,
    Cancel,
    GiveBack,
    Hold,
    Inquire,
    Invite,
    LoanSettled,
    ObjectsLent,
    ObjectSpan,
    Over,
    Request,
    SettleLoan,
    Stocked,
)
from snowmelt.protocols.pool.settings import ASKED_BYTES_MAX, ASKED_OBJECTS_MAX
from snowmelt.wire.codec import MessageDecoder, encode

EDGES = bytes(Batch.of([b"body"]).offsets)
HUGE = 2**63 - 1


def pair(**settings):
    bench = PoolBench()
    producer, consumer = bench.add("p", **settings), bench.add("c", wait=seconds(1))
    bench.meet(producer)
    return bench, producer, consumer


def request(**more):
    fields = {"consumer": "x", "number": 1, "attempt": 1, "hop": 1, "route": ()}
    return Request(**fields | more)


def found(want, **more):
    fields = {
        "number": want.number,
        "attempt": want.attempt,
        "hop": 1,
        "token": 77,
        "lease": seconds(30),
        "rate": 1.0,
        "spans": (ObjectSpan(0, EDGES),),
        "blob": b"body",
    }
    return ObjectsLent(**fields | more)


STRANGE = [
    {"objects_max": 0},
    {"objects_max": -HUGE},
    {"objects_max": HUGE},
    {"bytes_max": 0},
    {"bytes_max": -HUGE},
    {"hop": HUGE},
    {"hop": -HUGE},
    {"consumer": ""},
    {"consumer": "p"},
    {"number": -1, "attempt": -HUGE},
    {"route": ("p", "p", "p")},
    {"route": ("nobody",)},
    {"route": ("",)},
    {"wait": Duration(HUGE)},
    {"wait": Duration(-HUGE)},
    {"once": True, "objects_max": 0},
]


@pytest.mark.parametrize("fields", STRANGE, ids=str)
@pytest.mark.parametrize("full", [False, True])
def test_a_strange_request_loses_nothing_and_holds_nobody_up(fields, full):
    bench, producer, consumer = pair(buffers=2, lease=seconds(1))
    if full:
        producer.put(b"a", b"b")
    producer.hear(Received("x", request(**fields)))
    bench.deliver()
    if not full:
        producer.put(b"a", b"b")
    bench.wait(3)
    bodies = []
    while len(bodies) < 2:
        got = consumer.fetch()
        bodies += bodies_of(got)
        consumer.ack(got)
        bench.deliver()
    assert sorted(bodies) == [b"a", b"b"]
    assert (producer.statistics.stock, producer.statistics.on_loan) == (0, 0)


MALFORMED = [
    {"spans": ()},
    {"blob": b"bod"},
    {"blob": b"bodys"},
    {"blob": b""},
    {"spans": (ObjectSpan(0, b""),)},
    {"spans": (ObjectSpan(0, b"abc"),)},
    {"spans": (ObjectSpan(0, EDGES[:5]),)},
    {"spans": (ObjectSpan(0, b"\xff" * 8),)},
    {"spans": (ObjectSpan(0, EDGES[4:] + EDGES[:4]),)},
    {"spans": (ObjectSpan(0, EDGES), ObjectSpan(1, EDGES))},
]


@pytest.mark.parametrize("fields", MALFORMED, ids=str)
def test_what_does_not_add_up_is_not_given_to_the_program(fields):
    bench, producer, consumer = pair()
    call = consumer.get()
    (letter,) = bench.take(Request)
    consumer.hear(Received("p", found(letter.message, **fields)))
    assert call not in consumer.told
    assert consumer.notes == ["what p gave does not add up"]
    producer.put(b"good")
    bench.wait(1.1)
    assert bodies_of(consumer.told[call]) == [b"good"]


@pytest.mark.parametrize("lease", [-HUGE, -1, 0, 1, HUGE])
def test_a_lease_that_is_none_does_not_keep_its_consumer_busy(lease):
    bench, _, consumer = pair()
    call = consumer.get()
    (letter,) = bench.take(Request)
    consumer.hear(Received("p", found(letter.message, lease=Duration(lease))))
    assert bodies_of(consumer.told[call]) == [b"body"]
    said = []
    bench.wait(1, between=lambda: said.extend(bench.take(Hold)))
    assert len(said) < 50


@pytest.mark.parametrize("rate", [math.nan, math.inf, -1.0, 1e308])
@pytest.mark.parametrize("start", [-HUGE, HUGE])
def test_strange_numbers_in_what_is_found_do_no_harm(rate, start):
    bench, _, consumer = pair()
    consumer.get()
    (letter,) = bench.take(Request)
    word = found(letter.message, rate=rate, spans=(ObjectSpan(start, EDGES),), hop=-HUGE)
    consumer.hear(Received("p", word))
    assert [one.weight for one in consumer.statistics.producers] == [1.0]


@pytest.mark.parametrize(
    "intervals",
    [
        (Interval(-HUGE, HUGE), Interval(-HUGE, HUGE)),
        (Interval(0, 2), Interval(1, 3), Interval(0, 3)),
        (Interval(7, 9),),
        (Interval(1, 1),),
    ],
    ids=str,
)
@pytest.mark.parametrize("spill", [False, True])
@pytest.mark.parametrize("word", [SettleLoan, GiveBack])
def test_strange_intervals_settle_and_give_back_what_is_there_once(intervals, spill, word):
    _bench, producer, consumer = pair(spill=spill, buffers=9)
    producer.put(b"a", b"b", b"c")
    producer.flush()
    got = consumer.fetch(3)
    made = (
        SettleLoan(5, got.token, intervals)
        if word is SettleLoan
        else GiveBack(got.token, intervals)
    )
    for _ in range(2):
        consumer.bench.processes["p"].hear(Received("c", made))
        producer.flush()
    named = sum(any(n in one for one in intervals) for n in range(3))
    statistics = producer.statistics
    assert statistics.on_loan == 3 - named
    assert (statistics.settled, statistics.stock) == (
        (named, 0) if word is SettleLoan else (0, named)
    )


def test_a_million_tokens_are_answered_in_good_time():
    _, producer, _ = pair()
    begun = process_time()
    producer.hear(Received("x", Hold(tuple(range(1_000_000)))))
    assert process_time() - begun < 10
    assert len(producer.bench.take(Over)[0].message.tokens) == 1_000_000


def reads(word: Any) -> bool:
    """What is beyond the bounds of its type never arrives."""
    try:
        return MessageDecoder.for_peers().decode(encode(word)) == word
    except MessageError:
        return False


small = st.integers(0, 3) | st.just(HUGE)
hops = st.integers(0, 3) | st.just(HOPS_COUNTED)
names = st.sampled_from(["p", "c", "x", ""])
some = st.lists(st.builds(Interval, st.just(0), st.integers(0, 3)), max_size=3).map(tuple)
words = st.one_of(
    st.builds(
        Request,
        names,
        small,
        small,
        hops,
        st.lists(names, max_size=3).map(tuple),
        st.integers(1, 3) | st.just(ASKED_OBJECTS_MAX),
        st.integers(1, 3) | st.just(ASKED_BYTES_MAX),
    ),
    st.builds(
        ObjectsLent,
        small,
        small,
        hops,
        small,
        st.integers(0, 3) | st.just(1 << 62),
        st.floats(-1e18, 1e18),
        st.lists(
            st.builds(
                ObjectSpan,
                st.integers(0, 3) | st.just(1 << 62),
                st.binary(max_size=9) | st.just(EDGES),
            ),
            max_size=2,
        ).map(tuple),
        st.binary(max_size=4),
    ),
    st.builds(Cancel, small, small),
    st.builds(SettleLoan, small, small, some),
    st.builds(LoanSettled, small, st.booleans()),
    st.builds(GiveBack, small, some),
    st.builds(Hold, st.lists(small, max_size=3).map(tuple)),
    st.builds(Over, st.lists(small, max_size=3).map(tuple)),
    st.builds(Invite),
    st.builds(Inquire),
    st.builds(Stocked, small | st.just(1 << 62)),
).filter(reads)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(names, words), max_size=12), st.booleans())
def test_no_word_of_a_stranger_raises_or_takes_anything(said, spill):
    bench, producer, consumer = pair(buffers=3, spill=spill, lease=seconds(1))
    producer.put(b"a", b"b")
    producer.flush()
    for source, word in said:
        for process in (producer, consumer):
            process.hear(Received(source, word))
        producer.flush()
    bench.deliver()
    bench.wait(3)
    producer.flush()
    assert producer.statistics.stock + producer.statistics.on_loan == 2


def test_an_answer_before_it_has_a_place_of_its_own_is_no_harm():
    _, _, consumer = pair()
    consumer.hear(Received("x", Answer(0, Introduced(1, True, Duration(1)))))
