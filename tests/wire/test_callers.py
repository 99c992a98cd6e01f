"""What a client sends is read as a call, and millions of tiny things are not unpacked at all."""

import msgspec
import pytest

from snowmelt.core.batch import Batch
from snowmelt.core.errors import MessageError
from snowmelt.core.interval import Interval
from snowmelt.protocols.calling import Call
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.messages.words import NOTHING, Bring
from snowmelt.wire.codec import CALL_BYTES_MAX, MessageDecoder, encode

MANY = b"\xdd\x00\xff\xff\xff"
"""Sixteen million of something follow, says msgpack; nothing does."""
CALLERS = MessageDecoder.for_callers()


def promising(request: msgspec.Struct, field: int) -> bytes:
    """A call whose field says that millions follow, and ends there."""
    values = [encode(value) for value in (request.__struct_config__.tag, *fields(request))]
    head = b"\x93\xa4call\x01" + bytes([0x90 + len(values)])
    return head + b"".join(values[:field]) + MANY


def fields(request: msgspec.Struct) -> list[object]:
    return [getattr(request, name) for name in request.__struct_fields__]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (calls.Settle("q", 1), 3),
        (calls.Settle("q", 1), 4),
        (calls.PublishStaged("q", "p", 1, ()), 4),
        (calls.Plan("q", "p", 1, ()), 4),
    ],
)
def test_a_list_that_is_too_long_is_refused_before_it_is_unpacked(
    request_: msgspec.Struct, field: int
) -> None:
    with pytest.raises(MessageError, match="of length <= "):
        CALLERS.decode(promising(request_, field))


def test_what_is_between_nodes_is_not_unpacked_for_a_client() -> None:
    bring = Bring("q", 1, "n1/1", NOTHING, 0)
    assert MessageDecoder.for_nodes().decode(encode(bring)) == bring
    with pytest.raises(MessageError):
        CALLERS.decode(encode(bring))


def test_only_calls_with_bodies_may_be_large() -> None:
    batch = Batch.of([bytes(CALL_BYTES_MAX)])
    put = Call(1, calls.Put("q", "p", 1, bytes(batch.offsets), bytes(batch.blob)))
    assert CALLERS.decode(encode(put)) == put
    settle = calls.Settle("q", 1, (Interval(0, 1),), reason="x" * CALL_BYTES_MAX)
    with pytest.raises(MessageError, match=f"has {CALL_BYTES_MAX} at most"):
        CALLERS.decode(encode(Call(1, settle)))
