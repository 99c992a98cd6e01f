"""What one process of a pool may say to another is bounded where it is declared."""

import msgspec
import pytest

from snowmelt.core.errors import MessageError
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.baton.calls import HeldAt, RenewMany
from snowmelt.protocols.calling import Call
from snowmelt.protocols.pool.introductions import Introduce
from snowmelt.protocols.pool.messages import (
    GiveBack,
    Hold,
    Inquire,
    ObjectsLent,
    ObjectSpan,
    Over,
    Request,
    SettleLoan,
    Stocked,
)
from snowmelt.wire.codec import UNKNOWN_BYTES_MAX, MessageDecoder, UnknownMessage, encode

MANY = b"\xdd\x00\xff\xff\xff"
"""Sixteen million of something follow, says msgpack; nothing does."""
REQUEST = Request(NodeId("c-1"), 1, 1, 1, ())
FOUND = ObjectsLent(1, 1, 1, 7, 0, 0.0, (ObjectSpan(0, b""),), b"")
HERE = Address("h", 1)


def promising(word: msgspec.Struct, name: str) -> bytes:
    """A word one of whose fields says that millions follow, and ends there."""
    at = word.__struct_fields__.index(name)
    values = [getattr(word, field) for field in word.__struct_fields__[:at]]
    head = b"\xdc" + (len(word.__struct_fields__) + 1).to_bytes(2, "big")
    return head + b"".join(map(encode, (word.__struct_config__.tag, *values))) + MANY


@pytest.mark.parametrize(
    ("word", "name"),
    [
        (REQUEST, "route"),
        (FOUND, "spans"),
        (SettleLoan(1, 1), "intervals"),
        (GiveBack(1), "intervals"),
        (Hold(()), "tokens"),
        (Over(()), "tokens"),
    ],
)
def test_a_list_that_is_too_long_is_refused_before_it_is_unpacked(
    word: msgspec.Struct, name: str
) -> None:
    with pytest.raises(MessageError, match="of length <= "):
        MessageDecoder.for_peers().decode(promising(word, name))


@pytest.mark.parametrize(
    ("word", "name"),
    [
        (RenewMany((), HeldAt(NodeId("n1"), 1, HERE)), "holdings"),
        (Introduce("frames", HERE, "", produces=True, consumes=True), "known"),
        (Introduce("frames", HERE, "", produces=True, consumes=True), "silent"),
    ],
)
def test_so_is_a_list_in_a_call_to_a_node(word: msgspec.Struct, name: str) -> None:
    call = b"\x93" + encode("call") + encode(1) + promising(word, name)
    with pytest.raises(MessageError, match="of length <= "):
        MessageDecoder.for_callers().decode(call)
    assert MessageDecoder.for_callers().decode(encode(Call(1, word))) == Call(1, word)


@pytest.mark.parametrize("number", [-1, 1 << 63, (1 << 64) - 1])
def test_a_number_that_nobody_can_count_on_from_is_refused(number: int) -> None:
    for word in (
        msgspec.structs.replace(FOUND, hop=number),
        msgspec.structs.replace(FOUND, spans=(ObjectSpan(number, b""),)),
        msgspec.structs.replace(REQUEST, hop=number),
    ):
        with pytest.raises(MessageError, match="Expected `int`"):
            MessageDecoder.for_peers().decode(encode(word))


@pytest.mark.parametrize("number", [-1, (1 << 62) + 1, (1 << 64) - 1])
def test_so_is_what_nobody_can_have(number: int) -> None:
    with pytest.raises(MessageError, match="Expected `int`"):
        MessageDecoder.for_peers().decode(encode(Stocked(number)))
    assert MessageDecoder.for_peers().decode(encode(Stocked(1 << 62))) == Stocked(1 << 62)
    assert MessageDecoder.for_peers().decode(encode(Inquire())) == Inquire()


def test_a_word_that_only_a_later_version_has_is_none_that_does_not_read() -> None:
    decode = MessageDecoder.for_peers().decode
    for word in (["pool.praise"], ["pool.praise", 7, {"x": [1.5, None]}]):
        assert decode(encode(word)) == UnknownMessage("pool.praise")
    assert decode(encode([*msgspec.msgpack.decode(encode(Stocked(3))), "more"])) == Stocked(3)


@pytest.mark.parametrize(
    "word",
    [
        ["pool.stocked", "many"],  # known, and wrong
        ["praise", 7],  # of no pool
        ["pool.praise", "x" * UNKNOWN_BYTES_MAX],
        [["pool.praise"]],
        {"pool.praise": 7},
        [],
        "pool.praise",
    ],
)
def test_what_is_no_such_word_does_not_read(word: object) -> None:
    with pytest.raises(MessageError, match="does not read"):
        MessageDecoder.for_peers().decode(encode(word))
    with pytest.raises(MessageError, match="does not read"):
        MessageDecoder.for_peers().decode(encode(["pool.praise", 7])[:-1])
