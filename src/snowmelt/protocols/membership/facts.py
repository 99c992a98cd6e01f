"""What membership and other machines of a node say to each other: of etcd, and of leaving."""

import msgspec

from snowmelt.core.instant import Duration, Instant


class Leaving(msgspec.Struct, frozen=True):
    """Announced: this node is to leave in order; what only it has is handed over before that."""

    until: Instant
    """Whoever has not handed all over by then says so."""


class Slept(msgspec.Struct, frozen=True):
    """Announced by a process that did nothing for so long: what it reads now waited unread."""

    late: Duration


class HandedOver(msgspec.Struct, frozen=True):
    """Announced: nobody needs what this node has; or else why it may not leave, in words."""

    refused: str = ""


class Leads(msgspec.Struct, frozen=True):
    """Announced: this node leads from now on, and this is what etcd has."""

    homes: tuple[tuple[str, bytes], ...]
    """By queue, each as it was kept."""
    batons: tuple[tuple[str, bytes], ...] = ()
    """By the rest of their keys, each as it was kept."""


class LeadsNoMore(msgspec.Struct, frozen=True):
    """Announced: what was asked to be kept and not told yet may be kept, or never."""


class RecordsKept(msgspec.Struct, frozen=True):
    """Announced: what was asked under these tickets is in etcd: of each kind its own."""

    tickets: tuple[int, ...]
    """Of homes."""
    batons: tuple[int, ...] = ()


class KeepRecord(msgspec.Struct, frozen=True, tag="membership.keep-record", array_like=True):
    """Asked of membership within a node that leads: that etcd keep this, or erase it if empty."""

    ticket: int
    key: str
    value: bytes
