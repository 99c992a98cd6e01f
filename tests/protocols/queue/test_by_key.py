"""Order, limits and fairness by key (`by_key.py`): the state against a model that looks at all."""

from collections import Counter
from itertools import chain
from random import Random

import pytest
from alone import Alone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.msgpack import decode
from test_state import KINDS, Story

from snowmelt.core.batch import Batch
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import SECOND, Instant, milliseconds, seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.keys import packed
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.backups import Restore, Restored, Save
from snowmelt.protocols.queue.api.labels import Labels, keys_of, pack
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.api.statuses import ChangeItem
from snowmelt.protocols.queue.leader.one_item import change_item
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.state import by_key, key_names
from snowmelt.protocols.queue.state.by_key import ByKey
from snowmelt.protocols.queue.state.pacing import Pace
from snowmelt.protocols.queue.state.records import records, restored
from snowmelt.protocols.queue.state.state import QueueState, delivered

FIXTURE = HealthCheck.function_scoped_fixture
A, B, C = b"a", b"b", b"c"
MOST = 1 << 20
LETTERS = (None, A, B, C)
ONES = (
    {"in_order_by_key": 1},
    {"at_once_by_key": 2},
    {"at_once": 3},
    {"fair": 1},
    {"in_order_by_key": 1, "at_once": 4, "fair": 1},
    {"at_once_by_key": 3, "at_once": 5, "fair": 1},
    {"in_order_by_key": 1, "at_once_by_key": 2},
    {"fair": 1, "weights": ((A, 2), (B, 3))},
    {"in_order_by_key": 1, "fair": 1, "weights": ((C, 5),)},
)
TURN = 1 << 32
STEPS = st.lists(
    st.tuples(st.sampled_from((*KINDS, "redrive")), st.integers(1, 9), st.integers(0, 9)),
    max_size=40,
)


def names(*keys):
    """As a batch that is staged has them."""
    return keys_of(pack(Labels(keys=keys)))


class StoryByKey(Story):
    """A story whose items have keys; the model knows them by position."""

    def urgency(self, much, which):
        own = [LETTERS[(which * at + which) % 4] for at in range(much)]
        return super().urgency(much, which) | {"names": tuple(own)}

    def act(self, kind, much, which):
        if kind == "redrive":
            self.state.redrive(much)
        elif kind == "stage":
            pass  # staged batches have names of their own (below)
        else:
            super().act(kind, much, which)

    def key(self, place):
        number = self.state.batches.number(place)
        name = self.state.by_key.names.name(number)
        if not number:
            return None
        page, index = divmod(number, key_names.PAGE)
        assert decode(self.records[b"j" + page.to_bytes(8)])[index] == name
        return name

    def may_take(self, count, turns, *, together=False):
        """Rules 2 to 8, by looking at everything each time; which key was given when is noted."""
        state, said = self.state, self.state.settings
        held = [place for one in state.leases.values() for where in one.left for place in where]
        hand, total = Counter(map(self.key, held)), len(held)
        ready = [place for where in state.ready for place in where]
        later = [place for where, _ in state.delays for place in where]

        def rank(place):
            return (*state.keys.of(Interval(place, place + 1)), place)

        found, run = [], None
        while len(found) < count and not (said.at_once and total >= said.at_once):
            may = []
            for place in ready:
                key = self.key(place)
                if key is not None and said.in_order_by_key:
                    others = [one for one in chain(ready, later) if self.key(one) == key]
                    if (hand[key] and key != run) or rank(place) != min(map(rank, others)):
                        continue
                if key is not None and said.at_once_by_key and hand[key] >= said.at_once_by_key:
                    continue
                weight = dict(said.weights).get(key, 1)
                share = (hand[key] // weight, turns.get(key, 0)) if said.fair else ()
                may.append((run is None or key != run, *share, rank(place), place))
            if not may:
                break
            *_, place = min(may)
            found.append(place)
            ready.remove(place)
            run = self.key(place) if together and said.in_order_by_key else None
            hand[self.key(place)] += 1
            key = self.key(place)
            turns["last"] = max(turns.get("last", 0) + 1, turns.get(key, 0))
            turns[key] = turns["last"] + TURN // dict(said.weights).get(key, 1)
            total += 1
        return found


@pytest.fixture(params=[False, True], ids=["usual", "small"], autouse=True)
def bounds(request, monkeypatch):
    """What is kept aside for a while, with its bound and with a small one."""
    if request.param:
        monkeypatch.setattr(by_key, "FRESH_MAX", 2)
        monkeypatch.setattr(key_names, "IDLE_MAX", 1)
        monkeypatch.setattr(key_names, "PAGE", 2)


@given(STEPS, st.sampled_from(ONES), st.sampled_from([3, ANY]), st.booleans())
@settings(deadline=None, max_examples=200, suppress_health_check=[FIXTURE])
def test_a_get_takes_what_the_rules_say_and_nothing_else(story, said, priorities, together):
    life, turns = StoryByKey(priorities=priorities, **said), {}
    for kind, much, which in story:
        life.step()
        if kind == "take":
            may = life.may_take(much, turns, together=together)
            life.tokens += 1
            found = life.state.first(much, 1 << 20, together=together)
            if found:
                life.state.take(OperationId(NodeId("bob"), life.tokens), life.tokens, found)
            assert sorted(may) == sorted([place for where in found for place in where])
        else:
            life.act(kind, much, which)
        life.state.check()


@given(STEPS, st.sampled_from(ONES), st.sampled_from([3, ANY]))
@settings(deadline=None, max_examples=80, suppress_health_check=[FIXTURE])
def test_whoever_leads_next_gives_what_the_one_before_would_have_given(story, said, priorities):
    life = StoryByKey(priorities=priorities, **said)
    for one in story:
        life.act(*one)
        life.step()
        told = restored(life.state.settings, life.records)
        assert records(told) == records(life.state)
        told.check()
        places = IntervalSet([Interval(one, one + 1) for one in life.may_take(99, {})])
        assert IntervalSet(told.first(99, 1 << 20)) == places


# --- the rules ------------------------------------------------------------------------------------


def state_of(*keys, **said):
    state = QueueState(QueueSettings(deliveries_max=2, **(said or {"in_order_by_key": 1})))
    if keys:
        put(state, *keys)
    return state


def put(state, *keys, due=0):
    state.put(len(keys), 10 * len(keys), term=1, due=due, names=keys)


def got(state, count=9, token=None):
    token = len(state.takers._known) + 100 * len(state.leases) + 1 if token is None else token
    found = state.first(count, 1 << 20)
    if found:
        state.take(OperationId(NodeId(f"c{token}"), token), token, found)
    return [place for one in found for place in one]


def test_what_fails_and_waits_for_its_retry_holds_up_those_behind_it_of_its_key_only():
    state = state_of(A, A, B, None, None)
    assert got(state, token=1) == [0, 2, 3, 4]
    state.give_back(OperationId(NodeId("x"), 1), 1, [Interval(0, 1)], due=50, reason="broken")
    assert got(state) == []
    state.wake(50)
    assert got(state, token=2) == [0]
    state.settle(2, [Interval(0, 1)])
    assert got(state) == [1]


def test_a_get_has_several_of_a_key_together_and_nobody_else_has_more_meanwhile():
    state = state_of(A, A, B, A, A)
    told = state.first(3, 1 << 20, together=True)
    assert [place for one in told for place in one] == [0, 1, 3]
    state.take(OperationId(NodeId("c"), 1), 1, told)
    assert got(state, token=2) == [2]
    state.settle(1, [Interval(1, 2), Interval(3, 4)])
    assert got(state, token=3) == []
    state.give_back(OperationId(NodeId("x"), 1), 1, [Interval(0, 1)], reason="no")
    state.check()
    assert state.first(9, 1 << 20, together=True) == [Interval(0, 1), Interval(4, 5)]


def test_a_fair_get_looks_at_no_more_than_may_be_fresh_and_what_came_last(monkeypatch):
    state, keys = state_of(fair=1), [b"%d" % at for at in range(20_000)]
    for _ in range(2):  # of keys that each have one in hand
        for at in range(0, len(keys), 500):
            put(state, *keys[at : at + 500])
        if not state.leases:
            assert len(got(state, len(keys))) == len(keys)
    looked, look = [], ByKey._look
    monkeypatch.setattr(ByKey, "_look", lambda self, key: (looked.append(key), look(self, key)))
    assert got(state, 1) == [len(keys)]
    assert len(looked) <= by_key.FAIR_FRESH_MAX + 500 + 2


def test_together_are_no_more_than_the_bytes_that_are_asked_for():
    state = state_of(A, A, A)
    assert state.first(9, 25, together=True) == [Interval(0, 2)]


def test_what_is_leased_is_purged_where_that_is_asked_for():
    state = state_of(A, A, B, None)
    got(state, token=1)
    assert state.purge(dead=False, held=True) == 4
    assert (state.leases, len(state.by_key), state.batches.live.total) == ({}, 0, 0)
    assert delivered(state) == 3
    assert state.settle(1, [Interval(0, 1)]) == []  # nobody else has it
    put(state, A)
    assert got(state) == [4]
    state.check()


def test_what_is_put_for_later_keeps_its_place():
    state = state_of()
    put(state, A, due=50)
    put(state, A, B)
    assert got(state, token=1) == [2]
    state.wake(50)
    assert got(state, token=2) == [0]


def test_what_is_dead_is_passed_by_and_comes_first_when_it_is_brought_back():
    state = state_of(A, A, A)
    got(state, token=1)
    state.give_back(OperationId(NodeId("x"), 1), 1, [Interval(0, 1)], reason="no", dead=True)
    assert got(state, token=2) == [1]
    assert state.redrive(9) == 1
    assert got(state) == []
    state.settle(2, [Interval(1, 2)])
    assert got(state) == [0]


def test_a_lease_that_ended_is_in_nobodys_hand():
    state = state_of(A, A, at_once=1)
    assert got(state, token=1) == [0]
    assert got(state) == []
    state.expire(1)
    assert got(state) == [0]


def test_purging_lets_the_key_go_when_its_last_item_has_ended():
    state = state_of(A, A, B)
    assert got(state, count=1, token=1) == [0]
    assert state.purge(dead=False) == 2
    assert len(state.by_key) == 1
    state.settle(1, [Interval(0, 1)])
    assert len(state.by_key) == 0
    put(state, A)
    assert got(state) == [3]


@pytest.mark.parametrize("said", [{"in_order_by_key": 1}, {"at_once_by_key": 1}])
@pytest.mark.parametrize("dead", [False, True])
def test_an_item_that_an_operator_brings_back_is_given_once(said, dead):
    state = state_of(A, A, **said)
    got(state, token=1)
    away = OperationId(NodeId("x"), 1)
    state.give_back(away, 1, [Interval(0, 1)], due=0 if dead else 50, reason="no", dead=dead)
    assert change_item(state, away, ChangeItem("q", 0, drop=False)) == 1
    assert got(state, token=2) == [0]
    assert got(state) == []
    assert change_item(state, away, ChangeItem("q", 0, drop=True)) == 1
    assert got(state) == [1]
    state.check()


def test_what_comes_back_behind_a_more_urgent_one_holds_its_key_up_no_more():
    state = state_of(in_order_by_key=1, priorities=ANY)
    for urgency in (5, 1):
        state.put(1, 10, term=1, priority=packed([urgency]), names=(A,))
        got(state, token=urgency)
    state.give_back(OperationId(NodeId("bob"), 9), 5, [Interval(0, 1)], reason="no")
    assert got(state, token=7) == [1]


def test_what_is_to_come_later_lets_one_before_it_of_its_key_go_on():
    state = state_of(A, A)
    got(state, token=1)
    state.give_back(OperationId(NodeId("bob"), 8), 1, [Interval(0, 1)], reason="no", dead=True)
    assert got(state, token=2) == [1]
    state.redrive(1)
    state.give_back(OperationId(NodeId("bob"), 9), 2, [Interval(1, 2)], due=50, reason="no")
    assert got(state, token=3) == [0]


def test_what_is_lost_holds_nobody_up():
    state = state_of(A, A)
    got(state, token=1)
    state.lose(Interval(0, 1))
    assert got(state) == [1]


def test_the_key_with_the_least_in_hand_comes_next():
    state = state_of(A, A, A, A, B, C, B, fair=1)
    assert [got(state, 1, token)[0] for token in range(1, 8)] == [0, 4, 5, 1, 6, 2, 3]


def test_keys_that_are_even_take_turns_though_one_has_far_more_that_came_first():
    state = state_of(*[A] * 50, B, B, C, fair=1)
    came = []
    for token in range(1, 8):
        came += got(state, 1, token)
        state.settle(token, [Interval(came[-1], came[-1] + 1)])
    assert came == [0, 50, 52, 1, 51, 2, 3]


def came_one_by_one(state, count):
    """The keys, where each is acknowledged before the next is got."""
    came = []
    for token in range(1, count + 1):
        (place,) = got(state, 1, token)
        came.append(state.by_key.names.name(state.batches.number(place)))
        state.settle(token, [Interval(place, place + 1)])
    return came


def test_a_key_of_weight_three_has_three_turns_for_one_of_the_others():
    state = state_of(*[A, B, C] * 20, fair=1, weights=((B, 3),))
    came = came_one_by_one(state, 30)
    assert Counter(came) == {A: 6, B: 18, C: 6}
    for at in range(25):
        assert 2 <= came[at : at + 5].count(B) <= 4, "in any row of five, and not three at the end"


def test_who_comes_late_has_no_turns_to_make_up_for():
    state = state_of(*[A] * 40, fair=1, weights=((B, 2),))
    assert came_one_by_one(state, 10) == [A] * 10
    put(state, *[B] * 20)
    assert Counter(came_one_by_one(state, 9)) == {A: 3, B: 6}


def test_in_hand_a_key_of_weight_three_has_three_times_as_many():
    state = state_of(*[A, B, C] * 9, fair=1, weights=((B, 3),))
    places = [got(state, 1, token)[0] for token in range(1, 11)]
    keys = ["ABC"[place % 3] for place in places]
    assert Counter(keys[:5]) == {"A": 1, "B": 3, "C": 1}
    assert Counter(keys) == {"A": 2, "B": 6, "C": 2}


def test_weights_are_settings_and_each_is_changed_for_itself():
    fair = QueueSettings(fair=1, weights=((A, 2), (B, 3)))
    assert fair.altered({}, 1, ((C, 4), (A, 1))).weights == ((B, 3), (C, 4))
    assert fair.altered({"fair": 0}, 1).altered({"fair": 1}, 1) == fair
    with pytest.raises(BadOption, match="only with fair=True"):
        QueueSettings().altered({}, 1, ((A, 2),))
    with pytest.raises(BadOption, match="the weight of b'a' is 1001; allowed: 1 to 1000"):
        fair.altered({}, 1, ((A, 1001),))
    many = tuple([(b"%d" % at, 2) for at in range(101)])
    with pytest.raises(BadOption, match="weights is '101 keys'; allowed: at most 100"):
        QueueSettings(fair=1).altered({}, 1, many)
    with pytest.raises(BadOption, match="option is 'weights'"):
        fair.altered({"weights": 3}, 1)


def test_settings_that_are_gone_leave_a_plain_queue_with_the_same_records():
    state = state_of(A, A, B)
    told = restored(QueueSettings(), records(state))
    told.check()
    assert got(told) == [0, 1, 2]
    again = restored(QueueSettings(at_once_by_key=1), records(told))
    again.check()
    assert got(again) == []


def test_with_as_many_keys_as_there_may_be_there_is_room_for_those_that_are_there(monkeypatch):
    monkeypatch.setattr(by_key, "KEYS_MAX", 2)
    state = state_of(A, B)
    assert state.fits(1, 10, names(A))
    assert state.fits(1, 10, names(None))
    assert not state.fits(1, 10, names(C))
    assert not state.fits(2, 10, names(A), names(C))


def test_an_empty_key_is_none_and_takes_no_page_of_names_away():
    state = state_of(A, b"", B)
    told = restored(state.settings, records(state))
    got(told, token=1)
    told.settle(1, [Interval(1, 3)])  # that of A stays
    for number in range(key_names.IDLE_MAX + key_names.PAGE):
        put(told, b"%d" % number)
    got(told, 1 << 20, token=2)
    told.settle(2, list(told.leases[2].left))
    assert told.by_key.names.name(told.batches.number(0)) == A


def test_keys_that_come_again_keep_their_numbers_and_those_long_gone_are_forgotten():
    state = state_of(A, B)
    got(state, token=1)
    state.settle(1, [Interval(0, 2)])
    assert len(state.by_key) == 0
    assert {A, B} >= state.by_key.names.known.keys() - {None}
    put(state, A)
    for number in range(key_names.IDLE_MAX + 50):
        put(state, b"%d" % number)
    got(state, 1 << 20, token=2)
    state.settle(2, [Interval(3, 3 + key_names.IDLE_MAX + 50)])
    assert len(state.by_key) == 1
    assert len(state.by_key.names.known) <= key_names.IDLE_MAX + 2
    told = restored(state.settings, records(state))
    told.check()
    assert records(told) == records(state)
    assert got(told, token=3) == []
    told.settle(2, [Interval(2, 3)])
    put(told, A)
    assert len(got(told, token=4)) == 1


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"fair": 1}, "partitions is 2; allowed: 1 in a queue with fair"),
        ({"at_once": 3, "priorities": 3}, "allowed: 1 in a queue with priorities and at_once"),
        ({"at_once": 1}, "at_once is 1; allowed: 2 or more"),
        ({"per_second": 1}, "per_second is 1; allowed: 2 or more"),
    ],
)
def test_what_can_not_be_with_several_partitions_is_refused(more, error):
    with pytest.raises(BadOption, match=error):
        QueueSettings(partitions=2, **more).checked()


# --- one of several partitions --------------------------------------------------------------------


def offering(*keys, **said):
    return state_of(*keys, partitions=2, **(said or {"in_order_by_key": 1}))


def test_who_looks_takes_nothing():
    state = offering(A, A, B, None, in_order_by_key=1)
    for _ in range(2):
        assert state.by_key.look(9, MOST) == ([0, 2, 3], False)
        assert state.by_key.look(1, MOST) == ([0], True)
        assert state.by_key.look(9, MOST, before=2) == ([0], False)
    state.check()


def test_what_was_looked_at_is_given_if_it_may_be_still():
    state = offering(A, A, B, B, None, None, at_once_by_key=2, at_once=10)
    assert state.by_key.give([Interval(0, 3)]) == [0, 1, 2]
    state.take(OperationId(NodeId("c-1"), 1), 1, [Interval(0, 3)])
    put(state, A)
    assert state.by_key.give([Interval(4, 7)]) == [4, 5], "two of a are in hand, and five of all"
    state.take(OperationId(NodeId("c-1"), 2), 2, [Interval(4, 6)])
    state.check()
    assert state.by_key.give([Interval(3, 4)]) == []
    state.check()


def test_an_item_that_came_back_meanwhile_comes_first_in_order():
    state = offering(A, A, B, in_order_by_key=1)
    assert got(state, 1, token=1) == [0]
    assert state.by_key.give([Interval(1, 2)]) == [], "the first is in hand"
    state.give_back(OperationId(NodeId("c-1"), 9), 1, [Interval(0, 1)])
    assert state.by_key.give([Interval(1, 3)]) == [2]
    state.take(OperationId(NodeId("c-1"), 3), 3, [Interval(2, 3)])
    state.check()


def test_without_order_an_item_is_given_though_one_before_it_came_back():
    state = offering(A, A, A, None, None, at_once_by_key=2)
    assert got(state, 1, token=1) == [0]
    state.by_key.look(9, MOST)
    state.give_back(OperationId(NodeId("c-1"), 9), 1, [Interval(0, 1)])
    assert state.by_key.give([Interval(1, 2), Interval(4, 5)]) == [1, 4]
    state.take(OperationId(NodeId("c-1"), 3), 3, [Interval(1, 2), Interval(4, 5)])
    state.check()
    assert state.by_key.look(9, MOST) == ([0, 3], False)


def test_who_looks_uses_up_no_second():
    outbox = Outbox("n1", Random(1))
    pace = Pace(outbox, QueueSettings(per_second=8, per_second_by_key=2, partitions=2))
    state = offering(A, A, A, B, None, None, per_second_by_key=2)
    assert state.by_key.look(9, MOST, pace) == ([], False)
    outbox.now = Instant(SECOND)
    for _ in range(3):
        assert state.by_key.look(9, MOST, pace) == ([0, 1, 3, 4], False), "half of eight"
        assert state.by_key.look(1, MOST, pace) == ([0], True)
    assert state.by_key.give([Interval(0, 6)], pace) == [0, 1, 3, 4]
    assert state.by_key.give([Interval(5, 6)], pace) == []
    assert state.by_key.look(9, MOST, pace) == ([], False)
    outbox.now = Instant(2 * SECOND)
    assert state.by_key.look(9, MOST, pace)[0] == [2, 5]


# --- one node -------------------------------------------------------------------------------------


def put_at(alone, number, *keys, due=0):
    batch = Batch.of([b"%d.%d" % (number, at) for at in range(len(keys))])
    headers = pack(Labels(keys=keys))
    return alone.said(
        calls.Put("q", "p", number, bytes(batch.offsets), bytes(batch.blob), headers, due)
    )


def leased(answer):
    return [part.start + at for part in answer.parts for at in range(part.count)]


def get_at(alone, count=9, patience=0):
    return alone.said(calls.Get("q", count, 1 << 20, seconds(patience), None))


def test_a_get_waits_while_all_keys_are_held_up_and_an_acknowledgement_serves_it():
    alone = Alone.of(in_order_by_key=1)
    put_at(alone, 1, A, A)
    first = get_at(alone)
    assert leased(first) == [0]
    waits = alone.calls + 1
    assert get_at(alone, patience=60) is None
    alone.said(calls.Settle("q", first.token, (Interval(0, 1),)))
    assert leased(alone.answers[waits]) == [1]


def test_a_get_that_waits_for_the_rate_is_woken_by_the_second_that_passed():
    alone = Alone.of(per_second_by_key=1)
    alone.wait(seconds(1))  # a leader's first second
    put_at(alone, 1, A, A, B)
    assert leased(get_at(alone)) == [0, 2]
    waits = alone.calls + 1
    assert get_at(alone, patience=60) is None
    alone.wait(milliseconds(999))
    alone.flush()
    assert waits not in alone.answers
    alone.wait(milliseconds(1))
    alone.flush()
    assert leased(alone.answers[waits]) == [1]


def test_what_wakes_the_queue_before_leaves_no_get_asleep():
    alone = Alone.of(per_second_by_key=1)
    alone.wait(seconds(1))
    put_at(alone, 1, A, A)
    get_at(alone)
    waits = alone.calls + 1
    get_at(alone, patience=60)
    get_at(alone, patience=0.3)
    alone.wait(seconds(1))
    alone.flush()
    assert leased(alone.answers[waits]) == [1]


def test_a_leader_gives_nothing_in_its_first_second_where_there_is_a_rate():
    alone = Alone.of(per_second=3)
    put_at(alone, 1, *[None] * 9)
    assert leased(get_at(alone)) == []
    alone.wait(seconds(1))
    assert leased(get_at(alone)) == [0, 1, 2]
    alone.killed()
    assert leased(get_at(alone)) == []


def test_what_waited_counts_in_the_rate_of_all_also_without_a_key():
    alone = Alone.of(per_second=3, fair=1)
    alone.wait(seconds(1))
    put_at(alone, 1, *[None] * 9)
    assert [leased(get_at(alone, 1)) for _ in range(5)] == [[0], [1], [2], [], []]


def test_a_key_that_went_and_came_again_within_a_second_has_had_its_share():
    alone = Alone.of(per_second_by_key=1)
    alone.wait(seconds(1))
    put_at(alone, 1, A)
    lease = get_at(alone)
    alone.said(calls.Settle("q", lease.token, (Interval(0, 1),)))
    put_at(alone, 2, A)
    assert leased(get_at(alone)) == []
    alone.wait(seconds(1))
    assert leased(get_at(alone)) == [1]


def test_a_key_that_is_too_long_is_refused_with_the_bound():
    alone = Alone.of(fair=1)
    told = put_at(alone, 1, b"x" * 257)
    assert isinstance(told, Declined)
    assert told.text == "bytes of the key is 257; allowed: 0 to 256"


def test_what_is_staged_is_published_with_its_keys():
    alone = Alone.of(in_order_by_key=1)
    batch = Batch.of([b"one", b"two"])
    staged = calls.Put(
        "q", "p", 1, bytes(batch.offsets), bytes(batch.blob), pack(Labels(keys=(A, A))),
        hold=seconds(60),
    )  # fmt: skip
    receipt = alone.said(staged)
    alone.said(calls.PublishStaged("q", "p", 2, (receipt,)))
    assert leased(get_at(alone)) == [0]
    assert leased(get_at(alone)) == []


def test_a_queue_that_is_made_of_a_backup_knows_the_keys():
    alone = Alone.of(in_order_by_key=1)
    put_at(alone, 1, A, A, B)
    put_at(alone, 2, B)
    first = get_at(alone, 1)
    alone.said(calls.Settle("q", first.token, (Interval(0, 1),)))
    assert not isinstance(alone.said(Save("q", 7, 0)), Declined)
    piece = alone.said(Save("q", 7, 1))
    other = Alone.of(in_order_by_key=1)
    said = other.said(Restore("q", 7, 0, piece.lots, piece.records, last=True))
    assert said == Restored(1, done=True)
    assert leased(get_at(other)) == [1, 2]
    assert leased(get_at(other)) == []


def test_a_group_is_given_one_of_each_key_and_the_next_when_it_is_past_them():
    alone = Alone.of(in_order_by_key=1)
    put_at(alone, 1, A, A, B)
    given = alone.said(calls.Assign("q", "spark", 0, "r", 0, 9, 1 << 20))
    assert given.given == 2
    assert leased(get_at(alone)) == []
    more = alone.said(calls.Assign("q", "spark", given.lease, "r", 2, 9, 1 << 20))
    assert more.given == 3
    alone.said(calls.ReleaseGroup("q", "spark"))
    assert leased(get_at(alone)) == [1]
