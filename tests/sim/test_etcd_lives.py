"""Lives where a simulated etcd decides: any node leads, and who slept decides nothing."""

import pytest

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announce, Received, Reply
from snowmelt.protocols.baton import fences, relay
from snowmelt.protocols.etcd import ETCD
from snowmelt.protocols.membership import CutOff, Depart, View
from snowmelt.protocols.membership.records import CLUSTER, LEDGER
from snowmelt_world.etcd import EtcdNode, leader_of
from snowmelt_world.families import family
from snowmelt_world.families.membership import address, member
from snowmelt_world.faults import CutLinks, HeldBack
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import ETCD_DECIDES, drawn, kinds_of
from snowmelt_world.world import Observer, World

NAMES = [NodeId(f"n{number}") for number in range(1, 6)]


class Seen(Observer):
    """What was announced, and why who halted did."""

    def __init__(self):
        self.views, self.cut, self.halts = {}, [], []
        self.replies = []

    def announced(self, at: Instant, node: NodeId, effect: Announce) -> None:
        match effect.fact:
            case View() as view:
                self.views[node] = view
            case CutOff():
                self.cut.append((node, at))

    def halted(self, at: Instant, node: NodeId, reason: str) -> None:
        del at
        self.halts.append((node, reason))

    def replied(self, at: Instant, node: NodeId, effect: Reply) -> None:
        del at
        self.replies.append((node, effect.message))


def cluster(names=NAMES, keep=False):
    seen = Seen()
    world = World(7, observer=seen, keep=keep)
    world.add(ETCD, lambda _: EtcdNode())
    world.start(ETCD)
    for name in names:
        add(world, name)
        world.start(name)
    world.run(Instant(seconds(10)))
    return world, seen


def add(world, name, contacts=(), coordinator=ETCD_DECIDES):
    world.add(
        name,
        lambda chance: member(name, contacts, chance, coordinator=coordinator),
        address(name),
    )


def after(world, span):
    world.run(Instant(world.now + seconds(span)))


def names_of(view):
    return [one.id for one in view.members]


def test_nodes_that_know_nobody_come_together_through_etcd():
    world, seen = cluster()
    leader = leader_of(world)
    for node in NAMES:
        assert names_of(seen.views[node]) == NAMES
        assert seen.views[node].coordinator == leader
    assert not seen.cut


def test_when_the_leader_dies_another_leads_within_seconds_and_nobody_is_cut_off():
    world, seen = cluster()
    leader = leader_of(world)
    world.stop(leader)
    after(world, 9)
    heir = leader_of(world)
    rest = [node for node in NAMES if node != leader]
    assert heir in rest
    assert {seen.views[node].coordinator for node in rest} == {heir}
    after(world, 12)
    assert all(names_of(seen.views[node]) == rest for node in rest)
    assert not [node for node, _ in seen.cut if node != leader]


def test_a_leader_that_is_started_again_at_once_need_not_wait_for_its_own_lease():
    world, seen = cluster(NAMES[:1])
    world.stop(NAMES[0])
    world.start(NAMES[0])
    after(world, 1.5)
    assert seen.views[NAMES[0]].member(NAMES[0]).start == 2


def test_a_leader_that_slept_leads_no_more_and_is_a_member_again():
    world, seen = cluster()
    leader = leader_of(world)
    world.slots[leader].paused_until = Instant(world.now + seconds(30))
    after(world, 31)
    heir = leader_of(world)
    assert heir != leader
    after(world, 10)
    assert leader_of(world) == heir
    assert names_of(seen.views[leader]) == NAMES
    assert seen.views[leader].coordinator == heir


def test_a_leader_that_died_is_left_out_as_soon_as_it_can_not_have_been_sure_any_more():
    world, seen = cluster()
    leader = leader_of(world)
    world.stop(leader)
    begin = world.now
    while leader_of(world) in (leader, None):
        after(world, 0.01)
    elected = world.now
    assert elected - begin <= seconds(5 + 1.7)  # its lease, and a look
    rest = [node for node in NAMES if node != leader]
    after(world, 4.8)
    assert names_of(seen.views[rest[0]]) == NAMES
    after(world, 0.6)
    assert all(names_of(seen.views[node]) == rest for node in rest)


def test_a_leader_of_before_that_lives_is_not_left_out():
    world, seen = cluster()
    leader = leader_of(world)
    links = ((leader, ETCD),)
    world.network.begin(CutLinks(world.now, Instant(world.now + seconds(7)), links))
    after(world, 30)
    assert leader_of(world) != leader
    assert (leader, 1) in [(one.id, one.start) for one in seen.views[leader].members]
    assert seen.views[leader].epoch == 6  # five joined, and one leads anew


def test_what_a_leader_of_before_asked_comes_late():
    world, seen = cluster()
    leader = leader_of(world)
    held = HeldBack(world.now, Instant(world.now + seconds(15)), leader, ETCD)
    world.network.begin(held)
    add(world, NodeId("n6"))
    world.start(NodeId("n6"))  # it is let in by the one, which asks etcd, and then by the other
    after(world, 14)
    heir = leader_of(world)
    assert heir != leader
    ledger = world.slots[ETCD].node.held(LEDGER)
    world.network.end(held)
    after(world, 2)
    assert world.slots[ETCD].node.held(LEDGER) == ledger
    after(world, 10)
    assert {seen.views[node].coordinator for node in [*NAMES, "n6"]} == {heir}


def test_a_leader_that_can_not_reach_etcd_says_so():
    world, seen = cluster()
    leader = leader_of(world)
    links = tuple((node, ETCD) for node in NAMES)
    world.network.begin(CutLinks(world.now, Instant(world.now + seconds(60)), links))
    after(world, 14)
    assert leader in [node for node, _ in seen.cut]


def test_when_two_stand_at_once_one_is_elected():
    world, seen = cluster()
    world.stop(leader_of(world))
    after(world, 9)
    views = [seen.views[node] for node in NAMES if world.slots[node].node is not None]
    assert all(view == views[0] for view in views)
    numbers = [view.epoch for view in views]
    assert numbers == [6] * 4  # five joined, and one leads anew


def test_at_rest_etcd_is_asked_about_once_a_second_however_many_nodes_there_are():
    world, _ = cluster(keep=True)
    before = asked(world)
    after(world, 60)
    assert 30 <= asked(world) - before <= 90


def asked(world):
    steps = world.trace.kept()
    return sum(step.node == ETCD and isinstance(step.event, Received) for step in steps)


def test_while_etcd_is_away_the_leader_is_current_while_sure_and_others_for_nine_seconds():
    world, seen = cluster()
    begin, leader = world.now, leader_of(world)
    world.stop(ETCD)
    after(world, 9)
    ((node, at),) = seen.cut
    assert node == leader
    assert seconds(4 - 1.3) <= at - begin <= seconds(4)  # of a lease of five, refreshed each 1.25
    after(world, 30)
    assert sorted({node for node, _ in seen.cut}) == NAMES
    assert max(at for _, at in seen.cut) - begin <= seconds(4 + 9 + 1)
    seen.views.clear()
    world.start(ETCD)
    after(world, 15)
    assert sorted(seen.views) == NAMES


def test_a_leader_leaves_in_order_and_another_leads_at_once():
    world, seen = cluster()
    leader = leader_of(world)
    world.request(leader, OperationId(leader, 1), Depart())
    after(world, 4)
    rest = [node for node in NAMES if node != leader]
    assert leader_of(world) in rest
    assert all(names_of(seen.views[node]) == rest for node in rest)
    assert [node for node, _ in seen.replies] == [leader]


def test_a_machine_that_is_gone_for_good_is_missed_and_a_new_one_takes_its_place():
    world, seen = cluster()
    leader = leader_of(world)
    world.stop(leader)
    add(world, NodeId("n6"))
    world.start(NodeId("n6"))
    after(world, 25)
    wanted = sorted([*(node for node in NAMES if node != leader), NodeId("n6")])
    assert all(names_of(seen.views[node]) == wanted for node in wanted)


def test_a_node_that_was_told_of_no_etcd_is_refused_with_the_reason():
    world, seen = cluster()
    add(world, NodeId("n9"), (NAMES[0],), "disk")
    world.start(NodeId("n9"))
    after(world, 1)
    assert seen.halts == [
        ("n9", "etcd decides here: start with the same --coordinator as the other nodes")
    ]


def test_a_disk_that_decided_for_its_cluster_does_not_start_with_etcd():
    seen = Seen()
    world = World(7, observer=seen)
    add(world, NAMES[0], coordinator="disk")
    world.start(NAMES[0])
    after(world, 1)
    world.stop(NAMES[0])
    world.slots[NAMES[0]].build = lambda chance: member(
        NAMES[0], (), chance, coordinator=ETCD_DECIDES
    )
    world.start(NAMES[0])
    ((node, reason),) = seen.halts
    assert node == "n1"
    assert "start without --coordinator" in reason


def test_where_etcd_has_lost_a_cluster_no_disk_founds_another_were_it_empty():
    world, seen = cluster(NAMES[:2])
    for node in (*NAMES[:2], ETCD):
        world.stop(node)
    world.replace_disk(ETCD)
    world.slots[ETCD].build = lambda _: EtcdNode(founded=False)
    world.start(ETCD)
    for node in NAMES[:2]:
        world.start(node)
    add(world, NAMES[2])
    world.start(NAMES[2])
    after(world, 3)
    halts = dict(seen.halts)
    for node in NAMES[:2]:
        assert "is of cluster 0000000000000001, and etcd has none under this prefix" in halts[node]
    assert "snowmelt found" in halts[NAMES[2]]
    assert not world.slots[ETCD].node.held(CLUSTER)


@pytest.mark.parametrize("protocol", ["membership", "queue", "baton", "multicast"])
def test_lives_come_to_rest_whoever_dies(protocol):
    for seed in range(12 if protocol == "membership" else 1):
        rests(protocol, seed)


def test_what_an_earlier_life_asked_for_at_most_once_may_come_to_the_next_and_be_lost():
    rests("pool", 1075)


@pytest.mark.parametrize("seed", [349, 872])
def test_nothing_that_was_held_back_from_etcd_is_on_its_way_when_all_are_to_be_at_rest(seed):
    rests("multicast", seed)


@pytest.mark.parametrize("seed", [2, 43, 53])  # 43: a token was idle where its term ended
def test_lives_of_batons_come_to_rest_when_each_ends_its_term_all_the_time(seed, monkeypatch):
    monkeypatch.setattr(fences, "COUNT_BITS", 3)
    monkeypatch.setattr(relay, "NOTED_BITS", 1)
    monkeypatch.setattr(fences, "BEGINNING", 1 << 62)  # the time of day would hide all faults
    rests("baton", seed)


def rests(protocol, seed, theme=None):
    scenario = drawn(protocol, seed, kinds_of(protocol), theme=theme, coordinator=ETCD_DECIDES)
    report = live(scenario, family(protocol))
    assert report.ending is Ending.SETTLED, (seed, report.sentence)
