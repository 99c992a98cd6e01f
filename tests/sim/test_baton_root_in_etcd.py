"""Rules 18 to 20 of the baton: where etcd decides, any machine may be lost, the root's too."""

from itertools import count
from random import Random

import msgspec
import pytest
import test_etcd_lives as lives

from snowmelt.core.instant import Duration, Instant, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Received
from snowmelt.protocols import baton, multicast
from snowmelt.protocols.baton.calls import (
    POLL,
    Acquire,
    BatonReset,
    Granted,
    Queued,
    Release,
    Released,
    ResetBaton,
    SaveValue,
    ValueSaved,
)
from snowmelt.protocols.baton.fences import COUNT_BITS
from snowmelt.protocols.baton.values import SavedValue
from snowmelt.protocols.calling import Answer, Call, Declined, Elsewhere
from snowmelt.protocols.etcd import ETCD, PutKey, Transact
from snowmelt.protocols.multicast.calls import Publish, Published, Underway
from snowmelt_world.etcd import EtcdNode, leader_of
from snowmelt_world.families.membership import address, member
from snowmelt_world.faults import CutLinks
from snowmelt_world.world import World

NAMES = lives.NAMES[:3]
CLIENT = NodeId("c1")


class Ear:
    """Whoever calls; it only hears."""

    def __init__(self):
        self.answers = {}

    def handle(self, event, now):
        del now
        if isinstance(event, Received) and isinstance(event.message, Answer):
            self.answers[event.message.number] = event.message.body
        return []

    def check(self):
        pass


class Cluster:
    """Nodes with batons, over a simulated etcd, and one who calls them."""

    def __init__(self, names=NAMES):
        self.names, self.numbers, self.ear = list(names), count(1), Ear()
        self.world = World(11, observer=lives.Seen())
        self.world.add(ETCD, lambda _: EtcdNode())
        self.world.add(CLIENT, lambda _: self.ear)
        for node in (ETCD, CLIENT):
            self.world.start(node)
        for name in names:
            self.world.add(name, lambda dice, name=name: self._node(name, dice), address(name))
            self.world.start(name)
        self.after(10)

    def _node(self, name, dice):
        settings = baton.BatonSettings()
        families = baton.families(name, settings, dice, etcd=True)
        topics = multicast.family(name, multicast.MulticastSettings(), Random(3))
        return member(name, (), dice, *families, topics, coordinator="etcd")

    @property
    def leader(self):
        return leader_of(self.world)

    @property
    def others(self):
        return [one for one in self.names if one != self.leader]

    def after(self, span):
        lives.after(self.world, span)

    def gone(self, name):
        """A machine is lost for good, and nothing of it comes any more."""
        self.world.stop(name)
        self.world.slots[name].wanted = False
        self.names.remove(name)

    def ask(self, node, body):
        number = next(self.numbers)
        self.world.post(CLIENT, node, Call(number, body))
        return number

    def call(self, node, body, within=30.0):
        number = self.ask(node, body)
        end = Instant(self.world.now + seconds(within))
        while number not in self.ear.answers and self.world.now < end:
            self.after(0.02)
        return self.ear.answers.get(number)

    def acquire(self, node, name="index", within=60):
        ticket = next(self.numbers)
        end = Instant(self.world.now + seconds(within))
        while self.world.now < end:
            answer = self.call(node, Acquire(name, ticket, POLL), 3)
            if isinstance(answer, Granted):
                return ticket, answer
            assert answer is None or isinstance(answer, Queued)
        raise AssertionError(f"{name} is not granted")

    def release(self, node, held, value=None, name="index"):
        ticket, granted = held
        word = Release(name, ticket, granted.fence, granted.where, value)
        assert self.call(node, word) == Released()

    def save(self, node, held, value, within=30.0, name="index"):
        ticket, granted = held
        return self.call(
            node, SaveValue(name, ticket, granted.fence, granted.where, value, 1), within
        )

    def kept(self, key):
        return self.world.slots[ETCD].node.held("~baton/" + key)

    def value(self, name="index"):
        kept = self.kept(name)
        return None if kept is None else msgspec.msgpack.decode(kept, type=SavedValue).value

    @property
    def term(self):
        return msgspec.msgpack.decode(self.kept("/fences"))

    def machine(self, node):
        """The batons of a node."""
        (found,) = (
            family.machine
            for family in self.world.slots[node].node._families
            if family.name == "baton"
        )
        return found

    def token(self, node, name="index"):
        return self.machine(node)._names.get(name).relay.token

    def asked_of_etcd(self, span):
        before = self.world.slots[ETCD].node._tickets
        self.after(span)
        return self.world.slots[ETCD].node._tickets - before


def test_what_was_saved_and_the_fence_outlive_the_machine_that_leads_and_holds():
    cluster = Cluster()
    leader = cluster.leader
    held = cluster.acquire(leader)
    assert cluster.save(leader, held, b"segment-17") == ValueSaved()
    cluster.gone(leader)
    heir = cluster.acquire(cluster.names[0])[1]
    assert heir.value == b"segment-17"
    assert heir.fence >> COUNT_BITS > held[1].fence >> COUNT_BITS


def test_what_was_left_a_moment_ago_outlives_the_machine_that_leads_where_it_rests():
    cluster = Cluster()
    leader = cluster.leader
    cluster.release(leader, cluster.acquire(leader), b"left")
    cluster.after(0.1)
    cluster.gone(leader)
    assert cluster.acquire(cluster.names[0])[1].value == b"left"


def test_a_value_that_its_root_took_along_when_it_died_is_told_to_the_next():
    cluster = Cluster()
    leader, (one, other) = cluster.leader, cluster.others
    held = cluster.acquire(one)
    ticket, granted = held
    now = cluster.world.now
    cut = CutLinks(now, Instant(now + seconds(1)), ((leader, ETCD),))
    cluster.world.network.begin(cut)
    cluster.ask(one, Release("index", ticket, granted.fence, granted.where, b"left"))
    cluster.after(0.5)
    cluster.gone(leader)
    cluster.world.network.end(cut)
    assert cluster.value() is None
    cluster.after(12)
    assert cluster.value() == b"left"
    cluster.gone(one)
    cluster.names = [other]
    assert cluster.acquire(other)[1].value == b"left"


def test_a_root_that_slept_makes_no_baton_in_its_own_term():
    cluster = Cluster()
    leader = cluster.leader
    fence = cluster.acquire(leader)[1].fence
    cluster.world.slots[leader].paused_until = Instant(cluster.world.now + seconds(40))
    before = cluster.term
    other = cluster.others[0]
    heir = cluster.acquire(other)
    cluster.after(20)
    assert cluster.leader != leader
    assert heir[1].fence > fence
    late = cluster.acquire(leader, within=90)[1].fence
    assert before < heir[1].fence >> COUNT_BITS
    assert late > heir[1].fence


def test_a_baton_that_is_handed_on_and_changes_nothing_costs_etcd_nothing():
    cluster = Cluster()
    node = cluster.others[0]
    cluster.release(node, cluster.acquire(node))
    rest = cluster.asked_of_etcd(20)
    begin = cluster.world.now
    before = cluster.world.slots[ETCD].node._tickets
    while cluster.world.now < begin + seconds(20):
        for one in cluster.names:
            cluster.release(one, cluster.acquire(one))
    assert cluster.world.slots[ETCD].node._tickets - before <= rest + 1


def test_a_value_that_changes_all_the_time_goes_to_etcd_once_a_second():
    cluster = Cluster()
    node = cluster.others[0]
    cluster.release(node, cluster.acquire(node))
    rest = cluster.asked_of_etcd(10)
    begin = cluster.world.now
    before = cluster.world.slots[ETCD].node._tickets
    for number in count():
        cluster.release(node, cluster.acquire(node), str(number).encode())
        if cluster.world.now >= begin + seconds(10):
            break
    assert number > 50
    assert cluster.world.slots[ETCD].node._tickets - before <= rest + 12
    cluster.after(2)
    assert cluster.value() == str(number).encode()


def test_a_baton_is_not_handed_on_beyond_its_term_before_etcd_has_the_next():
    cluster = Cluster()
    node = cluster.others[0]
    held = cluster.acquire(node)
    end = (cluster.term + 1) << COUNT_BITS
    token = cluster.token(node)
    token.fence = cluster.machine(node)._names.get("index").relay.fence = end - 1
    etcd = cluster.world.slots[ETCD]
    etcd.paused_until = Instant(cluster.world.now + seconds(3))
    behind = next(cluster.numbers)
    cluster.ask(node, Acquire("index", behind, POLL))
    held = held[0], msgspec.structs.replace(held[1], fence=end - 1)
    cluster.release(node, held)
    cluster.after(1.5)
    assert cluster.token(node).fence == end - 1
    assert cluster.term < end >> COUNT_BITS
    etcd.paused_until = Instant(0)
    cluster.after(4)
    answer = cluster.call(node, Acquire("index", behind, POLL))
    assert isinstance(answer, Granted)
    assert answer.fence >= end
    assert cluster.term >= end >> COUNT_BITS


def test_while_etcd_is_away_batons_go_round_and_nothing_is_said_to_be_saved():
    cluster = Cluster()
    one, other = cluster.others
    cluster.release(one, cluster.acquire(one))
    cluster.world.slots[ETCD].paused_until = Instant(cluster.world.now + seconds(4))
    held = cluster.acquire(other, within=2)
    assert cluster.save(other, held, b"late", within=1) is None
    cluster.after(4)
    assert cluster.save(other, held, b"late") == ValueSaved()
    assert cluster.value() == b"late"


def test_a_record_that_somebody_else_wrote_is_said_and_given_up_by_reset():
    cluster = Cluster()
    leader = cluster.leader
    held = cluster.acquire(leader)
    assert cluster.save(leader, held, b"sound") == ValueSaved()
    put = Transact(0, (), (PutKey("~baton/index", b"\xc1"),))
    cluster.world.slots[ETCD].node._model.answer(put, cluster.world.now)
    cluster.gone(leader)
    cluster.after(9)
    node = cluster.names[0]
    answers = []
    for ticket in range(900, 915):
        answer = cluster.call(node, Acquire("index", ticket, POLL), 3)
        answers.append(answer)
        if isinstance(answer, Declined):
            break
    assert answer.error == "StoreDamaged"
    assert "in etcd" in answer.text
    assert isinstance(cluster.call(cluster.others[0], ResetBaton("index")), Elsewhere)
    assert cluster.call(cluster.leader, ResetBaton("index")) == BatonReset()
    assert cluster.acquire(node)[1].value == b""


def test_a_topic_goes_on_without_the_machine_that_led_and_keeps_nothing_in_etcd():
    cluster = Cluster()
    leader = cluster.leader

    def publish(node, ticket):
        for _ in range(20):
            word = Publish("prices", ticket, (b"1",), POLL)
            answer = cluster.call(node, word, 3)
            if not isinstance(answer, Underway | None):
                return answer
        raise AssertionError("it is not heard by all")

    first = publish(leader, 1)
    assert isinstance(first, Published)
    cluster.gone(leader)
    second = publish(cluster.names[0], 2)
    assert isinstance(second, Published)
    assert second.first > first.first
    assert cluster.kept("multicast.prices") is None


@pytest.mark.parametrize("span", [Duration(0), milliseconds(300)])
def test_two_roots_in_turn_never_take_one_term(span):
    cluster = Cluster()
    terms = [cluster.term]
    for _ in range(3):
        leader = cluster.leader
        cluster.world.slots[leader].paused_until = Instant(cluster.world.now + seconds(12) + span)
        cluster.after(14)
        assert cluster.term > terms[-1]
        terms.append(cluster.term)
