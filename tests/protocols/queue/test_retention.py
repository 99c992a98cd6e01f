"""What waits for longer than a queue keeps it ends, and nothing before (`retention.py`)."""

import pytest
from alone import Alone

from snowmelt.core.batch import Batch
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import SECOND, seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.leader.retention import age_out
from snowmelt.protocols.queue.limits import QueueLimits
from snowmelt.protocols.queue.state.put_times import PutTimes
from snowmelt.protocols.queue.state.records import records, restored
from snowmelt.protocols.queue.state.state import QueueState

KEPT = seconds(30)


def put(alone, number, count=1, due=0, hold=0):
    batch = Batch.of([b"item %d" % number] * count)
    ask = calls.Put("q", "p", number, bytes(batch.offsets), bytes(batch.blob), due=due, hold=hold)
    return alone.said(ask)


def status(alone):
    return alone.said(calls.Describe("q"))


def kept(alone, time):
    """How many are there after that time."""
    alone.wait(time)
    alone.flush()
    told = status(alone)
    assert told.put == told.ready + told.delayed + told.leased + told.dead + told.done + told.aged
    return told.ready + told.delayed + told.leased + told.dead


def test_what_waits_ends_after_its_time_and_not_before():
    alone = Alone.of(retention=KEPT)
    for number in range(10):
        put(alone, number)
        alone.wait(seconds(1))
    assert kept(alone, seconds(19)) == 10, "the first is 29 seconds old"
    assert kept(alone, seconds(6)) < 10
    assert kept(alone, seconds(12)) == 0
    assert status(alone).aged == 10


def test_without_retention_nothing_ends():
    alone = Alone.of()
    put(alone, 1)
    assert kept(alone, seconds(10 * 86_400)) == 1


def test_what_is_leased_stays_and_ends_when_it_comes_back():
    alone = Alone.of(retention=KEPT, lease=seconds(600))
    put(alone, 1, 3)
    lease = alone.said(calls.Get("q", 2, 1 << 20, seconds(0), None))
    assert kept(alone, seconds(60)) == 2
    alone.said(calls.Settle("q", lease.token, (Interval(0, 1),)))
    alone.said(calls.Settle("q", lease.token, (), back=(Interval(1, 2),)))
    assert kept(alone, seconds(2)) == 0
    told = status(alone)
    assert (told.done, told.aged) == (1, 2)


def test_the_dead_end_too():
    alone = Alone.of(retention=KEPT, deliveries_max=1)
    put(alone, 1)
    lease = alone.said(calls.Get("q", 1, 1 << 20, seconds(0), None))
    back = calls.Settle("q", lease.token, (), back=(Interval(0, 1),), reason="no")
    alone.said(back)
    assert status(alone).dead == 1
    assert kept(alone, seconds(35)) == 0


def test_what_is_delayed_counts_from_its_put_and_a_delay_may_not_be_longer():
    alone = Alone.of(retention=KEPT)
    for number, hold in ((1, 0), (2, seconds(5))):
        refused = put(alone, number, due=-KEPT, hold=hold)
        assert isinstance(refused, Declined)
        assert refused.error == "BadOption"
        assert "retention=30" in refused.text
    put(alone, 3, due=-seconds(29))
    assert kept(alone, seconds(28)) == 1
    assert kept(alone, seconds(2)) == 1, "due, and not yet looked at"
    assert kept(alone, seconds(4)) == 0


def test_many_end_in_many_steps():
    alone = Alone.of(retention=KEPT)
    for number in range(5):
        put(alone, number, 5_000)
    assert kept(alone, seconds(29)) == 25_000
    assert kept(alone, seconds(6)) == 0


def test_a_leader_that_starts_anew_goes_on():
    alone = Alone.of(retention=KEPT)
    put(alone, 1)
    alone.wait(seconds(20))
    put(alone, 2)
    alone.killed()
    assert kept(alone, seconds(14)) == 1
    assert kept(alone, seconds(20)) == 0


def test_altered_while_it_runs():
    alone = Alone.of()
    put(alone, 1)
    alone.wait(seconds(60))
    alone.said(calls.Alter("q", (("retention", KEPT),)))
    assert kept(alone, seconds(10)) == 0


@pytest.mark.parametrize("priorities", [1, 3, ANY])
def test_each_priority_has_marks_of_its_own(priorities):
    state = QueueState(QueueSettings(priorities=priorities, retention=KEPT))
    old, new = [], []
    for at, into in ((0, old), (40, new)):
        for priority in range(priorities or 1):
            key = (b"\x00" * 7 + b"\x05") * 2 if priorities == ANY else priority
            batch = state.put(2, 20, term=1, priority=key)
            state.times.mark(batch.start, at * SECOND, state.batches.live)
            into.append(Interval(batch.start, batch.stop))
    while not age_out(state, state.times.before(10 * SECOND, 40 * SECOND), 3):
        assert state.counts.aged % 3 == 0, "so many at once, of whatever priority"
    assert state.counts.aged == 2 * (priorities or 1)
    assert [state.batches.live.common(one) for one in old] == [[]] * len(old)
    assert [state.batches.live.common(one) for one in new] == [[one] for one in new]
    state.check()
    assert records(restored(state.settings, records(state), QueueLimits())) == records(state)


def test_none_ends_early_however_marks_are_thinned():
    times, state = PutTimes({}, 1), QueueState(QueueSettings())
    put_at = {}
    for step in range(2_000):
        wall = step * SECOND // 3
        batch = state.put(1, 10, term=1)
        put_at[batch.start] = wall
        if wall > times.due[0]:
            times.mark(batch.start, wall, state.batches.live)
    now = wall
    for wall in range(0, now, 7 * SECOND):
        old = next(times.before(wall, now), range(0))
        assert not [at for at in put_at if at in old and put_at[at] > wall]
        late = [at for at in put_at if at not in old and put_at[at] < wall - now // 16 - 2 * SECOND]
        assert not late


def test_bad_values_are_refused():
    with pytest.raises(BadOption, match="retention is -1"):
        QueueSettings(retention=-1).checked()
