"""A partition's state: whatever is done to it, its records tell it again."""

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.keys import packed
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits
from snowmelt.protocols.queue.state.publications import PublicationRecord
from snowmelt.protocols.queue.state.records import changed, records, restored
from snowmelt.protocols.queue.state.staged import StagedBatch
from snowmelt.protocols.queue.state.state import STATUS, QueueState

ANN, BOB = NodeId("ann"), NodeId("bob")


def put(state, count, number=0, size=None, due=0, **more):
    size = 10 * count if size is None else size
    batch = state.put(count, size, term=1, due=due, **more)
    state.producers.note("loader", number, (batch.start, batch.stop), wall=5)
    return batch


def take(state, count, token, number=None):
    found = state.first(count, 1 << 20)
    if found:
        state.take(OperationId(ANN, token if number is None else number), token, found)
    return found


# --- any story ------------------------------------------------------------------------------------

KINDS = ("put", "late", "take", "done", "back", "fail", "expire", "wake", "purge")
KINDS += ("stage", "publish", "drop")
steps = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(1, 9),
        st.integers(0, 9),
    ),
    max_size=40,
)


class Story:
    """Does what it is told, as a leader would."""

    def __init__(self, few=LIMITS.few_blocks, priorities=3, **more):
        settings = QueueSettings(deliveries_max=3, priorities=priorities, **more)
        self.priorities = priorities
        self.state = QueueState(settings, QueueLimits(few_blocks=few))
        self.state.changed[STATUS] = None  # the first step of a term
        self.records = {}
        self.tokens = 0
        self.numbers = 0

    def act(self, kind, much, which):
        state, held = self.state, sorted(self.state.leases)
        if kind in ("put", "late"):
            due = 100 * which + 1 if kind == "late" else 0
            put(state, much, self.numbers, due=due, **self.urgency(much, which))
            self.numbers += 1
        elif kind == "stage":
            (own,) = self.urgency(much, which).values()
            state.staged.keep(much, StagedBatch(0, 10 * much, 1, 0, which, own))
        elif kind == "publish":
            self.publish(which)
        elif kind == "drop":
            state.staged.drop(which)
        elif kind == "take":
            self.tokens += 1
            take(state, much, self.tokens)
        elif kind == "wake":
            state.wake(100 * which + 1)
        elif kind == "purge":
            state.purge(dead=which % 2 == 0)
        elif held:
            token = held[which % len(held)]
            some = IntervalSet(state.leases[token].left).take(much)
            if kind == "done":
                assert state.settle(token, some) == []
            elif kind == "expire":
                state.expire(token)
            else:
                reason = "broken" if kind == "fail" else ""
                state.give_back(OperationId(BOB, self.tokens), token, some, reason=reason)

    def urgency(self, much, which):
        """Of some items."""
        if self.priorities != ANY:
            return {"priority": which % 3}
        return {"priority": packed([(which * at) % 5 - 2 for at in range(much)])}

    def publish(self, which):
        """The first that is staged, as `publishing.py` does."""
        state, batch = self.state, next(self.state.staged.all(), None)
        if batch is None:
            return
        held, count = state.staged.take(batch.start), batch.stop - batch.start
        own = {"priority": held.priority, "names": held.names}
        state.put(count, batch.size, term=batch.term, place=batch.start, **own)
        state.publications.keep(("loader", which), PublicationRecord(which, count))

    def step(self):
        pairs, _ = changed(self.state)
        for key, value in pairs:
            if value is None:
                self.records.pop(key, None)
            else:
                self.records[key] = value


@given(steps, st.sampled_from([0, LIMITS.few_blocks]), st.sampled_from([3, ANY]))
@settings(deadline=None, max_examples=120)
def test_records_tell_it_again(story, few, priorities):
    life = Story(few, priorities)
    for one in story:
        life.act(*one)
        life.step()
        life.state.check()
        told = restored(life.state.settings, life.records)
        assert records(told) == records(life.state)
        assert told.ready == life.state.ready
        assert told.first(99, 1 << 20) == life.state.first(99, 1 << 20)
        assert told.batches.bytes == life.state.batches.bytes
        told.check()


@given(steps)
@settings(deadline=None, max_examples=60)
def test_what_is_taken_is_what_has_the_least_keys(story):
    life = Story(0, ANY)
    for one in story:
        life.act(*one)
        state = life.state
        places = [place for where in state.ready for place in where]
        first = [place for where in state.first(99, 1 << 20, in_turn=True) for place in where]
        some = [place for where in state.first(99, 1 << 20) for place in where]
        by_key = sorted(places, key=lambda at: (state.keys.of(Interval(at, at + 1)), at))
        assert first == by_key[:99]
        assert sorted(some) == sorted(first), "whoever takes them may be told by positions"
        ranks = range(1, len(places) + 1)
        assert [state.ready.nth(rank) for rank in ranks] == by_key


@given(steps, steps, st.sampled_from([3, ANY]))
@settings(deadline=None, max_examples=40)
def test_a_copy_goes_on_as_the_first(before, after, priorities):
    life = Story(priorities=priorities)
    for one in before:
        life.act(*one)
    other = deepcopy(life)
    for one in after:
        life.act(*one)
        other.act(*one)
    assert records(life.state) == records(other.state)


# --- the rules ------------------------------------------------------------------------------------


@pytest.fixture
def state():
    state = QueueState(QueueSettings(deliveries_max=2, items_max=10, bytes_max=100))
    put(state, 6)
    return state


def test_what_goes_back_is_next_at_its_own_place(state):
    take(state, 2, token=7)
    state.give_back(OperationId(ANN, 9), 7, [Interval(1, 2)])
    assert state.first(2, 1 << 20) == [Interval(1, 3)]


def test_who_had_a_lease_has_no_other_under_the_same_call(state):
    asked = OperationId(ANN, 70)
    state.take(asked, 1, state.first(1, 100))
    state.settle(1, [Interval(0, 1)])
    assert state.takers.had(asked)
    assert not state.takers.had(OperationId(ANN, 69))
    assert not state.takers.had(OperationId(BOB, 70))


def test_who_may_not_have_heard_of_a_lease_asks_anew(state):
    asked = OperationId(ANN, 70)
    state.take(asked, 1, state.first(1, 100))
    state.expire(1)
    assert not state.takers.had(asked)


def test_many_calls_later_it_is_known_still(state):
    for number in (5, 3, 66):
        state.take(OperationId(ANN, number), number, state.first(1, 100))
    assert [state.takers.had(OperationId(ANN, one)) for one in (3, 4, 5, 66)] == [
        True,
        False,
        True,
        True,
    ]


def test_what_is_done_may_be_told_again_when_the_lease_is_over(state):
    take(state, 2, token=7)
    assert state.settle(7, [Interval(0, 2)]) == []
    assert state.settle(7, [Interval(0, 2)]) == []


def test_what_is_done_is_no_more_than_what_was_ever_put(state):
    """A copy that lost its last steps knows of none of them that it is done."""
    put(state, 5)
    strange = state.settle(7, [Interval(4, 9)])
    assert IntervalSet(strange) == IntervalSet([Interval(4, 9)])


def test_what_went_back_is_not_to_be_acknowledged(state):
    take(state, 3, token=7)
    state.give_back(OperationId(ANN, 9), 7, [Interval(0, 2)])
    assert state.settle(7, [Interval(1, 3)]) == [Interval(1, 2)]
    assert not state.leases
    assert 1 in state.batches.live
    assert 2 not in state.batches.live


def test_the_dead_count_in_no_bound_and_come_back_as_far_as_there_is_room(state):
    for token in (1, 2):
        take(state, 4, token)
        state.expire(token)
    assert (state.dead.total, state.fits(8, 80), state.fits(9, 0)) == (4, True, False)
    put(state, 7, number=1)
    assert state.redrive(4) == 1
    assert state.first(1, 100) == [Interval(0, 1)]


def test_a_get_takes_as_many_bytes_as_are_asked_for_and_one_item_at_least(state):
    assert state.first(6, 35) == [Interval(0, 3)]
    assert state.first(6, 1) == [Interval(0, 1)]


def test_what_can_not_be_read_again_is_above_what_was_given(state):
    pairs, _ = changed(state)
    told = restored(state.settings, {key: value for key, value in pairs if key != b"s"})
    assert told.tails[0] > state.tails[0]


def test_no_place_is_given_twice_though_it_can_not_be_read_which_was_given_last(state):
    staged = state.staged
    staged.keep(3, StagedBatch(0, 30, 1, 0, 9))
    last = staged.keep(2, StagedBatch(0, 20, 1, 0, 9))
    pairs, _ = changed(state)
    told = restored(state.settings, {key: value for key, value in pairs if key != b"w"})
    assert told.staged.keep(1, StagedBatch(0, 1, 2, 0, 9)).start == last.stop


def test_what_can_not_be_read_is_not_staged_any_more(state):
    batch = state.staged.keep(3, StagedBatch(0, 30, 1, 0, 9))
    state.lose(batch.place)
    assert (state.staged.items, state.lost, state.over) == (0, 0, [batch.place])
