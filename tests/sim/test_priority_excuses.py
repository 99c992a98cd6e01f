"""What the judge of a priority queue excuses, element by element, and what it does not."""

import pytest

from snowmelt.core.instant import Instant, seconds
from snowmelt.protocols.priority.anchor import first_of
from snowmelt.protocols.priority.placing import Placing, spread_of
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.sim.families.priority_words import PriorityLayout
from snowmelt.sim.judge.copies import AWAY, Excuses, Keepers, Told
from snowmelt.sim.judge.values import Place

NODES = ("n1", "n2", "n3", "n4", "n5")
PLACE = Place(0, first_of(1))
HOLDERS = Placing(spread_of(NODES), "jobs", 2, 4).holders(0, first_of(1))
OTHERS = tuple(node for node in NODES if node not in HOLDERS)


def at(second):
    return Instant(seconds(second))


def lives(*views):
    """One view after another, each from its second on, and the queue's keepers."""
    excuses = Excuses(NODES)
    for epoch, (second, *members) in enumerate(views, start=1):
        for node in members:
            excuses.viewed(at(second), node, epoch, tuple(members))
    layout = PriorityLayout(QueueSettings(queue="jobs", replicas=2), 4)
    return excuses, Keepers(excuses, layout)


def told(begin=1, end=2):
    return Told(PLACE, at(begin), at(end))


def test_what_was_told_is_forgotten_only_when_all_who_had_it_are_away_at_once():
    home, copy = HOLDERS
    _, one = lives((0, *NODES), (3, home, *OTHERS), (6, copy, *OTHERS))
    assert one.forgotten(told()) == ""
    _, both = lives((0, *NODES), (3, *OTHERS))
    assert both.forgotten(told()) == AWAY
    assert both.forgotten(told(), until=at(2.5)) == ""


def test_others_may_be_away_as_many_as_there_are():
    _, keepers = lives((0, *NODES), (3, *HOLDERS))
    assert keepers.forgotten(told()) == ""
    assert keepers.absent(told()) == set()


def test_an_element_waits_for_those_it_was_handed_to_once_the_others_may_have_erased_it():
    _, keepers = lives((0, *OTHERS), (3, *NODES), (6, *OTHERS))
    assert keepers.absent(told()) == {3}
    assert keepers.forgotten(told()) == ""  # what became of it, and who made it, they know still


def test_before_its_put_is_answered_any_one_may_be_the_only_one_that_has_an_element():
    home, _ = HOLDERS
    views = (0, *NODES), (3, home, *OTHERS), (6, *NODES)
    _, keepers = lives(*views)
    assert keepers.absent(told(1, 7)) == {2}
    assert keepers.absent(told(1, 2)) == set()


def test_what_nobody_answered_comes_out_when_one_who_may_know_it_is_back():
    home, copy = HOLDERS
    _, keepers = lives((0, *NODES), (3, home, *OTHERS), (6, *NODES))
    assert keepers.come_out(told(1, 1), 2, at(7))  # it was got in view 2, without one of them
    assert not keepers.come_out(told(1, 1), 2, at(5))  # who is not back yet
    assert not keepers.come_out(told(4, 4), 2, at(7))  # who had left when it was said
    _, another = lives((0, *NODES), (3, home, copy), (6, *NODES))
    assert not another.come_out(told(1, 1), 2, at(7))  # nobody else may know it


@pytest.mark.parametrize(("hurt", "reason"), [(HOLDERS, "disk lost"), (HOLDERS[:1], "")])
def test_an_element_is_lost_when_all_who_had_it_lost_their_disks(hurt, reason):
    excuses, keepers = lives((0, *NODES))
    for node in hurt:
        excuses.hurt(node, at(4), "disk lost")
    assert keepers.lost(told()) == keepers.forgotten(told()) == reason
    assert keepers.forgotten(told(5, 6)) == ""  # told since


def settled_at(keepers, second):
    """All who should have it do, on their disks."""
    keepers.settle(at(second), {PLACE: None})


@pytest.mark.parametrize(("settled", "reason"), [(5, ""), (None, "disk lost")])
def test_whoever_was_given_a_copy_has_it_whatever_was_lost_before(settled, reason):
    home, copy = HOLDERS
    excuses, keepers = lives((0, *NODES))
    excuses.hurt(home, at(4), "disk lost")
    if settled:
        settled_at(keepers, settled)
    excuses.hurt(copy, at(6), "disk lost", whole=True)
    assert keepers.lost(told()) == reason


def test_what_all_had_is_lost_all_the_same_when_all_of_them_are():
    excuses, keepers = lives((0, *NODES))
    settled_at(keepers, 3)
    for node in HOLDERS:
        excuses.hurt(node, at(4), "disk lost", whole=True)
    assert keepers.lost(told()) == "disk lost"


def test_who_is_gone_for_good_is_waited_for_no_more():
    excuses, _ = lives((0, *NODES), (3, *OTHERS))
    assert not excuses.whole(at(4))
    for node in HOLDERS:
        excuses.gone(node)
    assert excuses.whole(at(4))


def test_nothing_is_drained_while_a_node_is_away():
    excuses, _ = lives((0, *NODES), (3, *OTHERS), (6, *NODES))
    assert [excuses.whole(at(second)) for second in (1, 4, 7)] == [True, False, True]


def test_a_view_of_a_number_that_there_was_is_another_view():
    excuses, _ = lives((0, *NODES), (3, *OTHERS))
    excuses.renumbered(at(4), at(2), NODES[0])
    excuses.viewed(at(6), NODES[0], 1, NODES, mark=1)
    assert excuses.whole(at(7))
