"""How a consumer draws the producers that it probes (rules 1, 10, 11)."""

import math
from collections import Counter
from random import Random

import msgspec
import pytest

from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.pool.access import FLOOR, AccessList
from snowmelt.protocols.pool.introductions import Acquaintance
from snowmelt.protocols.pool.messages import Request
from snowmelt.protocols.pool.settings import Access, AccessKind

A, B, C = map(NodeId, ("c-a", "c-b", "c-c"))
UNIFORM = Access(AccessKind.UNIFORM)
ADAPTIVE = Access()


def known(**rates):
    """Producers a, b, c … with these rates."""
    return [
        Acquaintance(NodeId(f"c-{name}"), name, Address("h", 1), rate)
        for name, rate in rates.items()
    ]


def met(access, **rates):
    one = AccessList(access, Random(1))
    one.meet(known(**rates))
    return one


def shares(one, draws=4000):
    """How often each comes first."""
    first = Counter(one.way(1)[0] for _ in range(draws))
    return {name: count / draws for name, count in first.items()}


def test_a_way_asks_each_producer_once():
    for access in (UNIFORM, ADAPTIVE):
        one = met(access, a=100.0, b=1.0, c=1.0)
        assert all(sorted(one.way(5)) == [A, B, C] for _ in range(50))
        assert all(len(one.way(2)) == 2 for _ in range(50))


def test_with_revisit_each_probe_is_drawn_for_itself():
    one = met(Access(AccessKind.UNIFORM, revisit=True), a=1.0, b=1.0)
    ways = Counter(one.way(2) for _ in range(2000))
    assert len(ways) == 4
    assert all(400 < count < 600 for count in ways.values())


def test_uniform_access_does_not_look_at_rates():
    found = shares(met(UNIFORM, a=100.0, b=1.0))
    assert found[A] == pytest.approx(0.5, abs=0.05)


def test_adaptive_access_follows_the_rates():
    one = met(ADAPTIVE, a=30.0, b=10.0)
    assert shares(one)[A] == pytest.approx(0.75, abs=0.05)
    one.learnt(B, 90.0)
    assert one.weights() == {A: 0.25, B: 0.75}


def test_nobody_counts_as_faster_than_all_consumers_together_take():
    one = met(ADAPTIVE, a=20_000.0, b=2_000.0, c=50.0)
    one.demanded(200.0)
    assert one.weights() == pytest.approx({A: 200 / 450, B: 200 / 450, C: 50 / 450})
    for unknown in (0.0, math.nan, math.inf):
        one.demanded(unknown)
        assert one.weights()[A] > 0.9


def test_whose_rate_is_not_known_counts_as_the_mean():
    assert met(ADAPTIVE, a=9.0, b=0.0, c=1.0).weights() == pytest.approx(
        {A: 9 / 15, B: 5 / 15, C: 1 / 15}
    )


def test_nobody_is_forgotten_however_slow():
    weights = met(ADAPTIVE, a=1000.0, b=0.001).weights()
    assert weights[B] == pytest.approx(FLOOR / 2, rel=0.1)


@pytest.mark.parametrize("rate", [math.inf, -math.inf, math.nan, -5.0, 1e300])
def test_a_rate_that_is_none_changes_nothing(rate):
    one = met(ADAPTIVE, a=10.0, b=10.0)
    one.learnt(A, rate)
    assert one.weights() == {A: 0.5, B: 0.5}
    one.meet(known(a=rate, b=30.0))
    assert one.weights() == {A: 0.25, B: 0.75}, "what was known before stands"
    assert len(one.way(2)) == 2


def test_weights_go_by_names_and_who_has_none_is_not_probed():
    one = met(Access(AccessKind.WEIGHTED, {"a": 3.0, "b": 1.0}), a=1.0, b=1.0, c=50.0)
    assert one.weights() == {A: 0.75, B: 0.25}
    assert sorted(one.way(9)) == sorted(one.everybody()) == [A, B]


def test_a_weight_of_nothing_beside_a_huge_one_still_ends():
    one = met(Access(AccessKind.WEIGHTED, {"a": 1e300, "b": 5e-324}), a=0.0, b=0.0)
    assert sorted(one.way(2)) == [A, B]


def test_who_cannot_be_reached_is_not_drawn_until_it_can():
    one = met(UNIFORM, a=1.0, b=1.0)
    one.lost(A)
    assert one.way(5) == one.everybody() == (B,)
    one.meet(known(a=1.0, b=1.0))
    assert one.way(5) == (B,), "the roster does not know of ways"
    one.reached(A)
    assert sorted(one.way(5)) == [A, B]


def test_who_is_not_known_is_not_probed():
    one = met(UNIFORM, a=1.0, b=1.0)
    one.learnt(C, 5.0)
    one.lost(C)
    one.reached(C)
    one.meet(known(b=1.0))
    assert one.way(5) == one.known == (B,)


def test_with_nobody_known_a_way_is_empty():
    one = AccessList(ADAPTIVE, Random(1))
    assert one.way(3) == one.everybody() == one.known == ()
    assert one.weights() == {}


def test_everybody_is_asked_in_an_order_drawn_anew():
    one = met(ADAPTIVE, a=100.0, b=1.0, c=1.0)
    assert all(sorted(one.everybody()) == [A, B, C] for _ in range(20))
    assert len({one.everybody() for _ in range(200)}) == 6


def test_of_very_many_not_more_are_asked_at_a_time_than_a_request_may_have_on_its_way():
    one = AccessList(ADAPTIVE, Random(1))
    one.meet(known(**{f"p{at}": 1.0 for at in range(2_000)}))
    asked = one.everybody()
    request = Request(NodeId("c-me"), 1, 1, 1, asked)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=Request) == request
    asked = {producer for _ in range(12) for producer in one.everybody()}
    assert len(asked) > 1_900, "each is asked in time"


def test_who_is_silent_is_asked_and_not_drawn_until_it_is_heard_of():
    one = met(UNIFORM, a=1.0, b=1.0)
    one.silence(A)
    assert (one.way(5), sorted(one.everybody())) == ((B,), [A, B])
    assert one.weights() == {B: 1.0}
    one.meet(known(a=1.0, b=1.0))
    assert one.way(5) == (B,), "the roster does not know who answers"
    one.heard(A)
    assert sorted(one.way(5)) == [A, B]


def test_who_is_lost_is_not_silent_when_it_is_reached_again():
    one = met(UNIFORM, a=1.0)
    one.silence(A)
    one.lost(A)
    assert one.nobody == "no producer of this pool can be reached"
    one.reached(A)
    assert one.way(5) == (A,)


def test_where_nobody_answers_that_is_said():
    one = met(UNIFORM, a=1.0, b=1.0)
    one.lost(A)
    one.silence(A)
    one.silence(C)
    assert (one.nobody, list(one.silent)) == ("", [])
    one.silence(B)
    assert one.nobody == "no producer of this pool answers"
    one.meet(known(a=1.0))
    assert not one.silent
