"""A lead is believed for no longer than whoever comes next counts on."""

from collections import deque
from itertools import count
from random import Random

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.core.node import (
    Announce,
    Announced,
    Expired,
    Halt,
    Persist,
    Persisted,
    Received,
    Send,
    SetTimer,
    Started,
)
from snowmelt.core.record import Record
from snowmelt.protocols.etcd import ETCD, LeaseGranted, PutKey, Refreshed, Transact, Transacted
from snowmelt.protocols.membership import (
    CutOff,
    Identity,
    Leads,
    LeadsNoMore,
    MembershipNode,
    Severed,
    Unsure,
    View,
)
from snowmelt.protocols.membership.election import Election
from snowmelt.protocols.membership.founding import in_etcd
from snowmelt.protocols.membership.messages import JoinByEtcd
from snowmelt.protocols.membership.records import LeaderRecord
from snowmelt.protocols.membership.settings import MembershipSettings
from snowmelt_world.etcd import Model

BEGIN = Instant(seconds(100))
ME = LeaderRecord(NodeId("n1"), Address("here", 7700), birth=1, start=1, nonce=0)


def test_of_a_longer_lease_than_was_asked_for_a_leader_is_sure_no_longer():
    settings = MembershipSettings()
    lead = settings.lead_seconds
    election = Election(settings, Random(1), count())
    (asked,) = election.stand(BEGIN)
    _, (put,) = election.answered(LeaseGranted(asked.message.number, 7, 15), ME, BEGIN)
    election.answered(Transacted(put.message.number, 1, succeeded=True), ME, BEGIN)
    assert election.sure_until == later(BEGIN, seconds(0.8 * lead))
    refresh_due = election.due(BEGIN)
    assert refresh_due == later(BEGIN, seconds(lead / 4))
    (refresh,) = election.refresh(refresh_due)
    election.answered(Refreshed(refresh.message.number, 15), ME, refresh_due)
    assert election.sure_until == later(refresh_due, seconds(0.8 * lead))
    # whoever is elected right after the last refresh reckons with that
    assert later(election.others_sure_until, seconds(lead / 4)) >= election.sure_until


N2, N3 = NodeId("n2"), NodeId("n3")


class Cluster:
    """Two nodes over the model of etcd, and no time but what is said."""

    def __init__(self):
        self.etcd, self.now, self.told = Model(), BEGIN, []
        self.etcd.answer(Transact(0, (), in_etcd(7, "c")), BEGIN)
        self.nodes = {
            name: MembershipNode(
                Identity(id=name, address=Address(name, 4410)),
                MembershipSettings(),
                Random(name),
                "c",
            )
            for name in (N2, N3)
        }
        self.due = {}
        self.disks = {name: {} for name in self.nodes}
        for name in self.nodes:
            self.give(name, Started())
            self.run(1)

    def give(self, name, event):
        events = deque([(name, event)])
        while events:
            at, event = events.popleft()
            if at not in self.nodes:
                continue
            self.told.append((at, event))
            for effect in self.nodes[at].handle(event, self.now):
                match effect:
                    case Send(target, message) if target == ETCD:
                        self.etcd.expire(self.now)
                        answer = self.etcd.answer(message, self.now)
                        events.append((at, Received(ETCD, answer)))
                    case Send(target, message):
                        events.append((NodeId(target.partition(":")[0]), Received(at, message)))
                    case Persist(ticket, changes):
                        self.disks[at].update((one.key, one.value) for one in changes)
                        events.append((at, Persisted(ticket)))
                    case SetTimer(timer, when):
                        self.due[at, timer] = when
                    case Announce(fact):
                        self.told.append((at, fact))
                        events.append((at, Announced(fact)))
            self.nodes[at].check()

    def run(self, time):
        end = later(self.now, seconds(time))
        while self.due and min(self.due.values()) <= end:
            key = min(self.due, key=self.due.get)
            self.now = max(self.now, self.due.pop(key))
            self.give(key[0], Expired(key[1]))
        self.now = end

    def begin_anew(self, name):
        """Its process begins again on its disk."""
        identity = Identity(id=name, address=Address(name, 4410))
        self.nodes[name] = MembershipNode(identity, MembershipSettings(), Random(7), "c")
        kept = tuple(Record(key, value) for key, value in sorted(self.disks[name].items()))
        self.due = {timer: at for timer, at in self.due.items() if timer[0] != name}
        self.give(name, Started(kept))

    def views(self, name):
        return [fact for at, fact in self.told if at == name and isinstance(fact, View)]

    def leader(self):
        return next(reversed([at for at, fact in self.told if isinstance(fact, Leads)]))


def led():
    """A cluster after five seconds, who leads it, and another."""
    cluster = Cluster()
    cluster.run(5)
    leads = cluster.leader()
    return cluster, leads, next(name for name in cluster.nodes if name != leads)


def test_nobody_founds_a_cluster_over_what_a_move_left_that_was_cut_off():
    node = MembershipNode(
        Identity(id=N2, address=Address(N2, 4410)), MembershipSettings(), Random(1), "c"
    )
    etcd, events, halts = Model(), deque([Started()]), []
    etcd.answer(Transact(0, (), (PutKey("~home/orders", b"of another"),)), BEGIN)
    while events and not halts:
        for effect in node.handle(events.popleft(), BEGIN):
            match effect:
                case Send(target, message) if target == ETCD:
                    events.append(Received(ETCD, etcd.answer(message, BEGIN)))
                case Persist(ticket):
                    events.append(Persisted(ticket))
                case Announce(fact):
                    assert not isinstance(fact, Leads)
                case Halt(reason):
                    halts.append(reason)
    (reason,) = halts
    assert "if a move to etcd was cut off, run snowmelt migrate again" in reason
    assert "cluster" not in etcd.state.keys


def test_who_refuses_connections_leads_no_more_and_is_left_out_at_once_but_not_believed_dead():
    cluster, first, other = led()
    dead = cluster.nodes.pop(first)
    begun = cluster.now
    cluster.give(other, Announced(Severed(first)))
    assert cluster.leader() == other
    assert cluster.now == begun
    assert [one.id for one in cluster.views(other)[-1].members] == [other]
    (unsure,) = {fact for at, fact in cluster.told if isinstance(fact, Unsure)}
    # as long as the other may be sure of its lead, and current; and no longer than a grace more
    assert unsure.until == later(
        begun, seconds(0.8 * MembershipSettings().lead_seconds) + MembershipSettings().grace
    )
    cluster.nodes[first] = dead  # it lived all the time
    cluster.run(0.6)
    assert [at for at, fact in cluster.told if isinstance(fact, LeadsNoMore)] == [first]
    cluster.run(1)
    assert len(cluster.views(other)[-1].members) == 1  # nobody comes back while it is in doubt
    cluster.run(0.4)
    assert len(cluster.views(other)[-1].members) == 2
    assert cluster.leader() == other


def test_who_leads_next_has_the_doubt_too_though_it_is_the_same_node_again():
    cluster, first, other = led()
    cluster.nodes.pop(first)
    cluster.give(other, Announced(Severed(first)))
    whole = later(
        cluster.now, seconds(0.8 * MembershipSettings().lead_seconds) + MembershipSettings().grace
    )
    told = len(cluster.told)
    cluster.begin_anew(other)
    cluster.run(1)
    facts = [fact for _, fact in cluster.told[told:]]
    assert [one for one in facts if isinstance(one, Leads)]
    (unsure,) = {one for one in facts if isinstance(one, Unsure)}
    assert whole <= unsure.until <= later(whole, seconds(1))


def test_an_old_word_of_who_is_in_doubt_brings_it_not_back_before_it_knows_that_it_was_out():
    cluster, leads, other = led()
    (joined, *_) = [
        event.message
        for at, event in cluster.told
        if at == leads and isinstance(event, Received) and event.source == other
    ]
    assert isinstance(joined, JoinByEtcd)
    lives = cluster.nodes.pop(other)
    cluster.give(leads, Announced(Severed(other)))
    begun = cluster.now
    cluster.give(leads, Received(other, joined))
    assert [one.id for one in cluster.views(leads)[-1].members] == [leads]
    cluster.nodes[other] = lives
    cluster.run(1)
    assert [fact for at, fact in cluster.told if at == other and isinstance(fact, CutOff)]
    while len(cluster.views(leads)[-1].members) == 1:
        cluster.run(0.1)
    assert seconds(3.5) < cluster.now - begun <= MembershipSettings().patience + seconds(0.5)


def test_a_member_that_refuses_connections_is_left_out_and_told_as_unsure_until_it_begins_anew():
    cluster, leads, other = led()
    cluster.nodes.pop(other)
    cluster.give(leads, Announced(Severed(other)))
    assert [one.id for one in cluster.views(leads)[-1].members] == [leads]
    (unsure,) = {fact for at, fact in cluster.told if isinstance(fact, Unsure)}
    assert seconds(3.5) < unsure.until - cluster.now <= MembershipSettings().patience
    member = cluster.views(leads)[-2].member(other)
    cluster.begin_anew(other)
    cluster.run(1)
    assert cluster.views(leads)[-1].member(other).start == member.start + 1
    last = [fact for at, fact in cluster.told if at == leads and isinstance(fact, Unsure)][-1]
    assert last.until <= cluster.now  # of two starts of one node the first has ended


def test_the_same_process_is_ended_once_in_a_while_whoever_is_walled_in():
    cluster, first, other = led()
    for _ in range(5):
        cluster.give(other, Announced(Severed(first)))
        cluster.run(0.2)
    leads = [at for at, fact in cluster.told if isinstance(fact, Leads)]
    assert leads[-1] == other
    assert len(leads) == 2
