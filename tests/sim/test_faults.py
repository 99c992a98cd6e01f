from random import Random
from typing import get_args

import pytest

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import SECOND, Instant
from snowmelt.core.names import NodeId
from snowmelt.sim.faults import KINDS, ClockJump, ClockSkew, Fault, FlippedBit, draw, kinds

NODES = tuple(NodeId(f"n{number}") for number in range(1, 5))
END = Instant(60 * SECOND)


def tag(fault):
    return fault.__struct_config__.tag


def life(seed, allowed=KINDS, nodes=NODES):
    return draw(Random(seed), allowed, nodes, END)


def test_there_is_a_word_for_every_kind_and_every_kind_can_be_drawn():
    assert sorted(KINDS) == sorted(tag(kind) for kind in get_args(Fault))
    drawn = {tag(fault) for seed in range(60) for fault in life(seed)}
    assert drawn == set(KINDS)


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
            if not isinstance(fault, ClockSkew | ClockJump | FlippedBit):
                assert fault.at < fault.until <= END


def test_many_lives_hold_a_few_kinds_and_none_is_the_same_as_another():
    counts = [len({tag(fault) for fault in life(seed)}) for seed in range(200)]
    assert min(counts) <= 3
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
