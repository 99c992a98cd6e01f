"""One node's arrow and edges, event by event; its rules by number."""

from functools import reduce
from operator import or_
from random import Random

import msgspec
import pytest

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announce, Announced, CancelTimer, Expired, Received, Send, SetTimer
from snowmelt.protocols.arrow import (
    MESSAGES,
    ArrowNode,
    ArrowSettings,
    Branch,
    Claim,
    Find,
    Followed,
    Observed,
    Observer,
    OrderPlace,
    RequestPlace,
)
from snowmelt.protocols.arrow.edge import Phase
from snowmelt.protocols.arrow.messages import NUMBERS
from snowmelt.protocols.arrow.node import EdgeAlarm

UP, ME, LEFT, RIGHT, STRANGER = (NodeId(name) for name in ("up", "me", "left", "right", "stranger"))
TIMEOUT = Duration(100)
NOW = Instant(7)


def place(number: int, node: NodeId = LEFT) -> OrderPlace:
    return OrderPlace(node, OperationId(node, number))


@pytest.fixture
def node() -> ArrowNode:
    """It points up, and knows both its edges to be legal."""
    made = ArrowNode(ME, ArrowSettings(TIMEOUT), Random(1))
    made.handle(Announced(Branch(UP, (LEFT, RIGHT))), NOW)
    made.arrow.points_at = UP
    for edge in made.edges.values():
        edge.phase, edge.sent, edge.estimate = Phase.CORRECT, 0, 1
    made.check()
    return made


def given(node: ArrowNode, source: NodeId, message: object) -> list[object]:
    effects = node.handle(Received(source, message), NOW)
    node.check()
    return effects


def test_rule_1_a_node_alone_is_a_sink_behind_a_filler():
    node = ArrowNode(ME, ArrowSettings(TIMEOUT), Random(1))
    assert node.arrow.is_sink
    assert node.arrow.tail.filler


def test_rule_2_a_find_goes_on_and_the_arrow_turns(node):
    assert given(node, LEFT, Find(place(1))) == [Send(UP, Find(place(1)))]
    assert node.arrow.points_at == LEFT


def test_rule_2_a_find_ends_at_a_sink(node):
    wanted = OperationId(NodeId("client"), 4)
    asked = node.handle(Announced(RequestPlace(wanted)), NOW)
    assert asked == [Send(UP, Find(OrderPlace(ME, wanted)))]
    assert node.arrow.is_sink
    told = given(node, UP, Find(place(1)))
    assert told == [Announce(Followed(OrderPlace(ME, wanted), by=place(1)))]
    assert node.arrow.points_at == UP


def test_rule_2_a_request_at_a_sink_follows_its_last_at_once(node):
    first, second = (OperationId(NodeId("client"), number) for number in (1, 2))
    node.handle(Announced(RequestPlace(first)), NOW)
    told = node.handle(Announced(RequestPlace(second)), NOW)
    assert told == [Announce(Followed(OrderPlace(ME, first), by=OrderPlace(ME, second)))]
    assert node.arrow.is_sink


def test_rule_6_all_finds_are_counted_its_own_too(node):
    node.arrow.points_at = LEFT
    edge = node.edges[LEFT]
    node.handle(Announced(RequestPlace(OperationId(ME, 1))), NOW)
    assert edge.sent == 1
    node.arrow.points_at = LEFT
    given(node, RIGHT, Find(place(2)))
    assert edge.sent == 2
    node.arrow.points_at = LEFT
    given(node, LEFT, Find(place(3)))
    assert edge.sent == 3


def test_rule_6_each_edge_is_observed_when_its_time_comes(node):
    node.due = {LEFT: NOW, RIGHT: later(NOW, Duration(5))}
    number = node.edges[LEFT].number
    assert node.handle(Expired(EdgeAlarm.OBSERVE), NOW) == [
        Send(LEFT, Observer((number + 1) % NUMBERS)),
        SetTimer(EdgeAlarm.OBSERVE, later(NOW, Duration(5))),
    ]
    assert node.due[LEFT] == later(NOW, TIMEOUT)


@pytest.mark.parametrize("at", [UP, LEFT])
def test_rule_6_the_child_answers_whether_it_points_across(node, at):
    node.arrow.points_at = at
    assert given(node, UP, Observer(5)) == [Send(UP, Observed(5, points=at == UP))]


def test_rule_7_what_comes_from_where_one_points_goes_back(node):
    node.arrow.points_at = LEFT
    assert given(node, LEFT, Find(place(1))) == [Send(LEFT, Find(place(1)))]
    assert node.arrow.points_at == LEFT


def observing(node: ArrowNode, child: NodeId, sent: int) -> int:
    edge = node.edges[child]
    edge.phase, edge.sent = Phase.OBSERVE, sent
    return edge.number


def test_rule_8_nothing_there_brings_a_filler(node):
    number = observing(node, LEFT, sent=0)
    (sent,) = given(node, LEFT, Observed(number, points=False))
    assert sent.target == LEFT
    assert sent.message.place.filler
    assert node.arrow.points_at == UP
    assert given(node, LEFT, Observed(number, points=False)) == []


def test_rule_8_too_much_makes_a_sink_with_a_filler_and_then_ignores(node):
    number = observing(node, LEFT, sent=1)
    node.arrow.points_at = LEFT
    assert given(node, LEFT, Observed(number, points=True)) == []
    assert node.arrow.is_sink
    assert node.arrow.tail.filler
    assert given(node, LEFT, Find(place(1))) == []
    assert (node.ignored, node.arrow.is_sink) == (1, True)
    assert given(node, LEFT, Find(place(2))) != []
    assert node.ignored == 1


def test_rule_8_an_arrow_elsewhere_is_left_alone(node):
    number = observing(node, LEFT, sent=1)
    given(node, LEFT, Observed(number, points=True))
    assert node.arrow.points_at == UP
    assert node.edges[LEFT].estimate == 2


@pytest.mark.parametrize("off", [-1, 1, 77])
def test_rule_9_an_answer_with_another_number_is_passed_over(node, off):
    number = observing(node, LEFT, sent=3)
    assert given(node, LEFT, Observed((number + off) % NUMBERS, points=True)) == []
    assert node.edges[LEFT].phase is Phase.OBSERVE


def test_rule_14_an_edge_that_is_gone_takes_the_arrow_with_it(node):
    node.arrow.points_at = LEFT
    kept = node.edges[RIGHT]
    node.handle(Announced(Branch(UP, (RIGHT,))), NOW)
    node.check()
    assert node.arrow.is_sink
    assert node.arrow.tail.filler
    assert node.edges == {RIGHT: kept}


def test_rule_14_a_new_edge_is_observed_at_once(node):
    sent = node.handle(Announced(Branch(UP, (LEFT, RIGHT, STRANGER))), NOW)
    assert [each.target for each in sent if isinstance(each, Send)] == [STRANGER]
    assert node.arrow.points_at == UP


def test_a_leaf_has_no_timer(node):
    assert node.handle(Announced(Branch(UP, ())), NOW) == [CancelTimer(EdgeAlarm.OBSERVE)]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (STRANGER, Find(place(1))),
        (STRANGER, Observer(1)),
        (STRANGER, Observed(1, points=True)),
        (LEFT, Observer(1)),
        (UP, Observed(1, points=True)),
    ],
)
def test_rule_14_what_comes_by_no_edge_is_dropped_and_counted(node, source, message):
    assert given(node, source, message) == []
    assert (node.dropped, node.arrow.points_at) == (1, UP)


def test_a_time_out_of_nothing_is_refused():
    with pytest.raises(BadOption, match="timeout is 0"):
        ArrowSettings(Duration(0))


@pytest.mark.parametrize(
    "message",
    [
        Find(place(3)),
        Find(OrderPlace(ME, OperationId(ME, 1), filler=True)),
        Observer(NUMBERS - 1),
        Observed(0, points=True),
        Claim(3, UP),
        Claim(0, None),
    ],
)
def test_every_message_comes_back_from_its_bytes(message):
    kinds = msgspec.msgpack.Decoder(reduce(or_, MESSAGES))
    assert kinds.decode(msgspec.msgpack.encode(message)) == message
