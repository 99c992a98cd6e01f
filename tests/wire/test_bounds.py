"""Every field of what comes over a wire has a bound where its type is declared."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import inspect

from snowmelt.core.ahead import COUNT_MAX, MANY, Blob, Label, Number, Real, Unsigned
from snowmelt.core.errors import MessageError
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.echo import Echo
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.messages.words import Confirm
from snowmelt.runtime.limits import Limits
from snowmelt.wire import codec
from snowmelt.wire.codec import MessageDecoder, encode

WIRES = {
    "to nodes": codec._TO_NODES,
    "to clients": codec._TO_CLIENTS,
    "between processes of a pool": codec.pool_messages.Message,
}


def unbounded(union: Any) -> list[str]:
    """The fields of a union's messages that may be of any size."""
    found, seen = set[str](), set[Any]()
    left: list[tuple[str, inspect.Type]] = [("", inspect.type_info(union))]
    while left:
        where, kind = left.pop()
        if isinstance(kind, inspect.StructType):
            if kind.cls in seen:
                continue
            seen.add(kind.cls)
        if fault := _fault(kind):
            found.add(f"{where}: {fault}")
        left += _inside(where, kind)
    return sorted(found)


def _inside(where: str, kind: inspect.Type) -> Iterator[tuple[str, inspect.Type]]:
    match kind:
        case inspect.StructType(cls, fields):
            name = getattr(cls, "__name__", str(cls))
            yield from ((f"{name}.{one.name}", one.type) for one in fields)
        case inspect.UnionType(types) | inspect.TupleType(types):
            yield from ((where, one) for one in types)
        case inspect.VarTupleType() | inspect.ListType() | inspect.SetType():
            yield where, kind.item_type
        case inspect.DictType():
            yield from ((where, kind.key_type), (where, kind.value_type))
        case inspect.Metadata() if not (kind.extra or {}).get("bits"):  # `core.ahead.Unsigned`
            yield where, kind.type


def _fault(kind: inspect.Type) -> str:
    match kind:
        case inspect.VarTupleType() | inspect.ListType() | inspect.SetType() | inspect.DictType():
            return "of any length" if kind.max_length is None else ""
        case inspect.StrType() | inspect.BytesType():
            return "of any length" if kind.max_length is None else ""
        case inspect.IntType() | inspect.FloatType():
            bare = {kind.ge, kind.gt} == {None} or {kind.le, kind.lt} == {None}
            return "any number" if bare else ""
        case _:
            return "" if isinstance(kind, KNOWN) else type(kind).__name__


KNOWN: Any = (
    inspect.StructType,
    inspect.UnionType,
    inspect.TupleType,
    inspect.Metadata,
    inspect.BoolType,
    inspect.NoneType,
    inspect.EnumType,
)


@pytest.mark.parametrize("wire", WIRES)
def test_each_field_has_a_bound(wire: str) -> None:
    assert unbounded(WIRES[wire]) == []


def test_a_field_without_a_bound_is_found() -> None:
    class Inside(msgspec.Struct):
        one: tuple[Label, ...]
        two: Annotated[tuple[str, ...], MANY]
        three: dict[Label, Number]

    class Bare(msgspec.Struct):
        number: int
        half: Annotated[int, msgspec.Meta(ge=0)]
        real: float
        blob: bytes
        any_: Any
        inside: Inside | None
        fine: tuple[Number, Unsigned, Real, Blob, bool]

    assert unbounded(Bare) == [
        "Bare.any_: AnyType",
        "Bare.blob: of any length",
        "Bare.half: any number",
        "Bare.number: any number",
        "Bare.real: any number",
        "Inside.one: of any length",
        "Inside.three: of any length",
        "Inside.two: of any length",
    ]


@pytest.mark.parametrize("share", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_a_fraction_is_a_number(share: float) -> None:
    select = Call(1, calls.Select("q", 0, share))
    with pytest.raises(MessageError, match="does not read"):
        MessageDecoder.for_nodes().decode(encode(select))


def test_what_is_beyond_a_bound_becomes_no_message() -> None:
    nodes, clients = MessageDecoder.for_nodes(), MessageDecoder.for_clients()
    for ours, beyond in (
        (Call(1, calls.Describe("q" * 300)), Call(1, calls.Describe("q" * 301))),
        (Call(2**63 - 1, Echo(b"")), Call(-1, Echo(b""))),
        (Confirm("q", 1, COUNT_MAX), Confirm("q", 1, COUNT_MAX + 1)),
    ):
        assert nodes.decode(encode(ours)) == ours
        with pytest.raises(MessageError, match="does not read"):
            nodes.decode(encode(beyond))
    text = "x" * (1 << 20)
    assert clients.decode(encode(Answer(1, Declined("E", text)))).body.text == text
    with pytest.raises(MessageError, match="does not read"):
        clients.decode(encode(Answer(1, Declined("E", text + "x"))))


def test_a_blob_may_be_as_long_as_a_frame() -> None:
    (found,) = inspect.type_info(calls.Put).fields[4:5]
    assert isinstance(found.type, inspect.BytesType)
    assert found.name == "blob"
    assert found.type.max_length is not None
    assert found.type.max_length >= Limits().frame_bytes
