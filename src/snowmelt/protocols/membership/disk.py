"""What membership keeps on a node's disk: who this node is, its last view, and the ledger.

The first and the last are written twice, side by side in one atomic step, because a single flipped
bit in either would end a node, or the whole cluster; whichever copy reads well is taken.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from snowmelt.core.errors import StoreDamaged
from snowmelt.core.node import Started
from snowmelt.core.record import Change, Write, decoded
from snowmelt.protocols.membership.view import Ledger, View

SELF: Final = b"self"
VIEW: Final = b"view"
LEDGER: Final = b"ledger"
MOVED: Final = b"moved"
"""On a disk that decided, and from which the cluster went to etcd: where it is."""
_COPIES: Final = (b"", b".copy")
KEYS: Final = tuple(key + suffix for key in (SELF, VIEW, LEDGER, MOVED) for suffix in _COPIES)

T = TypeVar("T")


class Self(msgspec.Struct, frozen=True):
    """Who this node is, for as long as it has this disk."""

    id: str
    birth: int
    start: int
    cluster: int = 0
    """Of which cluster it is, once it knows; its last view may be lost with a bad block."""


class StoredMembership(msgspec.Struct, frozen=True):
    self: Self | None
    view: View | None
    ledger: Ledger | None
    moved: str = ""

    @property
    def cluster(self) -> int:
        """Of which cluster this disk is; 0 when it is of none yet."""
        if self.ledger is not None:
            return self.ledger.view.cluster
        if self.view is not None:
            return self.view.cluster
        return 0 if self.self is None else self.self.cluster

    @property
    def id(self) -> str:
        """Of which node it is; "" when it is of none yet."""
        if self.self is not None:
            return self.self.id
        return "" if self.ledger is None else self.ledger.view.coordinator


class Unreadable(Exception):
    """Every copy of a record is gone that the node can't be without."""


def twice(key: bytes, value: bytes) -> tuple[Change, ...]:
    return tuple(Write(key + suffix, value) for suffix in _COPIES)


def kept(started: Started) -> StoredMembership:
    """Reads what the disk brought back; raises `Unreadable` when it hurts too much to go on."""
    return StoredMembership(
        self=_either(started, SELF, lambda value: decoded(value, Self)),
        view=_either(started, VIEW, lambda value: decoded(value, View)),
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
            except (StoreDamaged, UnicodeDecodeError):
                hurt = True  # it is there, but this program can't read it
    if hurt and key != VIEW:  # a lost view is fetched again; the other two have no other source
        raise Unreadable(f"the record {key.decode()!r} of this node's disk can't be read")
    return None
