"""Bugs planted in the one engine: judges find each within some lives, or in a small world."""

from itertools import count

import msgspec
import pytest
from msgspec.structs import replace
from quiet import QUEUE, Quiet
from test_queue_life import left_alone, lived

from snowmelt.core.instant import later, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced, Received
from snowmelt.protocols.calling import Call
from snowmelt.protocols.membership import Severed
from snowmelt.protocols.queue.api.calls import Leased
from snowmelt.protocols.queue.leader import leader
from snowmelt.protocols.queue.leader.leader import Leader
from snowmelt.protocols.queue.leader.maintenance.altering import Altering
from snowmelt.protocols.queue.leader.publishing import Publishing
from snowmelt.protocols.queue.leader.settling import Settling
from snowmelt.protocols.queue.leader.storing import Storing
from snowmelt.protocols.queue.limits import LIMITS
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.words import ReplyTo
from snowmelt.protocols.queue.replication import sending
from snowmelt.protocols.queue.replication.in_sync import InSync
from snowmelt.protocols.queue.replication.log import Log
from snowmelt.protocols.queue.state import records
from snowmelt.protocols.queue.state.blocks import STAGED
from snowmelt.protocols.queue.state.keyed import Keyed
from snowmelt.protocols.queue.state.publications import Publications
from snowmelt.protocols.queue.state.staged import StagedBatches
from snowmelt.protocols.queue.state.state import QueueState
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS
from snowmelt.protocols.queue.state.takers import Takers
from snowmelt.protocols.queue.store.copy import HOME, Copy
from snowmelt_world.faults import CutLinks
from snowmelt_world.life import Ending
from snowmelt_world.scenario import kinds_of
from wide import wide

N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")


def what_comes_back_goes_to_the_end(patch):
    take = QueueState.first

    def first(self, items_max, bytes_max):
        found = take(self, items_max, bytes_max)
        return list(self.ready)[-1:] if self.ready.pieces > 1 else found

    patch.setattr(QueueState, "first", first)


def positions_that_lingered_are_given_again(patch):
    patch.setattr(Log, "_allowed", lambda self: self.lingers)


def a_copy_from_a_disk_has_all_that_it_told(patch):
    patch.setattr(Copy, "sure", property(lambda self: self.whole))


def the_next_leader_gives_what_a_group_has(patch):
    found = records.find_ready

    def find(state):
        found(state)
        state.ready.add_all(state.groups.held(state.batches.live))

    patch.setattr(records, "find_ready", find)
    patch.setattr(QueueState, "check", lambda _: None)
    patch.setattr(Leader, "check", lambda _: None)


def the_next_leader_knows_less_of_what_a_group_is_done_with(patch):
    written = records.record

    def record(state, key):
        group = state.groups.named(key[1:].decode()) if key[:1] == b"g" else None
        if group is None or not group.done:
            return written(state, key)
        return msgspec.msgpack.encode(replace(group, done=group.done - 1))

    patch.setattr(records, "record", record)
    patch.setattr(Leader, "check", lambda _: None)


def a_publication_forgets_its_last_batch(patch):
    put = Publishing._put

    def forgets(self, ask):
        named = ask.receipts[:-1] if len(ask.receipts) > 1 else ask.receipts
        return put(self, replace(ask, receipts=named))

    patch.setattr(Publishing, "_put", forgets)


def a_publication_is_another_each_time(patch):
    publish, numbers = Publishing.publish, count(1 << 40)

    def again(self, operation, ask):
        publish(self, operation, replace(ask, sequence=next(numbers)))

    patch.setattr(Publishing, "publish", again)


def the_last_plan_stands(patch):
    plan = Publishing.plan

    def anew(self, operation, ask):
        self._state.publications._forget((ask.producer, ask.sequence))
        plan(self, operation, ask)

    patch.setattr(Publishing, "plan", anew)


def what_is_published_may_differ(patch):
    patch.setattr(Publications, "other", lambda *_: "")


def what_was_published_is_erased(patch):
    take = StagedBatches.take

    def erases(self, place):
        held = take(self, place)
        self._over.append(Interval(place, held.stop))
        return held

    patch.setattr(StagedBatches, "take", erases)


def a_copy_lacks_what_is_staged(patch):
    whole = sending.with_bodies
    patch.setattr(sending, "with_bodies", lambda some: [one for one in whole(some) if is_put(one)])


def is_put(batch):
    return batch.place.start < STAGED


def it_is_admitted_before_it_is_stored(patch):
    ask = Storing._ask

    def admits(self, put):
        ask(self, put)
        put.has |= put.wanted
        self._admit(put)

    patch.setattr(Storing, "_ask", admits)


def what_is_admitted_is_spared(patch):
    patch.setattr(Storing, "_is_over", lambda *_: True)


def what_is_to_be_admitted_is_spared(patch):
    patch.setattr(Storing, "_waits", lambda *_: False)


def what_a_lost_disk_had_is_not_copied_anew(patch):
    patch.setattr(Storing, "_pass", lambda *_: None)
    patch.setattr(Storing, "short", 0)


def a_copy_out_of_sync_leads(patch):
    patch.setattr(Assignment, "counted", property(lambda self: (self.master, *self.mirrors)))


def it_counts_without_the_others_before_that_is_written(patch):
    def ask(self):
        self.members, self._next = self._next, None

    patch.setattr(InSync, "_ask", ask)


def the_next_leader_gives_positions_of_a_priority_again(patch):
    told = leader.restored

    def forgets(*cast):
        state = told(*cast)
        for priority, _ in enumerate(state.tails[1:], start=1):
            state.tails[priority] = 0
        return state

    patch.setattr(leader, "restored", forgets)
    patch.setattr(Leader, "check", lambda _: None)


def what_is_less_urgent_goes_first(patch):
    def first(self, items_max, bytes_max):
        if self.paused or not self.ready.total:
            return []
        last = list(self.ready)[-1].start >> PRIORITY_BITS << PRIORITY_BITS
        return self.batches.some(self.ready, last, items_max, bytes_max, LIMITS.lease_runs)

    patch.setattr(QueueState, "first", first)


def what_is_given_back_is_ready_a_little_later(patch):
    give = Settling._give_back

    def late(self, operation, settle):
        give(self, operation, replace(settle, due=settle.due or -seconds(0.5)))

    patch.setattr(Settling, "_give_back", late)


def a_rank_is_one_too_high(patch):
    find = leader.selected
    patch.setattr(
        leader, "selected", lambda ready, ask: find(ready, replace(ask, rank=ask.rank + 1))
    )


def what_is_staged_forgets_its_priority(patch):
    keep = StagedBatches.keep

    def forgets(self, *cast, **named):
        return keep(self, *cast, **{**named, "priority": 0})

    patch.setattr(StagedBatches, "keep", forgets)


def keys_have_no_say(patch):
    def foremost(self, items_max, bytes_max, batches):
        some = batches.some(self, 0, items_max, bytes_max, LIMITS.lease_runs)
        return [place for one in some for place in one]

    patch.setattr(Keyed, "foremost", foremost)


def leases_of_before_have_the_new_length(patch):
    patch.setattr(leader, "keep_lengths", lambda _state, _lease: None)


def who_leads_goes_on_with_the_bounds_of_before(patch):
    told = leader.restored

    def before(settings, kept, limits):
        state = told(settings, kept, limits)
        if HOME in kept:
            last = msgspec.msgpack.decode(kept[HOME], type=Assignment).settings
            bounds = {"items_max": last.items_max, "bytes_max": last.bytes_max}
            state.settings = replace(settings, **bounds)
        return state

    patch.setattr(leader, "restored", before)


def who_asks_for_others_is_heard_before_anybody_is_told(patch):
    hear = Altering.hear

    def hears(self, operation, ask):
        asked = self._asked
        hear(self, operation, ask)
        if self._wanted is None:
            self._asked = asked

    patch.setattr(Altering, "hear", hears)


def first(seeds):
    """Those that found it when they were looked for last; then the first there are."""
    return dict.fromkeys((*seeds, *range(40)))


@pytest.mark.parametrize(
    ("plant", "seeds"),
    [
        (what_comes_back_goes_to_the_end, (2,)),
        (positions_that_lingered_are_given_again, (9,)),
        (it_counts_without_the_others_before_that_is_written, (921,)),
        (a_copy_from_a_disk_has_all_that_it_told, (9,)),
        (the_next_leader_gives_what_a_group_has, (3, 16)),
        (the_next_leader_knows_less_of_what_a_group_is_done_with, (16, 19)),
        (a_publication_forgets_its_last_batch, (2, 4)),
        (a_publication_is_another_each_time, (2, 4)),
        (the_last_plan_stands, (38,)),
        (what_is_published_may_differ, (9,)),
        (what_was_published_is_erased, (2, 16)),
        (a_copy_lacks_what_is_staged, (33, 199)),
        (the_next_leader_gives_positions_of_a_priority_again, (5,)),
        (what_is_less_urgent_goes_first, (3, 5)),
        (what_is_given_back_is_ready_a_little_later, (9, 10)),
        (a_rank_is_one_too_high, (233,)),
        (what_is_staged_forgets_its_priority, (43,)),
        (it_is_admitted_before_it_is_stored, (26,)),
        (what_is_admitted_is_spared, (12,)),
        (what_is_to_be_admitted_is_spared, (12,)),
        (what_a_lost_disk_had_is_not_copied_anew, (68, 77)),
        (keys_have_no_say, (3, 19)),
        (leases_of_before_have_the_new_length, (120, 241)),
        (who_leads_goes_on_with_the_bounds_of_before, (120,)),
        *wide((who_asks_for_others_is_heard_before_anybody_is_told, (0,))),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_it_is_found(plant, seeds, monkeypatch):
    plant(monkeypatch)
    found = (lived(one, kinds_of("queue")).ending is not Ending.SETTLED for one in first(seeds))
    assert any(found)


def test_a_copy_that_is_not_in_sync_and_leads_is_found(monkeypatch):
    a_copy_out_of_sync_leads(monkeypatch)
    assert any(left_alone(one, "n1").ending is not Ending.SETTLED for one in (21, 71))


# --- what lives do not ask for: small worlds -----------------------------------------------------


def who_is_cut_off_says_nothing_of_what_there_is():
    """Others lead in a later term, and who led before does not know yet: it hears clients only."""
    quiet = Quiet(QUEUE, 0, 3, replicas=3)
    new, old = quiet.client("new", N1), quiet.client("old", N3)
    quiet.live((old, old.put(["first"])))
    quiet.live((old, taken(old)))
    [told] = quiet.live((new, new.steps.stats(5.0)))
    assert told.leader == N3
    now = quiet.world.now
    wall = CutLinks(now, later(now, seconds(60)), ((N3, N1), (N3, N2)))
    quiet.world.network.begin(wall)
    for node in (N1, N2):
        quiet.world.give(node, Announced(Severed(N3)))
    quiet.rest(1)
    [told] = quiet.live((new, new.steps.stats(5.0)))
    assert told.leader != N3
    quiet.live((new, new.put(["second"])))
    quiet.live((old, old.get(1, 0.5)))
    return quiet


def a_get_that_is_over_comes_once_more():
    """Its answer was heard, and what it brought was acknowledged; the network brings it again."""
    quiet = Quiet(QUEUE, 0, 1, replicas=1, lease=seconds(600))
    one, other = quiet.client("one"), quiet.client("other")
    quiet.live((one, one.put(["first"])))
    with pytest.MonkeyPatch.context() as patch:
        asked, get = [], Leader.get

        def spied(self, operation, request):
            asked.append(Received(operation.client, Call(operation.number, request)))
            get(self, operation, request)

        patch.setattr(Leader, "get", spied)
        quiet.live((one, taken(one)))
    quiet.live((one, one.put(["second"])))
    quiet.world.give(N1, asked[-1])
    quiet.rest(1)
    quiet.live((other, other.get(1, 1.0)))
    return quiet


def taken(client):
    delivered = yield from client.get(1, 5.0)
    yield from client.ack(delivered)


def an_empty_get_is_told_at_once(patch):
    def owe(self, owed):
        empty = isinstance(owed, ReplyTo) and isinstance(owed.answer, Leased)
        if empty and not self._state.changed:
            self._owed.appendleft((0, [owed]))
        else:
            owes(self, owed)

    owes = Log.owe
    patch.setattr(Log, "owe", owe)


def a_get_that_is_over_is_answered_anew(patch):
    patch.setattr(Takers, "had", lambda _self, _operation: False)


@pytest.mark.parametrize(
    ("plant", "world"),
    [
        (an_empty_get_is_told_at_once, who_is_cut_off_says_nothing_of_what_there_is),
        (a_get_that_is_over_is_answered_anew, a_get_that_is_over_comes_once_more),
    ],
    ids=lambda one: one.__name__,
)
def test_a_small_world_finds_it(plant, world, monkeypatch):
    assert world().judge() == []
    plant(monkeypatch)
    [found, *_] = world().judge()
    assert "got nothing, and second was there before it" in found
