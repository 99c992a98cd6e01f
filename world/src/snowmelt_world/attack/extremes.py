"""Messages in which one field is at an extreme, and all others are as they should be.

>>> from snowmelt.protocols.baton.calls import Acquire
>>> struct = inspect.type_info(Acquire)
>>> valid(struct)
['baton.acquire', 'attack.q', 1, 1]
>>> next(each_field(struct))
['baton.acquire', '', 1, 1]
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import inspect

from snowmelt_world.attack.setting import OWN_PREFIX

NAME: Final = OWN_PREFIX + "q"
LONG: Final = 64 << 10
"""Of text, bytes and tuples for which no type says how long they may be."""
MANY: Final = 2_000
WRONG: Final[tuple[Any, ...]] = (None, "x", -1, 1.5, [], {}, b"x", True)
"""One of these is of a wrong type, whatever the field is."""
NUMBERS: Final = (0, 1, -1, 2**31, 2**62, 2**63 - 1, -(2**63), 2**64 - 1)
FLOATS: Final = (0.0, -1.0, 1e308, float("inf"), float("-inf"), float("nan"))
TEXTS: Final = ("", "a\0b", "a/b", "\x1b[2J", "é" * 40, "n1", "\U0001f43c" * 25)


def structs(kind: Any) -> list[inspect.StructType]:
    """All messages of a union; those of a call one by one."""
    found = inspect.type_info(kind)
    some = found.types if isinstance(found, inspect.UnionType) else (found,)
    return [one for one in some if isinstance(one, inspect.StructType)]


def valid(kind: inspect.Type, depth: int = 0) -> Any:
    """Plain values that read as this type."""
    kind = _bare(kind)
    match kind:
        case inspect.StructType():
            return _whole(kind, [_field(one, depth + 1) for one in kind.fields])
        case inspect.UnionType():
            return valid(kind.types[0], depth)
        case inspect.VarTupleType() | inspect.ListType():
            least = kind.min_length or 0
            return [valid(kind.item_type, depth + 1) for _ in range(max(least, int(depth < 3)))]
        case inspect.TupleType():
            return [valid(one, depth + 1) for one in kind.item_types]
        case inspect.IntType():
            return min(max(1, kind.ge or 0), kind.le if kind.le is not None else 1)
        case inspect.StrType():
            return _sized(NAME, kind.min_length, kind.max_length, "a")
        case inspect.BytesType():
            return _sized(b"\0" * 4, kind.min_length, kind.max_length, b"\0")
        case inspect.EnumType():
            return next(iter(kind.cls)).value
        case inspect.LiteralType():
            return kind.values[0]
    return _plain(kind)


def _bare(kind: inspect.Type) -> inspect.Type:
    """Without what only readers of the type are told."""
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _field(field: inspect.Field, depth: int) -> Any:
    """What it is when nobody says, or a value of its type."""
    if field.default is not msgspec.NODEFAULT and field.default not in (None, ""):
        return msgspec.to_builtins(field.default, builtin_types=(bytes,))
    return valid(field.type, depth)


def _plain(kind: inspect.Type) -> Any:
    match kind:
        case inspect.FloatType():
            return 0.5
        case inspect.BoolType():
            return False
        case inspect.NoneType():
            return None
        case inspect.DictType():
            return {}
    raise AssertionError(f"no value is known for {kind}")


def each_field(kind: inspect.StructType) -> Iterator[Any]:
    """The message once for each extreme of each field."""
    fields = [_field(one, 1) for one in kind.fields]
    for at, one in enumerate(kind.fields):
        for value in extremes(one.type):
            yield _whole(kind, [*fields[:at], value, *fields[at + 1 :]])
    for short in range(len(fields)):
        yield _whole(kind, fields[:short])


def extremes(kind: inspect.Type, depth: int = 1) -> Iterator[Any]:
    """Least, most, one beyond each, empty, longest, and what is of another type."""
    kind = _bare(kind)
    match kind:
        case inspect.VarTupleType() | inspect.ListType():
            yield from _tuples(kind, depth)
        case inspect.StructType() if depth < 4:
            fields = [_field(one, depth + 1) for one in kind.fields]
            for at, one in enumerate(kind.fields):
                for value in extremes(one.type, depth + 1):
                    yield _whole(kind, [*fields[:at], value, *fields[at + 1 :]])
        case inspect.TupleType() if depth < 4:
            items = [valid(one, depth + 1) for one in kind.item_types]
            for at, item in enumerate(kind.item_types):
                for value in extremes(item, depth + 1):
                    yield [*items[:at], value, *items[at + 1 :]]
        case inspect.UnionType():
            for some in kind.types:
                yield from extremes(some, depth + 1)
            return  # its members yield what is of a wrong type
    yield from _simple(kind)
    yield from WRONG


def _simple(kind: inspect.Type) -> Iterator[Any]:
    match kind:
        case inspect.IntType():
            edges = [one for one in (kind.ge, kind.le) if one is not None]
            yield from (near for edge in edges for near in (edge - 1, edge, edge + 1))
            yield from NUMBERS
        case inspect.FloatType():
            yield from FLOATS
        case inspect.StrType():
            yield from TEXTS
            yield from _lengths("a", kind.min_length, kind.max_length)
        case inspect.BytesType():
            yield from _lengths(b"\xff", kind.min_length, kind.max_length)
        case inspect.EnumType():
            yield from (one.value for one in kind.cls)


def _tuples(kind: inspect.VarTupleType | inspect.ListType, depth: int) -> Iterator[Any]:
    one = valid(kind.item_type, depth + 1)
    for most in _lengths_of(kind.min_length, kind.max_length, MANY):
        yield [one] * min(most, MANY)
    if depth < 4:
        for value in extremes(kind.item_type, depth + 1):
            yield [value]
            yield [one, value]


def _lengths(one: Any, least: int | None, most: int | None) -> Iterator[Any]:
    for length in _lengths_of(least, most, LONG):
        yield one * min(length, LONG)


def _lengths_of(least: int | None, most: int | None, long: int) -> list[int]:
    """Empty, the least, the longest, and one beyond each."""
    found = {0, max(0, (least or 0) - 1), least or 0}
    return sorted(found | ({long} if most is None else {most, most + 1}))


def _sized(value: Any, least: int | None, most: int | None, filler: Any) -> Any:
    value += filler * max(0, (least or 0) - len(value))
    return value if most is None else value[:most]


def _whole(kind: inspect.StructType, fields: list[Any]) -> Any:
    if kind.array_like:
        return fields if kind.tag is None else [kind.tag, *fields]
    named = {one.encode_name: value for one, value in zip(kind.fields, fields, strict=False)}
    return named if kind.tag is None else {kind.tag_field: kind.tag, **named}
