"""Topics at several nodes, around a baton that the test hands out: the rules one by one."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import (
    Announce,
    Announced,
    Effect,
    Event,
    Expired,
    Received,
    Reply,
    Requested,
    Send,
    Started,
)
from snowmelt.protocols.baton.messages import BatonGot, Drop, SeekBaton
from snowmelt.protocols.calling import Came, Declined, Gone
from snowmelt.protocols.membership import CutOff, Member, View
from snowmelt.protocols.multicast import MulticastNode, MulticastSettings
from snowmelt.protocols.multicast.calls import (
    BODY_BYTES_MAX,
    CALL_BODIES_MAX,
    POLL,
    Listen,
    Messages,
    Position,
    Publication,
    Publish,
    Published,
    Underway,
)
from snowmelt.protocols.multicast.messages import (
    Acknowledge,
    Broadcast,
    FetchPublications,
    Have,
    Upto,
)
from snowmelt.protocols.multicast.node import MulticastAlarm
from snowmelt.protocols.multicast.topic_log import ZERO
from snowmelt.wire.codec import encode
from work import lines_of

N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
ALL = (N1, N2, N3)
SETTINGS = MulticastSettings()
FIRST = Position(101, 0)
"""Where the first era of a table begins."""
Lost = Callable[[NodeId, NodeId, Any], bool]


def nothing(*_: Any) -> bool:
    return False


class Table:
    """Nodes, what is on its way between them, and the batons of their topics."""

    def __init__(self, nodes: tuple[NodeId, ...] = ALL, settings: MulticastSettings = SETTINGS):
        self.now = Instant(0)
        self.lost: Lost = nothing
        self.baton_stays_away = False
        self.made = 100
        self.fence = 100
        self.values: dict[str, bytes] = {}
        self.answers: dict[OperationId, Any] = {}
        self.sent: list[Any] = []
        self.nodes: dict[NodeId, MulticastNode] = {}
        self._settings = settings
        self._starts: dict[NodeId, int] = {}
        self._sought: list[tuple[NodeId, SeekBaton]] = []
        self._coming: deque[tuple[NodeId, Event[Any]]] = deque()
        self._calls = 0
        self._epoch = 0
        for one in nodes:
            self.begin(one)
        self.view(*nodes)

    def begin(self, node: NodeId) -> None:
        """A process, for the first time or again."""
        self._starts[node] = self._starts.get(node, 0) + 1
        self.nodes[node] = MulticastNode(node, self._settings, Random(f"{node}"))
        self.give(node, Started())

    def view(self, *nodes: NodeId, told: tuple[NodeId, ...] | None = None) -> None:
        self._epoch += 1
        here = Address("127.0.0.1", 1)
        members = tuple(Member(one, here, 1, self._starts[one]) for one in sorted(nodes))
        view = View(1, self._epoch, members[0].id, members)
        for node in told or nodes:
            self.give(node, Announced(view))

    def call(self, node: NodeId, body: Any, *, client: str = "c") -> OperationId:
        self._calls += 1
        operation = OperationId(NodeId(client), self._calls)
        self.give(node, Requested(operation, body))
        return operation

    def ask(self, node: NodeId, body: Any) -> Any:
        return self.answers.get(self.call(node, body))

    def publish(self, node: NodeId, *bodies: bytes, ticket: int = 0, name: str = "a") -> Any:
        ticket = ticket or self._calls + 1
        return self.ask(node, Publish(name, ticket, bodies, POLL))

    def hear(self, node: NodeId, start: Position | None = ZERO) -> Any:
        return self.ask(node, Listen("a", start, POLL))

    def heard(self, node: NodeId, start: Position = ZERO) -> list[bytes]:
        told = self.hear(node, start)
        return [body for one in told.publications for body in one.bodies] if told else []

    def lose_baton(self) -> None:
        """It is made anew, with what was in it."""
        self.fence += 10
        self.made = self.fence

    def hand_out(self) -> None:
        sought, self._sought = self._sought, []
        for node, seek in sought:
            self.fence += 1
            value = self.values.get(seek.name, b"")
            got = BatonGot(seek.name, seek.ticket, self.fence, self.made, value)
            self.give(node, Announced(got))

    def beat(self, times: int = 1) -> None:
        for _ in range(times):
            self.now = later(self.now, SETTINGS.beat)
            for node in list(self.nodes):
                self.give(node, Expired(MulticastAlarm.BEAT))

    def give(self, node: NodeId, event: Event[Any]) -> None:
        self._coming.append((node, event))
        while self._coming:
            target, coming = self._coming.popleft()
            machine = self.nodes.get(target)
            if machine is None:
                continue
            for effect in machine.handle(coming, self.now):
                self._carry_out(target, effect)
            machine.check()

    def _carry_out(self, node: NodeId, effect: Effect[Any]) -> None:
        match effect:
            case Send(target, message):
                message = msgspec.convert(msgspec.to_builtins(message), type(message))
                self.sent.append(message)
                if not self.lost(node, target, message):
                    self._coming.append((target, Received(node, message)))
            case Announce(SeekBaton() as seek):
                self._sought.append((node, seek))
                if not self.baton_stays_away:
                    self.hand_out()
            case Announce(Drop(name, _, value)) if value is not None:
                self.values[name] = value
            case Reply(operation, body):
                self.answers[operation] = body
            case _:
                pass


def to(node: NodeId, kind: type = Broadcast) -> Lost:
    return lambda _, target, message: target == node and isinstance(message, kind)


def test_all_hear_the_same_in_the_order_of_the_baton() -> None:
    table = Table()
    places = [table.publish(node, b"%d" % at) for at, node in enumerate((N1, N2, N3, N1, N1, N3))]
    assert [one.first.number for one in places] == list(range(6))
    assert len({one.first.era for one in places}) == 1
    for node in ALL:
        assert table.heard(node) == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert not table.hear(node, FIRST).missed


def test_a_client_is_answered_when_every_member_has_heard_it_and_not_before() -> None:
    table = Table()
    table.lost = to(N3)
    operation = table.call(N1, Publish("a", 5, (b"x",), POLL))
    assert operation not in table.answers
    assert table.heard(N2) == [b"x"]
    table.beat()
    assert operation not in table.answers
    table.lost = nothing
    table.beat()
    assert table.answers[operation] == Published(Position(101, 0))
    assert table.heard(N3) == [b"x"]


def test_what_the_baton_forgot_is_numbered_in_a_later_era() -> None:
    """An older token that came to life again carries places that are taken."""
    table = Table()
    table.publish(N1, b"one")
    older = dict(table.values)
    table.publish(N2, b"two")
    table.values = older
    again = table.publish(N3, b"three")
    assert again.first > Position(101, 2)
    for node in ALL:
        assert table.heard(node) == [b"one", b"two", b"three"]


def test_a_listener_of_a_later_era_is_not_left_behind() -> None:
    """All that was known of the topic is gone, and fences were given out anew."""
    table = Table()
    listening = table.call(N1, Listen("a", Position(5_000, 7), POLL))
    placed = table.publish(N1, b"heard")
    assert placed.first == Position(5_001, 0)
    told = table.answers[listening]
    assert [one.bodies for one in told.publications] == [(b"heard",)]
    assert told.missed


def test_an_era_behind_which_fences_are_is_carried_on_and_no_position_is_used_twice() -> None:
    table = Table()
    for node in (N1, N2):
        table.call(node, Listen("a", Position(5_000, 7), POLL))
    table.lost = to(N2)
    one = table.call(N1, Publish("a", 5, (b"one",), POLL))
    table.lost = nothing
    two = table.publish(N2, b"two", ticket=6)
    table.beat()
    assert (table.answers[one].first, two.first) == (Position(5_001, 0), Position(5_001, 1))
    for node in ALL:
        assert table.heard(node) == [b"one", b"two"]


def test_who_has_heard_nothing_yet_is_told_that_a_whole_era_is_gone() -> None:
    """It subscribed before the first message, and slept; meanwhile all nodes began again."""
    table = Table()
    start = table.hear(N1, None).next
    table.publish(N2, b"one")
    table.publish(N2, b"two")
    for node in ALL:
        table.begin(node)
    table.view(*ALL)
    table.lose_baton()
    table.publish(N3, b"three")
    told = table.hear(N2, start)
    assert [one.bodies for one in told.publications] == [(b"three",)]
    assert told.missed


def test_who_has_heard_nothing_yet_is_told_though_the_value_of_the_baton_is_gone_as_well() -> None:
    """The last message was said to nobody; then all nodes began again, on empty disks."""
    table = Table()
    start = table.hear(N1, None).next
    table.publish(N2, b"one")
    for node in ALL:
        table.begin(node)
    table.values.clear()
    table.lose_baton()
    table.view(*ALL)
    table.publish(N3, b"two")
    told = table.hear(N2, start)
    assert [one.bodies for one in told.publications] == [(b"two",)]
    assert told.missed


def test_who_begins_where_all_have_forgotten_begins_where_the_baton_is() -> None:
    table = Table()
    table.publish(N2, b"one")
    for node in ALL:
        table.begin(node)
    table.view(*ALL)
    start = table.hear(N1, None).next
    assert start == Position(101, 1)
    assert table.publish(N3, b"two").first == start
    assert not table.hear(N1, start).missed


def test_a_false_era_of_a_client_leaves_no_other_behind() -> None:
    table = Table()
    for far in (2**61, 2**62 - 1, 2**63 - 1, 2**64 - 1):
        table.call(N1, Listen("a", Position(far, 0), POLL), client="false")
        table.publish(N1, b"before")
    start = table.hear(N2, None).next
    for node in ALL:
        table.begin(node)
    table.values.clear()
    table.lose_baton()
    table.view(*ALL)
    waiting = table.call(N2, Listen("a", start, POLL))
    assert isinstance(table.publish(N3, b"after"), Published)
    told = table.answers[waiting]
    assert [one.bodies for one in told.publications] == [(b"after",)]
    assert told.missed


def test_so_many_calls_of_one_client_wait_and_another_is_refused_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("snowmelt.protocols.multicast.listening.WAITING_MAX", 5)
    table = Table()
    start = table.hear(N1, None).next
    calls = [table.call(N1, Listen("a", start, POLL)) for _ in range(6)]
    other = table.call(N1, Listen("a", start, POLL), client="other")
    assert list(table.answers) == [*list(table.answers)[:1], calls[5]]
    assert table.answers[calls[5]].error == "Full"
    table.publish(N2, b"x")
    assert all(table.answers[one].publications for one in (*calls[:5], other))
    table.give(N1, Announced(Gone(NodeId("c"))))
    assert table.call(N1, Listen("a", Position(101, 1), POLL)) not in table.answers


def test_a_member_that_left_is_not_waited_for() -> None:
    table = Table()
    table.lost = to(N3)
    operation = table.call(N1, Publish("a", 5, (b"x",), POLL))
    del table.nodes[N3]
    table.view(N1, N2)
    assert isinstance(table.answers[operation], Published)


def test_who_restarted_has_forgotten_and_is_told_again() -> None:
    table = Table()
    table.lost = to(N3)
    operation = table.call(N1, Publish("a", 5, (b"x",), POLL))
    table.begin(N2)  # it had heard it
    table.view(*ALL)
    table.lost = nothing
    table.beat()
    assert isinstance(table.answers[operation], Published)
    assert table.heard(N2) == [b"x"]


def test_the_same_ticket_is_numbered_once() -> None:
    table = Table()
    first = table.publish(N1, b"x", ticket=5)
    assert table.publish(N1, b"x", ticket=5) == first
    assert table.publish(N2, b"x", ticket=5) == first  # by then it has it from the other
    assert table.heard(N3) == [b"x"]


def test_what_waits_long_is_answered_and_asked_for_again() -> None:
    table = Table()
    table.baton_stays_away = True
    call = Publish("a", 5, (b"x",), POLL)
    operation = table.call(N1, call)
    table.beat(4)
    assert table.answers[operation] == Underway()
    again = table.call(N1, call)
    table.baton_stays_away = False
    table.hand_out()
    assert isinstance(table.answers[again], Published)
    assert table.heard(N1) == [b"x"]


def test_what_nobody_asks_for_any_more_is_not_published() -> None:
    table = Table()
    table.baton_stays_away = True
    table.call(N1, Publish("a", 5, (b"x",), POLL))
    table.beat(20)
    table.hand_out()
    assert table.heard(N1) == []
    table.baton_stays_away = False
    assert isinstance(table.publish(N1, b"y"), Published)
    assert table.heard(N2) == [b"y"]


def test_what_is_lost_on_its_way_is_said_again_and_comes_in_order() -> None:
    table = Table()
    table.publish(N1, b"0")
    table.lost = to(N3)
    table.publish(N1, b"1")
    table.lost = nothing
    table.publish(N2, b"2")
    assert table.heard(N3) == [b"0"]
    table.beat()
    assert table.heard(N3) == [b"0", b"1", b"2"]
    assert not table.hear(N3, FIRST).missed


def test_a_gap_is_filled_by_whoever_has_it_when_its_sender_is_gone() -> None:
    table = Table()
    table.publish(N1, b"0")
    table.lost = to(N3)
    table.publish(N1, b"1")
    del table.nodes[N1]
    table.lost = nothing
    table.view(N2, N3)
    table.publish(N2, b"2")
    table.beat(3)
    assert table.heard(N3) == [b"0", b"1", b"2"]
    assert not table.hear(N3, FIRST).missed


def test_a_last_message_is_missed_too_though_none_comes_behind_it() -> None:
    table = Table()
    table.publish(N1, b"0")
    table.lost = to(N3)
    table.publish(N1, b"1")
    del table.nodes[N1]
    table.lost = nothing
    table.view(N2, N3)
    table.beat(3)
    assert table.heard(N3) == [b"0", b"1"]


def test_what_nobody_has_is_skipped_and_told() -> None:
    table = Table()
    table.publish(N1, b"0")
    start = Position(101, 1)
    table.lost = lambda *_: True
    table.publish(N1, b"1")
    del table.nodes[N1]
    table.lost = nothing
    table.view(N2, N3)
    table.publish(N2, b"2")
    table.beat(3)
    for node in (N2, N3):
        assert table.heard(node) == [b"0", b"2"]
        assert table.hear(node, start).missed


def test_what_comes_next_is_fetched_from_the_first_who_has_it() -> None:
    table = Table()
    table.publish(N1, b"0")
    table.lost = lambda source, target, _: N3 in (source, target) and N1 in (source, target)
    table.publish(N1, b"1")
    table.publish(N2, b"2")
    table.beat(2)
    assert table.heard(N3) == [b"0", b"1", b"2"]


def test_who_waits_gets_all_that_one_step_brings_though_it_is_more_than_is_kept() -> None:
    table = Table(settings=msgspec.structs.replace(SETTINGS, kept_messages=3))
    start = table.publish(N1, b"0").first
    waiting = table.call(N3, Listen("a", Position(start.era, 1), POLL))
    table.lost = to(N3)
    table.publish(N1, b"1")
    table.lost = nothing
    for at in range(2, 5):
        table.publish(N2, b"%d" % at)
    table.give(N3, Received(N1, Broadcast("a", (Publication(Position(start.era, 1), 2, (b"1",)),))))
    told = table.answers[waiting]
    assert [one.bodies for one in told.publications] == [(b"1",), (b"2",), (b"3",), (b"4",)]
    assert not told.missed


def test_a_silent_member_holds_up_a_search_for_a_few_beats_only() -> None:
    table = Table()
    table.publish(N1, b"0")
    table.lost = lambda source, *_: source == N1  # it says nothing, and is in the view
    table.publish(N1, b"1")
    table.publish(N2, b"2")
    table.beat(3)
    assert table.heard(N3) == [b"0"]
    table.beat(SETTINGS.patience // SETTINGS.beat)
    assert table.heard(N3) == [b"0", b"2"]


def test_what_came_too_late_is_numbered_anew_as_long_as_its_client_asks() -> None:
    table = Table()
    table.publish(N1, b"0")
    table.lost = lambda source, *_: source == N1
    call = Publish("a", 77, (b"1",), POLL)
    table.call(N1, call)
    table.publish(N2, b"2")
    for _ in range(12):
        table.beat()
        last = table.call(N1, call)
    assert table.heard(N3) == [b"0", b"2"]
    table.lost = nothing
    table.beat(2)
    assert isinstance(table.answers[last], Published)
    assert table.heard(N3) == table.heard(N2) == [b"0", b"2", b"1"]
    assert table.heard(N1) == [b"0", b"1", b"2", b"1"]  # a listener passes over its ticket


def test_a_baton_made_anew_begins_an_era() -> None:
    table = Table()
    one = table.publish(N1, b"1")
    table.lose_baton()
    two = table.publish(N2, b"2")
    assert two.first.era > one.first.era
    for node in ALL:
        assert table.heard(node) == [b"1", b"2"]
        assert table.hear(node, one.first).missed  # nobody knows how the first one ended
        assert not table.hear(node, two.first).missed


def test_the_end_of_an_era_is_fetched_from_whoever_has_it() -> None:
    table = Table()
    table.publish(N1, b"0")
    table.lost = to(N3)
    table.publish(N1, b"1")
    del table.nodes[N1]
    table.lose_baton()
    table.lost = nothing
    table.view(N2, N3)
    table.publish(N3, b"2")
    assert table.heard(N3) == table.heard(N2) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    "value",
    [
        b"nonsense",
        b"\xc1",
        msgspec.msgpack.encode([101, 1]),
        msgspec.msgpack.encode([10**6, 0, 99]),
        msgspec.msgpack.encode([101, -1, 100]),
        msgspec.msgpack.encode([2**63, 0, 100]),
    ],
)
def test_a_value_that_somebody_else_wrote_begins_an_era_and_no_position_is_used_twice(
    value: bytes,
) -> None:
    table = Table()
    one = table.publish(N1, b"1")
    table.values["multicast.a"] = value
    two = table.publish(N2, b"2")
    assert two.first > one.first
    assert two.first.era <= table.fence
    assert table.heard(N3) == [b"1", b"2"]


def test_who_joins_gets_what_the_others_kept_and_listens_from_the_end() -> None:
    table = Table((N1, N2))
    for at in range(5):
        table.publish(N1, b"%d" % at)
    table.begin(N3)
    table.view(*ALL)
    now = table.hear(N3, None)
    assert now == Messages((), Position(101, 5))
    assert table.heard(N3, Position(101, 2)) == [b"2", b"3", b"4"]
    table.publish(N2, b"5")
    assert table.heard(N3, now.next) == [b"5"]


def test_who_listens_first_begins_an_era_and_misses_nothing() -> None:
    table = Table()
    now = table.hear(N2, None)
    assert now == table.hear(N3, None) == Messages((), FIRST)
    waiting = table.call(N2, Listen("a", now.next, POLL))
    table.publish(N1, b"x")
    told = table.answers[waiting]
    assert [one.bodies for one in told.publications] == [(b"x",)]
    assert not told.missed


def test_who_is_behind_does_not_say_from_where_to_listen() -> None:
    table = Table((N1, N2))
    table.publish(N1, b"0")
    table.begin(N3)
    table.lost = to(N3, Have)
    table.view(*ALL)
    waiting = table.call(N3, Listen("a", None, POLL))
    table.beat(4)
    assert table.answers[waiting] == Messages((), None)
    table.lost = nothing
    table.beat(2)
    assert table.hear(N3, None) == Messages((), Position(101, 1))


def test_a_listener_waits_no_longer_than_it_wants_to() -> None:
    table = Table()
    waiting = table.call(N2, Listen("a", Position(3, 4), seconds(10**6)))
    assert waiting not in table.answers
    table.beat(4)
    assert table.answers[waiting] == Messages((), Position(3, 4))


def test_a_node_that_is_cut_off_sends_its_clients_away() -> None:
    table = Table()
    listening = table.call(N2, Listen("a", Position(), POLL))
    table.baton_stays_away = True
    publishing = table.call(N2, Publish("a", 5, (b"x",), POLL))
    table.give(N2, Announced(CutOff(1)))
    assert table.answers[listening].error == "Unavailable"
    assert table.answers[publishing] == Underway()
    assert table.publish(N2, b"y").error == "Unavailable"
    assert table.hear(N2).error == "Unavailable"
    table.view(*ALL)
    table.hand_out()
    assert table.heard(N1) == [b"x"]


def test_nobody_listens_to_strangers() -> None:
    table = Table((N1, N2))
    table.sent.clear()
    table.give(N1, Received(N3, Broadcast("a", ())))
    assert table.sent == []


def test_a_grant_that_nobody_wants_is_given_up() -> None:
    table = Table()
    machine = table.nodes[N1]
    got = BatonGot("multicast.a", 5, 9, 9, b"")
    assert machine.handle(Announced(got), table.now) == [Announce(Drop("multicast.a", 5, None))]
    table.publish(N1, b"x")
    assert Announce(Drop("multicast.a", 5, None)) in machine.handle(Announced(got), table.now)
    other = BatonGot("index", 5, 9, 9, b"")
    assert machine.handle(Announced(other), table.now) == []


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (Publish("no good", 1, (b"x",), POLL), "BadOption"),
        (Publish("a" * 91, 1, (b"x",), POLL), "BadOption"),
        (Publish("a", 1, (), POLL), "BadOption"),
        (Publish("a", 1, (b"",) * (CALL_BODIES_MAX + 1), POLL), "BadOption"),
        (Publish("a", 1, (bytes(BODY_BYTES_MAX + 1),), POLL), "TooLarge"),
        (Publish("a", 1, (bytes(BODY_BYTES_MAX),) * 9, POLL), "TooLarge"),
        (Listen("", None, POLL), "BadOption"),
    ],
)
def test_what_is_no_good_is_declined(call: Any, error: str) -> None:
    answer = Table().ask(N1, call)
    assert isinstance(answer, Declined)
    assert answer.error == error


def test_a_node_takes_only_so_much_that_not_everybody_has_heard() -> None:
    table = Table(settings=msgspec.structs.replace(SETTINGS, queued_bytes=1_000))
    table.lost = to(N3)
    assert table.publish(N1, bytes(600)) is None
    full = table.publish(N1, bytes(600))
    assert full.error == "Full"
    table.lost = nothing
    table.beat()
    assert isinstance(table.publish(N1, bytes(600)), Published)


def test_bodies_without_a_byte_are_not_free() -> None:
    table = Table()
    table.lost = to(N3)
    bodies = (b"",) * CALL_BODIES_MAX
    answers = [table.publish(N1, *bodies, ticket=ticket) for ticket in range(1, 100)]
    assert answers[0] is None
    assert answers[-1].error == "Full"


def test_one_who_listens_more_is_no_look_at_all_the_others() -> None:
    table = Table((N1,))
    table.publish(N1, b"first")
    node, ahead = table.nodes[N1], table.hear(N1).next

    def listen(first: int, count: int) -> None:
        for at in range(first, first + count):
            start = Position(ahead.era, ahead.number + at)
            call = Requested(OperationId(NodeId(f"c{at % 50}"), at), Listen("a", start, POLL))
            assert node.handle(call, table.now) == []

    few = lines_of(lambda: listen(0, 100))
    listen(100, 6_000)
    assert lines_of(lambda: listen(6_100, 100)) < 2 * few


def test_only_so_many_topics_are_in_use_and_unused_ones_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("snowmelt.protocols.multicast.node.TOPICS_MAX", 5)
    table = Table((N1,))
    for at in range(4):
        assert isinstance(table.publish(N1, b"x", name=f"t{at}"), Published)
    assert table.publish(N1, b"x").error == "Full"
    other = table.call(N1, Publish("others", 1, (b"x",), POLL), client="another")
    assert isinstance(table.answers[other], Published)
    more = table.call(N1, Publish("more", 2, (b"x",), POLL), client="another")
    assert table.answers[more].error == "Full"
    table.now = later(table.now, SETTINGS.awake)
    assert isinstance(table.publish(N1, b"x"), Published)


def test_who_asks_for_more_topics_than_it_may_have_costs_no_look_at_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def costs(most: int) -> int:
        monkeypatch.setattr("snowmelt.protocols.multicast.node.TOPICS_MAX", most)
        table = Table((N1,))
        for at in range(most):
            table.publish(N1, b"x", name=f"t{at}")

        def refused() -> None:
            for number in range(50):
                more = Publish(f"more{number}", 1, (b"x",), POLL)
                (answer,) = node.handle(Requested(OperationId(NodeId("c"), number), more), now)
                assert answer.message.error == "Full"

        node, now = table.nodes[N1], table.now

        return lines_of(refused)

    assert costs(1_000) < 2 * costs(100)


def test_one_who_pays_for_many_clients_leaves_topics_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("snowmelt.protocols.multicast.node.TOPICS_MAX", 5)
    table = Table((N1,))
    for at in range(4):
        client = NodeId(f"c-{at}")
        table.give(N1, Announced(Came(client, "mallory")))
        call = table.call(N1, Publish(f"t{at}", 1, (b"x",), POLL), client=client)
        assert isinstance(table.answers[call], Published)
        table.give(N1, Announced(Gone(client)))
    table.give(N1, Announced(Came(NodeId("c-9"), "mallory")))
    refused = table.call(N1, Publish("t9", 1, (b"x",), POLL), client="c-9")
    assert "4 of mallory" in table.answers[refused].text
    other = table.call(N1, Publish("others", 1, (b"x",), POLL), client="another")
    assert isinstance(table.answers[other], Published)


def test_all_topics_together_keep_no_more_than_a_node_may() -> None:
    table = Table((N1,), msgspec.structs.replace(SETTINGS, node_bytes=1_000))
    for at in range(100):
        table.publish(N1, bytes(100), name=f"t{at % 2}")
    table.beat()
    kept = [
        sum(one.size for one in table.ask(N1, Listen(f"t{at}", Position(), POLL)).publications)
        for at in range(2)
    ]
    assert sum(kept) <= 1_125
    assert min(kept) >= 400


def test_an_idle_topic_costs_nothing() -> None:
    table = Table()
    table.publish(N1, b"x")
    table.now = later(table.now, SETTINGS.awake)
    table.beat()
    table.sent.clear()
    table.beat(10)
    assert table.sent == []


def test_doubled_and_false_words_of_members_change_nothing() -> None:
    table = Table()
    table.lost = to(N3)
    operation = table.call(N1, Publish("a", 5, (b"x",), POLL))
    at = Position(101, 0)
    far = (Position(9, 9),)
    for word in (Acknowledge("a", 2, (at, at), ()), Acknowledge("a", 2, far, far)):
        table.give(N1, Received(N2, word))
    assert operation not in table.answers
    table.give(N1, Received(N3, Acknowledge("a", 1, (at,), ())))  # of an earlier process
    assert operation not in table.answers
    table.give(N1, Received(N3, Acknowledge("a", 2, (at, at), ())))
    assert isinstance(table.answers[operation], Published)
    table.give(N1, Received(N2, Upto("a", Position(10**6, 0))))
    table.lost = nothing
    table.beat(3)
    assert table.hear(N1, None) is not None  # nobody has what one told of


LARGEST = (1 << 64) - 1


@pytest.mark.parametrize(
    "at", [Position(0, LARGEST), Position(LARGEST, 1), Position(0, -(1 << 63))]
)
def test_a_position_one_cannot_count_on_from_is_dropped_and_the_topic_goes_on(at: Position) -> None:
    table = Table()
    table.give(N1, Received(N2, Broadcast("a", (Publication(at, 7, (b"bad",)),))))
    table.give(N1, Received(N2, Upto("a", at)))
    table.give(N1, Received(N2, Have("a", ZERO, at, at)))
    table.beat(3)
    assert isinstance(table.publish(N1, b"good"), Published)
    table.beat(3)
    assert table.heard(N2) == table.heard(N3) == [b"good"]
    for word in table.sent:
        encode(word)
    assert not any(isinstance(word, FetchPublications) for word in table.sent)


def test_a_member_makes_no_more_topics_than_all_may_have_and_none_without_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("snowmelt.protocols.multicast.node.TOPICS_MAX", 4)
    table = Table()
    topics = table.nodes[N1]._topics

    def say(name: str) -> None:
        one = Publication(Position(9, 5), 1, (b"x",))
        table.give(N1, Received(N2, Broadcast(name, (one,))))

    for strange in ("a\0b", "a/b", "", "é" * 40, "a" * 91):
        say(strange)
    assert not topics
    for number in range(40):
        say(f"t{number}")
    assert len(topics) == 4 * len(ALL)
    assert "t0" in topics


def test_a_publication_of_nothing_is_no_publication() -> None:
    """It would stand in the log for good: neither bodies nor bytes of it are ever trimmed."""
    table = Table()
    empty = Publication(FIRST, 1, ())
    table.give(N1, Received(N2, Broadcast("a", (empty,))))
    assert "a" not in table.nodes[N1]._topics


def test_of_many_topics_those_that_nobody_uses_are_told_of_ever_less_often() -> None:
    def told(count: int) -> float:
        table = Table()
        for at in range(count):
            table.publish(N1, b"x", name=f"t{at}")
        table.sent.clear()
        table.beat(32)
        return len([one for one in table.sent if isinstance(one, Upto)]) / count

    few, many = told(10), told(120)
    assert few == 32 * 3
    assert many == 6 * 3  # on the beats 1, 2, 4, 8 and so on


def test_a_topic_that_is_only_there_costs_little_of_a_beat() -> None:
    table = Table()
    for at in range(200):
        table.publish(N1, b"x", name=f"t{at}")
    table.beat(4)
    node = table.nodes[N1]
    idle = lines_of(lambda: node.handle(Expired(MulticastAlarm.BEAT), table.now)) / 200
    assert idle < 30
