"""Nodes that know only their neighbours: joins and leaves under load, in any order of messages."""

from heapq import heappop, heappush
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snowmelt.core.instant import START, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announce, Announced, Received, Send
from snowmelt_lab.machines.overlay import DeBruijnTree, Ring
from snowmelt_lab.machines.overlay.node import (
    Join,
    Joined,
    JoinRefused,
    Leave,
    Left,
    OverlayNode,
    Served,
    Work,
    settled,
)
from snowmelt_lab.overlay.line import Line
from snowmelt_world.network import LinkStyle
from snowmelt_world.rounds import Rounds
from snowmelt_world.world import World

SALT = "jobs"
SLOW = (*[1.0] * 15, 10.0, 300.0)
"""How long a message may take: most of them are quick, and a few come long after."""


def name(number):
    return NodeId(f"n{number}")


def made(founders, newcomers=0, salt=SALT):
    ring = Ring([name(number) for number in range(founders)], salt)
    old = {node: OverlayNode(node, salt, Line(), ring) for node in ring.nodes}
    names = [name(number) for number in range(founders, founders + newcomers)]
    return old | {node: OverlayNode(node, salt, Line()) for node in names}


class Bag:
    """All messages in one bag; chance says which arrives next, and keeps some back for long."""

    def __init__(self, nodes, chance):
        self.nodes, self.chance, self.air, self.told = nodes, chance, [], []
        self.now, self.sent = 0.0, 0

    def tell(self, node, fact):
        self._handle(node, Announced(fact))

    def work(self, node, puts=0, gets=0):
        family = self.nodes[node].family
        for _ in range(puts):
            family.put(f"{node}.{self.chance.randrange(10**9)}")
        for _ in range(gets):
            family.get()
        self.tell(node, Work())

    def step(self):
        self.now, _, (source, target, message) = heappop(self.air)
        self._handle(target, Received(source, message))

    def send(self, source, target, message):
        self.sent += 1
        due = self.now + self.chance.choice(SLOW) * self.chance.random()
        heappush(self.air, (due, self.sent, (source, target, message)))

    def run(self):
        for _ in range(200_000):
            if not self.air:
                return
            self.step()
        raise AssertionError("it never comes to rest")

    def _handle(self, node, event):
        for effect in self.nodes[node].handle(event, START):
            if isinstance(effect, Send):
                self.send(node, effect.target, effect.message)
            elif isinstance(effect, Announce):
                self.told.append((node, effect.fact))
        self.nodes[node].check()


def check_whole(nodes):
    """The ring is the sorted cycle, the tree is right, and every key is in its place."""
    members = {node: one for node, one in nodes.items() if not one.standing.gone}
    assert settled(members.values())
    salt = next(iter(members.values())).standing.salt
    ring = Ring(list(members), salt)
    tree = DeBruijnTree(ring)
    stored, waiting, anchors = {}, {}, []
    for virtual in ring.virtuals:
        here = members[virtual.node].stations[virtual.kind].virtual
        assert (here.pred, here.succ) == (ring.pred(virtual), ring.succ(virtual))
        assert here.climbing.parent == tree.parent(virtual.place)
        assert set(here.climbing.children) == set(tree.children(virtual.place))
        assert here.nodes == len(members)
        assert not here.guests
        slots = [*here.table.stored, *here.table.waiting]
        assert all(ring.predecessor(slot.point) == virtual for slot in slots)
        stored |= {slot.name[0]: element for slot, element in here.table.stored.items()}
        for slot, getters in here.table.waiting.items():
            (getter,) = getters
            waiting[slot.name[0]] = getter.node
        if here.anchor is not None:
            anchors.append((virtual, here.anchor.state))
    ((anchor, state),) = anchors
    assert anchor == ring.anchor
    check_line({node: one.family for node, one in nodes.items()}, state, stored, waiting)


def check_line(families, state, stored, waiting):
    """Nothing was lost: what was put was got, or lies there; who got nothing still waits."""
    put = {at: one for each in families.values() for at, one in each.placed.items()}
    got = {at: one for each in families.values() for at, one in each.received.items()}
    asking = {at: node for node, each in families.items() for at in each.open_gets}
    assert sorted(put) == list(range(state.puts))
    assert sorted([*got, *asking]) == list(range(state.gets))
    assert got == {at: put[at] for at in range(min(state.puts, state.gets))}
    assert stored == {at: put[at] for at in range(state.gets, state.puts)}
    assert waiting == asking
    assert not any(each.unkept or each.buffered or each.wanted for each in families.values())


def test_one_node_alone_serves_itself():
    bag = Bag(made(1), Random(1))
    bag.work(name(0), puts=3, gets=2)
    assert not bag.air
    check_whole(bag.nodes)
    assert len(bag.nodes[name(0)].family.received) == 2


@pytest.mark.parametrize("founders", [2, 3, 7])
def test_members_put_and_get_in_one_line(founders):
    bag = Bag(made(founders), Random(founders))
    for number in range(60):
        bag.work(name(number % founders), puts=number % 3, gets=number % 2)
    bag.run()
    check_whole(bag.nodes)


@given(
    founders=st.integers(1, 6),
    newcomers=st.integers(0, 6),
    leavers=st.integers(0, 5),
    salt=st.sampled_from("abcdefgh"),
    seed=st.integers(0, 2**32),
)
@example(4, 5, 3, "b", 0)  # a newcomer asked one who had just given all away
@settings(max_examples=50, deadline=None)
def test_after_joins_and_leaves_all_is_in_its_place_and_nothing_is_lost(
    founders, newcomers, leavers, salt, seed
):
    chance = Random(seed)
    bag = Bag(made(founders, newcomers, salt), chance)
    plan = [(Join, name(founders + number)) for number in range(newcomers)]
    plan += [(Leave, name(number)) for number in range(min(leavers, founders - 1))]
    chance.shuffle(plan)
    works = 80
    while plan or bag.air:
        if plan and chance.random() < 0.1:
            wish, node = plan.pop()
            bag.tell(node, Leave() if wish is Leave else Join(name(chance.randrange(founders))))
        worker = bag.nodes[name(chance.randrange(founders + newcomers))]
        if works and chance.random() < 0.3 and not worker.standing.wants_to_leave:
            works -= 1
            bag.work(worker.me, puts=chance.randrange(3), gets=chance.randrange(2))
        if bag.air:
            bag.step()
    bag.run()
    for number in range(founders):  # gets of those who would leave must be answered first
        if not bag.nodes[name(number)].standing.wants_to_leave:
            bag.work(name(number), puts=200)
    bag.run()
    check_whole(bag.nodes)
    gone = [node for node, one in bag.nodes.items() if one.standing.gone]
    assert len(gone) == min(leavers, founders - 1)
    assert sum(isinstance(fact, Joined) for _, fact in bag.told) == newcomers


def test_newcomers_are_served_before_they_are_on_the_ring():
    bag = Bag(made(5, 1), Random(3))
    bag.tell(name(5), Join(name(0)))
    bag.work(name(5), puts=1)
    family = bag.nodes[name(5)].family
    while family.pending:
        bag.step()
    facts = [fact for node, fact in bag.told if node == name(5)]
    assert isinstance(facts[0], Served)
    bag.run()
    check_whole(bag.nodes)


@pytest.mark.parametrize("seed", range(6))
def test_all_but_one_leave_at_once_the_anchor_among_them(seed):
    bag = Bag(made(6, salt=f"s{seed}"), Random(seed))
    for number in range(6):
        bag.work(name(number), puts=5)
        bag.tell(name(number), Leave())
    bag.run()
    check_whole(bag.nodes)
    assert sum(isinstance(fact, Left) for _, fact in bag.told) == 5


@pytest.mark.parametrize("seed", range(6))
def test_one_node_becomes_many_at_once_and_the_anchor_moves(seed):
    bag = Bag(made(1, 9, salt=f"s{seed}"), Random(seed))
    bag.work(name(0), puts=50)
    for number in range(1, 10):
        bag.tell(name(number), Join(name(0)))
    bag.run()
    for number in range(10):
        bag.work(name(number), gets=6)
    bag.run()
    check_whole(bag.nodes)


def test_a_name_that_is_taken_is_refused_and_nothing_is_lost():
    bag = Bag(made(4), Random(1))
    bag.work(name(1), puts=9)
    nodes = dict(bag.nodes)
    bag.run()
    double = OverlayNode(name(1), SALT, Line())
    (ask,) = double.handle(Announced(Join(name(0))), START)
    bag.send(NodeId("double"), ask.target, ask.message)
    bag.step()
    refusals = []
    while bag.air:
        source, target, message = bag.air[0][-1]
        if target == "double":
            heappop(bag.air)
            refusals += double.handle(Received(source, message), START)
        else:
            bag.step()
    assert refusals == [Announce(JoinRefused(name(1)))] * 3
    check_whole(nodes)


def test_in_lock_step_joins_and_leaves_end_in_rounds():
    nodes = made(12, 6)
    rounds = Rounds(nodes)
    for number in range(12, 18):
        rounds.handle(name(number), Announced(Join(name(number - 12))))
    for number in range(3):
        rounds.handle(name(number), Announced(Leave()))
    for node, one in nodes.items():
        if not one.standing.wants_to_leave:
            one.family.put(f"of {node}")
            rounds.handle(node, Announced(Work()))
    rounds.run(2000)
    assert rounds.quiet
    check_whole(nodes)


@pytest.mark.parametrize("seed", range(5))
def test_in_the_asynchronous_world_with_long_delays_out_of_order(seed):
    nodes = made(6, 4)
    world = World(seed, LinkStyle(delay_mean=milliseconds(50), in_order=False))
    for node, one in nodes.items():
        world.add(node, lambda _chance, one=one: one)
        world.start(node)
    for number in range(6, 10):
        when = START + milliseconds(10 * number)
        world.at(when, world.give, name(number), Announced(Join(name(0))))
    for number in (0, 3):
        world.at(START + milliseconds(80 + number), world.give, name(number), Announced(Leave()))
    for number in (1, 2, 7):
        nodes[name(number)].family.put(f"of {number}")
        world.at(START + milliseconds(90), world.give, name(number), Announced(Work()))
    world.run(START + seconds(600))
    check_whole(nodes)
    assert sum(one.standing.gone for one in nodes.values()) == 2
