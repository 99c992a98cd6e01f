"""The homes that a coordinator decided on, and where they are kept: on its disk, or in etcd.

On a disk each stands twice, since losing one would lose a queue. In etcd they are records of the
cluster, and who leads is told them when it begins (`membership.facts`).

A record that can't be read stops its queue and nothing else (controller, rule 16).
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from snowmelt.core.errors import StoreDamaged
from snowmelt.core.names import NodeId
from snowmelt.core.node import Send, Started
from snowmelt.core.record import Change, Write, decoded, erase
from snowmelt.core.shares import SharesHeld
from snowmelt.protocols.membership import KeepRecord, Leads, RecordsKept
from snowmelt.protocols.membership.records import HOMES
from snowmelt.protocols.queue.api.partition_names import is_name, part_name, whole_of
from snowmelt.protocols.queue.controller.next_homes import next_home
from snowmelt.protocols.queue.controller.rescuing import FIRST_TERM, TERMS_LEFT_OUT
from snowmelt.protocols.queue.messages.home_words import Assignment, Term
from snowmelt.protocols.queue.messages.words import AssignmentStored
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.streams import Presence

FIRST_IN_ETCD: Final = "/first"
"""Beside the homes in etcd, under a name that no queue may have: `first_term`."""
FLOOR: Final = (b"n", b"o")
"""The records, twice, of `floor`; it is `first_term` where there is none."""
FLOOR_IN_ETCD: Final = "/floor"
SHOWN: Final = 100
_NUMBERS: Final = {FIRST_IN_ETCD: FIRST_TERM, FLOOR_IN_ETCD: FLOOR}


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
        self.made = SharesHeld[str]()
        """How many of those each payer had made (`creation.py`, rule 5)."""
        self.of_whole = SharesHeld[str]()
        """How many of those are of each queue: its partitions, or itself."""
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
        self.unreadable: dict[str, None] = {}
        """Queues of which it can't be read where they are at home (controller, rule 16)."""
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
        outbox = self._outbox
        return outbox.presence if self.leads and outbox.coordinator == outbox.me else None

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
        met = max(met, self.floors.get(queue, 0), *named)
        return met + 1 + (TERMS_LEFT_OUT if queue in self.unreadable else 0)

    def may_change(self, home: Assignment) -> bool:
        """Whether its next home can be decided on now."""
        return self.decides and home.queue not in self.busy

    def begin(self, started: Started) -> None:
        if not self.on_disk:
            return
        found = [(_named(record.key), record.value) for record in started.records]
        self._restore([*found, *((_named(key), None) for key in started.damaged)])

    def lead(self, leads: Leads) -> None:
        self.leads = True
        self._restore(leads.homes)

    def _restore(self, found: Iterable[tuple[str, bytes | None]]) -> None:
        """From what is kept: by name, each perhaps twice; None for what is damaged."""
        numbers, hurt = dict[str, int](), dict[str, None]()
        for name, value in found:
            try:
                if value is None:
                    hurt[name] = None
                elif name in _NUMBERS:
                    numbers[name] = decoded(value, Term)
                elif name:
                    self._have(_home(name, value))
            except StoreDamaged:
                hurt[name] = None
        self.first_term = numbers.get(FIRST_IN_ETCD, 1)
        self.floor = max(numbers.get(FLOOR_IN_ETCD, 1), self.first_term)
        if any(name in hurt and name not in numbers for name in _NUMBERS):
            self._leap()
        for name in hurt:
            if name in self.known or name in self.graves or name in _NUMBERS:
                continue
            if is_name(name):
                self.unreadable[name] = None
                self._outbox.note(self.why(name))
            elif name:
                self._outbox.note(f"{name[:SHOWN]!r} is no name of a queue: its record is left out")

    def _leap(self) -> None:
        """How late terms are can't be read: new queues begin far above all, and that is kept.

        Nothing is known then as left of a queue that was deleted but what a grave says.
        """
        there = [one.term for homes in (self.known, self.graves) for one in homes.values()]
        self.floor = self.first_term = max(self.floor, *there, 1) + TERMS_LEFT_OUT
        self._outbox.note(f"how late terms are can't be read: new queues begin at {self.floor}")
        value = msgspec.msgpack.encode(self.floor)
        if self.on_disk:
            self._with = tuple([Write(key, value) for name in _NUMBERS for key in _NUMBERS[name]])
            return
        for name in _NUMBERS:
            self._ask(name, value)

    def why(self, queue: str) -> str:
        """Why nobody knows where this queue is at home, and the way out."""
        text = f"where queue {queue!r} is at home can't be read"
        me, copies = self._outbox.me, "erase it while all who keep the queue are here"
        if self.on_disk:
            text = f"{text} on the disk of {me}: put a sound copy of that disk back, or found the"
            text = f"{text} cluster anew from its nodes' folders (snowmelt rescue)"
        else:
            text = f"{text} in etcd ({HOMES}{queue}): put that record back, or {copies};"
            text = f"{text} then restart {me}, which leads"
        return f"{text}. Or give up what is in it: snowmelt delete {whole_of(queue)} --lost"

    def unread(self, queue: str) -> str:
        """The name of a queue that can't be read and is this, of its parts, or its whole; or ""."""
        if queue in self.unreadable:
            return queue
        whole = whole_of(queue)
        return next((one for one in self.unreadable if whole_of(one) == whole), "")

    def forget(self) -> None:
        """Others decide: what is known here may be old."""
        self.leads = self.decides = False
        met = self.asleep, self.busy, self._asked, self.floors, self.unreadable
        for known in (self.known, self.graves, *met):
            known.clear()
        self.made, self.of_whole = SharesHeld(), SharesHeld()

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
        self.unreadable.pop(home.queue, None)
        last = self.known.get(home.queue)
        if last is not None:
            self.made.remove(last.maker)
            self.of_whole.remove(whole_of(home.queue))
        if home.end is not None:
            self.known.pop(home.queue, None)
            self.asleep.pop(home.queue, None)
            self.floors.pop(home.queue, None)
            self.graves[home.queue] = home
            return
        self.graves.pop(home.queue, None)
        self.known[home.queue] = home
        self.made.add(home.maker)
        self.of_whole.add(whole_of(home.queue))
        if home.active:
            self.asleep.pop(home.queue, None)
        else:
            self.asleep[home.queue] = None


def _named(key: bytes) -> str:
    """Of which queue a record is, or which number; nothing for others."""
    numbers = [name for name, keys in _NUMBERS.items() if key in keys]
    if numbers or key[:1] not in (b"h", b"i"):
        return numbers[0] if numbers else ""
    return key[1:].decode(errors="replace")


def _home(name: str, value: bytes) -> Assignment:
    home: Assignment = decoded(value, Assignment)
    if home.queue != name or bool(home.master) == (home.end is not None):
        raise StoreDamaged("it is of another queue, or of nobody")
    return home
