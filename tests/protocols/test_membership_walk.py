"""Membership against an enemy: any message late, doubled or lost, any process killed at any moment.

What must hold after every step, whatever the enemy does: an epoch has one content; no node's epoch
goes back; a node that is current (its lease not over) stands in the coordinator's newest view.
All clocks run equally fast, so rule 8's politeness is owed too.
"""

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import Address, NodeId, OperationId, address_of, contact
from snowmelt.core.node import (
    Announce,
    CancelTimer,
    Expired,
    Halt,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Requested,
    Send,
    SetTimer,
    Started,
)
from snowmelt.core.record import Record
from snowmelt.protocols.membership import (
    Depart,
    Forget,
    Identity,
    MembershipNode,
    MembershipSettings,
    View,
)
from snowmelt.protocols.membership.member import MemberState
from snowmelt_world.families.membership import Founder
from wide import wide

NODES = [NodeId(f"n{number}") for number in range(1, 4)]
WHO = st.sampled_from(NODES)
CLIENT = OperationId(NodeId("c"), 1)
SETTINGS = MembershipSettings(interval=seconds(3), misses=3, grace=seconds(1))


class Process:
    """A node, its disk, its timers, and what it has asked of the disk."""

    def __init__(self, name, disk, life):
        first = () if name == NODES[0] else (contact(Address(NODES[0], 1)),)
        identity = Identity(id=name, address=Address(name, 1), contacts=first)
        machine = MembershipNode if first else Founder
        self.node = machine(identity, SETTINGS, Random(f"{name}/{life}"))
        self.disk, self.timers, self.asked = disk, {}, []


class Enemy(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.now, self.lives = Instant(0), 0
        self.air, self.contents, self.newest = [], {}, {}
        self.processes = {}
        for name in NODES:
            self.start(name, {})

    def start(self, name, disk):
        self.lives += 1
        self.processes[name] = Process(name, disk, self.lives)
        records = tuple(Record(key, value) for key, value in sorted(disk.items()))
        self.give(name, Started(records))

    def give(self, name, event):
        process = self.processes[name]
        effects = process.node.handle(event, self.now)
        process.node.check()
        for effect in effects:
            match effect:
                case Send(target, message):
                    address = address_of(target)
                    target = NodeId(address.host) if address else target
                    self.air.append((name, target, message))
                case SetTimer(timer, at):
                    process.timers[timer] = at
                case CancelTimer(timer):
                    process.timers.pop(timer, None)
                case Persist():
                    process.asked.append(effect)
                case Announce(View() as view):
                    assert self.contents.setdefault(view.epoch, view) == view
                    assert self.newest.get(name, 0) <= view.epoch
                    self.newest[name] = view.epoch
                case Halt():
                    return self.start(name, process.disk)
        return None

    @rule(pick=st.integers(0, 10**6), keep=st.booleans())
    def deliver_any(self, pick, keep):
        if self.air:
            index = pick % len(self.air)
            source, target, message = self.air[index] if keep else self.air.pop(index)
            self.give(target, Received(source, message))

    @rule(count=st.integers(1, 8))
    def deliver_the_newest(self, count):
        for _ in range(min(count, len(self.air))):
            source, target, message = self.air.pop()
            self.give(target, Received(source, message))

    @rule(name=WHO)
    def flush(self, name):
        process = self.processes[name]
        if process.asked:
            persist = process.asked.pop(0)
            process.disk.update((change.key, change.value) for change in persist.changes)
            self.give(name, Persisted(persist.ticket))

    @rule()
    def flush_all(self):
        for name in NODES:
            while self.processes[name].asked:
                self.flush(name)

    @rule(name=WHO)
    def fail(self, name):
        if self.processes[name].asked:
            self.give(name, PersistFailed(self.processes[name].asked.pop(0).ticket, "full"))

    @rule(name=WHO, kept=st.integers(0, 3))
    def crash(self, name, kept):
        process = self.processes[name]
        for persist in process.asked[:kept]:
            process.disk.update((change.key, change.value) for change in persist.changes)
        self.start(name, process.disk)

    @rule(wait=st.sampled_from([50, 900, 1_000, 3_000]))
    def time_passes(self, wait):
        self.now = later(self.now, milliseconds(wait))
        for name in NODES:
            timers = self.processes[name].timers
            for timer in [timer for timer, at in timers.items() if at <= self.now]:
                if timers.pop(timer, None) is not None:
                    self.give(name, Expired(timer))
                    timers = self.processes[name].timers

    @rule(name=WHO)
    def depart(self, name):
        self.give(name, Requested(CLIENT, Depart()))

    @rule(name=WHO)
    def forget(self, name):
        self.give(NODES[0], Requested(CLIENT, Forget(name)))

    @invariant()
    def who_is_current_is_in_the_newest_view(self):
        keeper = self.processes[NODES[0]].node._keeper if hasattr(self, "processes") else None
        if keeper is None:
            return
        decided = keeper._coordinator.decided.view
        for name in NODES:
            follower = self.processes[name].node._follower
            if follower.standing is MemberState.CURRENT and self.now < follower._lease_end:
                assert decided.member(name) == follower.member, f"{name} is out of {decided}"


Enemy.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestNoEnemyBreaksMembership = Enemy.TestCase


def walk(seed, steps=300):
    """The same enemy with a plan: mostly life as usual, so that there is something to break."""
    chance, enemy = Random(seed), Enemy()
    plan = {
        lambda: enemy.deliver_the_newest(chance.randint(1, 8)): 35,
        lambda: enemy.deliver_any(chance.randrange(10**6), chance.random() < 0.5): 15,
        enemy.flush_all: 14,
        lambda: enemy.flush(chance.choice(NODES)): 6,
        lambda: enemy.time_passes(chance.choice([50, 900, 1_000, 3_000])): 22,
        lambda: enemy.crash(chance.choice(NODES), chance.randint(0, 3)): 2,
        lambda: enemy.fail(chance.choice(NODES)): 2,
        lambda: enemy.depart(chance.choice(NODES)): 1,
        lambda: enemy.forget(chance.choice(NODES)): 1,
    }
    enemy.begin()
    for act in chance.choices(list(plan), list(plan.values()), k=steps):
        act()
        enemy.who_is_current_is_in_the_newest_view()


@pytest.mark.parametrize("seeds", [range(80), *wide(range(80, 800))])
def test_no_planned_enemy_breaks_it_either(seeds):
    for seed in seeds:
        walk(seed)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_no_planned_enemy_breaks_it_in_a_long_war():
    for seed in range(50_000):
        walk(seed)
