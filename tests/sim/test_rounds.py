"""The synchronous mode counts what can be counted by hand."""

from enum import Enum

import msgspec
import pytest

from snowmelt.core.instant import SECOND, Instant, later, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Expired, Received, Send, SetTimer, Started
from snowmelt_world.rounds import Rounds


class Wave(msgspec.Struct, frozen=True, tag="wave"):
    hops: int


class Flooder:
    """Passes the first wave it sees on to all its neighbours but the one it came from."""

    def __init__(self, neighbours: list[NodeId], *, begins: bool) -> None:
        self.neighbours = neighbours
        self.hops = 0 if begins else None

    def handle(self, event, _now):
        match event:
            case Started() if self.hops == 0:
                return [Send(one, Wave(1)) for one in self.neighbours]
            case Received(source, Wave(hops)) if self.hops is None:
                self.hops = hops
                return [Send(one, Wave(hops + 1)) for one in self.neighbours if one != source]
            case _:
                return []

    def check(self):
        assert self.hops is None or self.hops >= 0


def names(count):
    return [NodeId(f"n{number:02}") for number in range(count)]


def path(count):
    nodes = names(count)
    return {
        node: Flooder(
            [nodes[other] for other in (at - 1, at + 1) if 0 <= other < count], begins=at == 0
        )
        for at, node in enumerate(nodes)
    }


def star(count):
    nodes = names(count)
    return {
        node: Flooder(nodes[1:] if at == 0 else [nodes[0]], begins=at == 0)
        for at, node in enumerate(nodes)
    }


@pytest.mark.parametrize("count", [2, 3, 10, 40])
def test_a_wave_crosses_a_path_in_as_many_rounds_as_it_has_edges(count):
    nodes = path(count)
    rounds = Rounds(nodes)
    rounds.run()
    told = rounds.statistics()
    assert told.rounds == count - 1
    assert told.messages == {"Wave": count - 1}
    assert told.busiest == 1
    assert [node.hops for node in nodes.values()] == list(range(count))


@pytest.mark.parametrize("count", [3, 20])
def test_leaves_of_a_star_that_all_begin_meet_at_its_centre_in_one_round(count):
    nodes = star(count)
    for node in nodes.values():
        node.hops = 0
    rounds = Rounds(nodes)
    rounds.run()
    told = rounds.statistics()
    assert told.rounds == 1
    assert told.busiest == count - 1
    assert told.messages == {"Wave": 2 * (count - 1)}


def test_the_largest_message_is_counted_in_bits_as_on_the_wire():
    rounds = Rounds(path(2))
    rounds.run()
    assert rounds.statistics().bits_max == 8 * len(msgspec.msgpack.encode(Wave(1)))


class Tick(Enum):
    NEXT = "tick.next"


class Clockwork:
    """Sets its timer three times, a second and a half apart."""

    def __init__(self):
        self.fired = []

    def handle(self, event, now):
        match event:
            case Started():
                return [SetTimer(Tick.NEXT, later(now, seconds(1.5)))]
            case Expired(Tick.NEXT):
                self.fired.append(now)
                again = [SetTimer(Tick.NEXT, later(now, seconds(1.5)))]
                return again if len(self.fired) < 3 else []
            case _:
                return []

    def check(self):
        pass


def test_a_timer_fires_in_the_first_round_at_or_after_its_instant_and_then_all_is_quiet():
    clock = Clockwork()
    rounds = Rounds({NodeId("n1"): clock}, period=SECOND)
    rounds.run()
    assert clock.fired == [Instant(2 * SECOND), Instant(4 * SECOND), Instant(6 * SECOND)]
    assert rounds.quiet
    assert rounds.rounds == 6


def test_two_runs_of_the_same_nodes_leave_the_same_trace():
    first, second = Rounds(path(30)), Rounds(path(30))
    first.run()
    second.run()
    assert first.trace.digest == second.trace.digest
