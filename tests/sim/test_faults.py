from random import Random

import pytest

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import SECOND, Instant
from snowmelt.core.names import NodeId
from snowmelt_world.draws import draw
from snowmelt_world.faults import (
    HARDER,
    KINDS,
    THEMED,
    ClockJump,
    ClockSkew,
    CutLinks,
    FlippedBit,
    LeaderHeld,
    LostDisk,
    LostFounder,
    OlderDisk,
    PowerCut,
    QuickRestarts,
    RollingRestart,
    Rumour,
    WallClock,
    kinds,
)
from snowmelt_world.scenario import ETCD_DECIDES, OVER_ETCD, drawn, kinds_of

NODES = tuple(NodeId(f"n{number}") for number in range(1, 5))
CLIENTS = (NodeId("c1"), NodeId("c2"))
END = Instant(60 * SECOND)


def tag(fault):
    return fault.__struct_config__.tag


def life(seed, allowed=KINDS, nodes=NODES, calm=0.0):
    return draw(Random(seed), allowed, nodes, END, CLIENTS, calm)


def lives(kind, count=300):
    return [fault for seed in range(count) for fault in life(seed) if isinstance(fault, kind)]


def test_every_kind_can_be_drawn():
    seen = {tag(fault) for seed in range(150) for fault in life(seed)}
    assert seen == set(KINDS) - set(THEMED)


def test_what_belongs_to_a_theme_is_in_its_lives_for_certain_and_in_no_others():
    for seed in range(60):
        scenario = drawn("queue", seed, KINDS)
        themed = {tag(fault) for fault in scenario.faults} & set(THEMED)
        assert themed == {"power": {"power-cut"}, "stalls": {"stalls"}}.get(scenario.theme, set())
    themes = [drawn("queue", seed, KINDS).theme for seed in range(20)]
    of_twenty = ("power", "stalls", "backlog", "bursts")
    assert [themes.count(one) for one in of_twenty] == [3, 2, 2, 2]


def test_power_fails_while_flushes_take_longer():
    cuts = [
        fault
        for seed in range(4, 100, 5)
        for fault in drawn("queue", seed, KINDS).faults
        if isinstance(fault, PowerCut)
    ]
    assert cuts
    assert all(one.at < one.fails < one.until and one.extra for one in cuts)


@pytest.mark.parametrize("protocol", OVER_ETCD)
def test_all_faults_are_over_when_the_faults_end(protocol):
    for seed in range(60):
        scenario = drawn(protocol, seed, kinds_of(protocol), coordinator=ETCD_DECIDES)
        for fault in (*scenario.faults, *scenario.weather):
            assert fault.at <= getattr(fault, "until", fault.at) <= scenario.faults_end, fault


def test_what_a_leader_asks_of_etcd_is_held_back_until_another_may_lead():
    lives = [drawn("membership", seed, KINDS, coordinator=ETCD_DECIDES) for seed in range(100)]
    held = [one for life in lives for one in life.weather if isinstance(one, LeaderHeld)]
    assert held
    assert all(6 * SECOND <= one.until - one.at < 20 * SECOND for one in held)


def test_who_is_not_judged_harder_draws_what_it_always_drew():
    easier = [kind for kind in KINDS if kind not in HARDER]
    assert kinds_of("echo") == tuple(easier)
    for seed in range(20):
        assert drawn("echo", seed, KINDS) == drawn("echo", seed, tuple(easier))


def test_a_calm_life_holds_up_to_four_kinds_whatever_is_allowed():
    for seed in range(60):
        calm = life(seed, calm=1.0)
        assert 0 <= len({tag(fault) for fault in calm}) <= 4
        fewer = tuple(fault for fault in calm if tag(fault) != "crash")
        assert life(seed, [kind for kind in KINDS if kind != "crash"], calm=1.0) == fewer


def test_links_that_stay_cut_leave_the_founder_and_three_who_hear_each_other():
    cuts = lives(CutLinks)
    staying = [cut for cut in cuts if cut.stays]
    assert staying
    assert len(staying) < len(cuts) / 2
    for cut in staying:
        ends = [end for link in cut.links for end in link]
        assert NODES[0] not in ends
        assert len(ends) == len(set(ends))
        assert len(NODES) - len(cut.links) >= 3
    for cut in cuts:
        assert all(one != other for one, other in cut.links)
    few = [fault for seed in range(60) for fault in life(seed, nodes=NODES[:3])]
    assert not any(isinstance(fault, CutLinks) and fault.stays for fault in few)


def test_the_links_of_one_cut_stay_in_a_life_at_most():
    for seed in range(400):
        staying = [fault for fault in life(seed) if isinstance(fault, CutLinks) and fault.stays]
        assert len(staying) <= 1


def test_a_copy_is_older_than_when_it_is_put_back_and_the_founders_disk_has_a_kind_of_its_own():
    older = lives(OlderDisk)
    assert all(one.taken < one.at for one in older)
    assert {one.node for one in older} > {NODES[0]}
    assert NODES[0] not in {one.node for one in lives(LostDisk)}
    assert {one.node for one in lives(LostFounder, 500)} == {NODES[0]}


def test_quick_restarts_are_over_before_anybody_is_missed():
    for fault in lives(QuickRestarts):
        assert all(fault.at <= at < fault.until for at in fault.times)
        assert fault.down <= SECOND // 2
        assert not fault.cut or (fault.node in fault.cut and set(fault.cut) != set(NODES))


def test_a_rolling_restart_takes_every_node_once():
    for fault in lives(RollingRestart):
        assert sorted(fault.nodes) == list(NODES)


@pytest.mark.parametrize("left_out", KINDS)
def test_leaving_a_kind_out_moves_no_other(left_out):
    for seed in range(20):
        others = [kind for kind in KINDS if kind != left_out]
        expected = tuple(fault for fault in life(seed) if tag(fault) != left_out)
        assert life(seed, others) == expected


def test_injuries_come_in_order_and_are_over_in_time():
    for seed in range(60):
        faults = life(seed)
        assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
        for fault in faults:
            assert 0 <= fault.at < END
            if not isinstance(fault, ClockSkew | ClockJump | FlippedBit | Rumour | WallClock):
                assert fault.at < fault.until <= END


def test_many_lives_hold_a_few_kinds_and_none_is_the_same_as_another():
    counts = [len({tag(fault) for fault in life(seed)}) for seed in range(200)]
    assert min(counts) <= 5
    assert max(counts) >= 11
    assert len({life(seed) for seed in range(200)}) == 200


def test_one_node_alone_can_be_hurt_too():
    for seed in range(60):
        life(seed, nodes=NODES[:1])


def test_nothing_allowed_is_nothing_drawn():
    assert life(1, ()) == ()


def test_kinds_are_read_from_words():
    assert kinds(["all"]) == kinds([]) == KINDS
    assert kinds(["none"]) == ()
    assert kinds(["crash", "loss", "crash"]) == ("loss", "crash")
    for words in (["fire"], [""], ["none", "loss"]):
        with pytest.raises(BadOption, match="--faults"):
            kinds(words)
