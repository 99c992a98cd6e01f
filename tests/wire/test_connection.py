"""A connection as a machine: both ends against each other in memory, torn anywhere; strangers."""

import random
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from greetings import speaker
from snowmelt.core.errors import (
    AccessDenied,
    FrameError,
    HandshakeError,
    MessageError,
    NodeRefused,
    SnowmeltError,
    TooLarge,
    Unavailable,
)
from snowmelt.core.names import NodeId
from snowmelt.core.users import ANYBODY, Accounts
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.echo import Echo, Echoed
from snowmelt.protocols.membership.messages import LeftView
from snowmelt.protocols.pool.messages import Cancel
from snowmelt.wire.codec import encode
from snowmelt.wire.connection import CALL_COST, Connection, ControlFrame, Ended, Heard, Stage
from snowmelt.wire.framing import (
    FRAME_BYTES_MAX,
    GREETING_BYTES_MAX,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    SMALL,
    VERSION,
    Kind,
    framed,
)
from snowmelt.wire.greeting import Gate, Hello, Proof, Role, Speaker, goodbye, said
from snowmelt.wire.sides import ConnectionOpened, Dialling, Listening
from wire.test_fuzz import mutated

GATE = Gate("snow", Accounts.of_token("secret"))
N1, C1, C2 = NodeId("n1"), NodeId("c-1"), NodeId("c-2")
CLIENT = speaker("c-1", token="secret", cluster="snow")
NODE = speaker("n2", Role.NODE, "secret", cluster="snow")
PEER = speaker("c-1", Role.PEER, "secret", cluster="snow")
HELLO = Hello("snow", CLIENT.name, Role.CLIENT, bytes(16))


def client() -> Connection:
    return Connection(Dialling(CLIENT))


def caller() -> Connection:
    return Connection(Dialling(NODE))


def node(**limits: int) -> Connection:
    return Connection(Listening(GATE, N1, Role.NODE, 1 << 20), **limits)


def peer() -> Connection:
    return Connection(Dialling(PEER, C2))


def listener() -> Connection:
    return Connection(Listening(GATE, C2, Role.PEER, 1 << 20))


ENDS = [(client, node), (caller, node), (peer, listener)]
SIDES = [client, caller, node, peer, listener]


def talk(one: Connection, other: Connection) -> tuple[list[Heard], list[Heard]]:
    """All that both have to say, until nothing is left; what each of them heard."""
    heard: tuple[list[Heard], list[Heard]] = ([], [])
    while one.out or other.out:
        heard[1].extend(other.receive(one.taken()))
        heard[0].extend(one.receive(other.taken()))
    return heard


def opened(
    dials: Callable[[], Connection] = client, **limits: int
) -> tuple[Connection, Connection]:
    one, other = dials(), node(**limits)
    talk(one, other)
    return one, other


def pieces(stream: bytes, cuts: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(cuts), len(stream)]
    return (stream[a:b] for a, b in pairwise(edges))


def shown(event: Heard) -> Any:
    """As it can be compared: errors are like no other."""
    return repr(event) if isinstance(event, Ended) else event


def events(connection: Connection, parts: Iterator[bytes]) -> list[Any]:
    """What comes of it, and the error at last."""
    found: list[Any] = []
    try:
        for part in parts:
            found.extend(map(shown, connection.receive(part)))
    except SnowmeltError as error:
        found.append(repr(error))
    return found


@pytest.mark.parametrize(("dials", "listens"), ENDS)
def test_both_ends_know_each_other_and_talk(
    dials: Callable[[], Connection], listens: Callable[[], Connection]
) -> None:
    one, other = dials(), listens()
    assert one.stage is other.stage is Stage.GREETING
    (here,), (there,) = talk(one, other)
    assert here.user == there.user == ANYBODY
    assert one.stage is other.stage is Stage.OPEN
    assert isinstance(here, ConnectionOpened)
    assert isinstance(there, ConnectionOpened)
    assert here.nonce == there.nonce
    if dials is peer:
        one.send(Cancel(3, 1))
        assert list(other.receive(one.taken())) == [Cancel(3, 1)]
        return
    assert here.name == "n1"
    assert there.role is (Role.CLIENT if dials is client else Role.NODE)
    one.send(Call(1, Echo(b"hey")))
    assert list(other.receive(one.taken())) == [Call(1, Echo(b"hey"))]
    assert (other.in_flight, one.in_flight) == (1, 0)
    if dials is client:
        other.send(Answer(1, Echoed(b"hey")))
        assert list(one.receive(other.taken())) == [Answer(1, Echoed(b"hey"))]
        assert other.in_flight == other.in_flight_bytes == 0


def client_s_stream() -> bytes:
    """What a client says to a node that has said its welcome, where no number is ever new."""
    one, other = client(), node()
    list(other.receive(one.taken()))
    list(one.receive(other.taken()))
    large = framed(Kind.MESSAGE, encode(Call(2, Echo(bytes(2 * GREETING_BYTES_MAX)))))
    small = framed(Kind.MESSAGE, encode(Call(1, Echo(b"hey"))))
    return bytes(one.taken()) + large + small + framed(Kind.INQUIRE, b"")


TAILS = {
    "nothing": b"",
    "a goodbye, and more": goodbye(Unavailable("enough")) + b"whatever this is",
    "no frame": b"GET / HTTP/1.1",
    "no message": framed(Kind.MESSAGE, b"\xc1\xc1") + framed(Kind.MESSAGE, b"\xc1"),
    "what a client may not say": framed(Kind.MESSAGE, encode(LeftView(1))),
    "a second hello": said(Kind.HELLO, HELLO),
    "a later version": HEADER.pack(MAGIC, 3, 4, 0, 0),
    "too much": HEADER.pack(MAGIC, VERSION, 4, 0, FRAME_BYTES_MAX + 1),
}


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_wherever_a_stream_is_torn_the_events_are_the_same_and_the_error_comes_last(
    monkeypatch: pytest.MonkeyPatch, tail: bytes
) -> None:
    monkeypatch.setattr("secrets.token_bytes", bytes)

    def welcoming() -> Connection:
        other = node()
        list(other.receive(client().taken()))
        return other

    stream = client_s_stream() + tail
    whole = events(welcoming(), iter([stream]))
    assert [type(one) for one in whole[:4]] == [ConnectionOpened, Call, Call, ControlFrame]
    assert len(whole) == (4 if not tail else 5)
    near = [*range(150), *range(len(stream) - 150, len(stream))]
    for at in near:
        assert events(welcoming(), pieces(stream, [at])) == whole
    assert events(welcoming(), (stream[at : at + 1] for at in range(len(stream)))) == whole


@given(st.data())
def test_torn_anywhere_and_often_both_ends_hear_the_same(data: st.DataObject) -> None:
    dials, listens = data.draw(st.sampled_from(ENDS))
    one, other = dials(), listens()
    message = Cancel(7, 1) if dials is peer else Call(7, Echo(bytes(9_000)))
    came: dict[Connection, list[Heard]] = {one: [], other: []}
    sent = False
    while one.out or other.out or not sent:
        if not (one.out or other.out):
            one.send(message)
            sent = True
        for speaks, hears in ((one, other), (other, one)):
            stream = bytes(speaks.taken())
            cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
            for part in pieces(stream, cuts):
                came[hears].extend(hears.receive(part))
    assert [type(event) for event in came[one]] == [ConnectionOpened]
    assert came[other][1:] == [message]


def test_a_large_message_may_be_read_into_place_when_nothing_waits_to_be_looked_at() -> None:
    one, other = caller(), node()
    talk(one, other)
    messages = [Call(number, Echo(bytes([number]) * (number * SMALL))) for number in (1, 2, 3)]
    for message in messages:
        other.send(message)
    stream, at, came = memoryview(bytes(other.taken())), 0, []
    assert one.rest() is None  # no frame has begun
    waits = one.receive(bytes(stream[: 2 * SMALL]))
    assert one.rest() is None  # the first message lies there
    came += waits
    at = 2 * SMALL
    placed = 0
    while at < len(stream):
        place = one.rest()
        size = min(1000 if place is None else len(place), len(stream) - at)
        if place is None:
            came += one.receive(bytes(stream[at : at + size]))
        else:
            place[:size] = stream[at : at + size]
            came += one.filled(size)
            placed += 1
        at += size
    assert came == messages
    assert placed == 2


def test_a_node_that_says_much_right_after_its_welcome_is_understood() -> None:
    one, other = caller(), node()
    list(other.receive(one.taken()))
    other.stage = Stage.OPEN  # as if it had heard the proof
    large = Call(1, Echo(bytes(3 * GREETING_BYTES_MAX)))
    other.send(large)
    # The welcome and the message come in one read, and only the welcome is small.
    assert list(one.receive(other.taken()))[1:] == [large]


def test_what_a_client_asks_goes_with_its_proof() -> None:
    one, other = client(), node()
    list(other.receive(one.taken()))
    list(one.receive(other.taken()))
    large = Call(1, Echo(bytes(3 * GREETING_BYTES_MAX)))
    one.send(large)
    assert list(other.receive(one.taken()))[1:] == [large]


def test_the_greeting_asks_for_no_byte_beyond_its_word() -> None:
    one, other = peer(), listener()
    list(other.receive(one.taken()))
    other.stage = Stage.OPEN  # as if it said a message before it has heard the proof
    welcome = bytes(other.taken())
    stream = welcome + framed(Kind.MESSAGE, encode(Cancel(1, 1)))
    at = 0
    while one.stage is Stage.GREETING:
        piece = stream[at : at + one.missing]
        at += len(piece)
        list(one.receive(piece))
    assert at == len(welcome)


@pytest.mark.parametrize(
    ("dials", "kind", "why"),
    [
        (replace(CLIENT, cluster="rain"), AccessDenied, "cluster 'snow'"),
        (replace(CLIENT, name=NodeId("n2")), AccessDenied, "of clients begin with c-"),
        (replace(NODE, name=N1), NodeRefused, "this node's own"),
        (PEER, AccessDenied, "this is a node"),
    ],
)
def test_who_may_not_come_in_is_told_and_hears_why(
    dials: Speaker, kind: type[SnowmeltError], why: str
) -> None:
    one, other = Connection(Dialling(dials)), node()
    with pytest.raises(kind, match=why) as told:
        list(other.receive(one.taken()))
    assert not other.out  # no welcome
    other.close(told.value)
    (ended,) = one.receive(other.taken())
    assert isinstance(ended, Ended)
    assert type(ended.error) is kind
    assert str(ended.error) == str(told.value)
    assert one.stage is other.stage is Stage.CLOSED


def test_a_peer_gives_no_proof_to_one_who_knows_no_token_nor_to_another_than_it_wants() -> None:
    for gate, me, role, why in (
        (Gate("snow", Accounts.of_token("guess")), C2, Role.PEER, "token is missing or wrong"),
        (GATE, NodeId("c-3"), Role.PEER, "c-3 answers where c-2 should be"),
    ):
        one, other = peer(), Connection(Listening(gate, me, role, 1 << 20))
        list(other.receive(one.taken()))
        with pytest.raises(AccessDenied, match=why):
            list(one.receive(other.taken()))
        assert not one.out


def test_a_peer_that_proves_nothing_is_not_let_in() -> None:
    one, other = peer(), listener()
    list(other.receive(one.taken()))
    other.taken()
    with pytest.raises(AccessDenied, match="token is missing or wrong"):
        list(other.receive(said(Kind.PROVE, Proof(bytes(32)))))
    assert other.stage is Stage.GREETING


def test_a_certificate_that_does_not_fit_keeps_nodes_out_and_is_asked_of_no_client() -> None:
    def refuse(name: NodeId) -> None:
        raise AccessDenied(f"the certificate is good for nobody, not for {name}")

    with pytest.raises(AccessDenied, match="not for n2"):
        list(Connection(Listening(GATE, N1, Role.NODE, 1, refuse)).receive(caller().taken()))
    one, other = client(), Connection(Listening(GATE, N1, Role.NODE, 1, refuse))
    _, (event,) = talk(one, other)
    assert isinstance(event, ConnectionOpened)
    one, other = Connection(Dialling(CLIENT, certify=refuse)), node()
    list(other.receive(one.taken()))
    with pytest.raises(AccessDenied, match="not for n1"):
        list(one.receive(other.taken()))


FIRST = {
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n", FrameError, "another protocol"),
    "a later version": (HEADER.pack(MAGIC, 3, 1, 0, 5), FrameError, "version 3"),
    "too large": (HEADER.pack(MAGIC, VERSION, 1, 0, GREETING_BYTES_MAX + 1), FrameError, "limit"),
    "a message": (framed(Kind.MESSAGE, b"\xc0"), HandshakeError, "MESSAGE"),
    "a garbled word": (framed(Kind.HELLO, b"\xc1"), HandshakeError, "HELLO|does not read"),
    "a garbled goodbye": (framed(Kind.GOODBYE, b""), HandshakeError, "does not read"),
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("data", "kind", "why"), FIRST.values(), ids=FIRST)
def test_what_is_no_greeting_opens_nothing(
    side: Callable[[], Connection], data: bytes, kind: type[SnowmeltError], why: str
) -> None:
    connection = side()
    for _ in range(2):  # it stays so, whatever comes then
        with pytest.raises(kind, match=why):
            list(connection.receive(data))
    assert connection.stage is Stage.GREETING
    connection.send(Call(1, Echo(b"")))
    connection.speak(Kind.INQUIRE)
    assert len(connection.out) == len(side().out), "nothing is said to a stranger"


@pytest.mark.parametrize(
    ("dials", "listens", "may"),
    [(client, node, {Kind.INQUIRE, Kind.RELOAD}), (peer, listener, {Kind.RELEASE, Kind.KEEP})],
)
def test_an_open_connection_hears_its_own_words_and_no_others(
    dials: Callable[[], Connection], listens: Callable[[], Connection], may: set[Kind]
) -> None:
    for kind in set(Kind) - {Kind.MESSAGE, Kind.GOODBYE}:
        one, other = dials(), listens()
        talk(one, other)
        one.speak(kind)
        if kind in may:
            assert list(other.receive(one.taken())) == [ControlFrame(kind, b"")]
            one.speak(kind, b"more")
        with pytest.raises(FrameError, match=f"{kind.name} does not stand in an open connection"):
            list(other.receive(one.taken()))


def test_a_client_hears_how_a_node_is() -> None:
    one, other = opened()
    other.speak(Kind.INFORM, b"well")
    assert list(one.receive(other.taken())) == [ControlFrame(Kind.INFORM, b"well")]


def test_what_does_not_read_is_told_after_what_came_before_it_and_nothing_comes_then() -> None:
    one, other = opened()
    one.send(Call(1, Echo(b"")))
    stream = bytes(one.taken())
    came = other.receive(stream + framed(Kind.MESSAGE, b"\xc1") + stream)
    assert next(came) == Call(1, Echo(b""))
    with pytest.raises(MessageError):
        next(came)
    with pytest.raises(MessageError):
        list(other.receive(stream))


def test_each_message_is_read_when_it_is_asked_for() -> None:
    one, other = opened()
    for number in range(3):
        one.send(Call(number, Echo(b"")))
    came = other.receive(one.taken())
    assert next(came) == Call(0, Echo(b""))
    assert (len(other.frames), other.in_flight, other.crowded) == (2, 1, True)
    assert [call.number for call in other.events()] == [1, 2]
    assert not other.crowded


def test_what_is_asked_and_not_answered_crowds_a_connection_until_it_is() -> None:
    one, other = opened(in_flight_max=3 * CALL_COST)
    for number in (1, 2, 2, 2):  # asked again it costs once
        one.send(Call(number, Echo(bytes(100))))
    list(other.receive(one.taken()))
    assert (other.in_flight, other.crowded) == (2, False)
    one.send(Call(3, Echo(bytes(100))))
    list(other.receive(one.taken()))
    assert other.crowded
    other.send(Answer(1, Echoed(b"")))
    assert not other.crowded
    for number in (2, 3, 4):  # one of them was never asked
        other.send(Answer(number, Echoed(b"")))
    assert other.in_flight_bytes == 0


def test_to_one_who_does_not_read_answers_wait_and_nothing_of_his_is_heard() -> None:
    one, other = opened()
    one.send(Call(1, Echo(b"")))
    other.blocked = True
    assert list(other.receive(one.taken())) == []
    assert other.crowded
    other.send(Answer(9, Echoed(b"")))
    assert not other.out
    other.blocked = False
    assert list(other.events()) == [Call(1, Echo(b""))]
    assert list(other.later) == [Answer(9, Echoed(b""))]


def test_a_client_goes_on_hearing_answers_though_the_node_does_not_read_what_it_asks() -> None:
    one, other = opened()
    one.blocked = True
    one.send(Call(2, Echo(b"")))
    assert not one.out
    other.send(Answer(1, Echoed(b"hey")))
    assert list(one.receive(other.taken())) == [Answer(1, Echoed(b"hey"))]
    assert not one.crowded


def test_nodes_that_have_not_read_what_each_has_for_the_other_go_on_hearing_each_other() -> None:
    one, other = opened(caller)
    one.blocked = other.blocked = True
    for side, far in ((one, other), (other, one)):
        side.send(LeftView(1))  # what nodes tell each other unasked goes on
        assert list(far.receive(side.taken())) == [LeftView(1)]
        assert not far.crowded


def test_answers_to_a_node_do_not_wait_since_it_is_heard_all_the_same() -> None:
    one, other = opened(caller)
    other.blocked = True
    one.send(Call(1, Echo(b"")))
    assert list(other.receive(one.taken())) == [Call(1, Echo(b""))]
    other.send(Answer(1, Echoed(b"")))
    assert other.out
    assert not other.later


def test_an_answer_too_large_is_declined_and_anything_else_is_the_owner_s_matter() -> None:
    one, other = client(), node(frame_max=1_000)
    talk(one, other)
    other.send(Answer(1, Echoed(bytes(2_000))))
    (answer,) = one.receive(other.taken())
    assert isinstance(answer.body, Declined)
    assert answer.body.error == "TooLarge"
    for large in (Call(1, Echo(bytes(2_000))), Answer(1, Declined("Full", "x" * 2_000))):
        with pytest.raises(TooLarge, match="the limit of a frame is 1000"):
            other.send(large)
    assert not other.out
    other.send(Answer(2, Echoed(b"")))
    assert list(one.receive(other.taken())) == [Answer(2, Echoed(b""))]


@pytest.mark.parametrize("side", SIDES)
def test_after_the_end_nothing_is_heard_and_nothing_said(side: Callable[[], Connection]) -> None:
    connection = side()
    connection.taken()
    connection.close(Unavailable("enough"))
    connection.close(Unavailable("twice"))
    assert connection.out.count(b"enough") == 1
    assert not connection.out.count(b"twice")
    connection.taken()
    assert list(connection.receive(client_s_stream())) == []
    connection.send(Call(1, Echo(b"")))
    connection.speak(Kind.INQUIRE)
    assert not connection.out


def attacked(seed: int, count: int) -> dict[str, int]:
    """So many hostile streams, before and after a greeting: what came of them."""
    chance = random.Random(seed)
    ends: dict[str, int] = {}
    slowest = 0.0
    for _ in range(count):
        connection = chance.choice(SIDES)()
        if chance.random() < 0.5:
            dials, listens = chance.choice(ENDS)
            one, connection = dials(), listens()
            talk(one, connection)
            if chance.random() < 0.3:
                connection = one
        stream = mutated(chance)
        cuts = [chance.randrange(len(stream) + 1) for _ in range(chance.randrange(4))]
        begin = time.process_time()
        found = events(connection, pieces(stream, cuts))
        slowest = max(slowest, time.process_time() - begin)
        assert len(found) <= len(stream) // HEADER_BYTES + 1
        end = found[-1] if found else "held"  # errors and goodbyes are written out
        name = end.split("(")[0] if isinstance(end, str) else type(end).__name__
        ends[name] = ends.get(name, 0) + 1
        connection.close(Unavailable("enough"))
        assert list(connection.receive(stream)) == []
    assert slowest < 2.0, "an input of a few hundred bytes kept the machine busy"
    return ends


def test_ten_thousand_hostile_streams_end_in_an_error_of_ours_or_an_event() -> None:
    ends = attacked(1, 10_000)
    wanted = {
        "FrameError",
        "HandshakeError",
        "MessageError",
        "AccessDenied",
        "Ended",
    }
    assert "ConnectionOpened" not in ends, "nobody proved anything"
    assert wanted | {"held", "Call"} <= set(ends), ends  # it does reach everything


@pytest.mark.parametrize("again", ["before the answer", "after it"])
def test_a_large_answer_is_said_once_though_it_is_asked_for_again(again: str) -> None:
    one, other = opened()
    large = Answer(7, Echoed(b"x" * (SMALL + 1)))
    asked = [Call(7, Echo(b"a"))] * (2 if again == "before the answer" else 1)
    for call in asked:
        one.send(call)
    assert list(other.receive(one.taken())) == asked
    for _ in asked:
        other.send(large)
    one.send(Call(7, Echo(b"a")))
    one.send(Call(8, Echo(b"b")))
    assert list(other.receive(one.taken())) == [Call(8, Echo(b"b"))]
    other.send(Answer(8, Echoed(b"b")))
    assert list(one.receive(other.taken())) == [large, Answer(8, Echoed(b"b"))]
    assert (other.in_flight, other.in_flight_bytes) == (0, 0)


def test_a_small_answer_is_said_as_often_as_it_is_asked_for() -> None:
    one, other = opened()
    for _ in range(2):
        one.send(Call(7, Echo(b"a")))
        assert list(other.receive(one.taken())) == [Call(7, Echo(b"a"))]
        other.send(Answer(7, Echoed(b"a")))
        assert list(one.receive(other.taken())) == [Answer(7, Echoed(b"a"))]
