"""Messages made of the messages' own types, with every field out of bounds.

What is new tomorrow is made, too.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any, get_args

import msgspec
from msgspec import inspect

NUMBERS = (
    0,
    1,
    2,
    3,
    100,
    65_535,
    2**31,
    2**40,
    2**62,
    2**63 - 1,
    -1,
    -(2**31),
    -(2**63),
    2**64 - 1,
)
NAMES = ("q", "p", "a.b", "n1", "n9", "", "q" * 64, "q" * 65, "a\0b", "a/b", "é" * 40, "n1/1/1")
EDGES = tuple(struct.pack("<3i", *one) for one in ((0, 1, 2), (0, 9, 1), (-1, 2**31 - 1, -(2**31))))
BYTES = (
    b"",
    bytes(4),
    *EDGES,
    b"\x81\xa1k\xa1v",
    b"\x91" * 500,
    b"\xdd\xff\xff\xff\xff",
    bytes(900),
)
FEW = (0, 0, 1, 1, 2, 3, 300)


class Malice:
    """Makes messages; what it hears, it takes up: lives, tokens and positions."""

    def __init__(self, seed: int, kinds: Any, names: Sequence[str] = NAMES) -> None:
        self.chance = Random(seed)
        self._names = tuple(names)
        self._heard: list[Any] = []
        self._kinds = [one for kind in get_args(kinds) for one in _structs(kind)]

    def body(self) -> Any:
        """One, as plain values."""
        return self._made(self.chance.choice(self._kinds))

    def mutated(self, plain: Any) -> Any:
        """Plain values of a message, one of which is another."""
        if isinstance(plain, list) and plain:
            at = self.chance.randrange(len(plain))
            if self.chance.random() < 0.1:
                return plain[:at] + plain[at + 1 :]
            if self.chance.random() < 0.1:
                return [*plain, plain[at]]
            return [*plain[:at], self.mutated(plain[at]), *plain[at + 1 :]]
        if isinstance(plain, dict) and plain:
            key = self.chance.choice(sorted(plain))
            return {**plain, key: self.mutated(plain[key])}
        if isinstance(plain, bool):
            return not plain
        if isinstance(plain, int):
            near = plain + self.chance.choice((-1, 1, 2, 1 << 12, 1 << 20, -(1 << 12)))
            return near if self.chance.random() < 0.4 else self._one_of(NUMBERS, int)
        if isinstance(plain, str):
            return self._one_of(self._names, str)
        if isinstance(plain, bytes):
            return self._packed(plain) or self.chance.choice((*BYTES, plain[: len(plain) // 2]))
        return self.chance.choice((None, 0, "q", [], plain))

    def _packed(self, plain: bytes) -> bytes:
        """What is packed in bytes, changed, as half of all; nothing where nothing is."""
        if self.chance.random() < 0.5:
            with suppress(ValueError, TypeError, OverflowError):
                return msgspec.msgpack.encode(self.mutated(msgspec.msgpack.decode(plain)))
        return b""

    def heard(self, told: Any) -> None:
        """Takes up the numbers and names of an answer."""
        if isinstance(told, int | str) and not isinstance(told, bool) and told != "mine":
            self._heard = [*self._heard[-500:], told]
        elif isinstance(told, list | tuple):
            for one in told[:20]:
                self.heard(one)

    def _made(self, kind: Any, depth: int = 0) -> Any:
        if isinstance(kind, inspect.Metadata):
            kind = kind.type
        match kind:
            case inspect.StructType():
                fields = [self._made(one.type, depth + 1) for one in kind.fields]
                return fields if kind.tag is None else [kind.tag, *fields]
            case inspect.UnionType():
                return self._made(self.chance.choice(kind.types), depth)
            case inspect.VarTupleType():
                few = self.chance.choice(FEW if depth < 4 else FEW[:4])
                some = [self._made(kind.item_type, depth + 1) for _ in range(min(few, 9))]
                return [self.chance.choice(some) for _ in range(few)]
            case inspect.TupleType():
                return [self._made(one, depth + 1) for one in kind.item_types]
            case inspect.IntType():
                return self._number(kind)
            case inspect.StrType():
                return self._one_of(self._names, str)
            case inspect.BytesType():
                return self.chance.choice(BYTES)
            case inspect.FloatType():
                return self.chance.choice((0.0, 0.5, 1.0))
            case inspect.BoolType():
                return self.chance.random() < 0.5
            case inspect.EnumType():
                return self.chance.choice([one.value for one in kind.cls])
            case inspect.DictType():
                return {}
            case inspect.NoneType():
                return None
        raise AssertionError(kind)

    def _number(self, kind: inspect.IntType) -> int:
        number: int = self._one_of(NUMBERS, int)
        lowest = -(2**63) if kind.ge is None else kind.ge
        highest = 2**64 - 1 if kind.le is None else kind.le
        return max(lowest, min(number, highest if kind.lt is None else kind.lt - 1))

    def _one_of(self, usual: tuple[Any, ...], kind: type) -> Any:
        known = [one for one in self._heard if type(one) is kind]
        return self.chance.choice(known if known and self.chance.random() < 0.4 else usual)


def _structs(kind: Any) -> Iterator[inspect.Type]:
    for one in get_args(kind) or (kind,):
        yield inspect.type_info(one)
