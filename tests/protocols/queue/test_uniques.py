"""Puts with a uniqueness key (`uniques.py`): what is there is not put again."""

import pytest
from alone import Alone

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.backups import Restore, Restored, Save
from snowmelt.protocols.queue.state import uniques
from snowmelt.protocols.queue.state.records import records, restored


def put(alone, number, unique=b"", count=1, unique_for=0, **more):
    batch = Batch.of([b"%d.%d" % (number, at) for at in range(count)])
    rest = {"unique": unique, "unique_for": seconds(unique_for), **more}
    return alone.said(calls.Put("q", "p", number, bytes(batch.offsets), bytes(batch.blob), **rest))


def get(alone, count=9):
    return alone.said(calls.Get("q", count, 1 << 20, Duration(0), None))


def ends(alone, *, dead=False):
    """Takes what is there, and acknowledges it or sets it aside."""
    lease = get(alone)
    where = tuple([Interval(one.start, one.start + one.count) for one in lease.parts])
    how = {"back": where, "dead": True, "reason": "no"} if dead else {"done": where}
    alone.said(calls.Settle("q", lease.token, **how))


def test_while_its_items_live_it_is_answered_with_where_they_are():
    alone = Alone.of()
    put(alone, 1)
    first = put(alone, 2, b"u", count=3)
    for number in range(3, 6):
        again = put(alone, number, b"u", count=2)
        assert (again.start, again.stop, again.repeated) == (first.start, first.stop, True)
    assert put(alone, 6, b"other").start == 4
    assert alone.said(calls.Describe("q")).ready == 5


def test_what_is_leased_delayed_or_dead_lives():
    alone = Alone.of()
    assert put(alone, 1, b"u", due=-seconds(60)).start == 0
    assert put(alone, 2, b"u").start == 0
    alone.wait(seconds(60))
    assert get(alone).parts[0].start == 0
    assert put(alone, 3, b"u").start == 0
    alone.wait(seconds(31))  # its lease has ended
    ends(alone, dead=True)
    assert alone.said(calls.Describe("q")).dead == 1
    assert put(alone, 4, b"u").start == 0
    alone.said(calls.Purge("q", dead=True))
    assert put(alone, 5, b"u").start == 1


def test_a_time_holds_it_longer_and_no_longer():
    alone = Alone.of()
    assert put(alone, 1, b"u", unique_for=60).start == 0
    ends(alone)
    alone.wait(seconds(59))
    told = put(alone, 2, b"u", unique_for=60)
    assert (told.start, told.copies, told.repeated) == (0, 0, True)
    alone.wait(seconds(2))
    assert put(alone, 3, b"u").start == 1


def test_the_number_of_one_that_was_there_stands_for_that():
    alone = Alone.of()
    put(alone, 1, b"u")
    assert put(alone, 2, b"u").start == 0
    ends(alone)
    assert put(alone, 2, b"u").start == 0, "the same put, asked again"
    assert put(alone, 3, b"u").start == 1


def test_of_two_that_wait_for_room_the_first_is_the_one():
    alone = Alone.of(items_max=1)
    put(alone, 1)
    waits = alone.calls + 1
    assert put(alone, 2, b"u", patience=seconds(60)) is None
    assert put(alone, 3, b"u", patience=seconds(60)) is None
    ends(alone)
    alone.flush()
    assert [alone.answers[at].start for at in (waits, waits + 1)] == [1, 1]
    assert put(alone, 4, b"u").start == 1, "though the queue is full"


@pytest.mark.parametrize("unique_for", [0, 60])
def test_whoever_leads_next_knows_it(unique_for):
    alone = Alone.of()
    put(alone, 1, b"u", unique_for=unique_for)
    alone.killed()
    assert put(alone, 2, b"u").start == 0
    state = alone.node._terms.leaders["q"].state
    assert records(restored(state.settings, records(state))) == records(state)


def test_a_queue_that_is_made_of_a_backup_knows_it():
    alone, other = Alone.of(), Alone.of()
    put(alone, 1, b"u")
    alone.said(Save("q", 7, 0))
    piece = alone.said(Save("q", 7, 1))
    said = other.said(Restore("q", 7, 0, piece.lots, piece.records, last=True))
    assert said == Restored(1, done=True)
    assert put(other, 9, b"u").start == 0


def test_those_that_are_over_are_forgotten_and_there_is_a_bound(monkeypatch):
    monkeypatch.setattr(uniques, "UNIQUE_MAX", 3)
    monkeypatch.setattr("snowmelt.protocols.queue.leader.append_check.UNIQUE_MAX", 3)
    alone = Alone.of()
    for number in range(1, 20):
        put(alone, number, b"%d" % number)
        ends(alone)
    assert len(alone.node._terms.leaders["q"].state.uniques) <= 3
    for number in range(20, 23):
        assert put(alone, number, b"%d" % number).stop
    full = put(alone, 23, b"23")
    assert isinstance(full, Declined)
    assert (full.error, full.text) == (
        "Full", "queue 'q' has 3 uniqueness keys, as many as it may",
    )  # fmt: skip
    assert put(alone, 24, b"22").repeated
    assert not put(alone, 25).repeated


@pytest.mark.parametrize(
    "more", [{"hold": seconds(9)}, {"unique": b"x" * 257}, {"unique_for": 10**6}]
)
def test_what_can_not_be_is_refused(more):
    told = put(Alone.of(), 1, **({"unique": b"u"} | more))
    assert isinstance(told, Declined)
    assert told.error == "BadOption"
