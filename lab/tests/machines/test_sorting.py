"""Distributed sorting by itself: every element learns its place, however messages come."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from selections import SALT, name, spread

from snowmelt_lab.machines.overlay import Ring
from snowmelt_lab.machines.overlay.family import Carry
from snowmelt_lab.machines.select.elements import Element
from snowmelt_lab.machines.select.sorting import Sorting


def sorted_by(machines, ring, begun, chance):
    """Brings visits to their points' keepers and tells nodes, one at a time, as chance has it."""
    under_way = [wish for wishes in begun for wish in wishes]
    while under_way:
        wish = under_way.pop(chance.randrange(len(under_way)))
        if isinstance(wish, Carry):
            keeper = machines[ring.predecessor(wish.point).node]
            under_way += keeper.visited(wish.point, wish.body)
        else:
            under_way += machines[wish.node].told(wish.body)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=24),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_every_element_learns_its_place(priorities, nodes, chance):
    owners = [chance.randrange(nodes) for _ in priorities]
    held = spread(priorities, owners, nodes)
    machines = {name(number): Sorting(name(number), SALT) for number in range(nodes)}
    begun, start, numbered = [], 1, {}
    for number, elements in enumerate(held):
        machine = machines[name(number)]
        begun.append(machine.begin(5, start, len(priorities), elements))
        numbered |= dict(enumerate(elements, start))
        start += len(elements)
    sorted_by(machines, Ring(list(machines), SALT), begun, chance)
    places = {}
    for machine in machines.values():
        assert machine.idle
        assert machine.known(5)
        places |= machine.end(5)
    by_place = sorted(places, key=places.__getitem__)
    assert [numbered[item] for item in by_place] == sorted(numbered.values())
    assert sorted(places.values()) == list(range(1, len(priorities) + 1))


def test_two_sorts_at_once_do_not_meet():
    one = Sorting(name(0), SALT)
    elements = [[Element(3, 1), Element(2, 2), Element(1, 3)], [Element(1, 7), Element(2, 8)]]
    begun = [one.begin(sort, 1, len(these), these) for sort, these in enumerate(elements)]
    sorted_by({one.me: one}, Ring([one.me], SALT), begun, Random(1))
    assert [one.end(sort) for sort in range(2)] == [{1: 3, 2: 2, 3: 1}, {1: 1, 2: 2}]
