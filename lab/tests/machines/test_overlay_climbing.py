"""Climbing on the tree, with messages in any order: a counter at the root."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay import DeBruijnTree, Place, Ring
from snowmelt_lab.machines.overlay.climbing import Arrival, Back, Climbing, Down, Own, Up


class Counts:
    """A batch is a count, a grant its first number."""

    def combine(self, batches):
        return sum(batches)

    def decompose(self, grant, batches):
        return [grant + sum(batches[:at]) for at in range(len(batches))]


class Forest:
    """All places of a tree in one bag of messages."""

    def __init__(self, tree, nodes, chance):
        self.tree, self.chance = tree, chance
        self.places = {
            place: Climbing(Counts(), place, tree.parent(place), tree.children(place))
            for node in nodes
            for place in tree.places(node)
        }
        self.entries = [tree.entry(node) for node in nodes]
        self.buffered = dict.fromkeys(self.entries, 0)
        self.asked = dict.fromkeys(self.entries, 0)
        """What is on its way, of each entry's own."""
        self.given: list[tuple[int, int]] = []
        self.counter, self.arrivals, self.air = 0, 0, []

    def want(self, place, count):
        self.buffered[place] += count
        self.pump(place)

    def pump(self, place):
        climbing = self.places[place]
        if climbing.idle:
            own = self.buffered.get(place, 0)
            if own:
                self.buffered[place], self.asked[place] = 0, own
            self.carry(place, climbing.send(own or None))
        climbing.check()

    def carry(self, place, effects):
        for effect in effects:
            match effect:
                case Own(grant):
                    self.given.append((grant, self.asked[place]))
                case Arrival(number, batch):
                    first, self.counter = self.counter, self.counter + batch
                    self.arrivals += 1
                    self.carry(place, self.places[place].granted(number, first))
                    self.pump(place)
                case Up() | Down():
                    self.air.append((place, effect))

    def step(self):
        source, message = self.air.pop(self.chance.randrange(len(self.air)))
        target = self.places[message.to]
        if isinstance(message, Up):
            self.carry(message.to, target.take(source, message.number, message.batch))
        else:
            self.carry(message.to, target.granted(message.number, message.grant))
        self.pump(message.to)

    @property
    def busy(self):
        return any(one.ascent or one.waiting for one in self.places.values())


def names(count):
    return [NodeId(f"n{number}") for number in range(count)]


@given(count=st.integers(1, 12), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_every_operation_gets_one_number_of_its_own_in_whatever_order_messages_come(count, seed):
    nodes, chance = names(count), Random(seed)
    forest, wanted = Forest(DeBruijnTree(Ring(nodes, "s")), nodes, chance), 0
    for _ in range(40):
        size = chance.randint(1, 5)
        wanted += size
        forest.want(chance.choice(forest.entries), size)
        for _ in range(min(len(forest.air), chance.randrange(6))):
            forest.step()
    for _ in range(20_000):
        if not forest.busy:
            break
        forest.step()
    assert not forest.busy
    numbers = sorted(first + at for first, size in forest.given for at in range(size))
    assert numbers == list(range(wanted))


def test_what_gathers_while_a_batch_is_on_its_way_goes_as_one():
    nodes = names(5)
    forest = Forest(DeBruijnTree(Ring(nodes, "s")), nodes, Random(1))
    leaf = forest.entries[1] if forest.entries[0] == forest.tree.root else forest.entries[0]
    for _ in range(100):
        forest.want(leaf, 1)
    while forest.busy:
        forest.step()
    assert forest.arrivals == 2
    assert forest.counter == 100


ROOT, LEAF, OTHER = Place(NodeId("a"), 0), Place(NodeId("b"), 0), Place(NodeId("c"), 0)


def test_a_repeated_number_gets_the_same_answer_until_the_next_shows_that_it_came():
    root = Climbing(Counts(), ROOT, None, (LEAF,))
    root.take(LEAF, 1, 5)
    root.send(None)
    (answer,) = root.granted(1, 100)
    assert root.take(LEAF, 1, 5) == [answer]
    assert root.take(LEAF, 2, 3) == []
    assert root.take(LEAF, 1, 5) == []
    assert root.waiting[LEAF].batch == 3


def test_a_batch_waits_or_climbs_once_however_often_it_comes():
    root = Climbing(Counts(), ROOT, None, (LEAF,))
    for _ in range(3):
        root.take(LEAF, 1, 5)
    assert root.send(None) == [Arrival(1, 5)]
    root.take(LEAF, 1, 5)
    assert not root.waiting
    assert root.dropped == 0


def test_who_is_no_child_and_what_is_out_of_turn_is_dropped_and_counted():
    root = Climbing(Counts(), ROOT, None, (LEAF,))
    root.take(OTHER, 1, 5)
    root.take(LEAF, 2, 5)
    root.granted(1, 0)
    assert (root.waiting, root.dropped) == ({}, 3)


@pytest.mark.parametrize("own", [None, 2])
def test_in_synchronous_mode_a_place_waits_for_every_child(own):
    root = Climbing(Counts(), ROOT, None, (LEAF, OTHER), synchronous=True)
    root.take(OTHER, 1, 1)
    assert root.send(own) == []
    root.take(LEAF, 1, 5)
    assert root.send(own) == [Arrival(1, 6 + (own or 0))]
    first = own or 0
    downs = [one for one in root.granted(1, 0) if isinstance(one, Down)]
    assert downs == [Down(LEAF, 1, first), Down(OTHER, 1, first + 5)]


def test_what_waits_or_climbs_can_be_given_back_when_an_epoch_ends():
    root, leaf = Climbing(Counts(), ROOT, None, (LEAF,)), Climbing(Counts(), LEAF, ROOT, (OTHER,))
    leaf.take(OTHER, 1, 7)
    (up,) = leaf.send(5)
    root.take(LEAF, up.number, up.batch)
    assert root.refuse() == [Back(LEAF, 1)]
    assert leaf.refused(1) == [Back(None, 1), Back(OTHER, 1)]
    assert (leaf.idle, root.idle) == (False, False)
    assert (leaf.send(5), leaf.refused(1)) == ([], [])
