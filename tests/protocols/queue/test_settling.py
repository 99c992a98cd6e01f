"""Items of a lease that are extended alone (`settling.py`): a node, and records that tell them."""

from alone import Alone
from hypothesis import given, settings
from hypothesis import strategies as st
from test_state import KINDS, Story

from snowmelt.core.batch import Batch
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.leader import settling
from snowmelt.protocols.queue.leader.settling import split_off
from snowmelt.protocols.queue.state.records import records, restored

STEPS = st.lists(
    st.tuples(st.sampled_from((*KINDS, "split")), st.integers(1, 9), st.integers(0, 9)),
    max_size=40,
)


class SplitStory(Story):
    def act(self, kind, much, which):
        if kind != "split":
            super().act(kind, much, which)
        elif held := sorted(self.state.leases):
            token = held[which % len(held)]
            some = IntervalSet(self.state.leases[token].left).take(much)
            if some != list(self.state.leases[token].left):
                self.tokens += 1
                split_off(self.state, token, tuple(some), self.tokens)


@given(STEPS)
@settings(deadline=None, max_examples=100)
def test_records_tell_what_was_extended_alone(story):
    life = SplitStory()
    for one in story:
        life.act(*one)
        life.step()
        life.state.check()
        told = restored(life.state.settings, life.records)
        assert records(told) == records(life.state)
        assert told.tokens == life.state.tokens
        assert {at: set(of) for at, of in told.pieces.items()} == {
            at: set(of) for at, of in life.state.pieces.items()
        }


def leased(alone, count=3):
    batch = Batch.of([b"%d" % at for at in range(count)])
    alone.said(calls.Put("q", "p", 1, bytes(batch.offsets), bytes(batch.blob)))
    return alone.said(calls.Get("q", count, 1 << 20, 0))


def settle(node, told, **said):
    return node.said(calls.Settle("q", told.token, secret=told.secret, **said))


def at(*places):
    return tuple(Interval(one, one + 1) for one in places)


def status(alone):
    told = alone.said(calls.Describe("q"))
    return told.ready, told.leased, told.done


def test_one_that_is_extended_alone_outlives_the_others_and_is_settled_by_the_same_token():
    alone = Alone.of(lease=seconds(30))
    lease = leased(alone)
    assert settle(alone, lease, alone=at(1), lease=seconds(60)).left == 1
    alone.wait(seconds(31))
    assert status(alone) == (2, 1, 0)
    assert settle(alone, lease, done=at(0)) == calls.Settled(0, lost=at(0))
    assert settle(alone, lease, back=at(2)) == calls.Settled(0, lost=at(2))
    assert isinstance(settle(alone, lease, extend=True), Declined)
    assert status(alone) == (2, 1, 0)
    assert settle(alone, lease, done=at(0, 1)) == calls.Settled(0, lost=at(0))
    assert status(alone) == (2, 0, 1)
    assert isinstance(settle(alone, lease, done=at(0)), Declined)


def test_one_that_is_shortened_alone_comes_back_before_the_others():
    alone = Alone.of(lease=seconds(30))
    lease = leased(alone)
    settle(alone, lease, alone=at(0), lease=seconds(1))
    alone.wait(seconds(2))
    assert status(alone) == (1, 2, 0)
    assert settle(alone, lease, done=at(0)).lost == at(0)
    assert isinstance(settle(alone, lease, alone=at(0), lease=seconds(9)), Declined)
    assert settle(alone, lease, done=at(1, 2)) == calls.Settled(0)


def test_words_about_several_are_for_each_part_of_the_lease():
    alone = Alone.of(lease=seconds(30))
    lease = leased(alone, 5)
    for place, length in ((1, 60), (3, 90)):
        settle(alone, lease, alone=at(place), lease=seconds(length))
    settle(alone, lease, alone=at(3), lease=seconds(40))
    assert settle(alone, lease, done=at(0, 1, 2)) == calls.Settled(1)
    alone.wait(seconds(31))
    assert status(alone) == (1, 1, 3)
    settle(alone, lease, back=at(3), reason="no")
    assert status(alone) == (2, 0, 3)


def test_extending_all_extends_what_is_left_of_the_lease():
    alone = Alone.of(lease=seconds(30))
    lease = leased(alone)
    settle(alone, lease, alone=at(0), lease=seconds(10))
    assert settle(alone, lease, extend=True, lease=seconds(60)) == calls.Settled(2, seconds(60))
    alone.wait(seconds(31))
    assert status(alone) == (1, 2, 0)


def test_who_does_not_know_the_secret_extends_nothing():
    alone = Alone.of(lease=seconds(30))
    lease = leased(alone)
    strange = calls.Settle("q", lease.token, secret=b"x" * 8, alone=at(0), lease=seconds(60))
    assert isinstance(alone.said(strange), Declined)
    settle(alone, lease, alone=at(0), lease=seconds(60))
    assert isinstance(alone.said(strange), Declined)


def test_parts_that_are_extended_together_have_one_time():
    alone = Alone.of(lease=seconds(30))
    lease = leased(alone)
    settle(alone, lease, alone=at(0), lease=seconds(60))
    settle(alone, lease, alone=at(0, 1), lease=seconds(40))
    alone.wait(seconds(31))
    assert status(alone) == (1, 2, 0)
    alone.wait(seconds(10))
    assert status(alone) == (3, 0, 0)


def test_no_more_than_so_many_parts_are_extended_alone(monkeypatch):
    monkeypatch.setattr(settling, "PARTS_MAX", 2)
    alone = Alone.of(lease=seconds(30))
    lease = leased(alone, 5)
    for place in (0, 1):
        settle(alone, lease, alone=at(place), lease=seconds(60))
    assert settle(alone, lease, alone=at(2), lease=seconds(60)).error == "TooLarge"
    settle(alone, lease, alone=at(1), lease=seconds(90))
    settle(alone, lease, done=at(0))
    assert settle(alone, lease, alone=at(2), lease=seconds(60)) == calls.Settled(1)
