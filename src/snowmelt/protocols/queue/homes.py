"""The homes that a coordinator decided on, and where they are kept: on its disk, or in etcd.

On a disk each stands twice, since losing one would lose a queue. In etcd they are records of the
cluster, and who leads is told them when it begins (`membership.facts`).
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.core.node import Halt, Send, Started
from snowmelt.core.record import Change, Write, erase
from snowmelt.protocols.membership import KeepRecord, Leads, RecordsKept
from snowmelt.protocols.membership.records import HOMES
from snowmelt.protocols.queue.messages import Assignment
from snowmelt.protocols.queue.next_homes import next_home
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.parted.names import part_name, whole_of
from snowmelt.protocols.queue.rescuing import FIRST_TERM
from snowmelt.protocols.queue.streams import Presence
from snowmelt.protocols.queue.words import AssignmentStored

FIRST_IN_ETCD: Final = "/first"
"""Beside the homes in etcd, under a name that no queue may have: `first_term`."""
FLOOR: Final = (b"n", b"o")
"""The records, twice, of `floor`; it is `first_term` where there is none."""
FLOOR_IN_ETCD: Final = "/floor"


class Homes:
    """What is known of every queue's home, and what is on its way to be kept.

    `decided` is done with each home that is kept, with whom else to tell of it, and with the last.
    """

    def __init__(
        self,
        outbox: Outbox,
        decided: Callable[[Assignment, NodeId | None, Assignment | None], None],
        *,
        on_disk: bool,
    ) -> None:
        self.on_disk = on_disk
        self.known: dict[str, Assignment] = {}
        self.asleep: dict[str, None] = {}
        """Whose home is not active: they are told again, and no other costs a tick anything."""
        self.graves: dict[str, Assignment] = {}
        """Of queues that were deleted (`deleting.py`)."""
        self.first_term = 1
        """With which the first queues began (`rescuing.py`, rule 7)."""
        self.floor = 1
        """With which a new queue begins (`deleting.py`, rule 6)."""
        self.floors: dict[str, int] = {}
        """The latest terms that others have met and that are not known here."""
        self.leads = on_disk
        """Whether homes are for this node to decide on, if it is the coordinator (rule 7)."""
        self.decides = False
        """Whether all who were here when this coordinator began have told what they keep."""
        self.busy: dict[str, int] = {}
        """By queue, the term of the home that is to be kept."""
        self._outbox = outbox
        self._decided = decided
        self._tickets = 0
        self._with: tuple[Change, ...] = ()
        """What goes to the disk with the next home."""
        self._asked: dict[int, tuple[Assignment, NodeId | None]] = {}
        """By ticket, what etcd was asked to keep."""

    @property
    def presence(self) -> Presence | None:
        """Who is here, if it is for this node to decide."""
        presence = self._outbox.presence
        if presence is None or presence.view.coordinator != self._outbox.me or not self.leads:
            return None
        return presence

    def next_term(self, queue: str) -> int:
        """The next of a queue: above all that anybody can have met.

        One of several partitions is known by the first of them. So it is above one without, too,
        that had its name, and the other way round.
        """
        known = self.known.get(queue) or self.graves.get(queue)
        met = self.floor - 1 if known is None else known.term
        whole = whole_of(queue)
        named = [
            self.graves[one].term for one in (whole, part_name(whole, 0)) if one in self.graves
        ]
        return max(met, self.floors.get(queue, 0), *named) + 1

    def may_change(self, home: Assignment) -> bool:
        """Whether its next home can be decided on now."""
        return self.decides and home.queue not in self.busy

    def begin(self, started: Started) -> None:
        if not self.on_disk:
            return
        for record in started.records:
            if record.key in FIRST_TERM:
                self.first_term = msgspec.msgpack.decode(record.value, type=int)
            if record.key in FLOOR:
                self.floor = msgspec.msgpack.decode(record.value, type=int)
            if record.key[:1] in (b"h", b"i"):
                self._have(msgspec.msgpack.decode(record.value, type=Assignment))
        there = self.known | self.graves
        for hurt in started.damaged:
            if hurt[:1] in (b"h", b"i") and hurt[1:].decode() not in there:
                text = f"where queue {hurt[1:].decode()!r} is at home can't be read on this disk"
                self._outbox.effect(Halt(text))
        self.floor = max(self.floor, self.first_term)

    def lead(self, leads: Leads) -> None:
        self.leads = True
        for name, kept in leads.homes:
            if name == FIRST_IN_ETCD:
                self.first_term = msgspec.msgpack.decode(kept, type=int)
            elif name == FLOOR_IN_ETCD:
                self.floor = msgspec.msgpack.decode(kept, type=int)
            else:
                self._have(msgspec.msgpack.decode(kept, type=Assignment))
        self.floor = max(self.floor, self.first_term)

    def forget(self) -> None:
        """Others decide: what is known here may be old."""
        self.leads = self.decides = False
        met = self.asleep, self.busy, self._asked, self.floors
        for known in (self.known, self.graves, *met):
            known.clear()

    def renew(
        self,
        home: Assignment,
        master: str,
        mirrors: tuple[str, ...],
        run: str,
        altered: Assignment | None = None,
    ) -> None:
        """The home of the next term."""
        term = max(home.term, self.floors.pop(home.queue, 0)) + 1
        self.keep(next_home(home, term, master, mirrors, run, altered or home))

    def keep(self, home: Assignment, also: NodeId | None = None) -> None:
        """A home is decided on: it is told when it is kept, and not before (controller, rule 1)."""
        self.busy[home.queue] = home.term
        value = msgspec.msgpack.encode(home)
        if self.on_disk:
            name = home.queue.encode()
            both = Write(b"h" + name, value), Write(b"i" + name, value)
            self._outbox.write((*both, *self._with), AssignmentStored(home, also))
            self._with = ()
        else:
            self._ask(home.queue, value)
            self._asked[self._tickets] = home, also

    def _ask(self, name: str, value: bytes) -> None:
        self._tickets += 1
        record = KeepRecord(self._tickets, HOMES + name, value)
        self._outbox.effect(Send(self._outbox.me, record))

    def forget_graves(self, queues: Iterable[str]) -> None:
        """New queues begin above them all: that is kept first, and with the next home."""
        gone = {queue: self.graves.pop(queue) for queue in queues}
        self.floor = max([self.floor, *[one.term + 1 for one in gone.values()]])
        value = msgspec.msgpack.encode(self.floor)
        if self.on_disk:
            keys = [kind + queue.encode() for queue in gone for kind in (b"h", b"i")]
            self._with = *[Write(key, value) for key in FLOOR], *[erase(key) for key in keys]
            return
        self._ask(FLOOR_IN_ETCD, value)
        for queue in gone:
            self._ask(queue, b"")

    def kept(self, kept: RecordsKept | AssignmentStored) -> None:
        if isinstance(kept, AssignmentStored):
            self._is_kept(kept.home, kept.also)
            return
        for ticket in kept.tickets:
            asked = self._asked.pop(ticket, None)
            if asked is not None:  # else it was asked for when this node led before
                self._is_kept(*asked)

    def _is_kept(self, home: Assignment, also: NodeId | None) -> None:
        del self.busy[home.queue]
        last = self.known.get(home.queue)
        self._have(home)
        self._decided(home, also, last)

    def _have(self, home: Assignment) -> None:
        if home.end is not None:
            self.known.pop(home.queue, None)
            self.asleep.pop(home.queue, None)
            self.floors.pop(home.queue, None)
            self.graves[home.queue] = home
            return
        self.graves.pop(home.queue, None)
        self.known[home.queue] = home
        if home.active:
            self.asleep.pop(home.queue, None)
        else:
            self.asleep[home.queue] = None
