"""The codec: every message comes back as it went; nothing hostile gets in."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from snowmelt.core.errors import MessageError
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols import echo, membership
from snowmelt.protocols.calling import Answer, Call, Declined, Elsewhere
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.membership import messages as words
from snowmelt.protocols.multicast import calls as topics
from snowmelt.protocols.multicast import messages as multicast
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.messages import words as queue
from snowmelt.wire import codec
from snowmelt.wire.codec import MessageDecoder, encode

PLACE = topics.Position(2**62, 5)
SAID = topics.Publication(PLACE, 7, (b"", b"x"))
RECEIPT = calls.Receipt("n1/1/1", 0, 3, 9)
N1, N2 = NodeId("n1"), NodeId("n2")
HERE = Address("127.0.0.1", 4410)
MEMBER = Member(N1, HERE, 2**63 - 1, 1)
VIEW = View(2**62, 3, N1, (MEMBER, Member(N2, Address("::1", 1), 5, 6)))
TO_NODES = [
    Call(1, echo.Echo(b"\0\xff")),
    Call(2**63 - 1, echo.Remember("ä name", bytes(1000))),
    Call(0, echo.Recall("")),
    Call(3, words.GetStatus()),
    Call(4, words.Forget(N2)),
    Call(5, calls.Put("q", "p", 1, b"\0\1", b"x", hold=seconds(9))),
    Call(6, calls.PublishStaged("q", "p", 2**62, (RECEIPT, RECEIPT))),
    Call(7, calls.Assign("q", "g", 1, "r", 2, 3, 4, (5, 6))),
    Call(8, calls.Locate("q", "g", 1, 0, 2**62)),
    Call(9, calls.Survey("q", 0, 1)),
    Call(10, calls.ReleaseGroup("q", "g")),
    Call(11, calls.ListGroups("q")),
    queue.Append(
        "q",
        3,
        queue.Head(3, 9),
        queue.Head(2, 8),
        ((b"s", b"x"), (b"l", None)),
        (),
        (Interval(0, 5),),
    ),
    Call(12, topics.Publish("t", 2**62, (b"", b"x"), seconds(2))),
    Call(13, topics.Listen("t", None, seconds(2))),
    Call(14, topics.Listen("t", PLACE, seconds(2))),
    multicast.Broadcast("t", (SAID,)),
    multicast.Acknowledge("t", 3, (PLACE, PLACE), ()),
    multicast.Have("t", PLACE, None, PLACE),
    words.Join(1, 2, MEMBER, 0, 0),
    words.Redirected(2, N1, HERE),
    words.Heartbeat(1, 2, 3, 4, 5, 6),
    words.Accepted(1, 2, 3),
    words.Accepted(1, 2, 3, VIEW),
    words.Adopt(VIEW),
    words.Refused(2, "why", True),
    words.Leave(2, 1, 5),
    words.LeftView(2),
]
TO_CLIENTS = [
    Answer(1, echo.Echoed(b"\0")),
    Answer(2, echo.Remembered("name")),
    Answer(3, echo.Recalled("name", None, True)),
    Answer(4, membership.Status(N1, "current", VIEW, {N2: 5})),
    Answer(5, words.Forgotten(N2)),
    Answer(6, Declined("Unavailable", "why")),
    Answer(7, Elsewhere(N2, HERE)),
    Answer(8, RECEIPT),
    Answer(12, topics.Published(PLACE)),
    Answer(13, topics.Messages((SAID,), None, True)),
    Answer(9, calls.Assigned(1, 2, 3)),
    Answer(
        10, calls.Located((calls.Span(0, 3, "n1/1/1", 7, (calls.NodeAddress(N1, HERE),)),), 2, 9)
    ),
    Answer(11, calls.Groups((calls.GroupStatus("g", 1, 2, 3, 2**63 - 1),))),
]
STR = b"\xdb\xff\xff\xff\xff"  # a string of four billion bytes, and nothing after it


def pack(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


HOSTILE = {
    "nothing": b"",
    "noise": b"\xc1\xc1\xc1",
    "a bare number": pack(7),
    "an unknown tag": pack(["rm -rf", 1]),
    "a tag that is a number": pack([1, 1]),
    "an empty array": pack([]),
    "fields missing": pack(["call", 1]),
    "a body of an unknown kind": pack(["call", 1, ["exec", b"import os"]]),
    "a body that is no array": pack(["call", 1, {"echo": b""}]),
    "a string for a number": pack(["call", "1", ["echo.echo", b""]]),
    "a float for a number": pack(["call", 1.5, ["echo.echo", b""]]),
    "a number for bytes": pack(["call", 1, ["echo.echo", 5]]),
    "nothing for bytes": pack(["call", 1, ["echo.echo", None]]),
    "a map for an array": pack({"type": "call", "number": 1}),
    "a call within a call": pack(["call", 1, ["call", 1, ["echo.echo", b""]]]),
    "another node's word within a call": pack(["call", 1, ["membership.left", 1]]),
    "an order to depart": pack(["call", 1, ["membership.depart"]]),
    "something after the end": pack(["call", 1, ["echo.echo", b""]]) + b"\0",
    "a truncated message": pack(["call", 1, ["echo.echo", b"abc"]])[:-1],
    "text that is no UTF-8": b"\x93\xa4call\x01\x92\xabecho.recall\xa2\xff\xff",
    "a huge string": b"\x93\xa4call\x01\x92\xabecho.recall" + STR,
    "huge bytes": b"\x93\xa4call\x01\x92\xa9echo.echo\xc6\xff\xff\xff\xff",
    "a huge array": b"\xdd\xff\xff\xff\xff\xa4call",
    "a huge map": b"\x92\xb0membership.adopt\xdf\xff\xff\xff\xff",
    "a huge tuple": b"\x92\xb0membership.adopt\x81\xa7members\xdd\xff\xff\xff\xff",
    "a nest of arrays": b"\x91" * 500_000,
    "a nest in a field": b"\x93\xa4call\x01" + b"\x91" * 500_000,
    "a nest in a field too many": pack(["membership.left", 1])[1:].join(
        [b"\x93", b"\x91" * 99_999]
    ),
    "a nest of maps": b"\x81\xa1a" * 200_000,
    "four billion receipts": pack(["call", 1, ["fifo.publish", "q", "p", 9, ()]])[:-1]
    + b"\xdd\xff\xff\xff\xff",
    "a receipt that is a nest": pack(["call", 1, ["fifo.publish", "q", "p", 9, ()]])[:-1]
    + b"\x91" * 99_999,
    "a group that is a number": pack(["call", 1, ["fifo.release", "q", 5]]),
    "an extension": b"\x93\xa4call\x01\x92\xa9echo.echo\xc7\x03\x05abc",
}


@pytest.mark.parametrize("message", TO_NODES, ids=lambda one: type(one).__name__)
def test_what_nodes_are_sent_comes_back_as_it_went(message: Any) -> None:
    assert MessageDecoder.for_nodes().decode(encode(message)) == message


@pytest.mark.parametrize("message", TO_CLIENTS, ids=lambda one: type(one.body).__name__)
def test_what_clients_are_sent_comes_back_as_it_went(message: Any) -> None:
    assert MessageDecoder.for_clients().decode(encode(message)) == message


@pytest.mark.parametrize("payload", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    "codec", [MessageDecoder.for_nodes(), MessageDecoder.for_clients()], ids=["node", "client"]
)
def test_a_hostile_payload_is_a_message_error_and_nothing_else(
    codec: MessageDecoder, payload: bytes
) -> None:
    with pytest.raises(MessageError, match="does not read"):
        codec.decode(payload)


def stretches(kind: Any) -> Iterator[tuple[type, str]]:
    """All that has two edges among what is named there, and what its first edge is called."""
    parts = getattr(kind, "types", getattr(kind, "item_types", ()))
    if isinstance(kind, inspect.StructType):
        parts = [one.type for one in kind.fields]
        names = [one.name for one in kind.fields if isinstance(one.type, inspect.IntType)]
        if "stop" in names:
            yield from [(kind.cls, one) for one in ("start", "first") if one in names][:1]
    for part in (*parts, *[one for one in [getattr(kind, "item_type", None)] if one]):
        yield from stretches(part)


NODES_HEAR = dict(stretches(inspect.type_info(codec._TO_NODES)))


def test_stretches_are_found() -> None:
    assert {calls.Span, Interval} <= set(NODES_HEAR)


@pytest.mark.parametrize(("kind", "start"), NODES_HEAR.items(), ids=str)
def test_nothing_that_a_node_is_sent_stops_before_it_starts(kind: Any, start: str) -> None:
    whole = dict.fromkeys(kind.__struct_fields__) | {start: 5, "stop": 5}
    kind(**whole)
    with pytest.raises(ValueError, match="can't start at 6 and stop at 5"):
        kind(**whole | {start: 6})


def test_each_direction_takes_only_its_own() -> None:
    for message in TO_CLIENTS:
        with pytest.raises(MessageError):
            MessageDecoder.for_nodes().decode(encode(message))
    for message in TO_NODES:
        with pytest.raises(MessageError):
            MessageDecoder.for_clients().decode(encode(message))


def test_fields_that_a_later_version_adds_are_passed_over() -> None:
    later = ["call", 1, ["echo.echo", b"hey", {"added": [1, 2]}], "later"]
    assert MessageDecoder.for_nodes().decode(pack(later)) == Call(1, echo.Echo(b"hey"))
