"""What a leader tells those who ask."""

import msgspec
from queue_bench import Bench, values

from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.limits import LIMITS

MANY = 1 << 40


def test_who_acknowledges_all_is_told_that_nothing_is_left():
    bench = Bench()
    bench.put(b"a", b"b")
    got = bench.ask(calls.Get("q", 2, MANY, 0))
    assert bench.ask(calls.Settle("q", got.token, (Interval(0, 2),))) == calls.Settled(0)


def test_what_is_purged_is_not_done():
    bench = Bench()
    bench.put(b"a", b"b")
    assert bench.ask(calls.Purge("q")) == calls.Changed(2)
    assert bench.ask(calls.Describe("q")).done == 0


def test_what_turns_out_to_fit_no_answer_is_for_the_next_who_asks():
    limits = msgspec.structs.replace(LIMITS, fetch_bytes=950, answer_bytes=900)
    bench = Bench(limits=limits)
    bench.put(b"a" * 240)
    bench.put(b"b" * 10)
    bench.put(b"c" * 700)
    assert values(bench.ask(calls.Peek("q", 3, MANY)).parts) == ["a" * 240, "b" * 10]
    got = bench.ask(calls.Get("q", 3, MANY, 0))
    assert values(got.parts) == ["a" * 240, "b" * 10]
    assert values(bench.ask(calls.Get("q", 3, MANY, 0)).parts) == ["c" * 700]
    assert bench.ask(calls.Settle("q", got.token, (Interval(0, 2),))) == calls.Settled(0)
