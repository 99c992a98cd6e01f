"""What a leader tells those who ask."""

from queue_bench import Bench

from snowmelt.core.interval import Interval
from snowmelt.protocols.fifo import calls

MANY = 1 << 40


def test_who_acknowledges_all_is_told_that_nothing_is_left():
    bench = Bench()
    bench.put(b"a", b"b")
    got = bench.ask(calls.Get("q", 2, MANY, 0))
    assert bench.ask(calls.Settle("q", got.token, (Interval(0, 2),))) == calls.Settled(0)


def test_what_is_purged_counts_as_done():
    bench = Bench()
    bench.put(b"a", b"b")
    assert bench.ask(calls.Purge("q")) == calls.Changed(2)
    assert bench.ask(calls.Describe("q")).done == 2
