"""The numbered rules of protocols/membership, each by comparing what a node returns."""

import re
from random import Random

import msgspec
import pytest

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import Address, NodeId, OperationId, contact
from snowmelt.core.node import (
    Announce,
    Announced,
    CancelTimer,
    Expired,
    Halt,
    Note,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Reply,
    Requested,
    Send,
    SetTimer,
    Started,
)
from snowmelt.core.record import Record, Write
from snowmelt.protocols.calling import Declined, Elsewhere
from snowmelt.protocols.membership import (
    Current,
    CutOff,
    Depart,
    Departed,
    Forget,
    GetStatus,
    HandedOver,
    Identity,
    Leaving,
    Member,
    MembershipNode,
    MembershipSettings,
    View,
)
from snowmelt.protocols.membership.disk import LEDGER, SELF, VIEW, Self
from snowmelt.protocols.membership.member import MemberTimer
from snowmelt.protocols.membership.messages import (
    Accepted,
    Adopt,
    Forgotten,
    Heartbeat,
    Join,
    Leave,
    LeftView,
    Redirected,
    Refused,
)
from snowmelt.protocols.membership.monitor import KeeperTimer
from snowmelt.protocols.membership.view import EPOCHS_AHEAD, IdBinding, Ledger
from snowmelt_world.families.membership import Founder

N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
CLUSTER = 77
SETTINGS = MembershipSettings(interval=seconds(3), misses=3, grace=seconds(1))
OPERATION = OperationId(NodeId("c1"), 1)
ZERO = Instant(0)
RUNS = {N1: 11, N2: 22, N3: 33}


def address(node):
    return Address(node, 4410)


def member(node, birth=None, start=1):
    return Member(node, address(node), ord(node[1]) if birth is None else birth, start)


DECIDED = Ledger(
    View(CLUSTER, 3, N1, (member(N1), member(N2))),
    tuple(IdBinding(one, ord(one[1]), 1, run) for one, run in RUNS.items()),
)


def at(count):
    return Instant(seconds(count))


def sends(effects, kind):
    return [one for one in effects if isinstance(one, Send) and isinstance(one.message, kind)]


def of(effects, *kinds):
    return [effect for effect in effects if isinstance(effect, kinds)]


class Desk:
    """A node, and a disk that answers when it is told to."""

    def __init__(self, node, contacts=(), seed=1, *, hands_over=False):
        names = tuple(contact(address(one)) for one in contacts)
        identity = Identity(id=node, address=address(node), contacts=names)
        machine = MembershipNode if contacts else Founder
        self.node = machine(identity, SETTINGS, Random(seed), hands_over=hands_over)
        self.unflushed = []
        self.disk = {}
        self.now = ZERO

    def handle(self, event, now=None):
        self.now = max(self.now, self.now if now is None else now)
        effects = self.node.handle(event, self.now)
        self.node.check()
        self.unflushed += of(effects, Persist)
        return effects

    def wait(self, until):
        """Time passes; the coordinator's timer fires every interval."""
        step = later(self.now, SETTINGS.interval)
        while step < until:
            self.handle(Expired(KeeperTimer.SWEEP), step)
            step = later(step, SETTINGS.interval)

    def look_round(self, until):
        """The same, and once more at this instant."""
        self.wait(until)
        return self.handle(Expired(KeeperTimer.SWEEP), until)

    def hear(self, source, message, now=None):
        return self.handle(Received(source, message), now)

    def flush(self, now=None):
        """The oldest step not yet answered is safe."""
        persist = self.unflushed.pop(0)
        self.disk |= {change.key: change.value for change in persist.changes}
        return self.handle(Persisted(persist.ticket), now)

    def fail(self, now=None):
        return self.handle(PersistFailed(self.unflushed.pop(0).ticket, "full"), now)

    def ask(self, request, operation=OPERATION, now=None):
        return self.handle(Requested(operation, request), now)

    @property
    def standing(self):
        (reply,) = self.ask(GetStatus())
        return reply.message.standing

    @property
    def view(self):
        (reply,) = self.ask(GetStatus())
        return reply.message.view


def started(*pairs, damaged=()):
    records = [Record(key, msgspec.msgpack.encode(value)) for key, value in pairs]
    return Started(tuple(records), damaged)


@pytest.fixture
def keeper():
    """The coordinator n1 of cluster 77, current in view 3 of n1 and n2; n3 is known and absent."""
    desk = Desk(N1)
    desk.handle(started((SELF, Self(N1, ord("1"), 1)), (VIEW, DECIDED.view), (LEDGER, DECIDED)))
    desk.flush()
    return desk


@pytest.fixture
def follower():
    """n2, outside, with nothing on its disk, told of n1."""
    desk = Desk(N2, [N1])
    desk.handle(Started())
    return desk


def join(node, run, number=1, birth=None, start=1, cluster=0, epoch=0):
    return Join(number, run, member(node, birth, start), cluster, epoch)


def beat(node, run, number=1, start=1, epoch=3, cluster=CLUSTER):
    return Heartbeat(number, run, ord(node[1]), start, cluster, epoch)


def admitted(follower, epoch=1, others=()):
    """Lets n1 accept n2, and the view reach its disk; returns the Join and the View."""
    (send,) = sends(follower.flush(), Join)
    word = send.message
    members = tuple(sorted([member(N1), word.member, *others]))
    view = View(CLUSTER, epoch, N1, members)
    follower.hear(N1, Accepted(word.number, word.run, epoch, view))
    return word, view


def not_in_view(run, number):
    return Refused(run, "n2 is not in view 2", final=False, number=number)


def current(follower):
    word, view = admitted(follower)
    follower.flush()
    assert follower.standing == "current"
    return word, view


# --- rule 1: a view is on the disk before it is told ----------------------------------------------


def test_rule_1_nobody_hears_of_a_view_before_it_is_safe(keeper):
    effects = keeper.hear(N3, join(N3, 34, start=2))
    assert [type(effect) for effect in effects] == [Note, Persist]
    ledger = Ledger.read(effects[1].changes[0].value)
    view = View(CLUSTER, 4, N1, (member(N1), member(N2), member(N3, start=2)))
    assert ledger.view == view
    assert effects[1].changes[0].value == effects[1].changes[1].value  # both copies, one step
    effects = keeper.flush()
    assert sends(effects, Adopt) == [Send(one, Adopt(view)) for one in (N1, N2, N3)]
    assert sends(effects, Accepted) == [Send(N3, Accepted(1, 34, 4, view))]


def test_rule_1_a_view_that_could_not_be_kept_was_never_there(keeper):
    keeper.hear(N3, join(N3, 34, start=2))
    assert [type(effect) for effect in keeper.fail()] == [Note]
    assert sends(keeper.hear(N2, beat(N2, 22)), Accepted) == [Send(N2, Accepted(1, 22, 3, None))]
    (persist,) = of(keeper.hear(N3, join(N3, 34, number=2, start=2)), Persist)
    assert Ledger.read(persist.changes[0].value).view.epoch == 4
    assert sends(keeper.flush(), Accepted)[0].message.number == 2


def test_rule_1_decisions_that_wait_are_written_together_and_told_one_by_one(keeper):
    keeper.hear(N3, join(N3, 34, start=2))
    keeper.hear(NodeId("n4"), join(NodeId("n4"), 44))
    keeper.hear(NodeId("n5"), join(NodeId("n5"), 55))
    assert len(keeper.unflushed) == 1
    assert sends(keeper.flush(), Adopt)[0].message.view.epoch == 4
    view = sends(keeper.flush(), Adopt)[0].message.view
    assert [one.id for one in view.members] == ["n1", "n2", "n3", "n4", "n5"]
    assert keeper.unflushed == []


@pytest.mark.parametrize(("reached", "epoch"), [(True, 4), (False, 3)])
def test_rule_1_a_crash_before_the_flush_leaves_the_old_view_or_the_new_and_no_third(
    keeper, reached, epoch
):
    keeper.hear(N3, join(N3, 34, start=2))
    disk = {**keeper.disk, LEDGER: DECIDED.written()}
    if reached:
        disk |= {change.key: change.value for change in keeper.unflushed[0].changes}
    again = Desk(N1, seed=2)
    again.handle(Started(tuple(Record(key, value) for key, value in sorted(disk.items()))))
    again.flush()
    (answer,) = sends(again.hear(N2, beat(N2, 22)), Accepted)
    assert answer.message.epoch == epoch


def test_a_coordinator_that_begins_twice_from_one_copy_of_its_disk_counts_two_starts():
    starts = []
    for seed in (3, 4):
        desk = Desk(N1, seed=seed)
        desk.handle(started((SELF, Self(N1, ord("1"), 1)), (VIEW, DECIDED.view), (LEDGER, DECIDED)))
        desk.flush()
        starts.append(msgspec.msgpack.decode(desk.disk[SELF], type=Self).start)
    assert min(starts) > 1
    assert len(set(starts)) == 2


# --- rule 2: who is admitted ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "reason", "superseded"),
    [
        (join(N3, 34, birth=5, start=9), "belongs to another disk", False),
        (join(N3, 34, start=0), r"began again \(start 1\)", True),
        (join(N3, 34, start=1), "another process on a copy", True),
        (join(N3, 33, cluster=5), "is of cluster 0{15}5, and n1 is of", False),
    ],
)
def test_rule_2_whoever_does_not_fit_is_refused_with_the_reason(keeper, word, reason, superseded):
    effects = keeper.hear(N3, word)
    assert [type(effect) for effect in effects] == [Note, Send]
    refusal = effects[1].message
    assert (refusal.run, refusal.final, refusal.superseded) == (word.run, True, superseded)
    assert re.search(reason, refusal.reason)
    assert keeper.unflushed == []


@pytest.mark.parametrize(
    "word", [join(N3, 33), join(N3, 34, start=2), join(NodeId("n9"), 9, cluster=CLUSTER)]
)
def test_rule_2_whoever_fits_is_admitted(keeper, word):
    keeper.hear(word.member.id, word)
    (answer,) = sends(keeper.flush(), Accepted)
    assert answer.message.view.member(word.member.id) == word.member


def test_rule_2_a_member_that_restarted_is_replaced_in_the_next_view(keeper):
    keeper.hear(N2, join(N2, 23, start=2))
    (adopt, *_) = sends(keeper.flush(), Adopt)
    assert adopt.message.view == View(CLUSTER, 4, N1, (member(N1), member(N2, start=2)))


def test_rule_2_a_member_that_asks_again_is_accepted_without_a_new_view(keeper):
    assert keeper.hear(N2, join(N2, 22, number=9)) == [
        Send(N2, Accepted(9, 22, 3, View(CLUSTER, 3, N1, (member(N1), member(N2)))))
    ]


def test_rule_2_a_late_join_of_an_earlier_start_changes_nothing_while_the_new_one_is_written(
    keeper,
):
    keeper.hear(N2, join(N2, 23, start=2))
    keeper.hear(N2, join(N2, 22, start=1, number=4))  # doubled by the network, and late
    while keeper.unflushed:
        keeper.flush()
    (answer,) = sends(keeper.hear(N2, beat(N2, 23, start=2, epoch=4)), Accepted)
    assert answer.message.epoch == 4


@pytest.mark.parametrize("rival", [{"birth": 5, "start": 1}, {"start": 1}])
def test_rule_2_of_two_that_want_one_id_in_the_same_moment_the_first_decided_keeps_it(
    keeper, rival
):
    n4 = NodeId("n4")
    first, other = join(n4, 44), join(n4, 45, number=7, **rival)
    for word in (first, other, msgspec.structs.replace(first, number=2)):
        keeper.hear(n4, word)
    answers = []
    while keeper.unflushed:
        answers += sends(keeper.flush(), Accepted)
    assert [answer.message.run for answer in answers] == [44]
    assert sends(keeper.hear(n4, first), Accepted)
    (refusal,) = sends(keeper.hear(n4, other), Refused)
    assert refusal.message.final


def test_rule_2_the_word_of_a_rival_is_not_accepted_by_the_decision_for_another_run(keeper):
    n4 = NodeId("n4")
    keeper.hear(n4, join(n4, 44))
    keeper.hear(n4, join(n4, 45, number=7))  # the same disk, copied
    answers = []
    while keeper.unflushed:
        answers += sends(keeper.flush(), Accepted)
    assert answers == []  # 44 asks again and is accepted; 45 asks again and is refused
    assert sends(keeper.hear(n4, join(n4, 44, number=2)), Accepted)


# --- rule 3: heartbeats ---------------------------------------------------------------------------


def test_rule_3_a_present_members_heartbeat_is_accepted_with_the_view_when_it_is_behind(keeper):
    view = View(CLUSTER, 3, N1, (member(N1), member(N2)))
    assert keeper.hear(N2, beat(N2, 22, number=5)) == [Send(N2, Accepted(5, 22, 3, None))]
    assert keeper.hear(N2, beat(N2, 22, number=6, epoch=2)) == [Send(N2, Accepted(6, 22, 3, view))]


@pytest.mark.parametrize(
    ("word", "final", "superseded"),
    [
        (beat(N3, 33), False, False),  # absent
        (beat(N2, 23, start=2), False, False),  # a start nobody heard of
        (beat(NodeId("n9"), 9), False, False),  # nobody
        (beat(N2, 21, start=0), True, True),
        (beat(N2, 23), True, True),  # two runs of one start
        (beat(N2, 22, cluster=5), True, False),
    ],
)
def test_rule_3_any_other_heartbeat_is_refused(keeper, word, final, superseded):
    source = {ord("3"): N3, ord("9"): NodeId("n9")}.get(word.birth, N2)
    (refusal,) = sends(keeper.hear(source, word), Refused)
    assert refusal.target == source
    assert (refusal.message.final, refusal.message.superseded) == (final, superseded)
    assert refusal.message.run == word.run


# --- rule 4: the silent are left out --------------------------------------------------------------


def swept(keeper, now):
    keeper.wait(now)
    keeper.hear(N1, beat(N1, 11), now)  # itself
    return keeper.look_round(now)


def test_rule_4_a_member_silent_for_the_whole_patience_is_left_out(keeper):
    keeper.hear(N2, beat(N2, 22), at(1))
    effects = swept(keeper, at(10))
    assert [type(effect) for effect in effects] == [SetTimer]
    assert effects[0].at == at(11)
    effects = swept(keeper, at(11))
    assert [type(effect) for effect in effects] == [Note, Persist, SetTimer]
    (adopt,) = sends(keeper.flush(), Adopt)
    assert adopt == Send(N1, Adopt(View(CLUSTER, 4, N1, (member(N1),))))


def test_rule_4_the_coordinator_never_leaves_itself_out(keeper):
    keeper.hear(N2, beat(N2, 22), at(9))
    effects = keeper.look_round(at(10))  # it never heard itself
    assert of(effects, Persist) == []


def test_rule_4_the_id_stays_bound_to_the_birth(keeper):
    swept(keeper, at(10))
    keeper.flush()
    (refusal,) = sends(keeper.hear(N2, join(N2, 9, birth=5, start=7)), Refused)
    assert "snowmelt forget n2" in refusal.message.reason
    keeper.hear(N2, join(N2, 22, number=8))
    (answer,) = sends(keeper.flush(), Accepted)
    assert answer.message.view.epoch == 5


def test_rule_4_nobody_is_accepted_who_may_be_out_at_any_moment(keeper):
    swept(keeper, at(10))  # n2 is silent; a view without it is being written
    assert sends(keeper.hear(N2, beat(N2, 22)), Accepted) == []
    assert sends(keeper.hear(N2, join(N2, 22, number=2)), Accepted) == []
    keeper.flush()  # out
    (answer,) = sends(keeper.flush(), Accepted)  # and in again, by its join
    assert (answer.message.number, answer.message.view.epoch) == (2, 5)


def test_rule_4_who_joins_while_being_left_out_has_the_whole_patience_again(keeper):
    keeper.wait(at(9))
    keeper.hear(N3, join(N3, 34, start=2), at(9))  # so that the next two wait, and go together
    swept(keeper, at(10))
    keeper.hear(N2, join(N2, 22, number=2))
    answers = sends([*keeper.flush(), *keeper.flush()], Accepted)
    assert [answer.target for answer in answers] == [N3, N2]
    (reply,) = keeper.ask(GetStatus(), now=at(10))
    assert reply.message.silent[N2] == 0
    assert of(swept(keeper, at(12)), Persist) == []


def test_rule_4_a_member_that_a_full_disk_kept_in_the_view_is_accepted_again(keeper):
    swept(keeper, at(10))
    keeper.fail()
    assert keeper.hear(N2, beat(N2, 22)) == [Send(N2, Accepted(1, 22, 3, None))]


# --- rule 5: its own sleep is not their silence ---------------------------------------------------


def test_rule_5_a_coordinator_that_slept_gives_everybody_the_whole_time(keeper):
    effects = keeper.handle(Expired(KeeperTimer.SWEEP), at(14))  # due at 3, an interval is 3
    assert [type(effect) for effect in effects] == [Note, SetTimer]
    assert effects[1].at == at(17)
    assert not of(keeper.look_round(at(23)), Persist)
    assert of(keeper.look_round(at(24)), Persist)


def test_rule_5_a_coordinator_that_restarts_gives_everybody_the_whole_time(keeper):
    (reply,) = keeper.ask(GetStatus())
    assert reply.message.silent == {N1: 0, N2: 0}


# --- rule 6: leaving and forgetting ---------------------------------------------------------------


def test_rule_6_who_leaves_is_out_at_once_and_told_when_it_is_safe(keeper):
    effects = keeper.hear(N2, Leave(22, 1, CLUSTER))
    assert [type(effect) for effect in effects] == [Note, Persist]
    effects = keeper.flush()
    assert sends(effects, LeftView) == [Send(N2, LeftView(22))]
    assert sends(effects, Adopt) == [Send(N1, Adopt(View(CLUSTER, 4, N1, (member(N1),))))]
    assert keeper.hear(N2, Leave(22, 1, CLUSTER)) == [Send(N2, LeftView(22))]  # said twice


def test_rule_6_a_late_leave_of_an_earlier_start_takes_nobody_out(keeper):
    keeper.hear(N2, join(N2, 23, start=2))
    keeper.flush()
    assert keeper.hear(N2, Leave(22, 1, CLUSTER)) == [Send(N2, LeftView(22))]
    assert keeper.unflushed == []


def test_rule_6_a_process_on_a_copy_of_the_disk_cannot_take_the_member_out(keeper):
    (refusal,) = sends(keeper.hear(N2, Leave(99, 1, CLUSTER)), Refused)
    assert refusal.message.superseded
    assert keeper.unflushed == []


def test_rule_6_a_leave_of_another_cluster_is_refused(keeper):
    (refusal,) = sends(keeper.hear(N2, Leave(22, 1, 5)), Refused)
    assert refusal.message.final


def test_rule_6_forget_frees_the_id_of_an_absent_node(keeper):
    (persist,) = keeper.ask(Forget(N3))
    assert Ledger.read(persist.changes[0].value).bound(N3) is None
    assert keeper.flush() == [Reply(OPERATION, Forgotten(N3))]  # no member changed: no new view
    assert keeper.ask(Forget(N3)) == [Reply(OPERATION, Forgotten(N3))]
    keeper.hear(N3, join(N3, 9, birth=5))
    assert sends(keeper.flush(), Accepted)


def test_rule_6_a_present_node_is_not_forgotten(keeper):
    (reply,) = keeper.ask(Forget(N2))
    assert reply.message == Declined("StateError", "n2 is present in view 3; stop it first")


def test_rule_6_a_node_that_joins_before_it_is_forgotten_stays_and_the_asker_is_told(keeper):
    keeper.hear(N3, join(N3, 34, start=2))
    assert keeper.ask(Forget(N3)) == []
    (reply,) = of(keeper.flush(), Reply)
    assert reply.message == Declined("StateError", "n3 is present in view 4; stop it first")
    assert of(keeper.flush(), Reply) == []


def test_rule_6_the_coordinator_cannot_leave(keeper):
    (reply,) = keeper.ask(Depart())
    assert reply.message.error == "StateError"


@pytest.mark.parametrize("mine", [True, False])
def test_rule_6_whoever_knows_another_view_of_the_same_number_makes_the_next_go_above_it(
    keeper, mine
):
    known = DECIDED.view if mine else View(CLUSTER, 3, N1, (member(N1), member(N2), member(N3)))
    keeper.hear(N2, msgspec.structs.replace(beat(N2, 22), mark=known.mark))
    told = [] if mine else sends(keeper.flush(), Adopt)
    assert [one.message.view.epoch for one in told] == ([] if mine else [4, 4])


@pytest.mark.parametrize(
    "word", [beat(N2, 22, epoch=9), join(N2, 22, number=2, cluster=CLUSTER, epoch=9)]
)
def test_rule_6_whoever_knows_more_views_than_the_disk_makes_the_next_go_above_them(keeper, word):
    keeper.hear(N2, word)
    told = sends(keeper.flush(), Adopt)
    assert {one.target: one.message.view.epoch for one in told} == {N1: 10, N2: 10}
    assert told[0].message.view.members == DECIDED.view.members
    assert of(keeper.hear(N2, beat(N2, 22, number=3, epoch=10)), Persist) == []


def test_rule_6_words_that_are_each_a_little_ahead_take_no_more_room_than_one(keeper):
    for number in range(1, 40):
        epoch = keeper.node._keeper.epoch + EPOCHS_AHEAD // 2 if number else 0
        keeper.hear(N3, join(N3, 33, number=number, cluster=CLUSTER, epoch=epoch))
        while keeper.unflushed:
            keeper.flush()
    reached = keeper.node._keeper.epoch
    assert EPOCHS_AHEAD // 2 < reached <= EPOCHS_AHEAD + 50
    (answer,) = sends(
        keeper.hear(N3, join(N3, 33, 99, cluster=CLUSTER, epoch=reached + 9)), Refused
    )
    assert "start the coordinator with its latest disk" in answer.message.reason


def test_rule_6_what_another_cluster_counts_changes_nothing(keeper):
    assert of(keeper.hear(N2, beat(N2, 22, epoch=9, cluster=5)), Persist) == []
    assert of(keeper.hear(N2, beat(N2, 22, epoch=3)), Persist) == []


def test_rule_6_another_node_says_who_can_forget(follower):
    current(follower)
    assert follower.ask(Forget(N3)) == [Reply(OPERATION, Elsewhere(N1, address(N1)))]


# --- rule 7: views on a member's disk -------------------------------------------------------------


def test_rule_7_a_view_is_used_only_once_it_is_on_the_disk(follower):
    _, view = admitted(follower)
    changes = follower.unflushed[0].changes
    assert changes[0] == Write(VIEW, msgspec.msgpack.encode(view))
    for key in (SELF, SELF + b".copy"):  # of which cluster the disk is, whatever befalls the view
        (one,) = (change for change in changes if change.key == key)
        assert msgspec.msgpack.decode(one.value, type=Self).cluster == CLUSTER
    assert follower.standing == "outside"
    effects = follower.flush()
    assert [type(effect) for effect in effects] == [Note, Announce, SetTimer]
    assert effects[1] == Announce(view)


def test_rule_7_an_older_view_or_one_of_another_cluster_is_passed_over(follower):
    _, view = current(follower)
    older = View(CLUSTER, 0, N1, ())
    foreign = View(5, 9, N1, view.members)
    for word in (older, foreign, view):
        assert follower.hear(N1, Adopt(word)) == []


def test_rule_7_of_two_views_on_their_way_to_the_disk_the_newer_one_wins(follower):
    _, view = current(follower)
    newer = [View(CLUSTER, epoch, N1, view.members) for epoch in (2, 3)]
    for one in newer:
        follower.hear(N1, Adopt(one))
    assert follower.hear(N1, Adopt(newer[0])) == []
    assert follower.flush() == []
    assert follower.flush() == [Announce(newer[1])]


def test_rule_7_a_view_that_could_not_be_kept_is_not_used(follower):
    _, view = current(follower)
    newer = View(CLUSTER, 2, N1, view.members)
    follower.hear(N1, Adopt(newer))
    assert [type(effect) for effect in follower.fail()] == [Note]
    assert follower.view == view
    assert len(of(follower.hear(N1, Adopt(newer)), Persist)) == 1  # it comes again


def test_rule_7_an_epoch_does_not_go_back_through_a_restart():
    view = View(CLUSTER, 8, N1, (member(N1),))
    desk = Desk(N2, [N1])
    desk.handle(started((SELF, Self(N2, 5, 3)), (VIEW, view)))
    (send, _) = desk.flush()
    assert (send.message.epoch, send.message.cluster) == (8, CLUSTER)
    assert send.message.member == Member(N2, address(N2), 5, 4)
    assert desk.hear(N1, Adopt(View(CLUSTER, 7, N1, (member(N1),)))) == []


# --- rule 8: leases -------------------------------------------------------------------------------


def test_rule_8_the_lease_counts_from_the_sending_of_what_was_accepted(follower):
    word, view = current(follower)  # sent at 0
    (spoken, _) = follower.handle(Expired(MemberTimer.SPEAK), at(3))
    assert isinstance(spoken.message, Heartbeat)
    effects = follower.hear(N1, Accepted(spoken.message.number, word.run, 1), at(5))
    assert effects == [SetTimer(MemberTimer.LEASE, at(12)), Announce(Current(at(12)))]
    assert follower.handle(Expired(MemberTimer.LEASE), Instant(at(12) - 1)) == []
    effects = follower.handle(Expired(MemberTimer.LEASE), at(12))
    assert of(effects, Announce) == [Announce(CutOff(view.epoch))]
    assert follower.standing == "cut off"


def test_rule_8_a_node_that_slept_is_cut_off_whatever_wakes_it(follower):
    _, view = current(follower)
    effects = follower.hear(N1, Adopt(View(CLUSTER, 2, N1, view.members)), at(20))
    assert effects[1] == Announce(CutOff(1))


def test_rule_8_an_acceptance_that_comes_after_its_own_lease_does_not_count(follower):
    (send, _) = follower.flush()
    view = View(CLUSTER, 1, N1, (member(N1), send.message.member))
    effects = follower.hear(N1, Accepted(1, send.message.run, 1, view), at(9))
    assert [type(effect) for effect in effects] == [Note]


def test_rule_8_a_view_safe_only_after_the_lease_does_not_make_it_current(follower):
    admitted(follower)
    assert of(follower.flush(at(9)), Announce) == []
    assert follower.standing == "outside"


def test_rule_8_acceptances_in_the_wrong_order_do_not_shorten_the_lease(follower):
    word, _ = current(follower)
    numbers = [
        follower.handle(Expired(MemberTimer.SPEAK), at(second))[0].message.number
        for second in (3, 6)
    ]
    for number in reversed(numbers):
        follower.hear(N1, Accepted(number, word.run, 1), at(7))
    assert follower.handle(Expired(MemberTimer.LEASE), Instant(at(15) - 1)) == []
    assert of(follower.handle(Expired(MemberTimer.LEASE), at(15)), Announce)


def test_rule_8_a_cut_off_member_goes_on_beating_and_is_current_again_when_accepted(follower):
    word, view = current(follower)
    effects = follower.handle(Expired(MemberTimer.LEASE), at(9))
    (spoken,) = sends(effects, Heartbeat)
    effects = follower.hear(N1, Accepted(spoken.message.number, word.run, 1), at(10))
    assert of(effects, Announce) == [Announce(Current(at(18))), Announce(view)]


def test_rule_8_a_member_knows_that_it_is_out_before_the_coordinator_decides_so():
    assert SETTINGS.lease == SETTINGS.interval * SETTINGS.misses
    assert SETTINGS.patience == SETTINGS.lease + SETTINGS.grace


# --- rule 9: whose word an answer answers ---------------------------------------------------------


@pytest.mark.parametrize("number", [0, 2, 99])
def test_rule_9_numbers_never_sent_are_passed_over(follower, number):
    (send, _) = follower.flush()
    view = View(CLUSTER, 1, N1, (member(N1), send.message.member))
    assert follower.hear(N1, Accepted(number, send.message.run, 1, view)) == []


def test_rule_9_answers_to_another_run_are_passed_over(follower):
    word, view = current(follower)
    other = word.run + 1
    for answer in (
        Accepted(1, other, 2, View(CLUSTER, 2, N1, view.members)),
        Refused(other, "no", final=True),
        Refused(other, "no", final=True, superseded=True),
        Refused(other, "no", final=False),
        Redirected(other, N3, address(N3)),
        LeftView(other),
    ):
        assert follower.hear(N1, answer) == []


def test_rule_9_what_was_accepted_before_a_refusal_counts_no_more(follower):
    word, _ = current(follower)
    follower.hear(N1, not_in_view(word.run, word.number + 1))
    assert follower.hear(N1, Accepted(word.number, word.run, 1)) == []
    assert follower.standing == "outside"


def test_rule_9_a_refusal_older_than_the_newest_acceptance_is_passed_over(follower):
    word, _ = current(follower)
    assert follower.hear(N1, not_in_view(word.run, word.number)) == []
    assert follower.standing == "current"


# --- rule 10: refusals ----------------------------------------------------------------------------


def test_rule_10_who_is_refused_for_good_before_it_was_accepted_halts(follower):
    (send, _) = follower.flush()
    effects = follower.hear(N1, Refused(send.message.run, "no", final=True))
    assert effects == [Note("refused: no -> halt"), Halt("no")]


def test_rule_10_who_was_accepted_goes_on_asking_whatever_an_impostor_says(follower):
    word, _ = current(follower)
    effects = follower.hear(N1, Refused(word.run, "another cluster", final=True))
    assert [type(effect) for effect in effects] == [Note]
    assert follower.standing == "current"  # until its lease ends


def test_rule_10_who_was_superseded_halts_though_it_was_accepted(follower):
    word, _ = current(follower)
    effects = follower.hear(N1, Refused(word.run, "began again", final=True, superseded=True))
    assert effects[-1] == Halt("began again")


def test_rule_10_who_is_not_in_the_view_says_so_and_joins_again(follower):
    word, _ = current(follower)
    effects = follower.hear(N1, not_in_view(word.run, word.number + 1))
    assert [type(effect) for effect in effects] == [Note, Announce, CancelTimer, Send, SetTimer]
    assert effects[1] == Announce(CutOff(1))
    assert isinstance(effects[3].message, Join)
    again = follower.hear(N1, not_in_view(word.run, word.number + 1))
    assert [type(effect) for effect in again] == [Note]  # its next turn is set already


# --- joining through anybody ----------------------------------------------------------------------


def test_a_node_that_does_not_decide_redirects_a_joiner(follower):
    current(follower)
    assert follower.hear(N3, join(N3, 33)) == [Send(N3, Redirected(33, N1, address(N1)))]


def test_a_node_that_knows_no_coordinator_says_nothing(follower):
    follower.flush()
    assert follower.hear(N3, join(N3, 33)) == []
    (reply,) = follower.ask(Forget(N3))
    assert reply.message.error == "Unavailable"


def test_a_joiner_follows_one_redirection_a_turn(follower):
    (send, _) = follower.flush()
    word = Redirected(send.message.run, N3, address(N3))
    (followed,) = follower.hear(N1, word)
    assert followed.target == contact(address(N3))
    assert follower.hear(N3, word) == []
    follower.handle(Expired(MemberTimer.SPEAK), at(1))
    assert len(follower.hear(N1, word)) == 1


def test_a_node_that_led_in_an_earlier_life_is_not_redirected_to_itself(follower):
    (send, _) = follower.flush()
    member = send.message.member
    assert follower.hear(N1, Redirected(send.message.run, member.id, member.address)) == []


# --- beginning, and disks that hurt ---------------------------------------------------------------


def test_the_start_is_safe_before_the_first_word(follower):
    (persist,) = follower.unflushed
    assert [change.key for change in persist.changes] == [SELF, SELF + b".copy"]
    assert follower.handle(Expired(MemberTimer.SPEAK)) == []
    assert isinstance(follower.flush()[0].message, Join)


def test_a_node_whose_start_cannot_be_kept_halts(follower):
    assert [type(effect) for effect in follower.fail()] == [Halt]


def test_a_disk_of_another_node_halts_it_and_nothing_follows_the_halt():
    view = View(CLUSTER, 3, N1, (member(N1),))
    desk = Desk(N2)
    effects = desk.handle(started((SELF, Self(N1, 1, 1)), (LEDGER, Ledger(view))))
    assert effects == [Halt("this disk belongs to node n1, not to n2")]


@pytest.mark.parametrize("key", [SELF, LEDGER])
def test_one_copy_is_enough_and_none_halts(key):
    view = View(CLUSTER, 3, N1, (member(N1),))
    values = {SELF: Self(N1, 9, 4), LEDGER: Ledger(view)}
    desk = Desk(N1)
    copies = [(one + b".copy", value) for one, value in values.items()]
    assert of(desk.handle(started(*copies, damaged=(key,))), Halt) == []
    lost = Started(damaged=(key, key + b".copy"))
    assert [type(effect) for effect in Desk(N1).handle(lost)] == [Halt]


@pytest.mark.parametrize(
    "record", [(LEDGER, Ledger(View(CLUSTER, 3, N1, ()), version=2)), (SELF, "not a self")]
)
def test_a_record_of_another_version_halts_and_is_not_taken_for_nothing(record):
    assert [type(effect) for effect in Desk(N1).handle(started(record))] == [Halt]


def test_a_former_member_whose_view_is_lost_founds_no_cluster():
    effects = Desk(N2).handle(started((SELF, Self(N2, 5, 3)), damaged=(VIEW,)))
    assert [type(effect) for effect in effects] == [Halt]


def test_a_lost_view_is_fetched_again():
    desk = Desk(N2, [N1])
    desk.handle(started((SELF, Self(N2, 5, 3)), damaged=(VIEW,)))
    (send, _) = desk.flush()
    assert (send.message.cluster, send.message.epoch, send.message.member.start) == (0, 0, 4)


# --- departing ------------------------------------------------------------------------------------


def test_who_departs_is_cut_off_at_once_and_answered_when_the_coordinator_has_decided(follower):
    word, _ = current(follower)
    effects = follower.ask(Depart())
    assert effects[:3] == [
        Announce(CutOff(1, leaving=True)),
        CancelTimer(MemberTimer.LEASE),
        Send(N1, Leave(word.run, 1, CLUSTER)),
    ]
    assert follower.hear(N1, LeftView(word.run)) == [
        CancelTimer(MemberTimer.SPEAK),
        Reply(OPERATION, Departed()),
    ]
    for message in (LeftView(word.run), Accepted(word.number, word.run, 1)):
        assert follower.hear(N1, message) == []
    assert follower.handle(Expired(MemberTimer.SPEAK)) == []


def test_who_departs_twice_is_answered_twice_and_not_cut_off_twice(follower):
    word, _ = current(follower)
    follower.ask(Depart())
    other = OperationId(NodeId("c2"), 1)
    assert of(follower.ask(Depart(), other), Announce) == []
    replies = of(follower.hear(N1, LeftView(word.run)), Reply)
    assert [reply.operation for reply in replies] == [OPERATION, other]
    assert follower.ask(Depart()) == [Reply(OPERATION, Departed())]


def test_who_hands_over_first_is_current_until_then_or_refused():
    desk = Desk(N2, [N1], hands_over=True)
    desk.handle(Started())
    current(desk)
    told = [Announce(Leaving(later(desk.now, seconds(2))))]
    assert desk.ask(Depart(seconds(2))) == told
    assert desk.ask(Depart(seconds(2)), OperationId(NodeId("c2"), 1)) == []
    refused = desk.handle(Announced(HandedOver("it is needed")))
    assert [one.message for one in refused] == 2 * [Declined("StateError", "it is needed")]
    assert desk.ask(Depart(seconds(2))) == told
    effects = desk.handle(Announced(HandedOver()))
    assert effects[0] == Announce(CutOff(1, leaving=True))
    assert desk.handle(Announced(HandedOver())) == []


def test_a_lost_leave_is_said_again(follower):
    current(follower)
    follower.ask(Depart())
    (send, timer) = follower.handle(Expired(MemberTimer.SPEAK), at(2))
    assert isinstance(send.message, Leave)
    assert at(2) < timer.at <= at(3)


def test_who_was_never_in_has_departed_at_once(follower):
    follower.flush()
    assert follower.ask(Depart()) == [Reply(OPERATION, Departed())]


@pytest.mark.parametrize("records", [(), ((VIEW, View(CLUSTER, 8, N1, (member(N1),))),)])
def test_a_node_that_is_still_beginning_says_no_word_of_leaving(records):
    desk = Desk(N2, [N1])
    desk.handle(started(*records))
    (reply,) = desk.ask(Depart())
    assert reply.message.error == "Unavailable"
    assert isinstance(desk.flush()[0].message, Join)
