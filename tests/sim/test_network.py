from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snowmelt.core.instant import MILLISECOND, Duration, Instant, milliseconds
from snowmelt.core.names import NodeId
from snowmelt_world.faults import (
    CutLinks,
    Delay,
    Duplication,
    Loss,
    OneDoor,
    Partition,
    QuickRestarts,
    Reordering,
    Split,
)
from snowmelt_world.network import LinkStyle, Network

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
NOW, END = Instant(0), Instant(10**12)
MANY = 5_000


def network(seed=0, **style):
    return Network(LinkStyle(**style), Random(seed))


def arrivals(net, count, step=MILLISECOND // 10, source=A, target=B):
    return [net.fate(source, target, Instant(turn * step)) for turn in range(count)]


@given(st.integers(), st.lists(st.integers(0, 10**7), max_size=30), st.booleans())
def test_links_in_order_stay_in_order_through_loss_doubling_and_delay(seed, waits, hurt):
    net = network(seed)
    if hurt:
        net.begin(Loss(NOW, END, 0.3))
        net.begin(Duplication(NOW, END, 0.5))
        net.begin(Delay(NOW, END, milliseconds(50)))
    now, all_of_them = 0, []
    for wait in waits:
        now += wait
        fate = net.fate(A, B, Instant(now))
        assert all(at >= now + LinkStyle().delay_min for at in fate)
        all_of_them += fate
    assert all_of_them == sorted(all_of_them)


def test_links_in_any_order_and_reordering_let_messages_overtake():
    loose, strict = network(in_order=False), network()
    strict.begin(Reordering(NOW, END))
    for net in (loose, strict):
        times = [at for (at,) in arrivals(net, 100)]
        assert times != sorted(times)


def test_a_whole_network_delivers_each_message_once():
    assert all(len(fate) == 1 for fate in arrivals(network(), 100))


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_messages_are_lost_at_the_rate_asked_for_and_counted(rate):
    net = network()
    net.begin(Loss(NOW, END, rate))
    lost = sum(not fate for fate in arrivals(net, MANY))
    assert lost == net.dropped
    assert abs(lost / MANY - rate) < 0.03


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_messages_are_doubled_at_the_rate_asked_for(rate):
    net = network()
    net.begin(Duplication(NOW, END, rate))
    doubled = sum(len(fate) == 2 for fate in arrivals(net, MANY))
    assert abs(doubled / MANY - rate) < 0.03


def passes(net, source, target, now=NOW):
    return bool(net.fate(source, target, now))


def test_a_partition_cuts_both_ways_between_its_side_and_the_rest_alone():
    net = network()
    net.begin(Partition(NOW, END, "halves", (A, C)))
    assert not passes(net, A, B)
    assert not passes(net, B, A)
    assert passes(net, A, C)


def test_a_one_way_partition_lets_words_out_and_none_in():
    net = network()
    net.begin(Partition(NOW, END, "one-way", (A,), one_way=True))
    assert passes(net, A, B)
    assert not passes(net, B, A)
    assert passes(net, B, C)


def test_a_cut_link_parts_two_who_both_hear_everybody_else():
    net = network()
    net.begin(CutLinks(NOW, END, ((A, B),)))
    assert not passes(net, A, B)
    assert not passes(net, B, A)
    assert all(passes(net, *link) for link in ((A, C), (C, A), (B, C), (C, B)))


def test_a_link_cut_one_way_carries_the_other():
    net = network()
    net.begin(CutLinks(NOW, END, ((A, B),), one_way=True))
    assert not passes(net, A, B)
    assert passes(net, B, A)


def test_a_link_that_stays_cut_outlives_the_healing_and_no_other_does():
    net = network()
    net.begin(CutLinks(NOW, END, ((A, B),), stays=True))
    net.begin(CutLinks(NOW, END, ((A, C),)))
    net.heal()
    assert not passes(net, A, B)
    assert passes(net, A, C)


def test_a_split_takes_clients_to_either_side():
    client, other = NodeId("k1"), NodeId("k2")
    net = network()
    net.begin(Split(NOW, END, (A, client)))
    assert passes(net, client, A)
    assert passes(net, other, B)
    assert not passes(net, client, B)
    assert not passes(net, other, A)


def test_a_client_with_one_door_reaches_one_node_and_others_reach_all():
    client, other = NodeId("k1"), NodeId("k2")
    net = network()
    net.begin(OneDoor(NOW, END, client, A))
    assert passes(net, client, A)
    assert passes(net, A, client)
    assert not passes(net, client, B)
    assert not passes(net, B, client)
    assert passes(net, other, B)
    assert passes(net, A, B)


def test_quick_restarts_may_happen_inside_a_cut():
    net = network()
    net.begin(QuickRestarts(NOW, END, A, (), milliseconds(50), (A,)))
    net.begin(QuickRestarts(NOW, END, B, (), milliseconds(50)))
    assert not passes(net, A, C)
    assert passes(net, B, C)


def test_a_flapping_partition_closes_and_opens_with_its_period():
    net = network()
    start = Instant(500)
    net.begin(Partition(start, END, "flapping", (A,), period=Duration(100)))
    open_at = [passes(net, A, B, Instant(500 + 50 * turn)) for turn in range(8)]
    assert open_at == [False, False, True, True] * 2


def test_an_injury_that_ended_or_was_healed_hurts_no_more():
    net = network()
    cut, lost = Partition(NOW, END, "halves", (A,)), Loss(NOW, END, 1.0)
    net.begin(cut)
    net.end(cut)
    net.end(cut)
    assert passes(net, A, B)
    net.begin(lost)
    assert not passes(net, A, B)
    net.heal()
    assert passes(net, A, B)


def test_of_two_equal_injuries_one_ends_and_the_other_goes_on():
    net = network()
    cut = Partition(NOW, END, "halves", (A,))
    net.begin(cut)
    net.begin(cut)
    net.end(cut)
    assert not passes(net, A, B)
