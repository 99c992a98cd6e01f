"""Queues with any priorities: some nodes on a bench, from the put to the get."""

from random import Random
from typing import Any

import msgspec
import pytest
from priority_bench import Nodes, bodies, receipt

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.instant import seconds
from snowmelt.core.keys import packed
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.limits import LIMITS, Limits
from snowmelt.protocols.priority.settings import ANY

SMALL = Limits(block=4, deal=0, least=0, sample=8, arity=2)
"""Elements on all nodes, and every get of more than none by a selection."""


def opened(count: int, limits: Limits = LIMITS, **settings: Any) -> Nodes:
    nodes = Nodes(count, limits)
    nodes.open("n1", priorities=ANY, **settings)
    return nodes


def put(nodes: Nodes, node: str, *keys: int) -> calls.PutDone:
    batch = Bodies.of([b"%d" % key for key in keys])
    part = calls.Part(0, bytes(batch.offsets), bytes(batch.blob), packed(keys))
    done = nodes.call(node, calls.Put("jobs", nodes.via(node), (part,)))
    assert isinstance(done, calls.PutDone), done
    return done


def numbers(leased: calls.Leased | calls.Peeked) -> list[int]:
    return [int(body) for body in bodies(leased)]


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("limits", [LIMITS, SMALL])
def test_the_least_of_all_that_was_put_come_first(
    count: int, replicas: int, limits: Limits
) -> None:
    nodes = opened(count, limits, replicas=replicas)
    dice = Random(7)
    there: list[int] = []
    for turn in range(12):
        keys = [
            dice.choice((dice.randrange(9), dice.randrange(-(1 << 63), 1 << 63)))
            for _ in range(dice.choice((1, 7, 30)))
        ]
        put(nodes, f"n{1 + turn % count}", *keys)
        there = sorted(there + keys)
        most = dice.choice((1, 3, 20))
        leased = nodes.get(f"n{1 + (turn + 1) % count}", most)
        assert numbers(leased) == there[:most]
        there = there[most:]
        assert nodes.settle("n1", done=(receipt(leased),)) == calls.Settled()
    rest = nodes.get("n1", 1_000)
    assert numbers(rest) == there
    assert not nodes.get("n1").pieces


def test_what_a_tree_carries_does_not_grow_with_the_rate() -> None:
    def largest(rate: int) -> int:
        nodes = opened(4, Limits(block=64, deal=0, least=8, sample=8), replicas=1)
        dice = Random(3)
        for _ in range(2):
            for at in range(1, 5):
                put(nodes, f"n{at}", *[dice.randrange(1 << 60) for _ in range(rate)])
            for at in range(1, 5):
                leased = nodes.get(f"n{at}", rate)
                nodes.settle(f"n{at}", done=(receipt(leased),))
        kinds = ("Climb", "Granted", "Asked", "Answered")
        sent = [one for kind in kinds for _, _, one in nodes.sent_of(kind)]
        return max(len(msgspec.msgpack.encode(one)) for one in sent)

    assert largest(200) < 1.5 * largest(20)  # a sample is as large as chance makes it


def test_a_put_that_found_its_room_bit_by_bit_says_nothing_of_its_phase() -> None:
    nodes = opened(3, SMALL, replicas=1)
    nodes.full = {"n3"}
    batch = Bodies.of([b"%d" % key for key in range(30)])
    part = calls.Part(0, bytes(batch.offsets), bytes(batch.blob), packed(range(30)))
    call = calls.Put("jobs", nodes.via("n1"), (part,), patience=seconds(20))
    number = nodes.ask("n1", call)
    nodes.pass_time(0.3)
    assert nodes.told(number) is None
    nodes.get("n2")  # of what is there; the rest comes in with a later phase
    nodes.full.clear()
    nodes.pass_time(10)
    done = nodes.told(number)
    assert isinstance(done, calls.PutDone)
    assert done.orders == ()


def test_a_put_is_answered_when_all_know_that_a_phase_has_begun() -> None:
    nodes = opened(3, SMALL, replicas=1)
    put(nodes, "n1", *range(20))
    deaf, door = [name for name in ("n1", "n2", "n3") if name != nodes.anchor("n1")]
    held: list[Any] = []

    def late(_: str, target: str, one: Any) -> bool:
        """One home hears nothing of the phase."""
        if type(one).__name__ == "Asked" and target == deaf:
            held.append(one)
            return True
        return False

    nodes.lost = late
    get = nodes.ask("n1", nodes.get_call("n1", 3))
    nodes.pass_time(0.05)
    assert held
    batch = Bodies.of([b"%d" % key for key in range(100, 130)])
    part = calls.Part(0, bytes(batch.offsets), bytes(batch.blob), packed(range(100, 130)))
    first = nodes.ask(door, calls.Put("jobs", nodes.via(door), (part,)))
    nodes.pass_time(0.5)
    assert nodes.told(get) is None
    assert nodes.told(first) is None
    nodes.lost = lambda *_: False
    nodes.pass_time(5)
    assert numbers(nodes.told(get)) == [0, 1, 2]
    assert min(nodes.told(first).orders) > nodes.told(get).order


def test_what_lies_with_another_when_a_view_begins_is_not_passed() -> None:
    nodes = opened(3, SMALL, replicas=2)
    put(nodes, "n1", *range(40))
    nodes.lost = lambda _s, _t, one: type(one).__name__ in {"Fetch", "Fetched", "Follow"}
    nodes.view("n1", "n2")  # those of n3 have other homes now, some of which have to be fetched
    get = nodes.ask("n1", nodes.get_call("n1", 40))
    nodes.pass_time(1)
    assert nodes.told(get) is None
    nodes.lost = lambda *_: False
    nodes.pass_time(5)
    assert numbers(nodes.told(get)) == list(range(40))


@pytest.mark.parametrize("limits", [LIMITS, SMALL])
def test_what_a_get_did_not_want_any_more_is_there_for_the_next(limits: Limits) -> None:
    nodes = opened(3, limits, replicas=1)
    put(nodes, "n1", *range(10))
    nodes.lost = lambda _s, _t, one: type(one).__name__ == "Seek"
    nodes.ask("n2", nodes.get_call("n2", 4))
    nodes.pass_time(0.1)
    door = nodes.nodes["n2"]._queues.all["jobs"].door
    door._hand.all.clear()
    nodes.lost = lambda *_: False
    nodes.pass_time(5)
    assert numbers(nodes.get("n1", 10)) == list(range(10))


def test_who_waits_has_what_comes_at_another_node() -> None:
    nodes = opened(4, SMALL, replicas=2)
    get = nodes.ask("n3", nodes.get_call("n3", 5, patience=60))
    nodes.pass_time(0.1)
    put(nodes, "n1", 7)
    nodes.pass_time(0.3)
    assert numbers(nodes.told(get)) == [7]


def test_the_first_ones_are_shown_and_any_rank_is_selected() -> None:
    nodes = opened(4, SMALL, replicas=1, largest_first=True)
    put(nodes, "n1", *range(100))
    for rank in (1, 2, 50, 99, 100):
        seen = nodes.call("n2", calls.Select("jobs", rank))
        assert numbers(seen) == [100 - rank]
    assert not nodes.call("n2", calls.Select("jobs", 101)).pieces
    assert numbers(nodes.call("n3", calls.Select("jobs", 0, 0.25))) == [75]
    assert numbers(nodes.get("n4", 100)) == list(range(100))  # all, told by their keys


def test_who_waits_is_not_forgotten_over_a_look() -> None:
    nodes = opened(4, SMALL, replicas=2)
    get = nodes.ask("n3", nodes.get_call("n3", 5, patience=60))
    nodes.pass_time(0.01)
    nodes.call("n2", calls.Statistics("jobs"))
    put(nodes, "n1", 7)
    nodes.pass_time(0.05)
    assert numbers(nodes.told(get)) == [7]
