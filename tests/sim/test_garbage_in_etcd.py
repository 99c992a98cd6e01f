"""Somebody writes garbage under the prefix in etcd: a queue may stop, and no node, nor cluster."""

from random import Random

import pytest
from test_etcd_lives import NAMES, after, cluster

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.node import Received
from snowmelt.protocols.etcd import ETCD, PutKey, Transact
from snowmelt.protocols.membership.records import BATONS, CLUSTER, HOMES, LEADER, LEDGER
from snowmelt_world.etcd import EtcdNode, leader_of
from snowmelt_world.families import family
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import ETCD_DECIDES, drawn, kinds_of

STRANGE = (b"\xc1", b"", b"garbage", b"\x05", b"\x90", b"\x81\xa1x\x01", b"\xdf\xff\xff\xff\xff")
DEEP = b"\x81\xa1x" + b"\x91" * 5_000


def garbage(chance):
    """Something that somebody may have written there."""
    kinds = (chance.choice(STRANGE), DEEP, chance.randbytes(chance.randrange(1, 60)))
    return chance.choice(kinds)


def put(world, key, value):
    node = world.slots[ETCD].node
    node.handle(Received(ETCD, Transact(1, (), (PutKey(key, value),))), world.now)


@pytest.mark.parametrize("key", [LEADER, CLUSTER])
@pytest.mark.parametrize("seed", range(3))
def test_what_says_who_leads_and_whose_the_prefix_is_is_mended_by_who_leads_next(key, seed):
    world, seen = cluster()
    first = leader_of(world)
    put(world, key, value := garbage(Random(seed)))
    world.stop(first)
    after(world, 30)
    rest = [node for node in NAMES if node != first]
    assert leader_of(world) in rest
    assert {seen.views[node].coordinator for node in rest} == {leader_of(world)}
    assert world.slots[ETCD].node.held(key) != value
    assert not seen.halts


def test_who_led_learns_from_the_next_view_that_its_record_was_written_over():
    world, seen = cluster(NAMES[:3])
    first = leader_of(world)
    put(world, LEADER, b"garbage")
    other = next(node for node in NAMES[:3] if node != first)
    world.stop(other)
    world.start(other)  # whom nobody has heard yet looks who leads
    after(world, 30)
    views = [seen.views[node] for node in NAMES[:3]]
    assert all(view == views[0] for view in views)
    assert leader_of(world) == views[0].coordinator
    assert not seen.halts


def test_without_a_ledger_nobody_leads_and_nobody_ends_until_it_is_put_back():
    world, seen = cluster()
    sound, first = world.slots[ETCD].node.held(LEDGER), leader_of(world)
    put(world, LEDGER, b"garbage")
    world.stop(first)
    after(world, 30)
    asks = asked_of(world)
    after(world, 20)
    assert asked_of(world) - asks < 20 * 4 * 8  # four nodes that ask, and not without a pause
    world.start(first)  # it was never heard, and does not end either
    after(world, 5)
    assert not seen.halts
    put(world, LEDGER, sound)
    after(world, 30)
    assert {view.coordinator for view in seen.views.values()} == {leader_of(world)}
    assert all([one.id for one in seen.views[node].members] == NAMES for node in NAMES)


def asked_of(world):
    return world.slots[ETCD].node._tickets


class Garbled(EtcdNode):
    """Somebody writes under the prefix before anybody leads, and then again and again."""

    chance = Random(0)
    keys = (
        f"{HOMES}strange", f"{HOMES}not a name", f"{HOMES}/floor", f"{HOMES}/first",
        f"{HOMES}{'x' * 400}", f"{BATONS}strange", f"{BATONS}/fences",
    )  # fmt: skip

    def __init__(self):
        super().__init__()
        puts = tuple([PutKey(key, garbage(self.chance)) for key in self.keys])
        self._model.answer(Transact(1, (), puts), Instant(0))
        self._next = seconds(5)

    def handle(self, event, now):
        if self._next < now < seconds(30):
            self._next = now + seconds(4)
            key = self.chance.choice([LEADER, CLUSTER, f"{HOMES}strange", f"{BATONS}strange"])
            self._model.answer(Transact(1, (), (PutKey(key, garbage(self.chance)),)), now)
        return super().handle(event, now)


@pytest.mark.parametrize("protocol", ["queue", "baton", "membership"])
@pytest.mark.parametrize("seed", range(2))
def test_lives_go_on_among_garbage(protocol, seed, monkeypatch):
    halts, life = [], family(protocol)
    halted = life.halted

    def noted(self, at, node, reason):
        halts.append(reason)
        halted(self, at, node, reason)

    monkeypatch.setattr(life, "halted", noted)
    monkeypatch.setattr(Garbled, "chance", Random(seed))
    monkeypatch.setattr("snowmelt_world.life.EtcdNode", Garbled)
    report = live(drawn(protocol, seed, kinds_of(protocol), coordinator=ETCD_DECIDES), life)
    assert report.ending is Ending.SETTLED, report.sentence
    assert not [reason for reason in halts if "read" in reason]
