"""The homes that a coordinator decided on, and where they are kept: on its disk, or in etcd.

On a disk each stands twice, since losing one would lose a queue. In etcd they are records of the
cluster, and who leads is told them when it begins (`membership.facts`).
"""

from collections.abc import Callable
from typing import Final

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.core.node import Halt, Send, Started
from snowmelt.core.record import Write
from snowmelt.protocols.membership import KeepRecord, Leads, RecordsKept
from snowmelt.protocols.membership.records import HOMES
from snowmelt.protocols.queue.desk import Desk
from snowmelt.protocols.queue.messages import Home
from snowmelt.protocols.queue.rescuing import FIRST_TERM
from snowmelt.protocols.queue.words import Kept

FIRST_IN_ETCD: Final = "/first"
"""Beside the homes in etcd, under a name that no queue may have: `first_term`."""


class Homes:
    """What is known of every queue's home, and what is on its way to be kept.

    `decided` is done with each home that is kept, and with whom else to tell of it.
    """

    def __init__(
        self, desk: Desk, decided: Callable[[Home, NodeId | None], None], *, on_disk: bool
    ) -> None:
        self.on_disk = on_disk
        self.known: dict[str, Home] = {}
        self.asleep: dict[str, None] = {}
        """Whose home is not active: they are told again, and no other costs a tick anything."""
        self.first_term = 1
        """With which a new queue begins (`rescuing.py`, rule 6)."""
        self.busy: dict[str, int] = {}
        """By queue, the term of the home that is to be kept."""
        self._desk = desk
        self._decided = decided
        self._tickets = 0
        self._asked: dict[int, tuple[Home, NodeId | None]] = {}
        """By ticket, what etcd was asked to keep."""

    def begin(self, started: Started) -> None:
        """From the disk."""
        if not self.on_disk:
            return
        for record in started.records:
            if record.key in FIRST_TERM:
                self.first_term = msgspec.msgpack.decode(record.value, type=int)
            if record.key[:1] in (b"h", b"i"):
                self._have(msgspec.msgpack.decode(record.value, type=Home))
        for hurt in started.damaged:
            if hurt[:1] in (b"h", b"i") and hurt[1:].decode() not in self.known:
                text = f"where queue {hurt[1:].decode()!r} is at home can't be read on this disk"
                self._desk.effect(Halt(text))

    def lead(self, leads: Leads) -> None:
        """From etcd."""
        for name, kept in leads.homes:
            if name == FIRST_IN_ETCD:
                self.first_term = msgspec.msgpack.decode(kept, type=int)
            else:
                self._have(msgspec.msgpack.decode(kept, type=Home))

    def forget(self) -> None:
        """Others decide: what is known here may be old."""
        for known in (self.known, self.asleep, self.busy, self._asked):
            known.clear()

    def keep(self, home: Home, also: NodeId | None = None) -> None:
        """A home is decided on: it is told when it is kept, and not before (registry, rule 1)."""
        self.busy[home.queue] = home.term
        value = msgspec.msgpack.encode(home)
        if self.on_disk:
            name = home.queue.encode()
            both = Write(b"h" + name, value), Write(b"i" + name, value)
            self._desk.write(both, Kept(home, also))
        else:
            self._tickets += 1
            self._asked[self._tickets] = home, also
            record = KeepRecord(self._tickets, HOMES + home.queue, value)
            self._desk.effect(Send(self._desk.me, record))

    def kept(self, kept: RecordsKept | Kept) -> None:
        if isinstance(kept, Kept):
            self._is_kept(kept.home, kept.also)
            return
        for ticket in kept.tickets:
            asked = self._asked.pop(ticket, None)
            if asked is not None:  # else it was asked for when this node led before
                self._is_kept(*asked)

    def _is_kept(self, home: Home, also: NodeId | None) -> None:
        del self.busy[home.queue]
        self._have(home)
        self._decided(home, also)

    def _have(self, home: Home) -> None:
        self.known[home.queue] = home
        if home.active:
            self.asleep.pop(home.queue, None)
        else:
            self.asleep[home.queue] = None
