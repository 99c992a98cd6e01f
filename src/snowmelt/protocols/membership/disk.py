"""What membership keeps on a node's disk: who this node is, its last view, and the ledger.

The first and the last are written twice, side by side in one atomic step, because a single flipped
bit in either would end a node, or the whole cluster; whichever copy reads well is taken.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from snowmelt.core.node import Started
from snowmelt.core.record import Change, Write
from snowmelt.protocols.membership.view import Ledger, View

SELF: Final = b"self"
VIEW: Final = b"view"
LEDGER: Final = b"ledger"
MOVED: Final = b"moved"
"""On a disk that decided, and from which the cluster went to etcd: where it is."""
_COPIES: Final = (b"", b".copy")

T = TypeVar("T")


class Self(msgspec.Struct, frozen=True):
    """Who this node is, for as long as it has this disk."""

    id: str
    birth: int
    start: int


class Kept(msgspec.Struct, frozen=True):
    """What a node finds when it starts."""

    self: Self | None
    view: View | None
    ledger: Ledger | None
    moved: str = ""


class Unreadable(Exception):
    """Every copy of a record is gone that the node can't be without."""


def twice(key: bytes, value: bytes) -> tuple[Change, ...]:
    """Writes both copies."""
    return tuple(Write(key + suffix, value) for suffix in _COPIES)


def kept(started: Started) -> Kept:
    """Reads what the disk brought back; raises `Unreadable` when it hurts too much to go on."""
    return Kept(
        self=_either(started, SELF, lambda value: msgspec.msgpack.decode(value, type=Self)),
        view=_either(started, VIEW, lambda value: msgspec.msgpack.decode(value, type=View)),
        ledger=_either(started, LEDGER, Ledger.read),
        moved=_either(started, MOVED, bytes.decode) or "",
    )


def _either(started: Started, key: bytes, read: Callable[[bytes], T]) -> T | None:
    names = [key + suffix for suffix in _COPIES]
    hurt = any(name in started.damaged for name in names)
    for record in started.records:
        if record.key in names:
            try:
                return read(record.value)
            except ValueError:  # msgspec's errors are ValueErrors too
                hurt = True  # it is there, but this program can't read it
    if hurt and key != VIEW:  # a lost view is fetched again; the other two have no other source
        raise Unreadable(f"the record {key.decode()!r} of this node's disk can't be read")
    return None
