"""Lemma 6.6 on all states of an edge with few messages: what is fully legal stays so."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import pytest

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.arrow.edge import Mend, ParentEdge, Phase, answer
from snowmelt.protocols.arrow.messages import Find, Message, Observed, Observer, OrderPlace
from snowmelt_lab.arrow.legality import EdgeState

NUMBER = 10
LONGEST = 3
FIND = Find(OrderPlace(NodeId("x"), OperationId(NodeId("x"), 1)))
DOWN = (FIND, Observer(NUMBER), Observer(NUMBER - 1))
UP = (FIND, *(Observed(NUMBER - age, points=points) for age in (0, 1) for points in (True, False)))
NOT_HERE = (Observed(NUMBER, points=True), Observer(NUMBER))
"""On the wrong side, from a time when the tree was the other way round; their node drops them."""


class Parts(NamedTuple):
    parent_points: bool
    child_points: bool
    phase: Phase
    sent: int
    estimate: int
    down: tuple[Message, ...]
    up: tuple[Message, ...]
    number: int = NUMBER


def fully_legal(parts: Parts) -> bool:
    state = EdgeState(parts.parent_points, parts.child_points, edge_of(parts), parts.down, parts.up)
    return state.fully_legal


def edge_of(parts: Parts) -> ParentEdge:
    edge = ParentEdge(parts.number)
    edge.phase, edge.sent, edge.estimate = parts.phase, parts.sent, parts.estimate
    return edge


def legal_parts() -> Iterator[Parts]:
    downs = [each for size in range(LONGEST + 1) for each in product(DOWN, repeat=size)]
    ups = [each for size in range(LONGEST + 1) for each in product(UP, repeat=size)]
    for down, up in product(downs, ups):
        finds = (down + up).count(FIND)
        for parent, child in product((True, False), repeat=2):
            if finds + parent + child != 1:
                continue
            for phase, sent, estimate in product(Phase, range(-1, 3), range(-1, 4)):
                parts = Parts(parent, child, phase, sent, estimate, down, up)
                if fully_legal(parts):
                    yield parts


def told(parts: Parts, edge: ParentEdge, **changed: object) -> Parts:
    return parts._replace(
        phase=edge.phase, sent=edge.sent, estimate=edge.estimate, number=edge.number, **changed
    )


def time_out(parts: Parts) -> Parts:
    edge = edge_of(parts)
    return told(parts, edge, down=(*parts.down, edge.observe()))


def parent_sends_away(parts: Parts) -> Parts | None:
    """It asks for a place, or passes on what came from elsewhere."""
    if not parts.parent_points:
        return None
    edge = edge_of(parts)
    edge.count_sent()
    return told(parts, edge, parent_points=False, down=(*parts.down, FIND))


def child_sends_away(parts: Parts) -> Parts | None:
    if not parts.child_points:
        return None
    return parts._replace(child_points=False, up=(*parts.up, FIND))


def comes_down(parts: Parts) -> Parts | None:
    if not parts.down:
        return None
    first, *rest = parts.down
    parts = parts._replace(down=tuple(rest))
    match first:
        case Observer():
            return parts._replace(up=(*parts.up, answer(first, points=parts.child_points)))
        case Find() if parts.child_points:
            return parts._replace(up=(*parts.up, FIND))
        case Find():
            return parts._replace(child_points=True)
        case _:
            return parts


def comes_up(parts: Parts) -> Parts | None:
    if not parts.up:
        return None
    first, *rest = parts.up
    parts = parts._replace(up=tuple(rest))
    edge = edge_of(parts)
    match first:
        case Observed():
            mend = edge.observed(first, points=parts.parent_points)
            assert mend is Mend.NOTHING, "a legal edge is mended"
            return told(parts, edge)
        case Find() if edge.ignores():
            return told(parts, edge)
        case Find() if parts.parent_points:
            edge.count_sent()
            return told(parts, edge, down=(*parts.down, FIND))
        case Find():
            return told(parts, edge, parent_points=True)
        case _:
            return parts


EVENTS: list[Callable[[Parts], Parts | None]] = [
    time_out,
    parent_sends_away,
    child_sends_away,
    comes_down,
    comes_up,
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_a_legal_edge_stays_legal(event):
    seen = 0
    for parts in STATES:
        after = event(parts)
        if after is not None:
            assert fully_legal(after), (parts, after)
            seen += 1
    assert seen > 300


STATES = list(legal_parts())


def test_there_are_legal_states_of_every_kind():
    assert {(parts.parent_points, parts.child_points, parts.phase) for parts in STATES} == {
        (parent, child, phase)
        for parent, child in ((True, False), (False, True), (False, False))
        for phase in Phase
    }
    assert any(parts.sent == 1 for parts in STATES if parts.phase is Phase.OBSERVE)


def test_messages_on_the_wrong_side_are_not_believed():
    parts = Parts(True, False, Phase.CORRECT, 0, 1, NOT_HERE[:1], NOT_HERE[1:])
    assert fully_legal(parts)


def test_a_number_yet_to_come_is_no_legal_state():
    stray = (Observed(NUMBER + 1, points=True),)
    assert not fully_legal(Parts(True, False, Phase.CORRECT, 0, 1, (), stray))


def test_an_uncounted_find_is_no_legal_state():
    asked = Parts(False, False, Phase.OBSERVE, 0, 1, (Observer(NUMBER), FIND), ())
    assert not fully_legal(asked)
    assert fully_legal(asked._replace(sent=1))
