"""The roll: which queues this node knows, on its disk, and where etcd decides, in etcd.

On a disk each stands twice: without it all that is in the queue would be of none. Who leads is told
what etcd has, and from `Leads` to `LeadsNoMore` has it keep all that it knows besides (`queues.py`,
rule 6). What it had asked for when it leads no more it asks for again when it does.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from snowmelt.core.node import Send
from snowmelt.core.record import Change, Write
from snowmelt.protocols.membership import KeepRecord, Leads, LeadsNoMore, RecordsKept
from snowmelt.protocols.membership.records import QUEUES
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.settings import Registered
from snowmelt.protocols.priority.writing import Part

SETTINGS: Final = b"s/", b"t/"
"""Under which keys each stands on a disk."""
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(Registered).decode


class Roll:
    """What one node knows of queues, and who else has it if this node is lost."""

    def __init__(self, desk: Desk, *, on_disk: bool) -> None:
        self.known: dict[str, Registered] = {}
        """The settings of each, and since when they are known to all (`queues.py`, rule 3)."""
        self._desk = desk
        self._unwritten: dict[str, None] = {}
        self._number = 0
        self._noted: dict[int, str] = {}
        """Which queue is noted down under which number, in whatever view that was."""
        self._unsafe: dict[str, int] = {}
        """What is not on the disk yet, and the last of these numbers."""
        self._on_disk = on_disk
        """Whether a coordinator has but its disk: then it is in every view, and knows all."""
        self._leads = False
        self._there: dict[str, Registered] = {}
        """What etcd has while this node leads, or was asked to have."""
        self._tickets = 0
        self._asked: dict[int, str] = {}
        """Which queue it was asked to keep under which ticket."""
        self._lacks: dict[str, int] = {}
        """What it does not have yet, and the last of these tickets."""

    # --- the disk ---------------------------------------------------------------------------------

    def restore(self, values: Iterable[bytes]) -> None:
        """The queues on the disk, each twice; what is hurt in one place is written anew."""
        for value, count in Counter(values).items():
            one = _DECODE(value)
            self.known[one.queue] = one
            if count < len(SETTINGS):
                self._unwritten[one.queue] = None

    def changes(self) -> list[Change]:
        if not self._unwritten:
            return []
        new, self._unwritten = self._unwritten, {}
        known = [self.known[name] for name in new]
        return [Write(key + one.queue.encode(), _ENCODE(one)) for one in known for key in SETTINGS]

    def note_down(self, one: Registered) -> None:
        """This is known, and is to be kept."""
        self.known[one.queue] = one
        self._unwritten[one.queue] = None
        number = self.await_flush()
        self._noted[number], self._unsafe[one.queue] = one.queue, number
        self._keep(one)

    def await_flush(self) -> int:
        """Under this number it is told that what has been noted down until now is on the disk."""
        self._number += 1
        self._desk.await_flush(Part.QUEUES, "", self._number)
        return self._number

    def written(self, number: int) -> str:
        """It is; the name of the queue that is safe by this, or nothing."""
        noted = self._noted.pop(number, "")
        if self._unsafe.get(noted) != number:
            return ""
        del self._unsafe[noted]
        return noted

    def is_safe(self, name: str) -> bool:
        """Whether what is known of a queue is on this node's disk."""
        return name not in self._unsafe

    # --- etcd -------------------------------------------------------------------------------------

    def told(self, fact: Leads | LeadsNoMore | RecordsKept) -> list[str]:
        """Of etcd: what it has, that it hears this node no more, or what it keeps now.

        Returns the queues that it has and may have lacked before.
        """
        if isinstance(fact, RecordsKept):
            asked = ((self._asked.pop(ticket, ""), ticket) for ticket in fact.queues)
            kept = [name for name, ticket in asked if self._lacks.get(name) == ticket]
            for name in kept:
                del self._lacks[name]
            return kept
        self._leads = isinstance(fact, Leads)
        self._there, self._asked, self._lacks = {}, {}, {}
        if isinstance(fact, Leads):
            self._there = dict(self._read(fact.queues))
            for one in self.known.values():
                self._keep(one)
        return list(self._there)

    @property
    def is_heard(self) -> bool:
        """Whether who coordinates is here, and has heard what etcd has if it is this node."""
        view = self._desk.view
        if self._on_disk or view is None:
            return True
        return self._leads if self._vouches else view.member(view.coordinator) is not None

    @property
    def all(self) -> tuple[Registered, ...]:
        """What it knows, and what etcd has besides."""
        besides = [one for name, one in self._there.items() if self.known.get(name) != one]
        return (*self.known.values(), *besides)

    def is_kept(self, name: str = "") -> bool:
        """Whether who coordinates next knows this queue, or all, too, whichever node that is."""
        lacks = name in self._lacks if name else bool(self._lacks)
        return not self._vouches or (self._leads and not lacks)

    @property
    def _vouches(self) -> bool:
        """Whether this node coordinates, and others have what etcd has from it alone."""
        view = self._desk.view
        return not self._on_disk and view is not None and view.coordinator == self._desk.me

    def _read(self, rows: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, Registered]]:
        for name, value in rows:
            try:
                one = _DECODE(value)
            except ValueError as error:  # members that have it know better
                self._desk.note(f"priority queue {name} can't be read in etcd: {error}")
                continue
            if one.queue == name:
                yield name, one
            else:
                self._desk.note(f"priority queue {name} can't be read in etcd: it is {one.queue}")

    def _keep(self, one: Registered) -> None:
        """Has etcd keep this, unless what it has counts as much, or more.

        Of the same settings it does not matter there since when all know them: whoever leads has
        them from there, so nobody makes others.
        """
        there = self._there.get(one.queue)
        alike = there is not None and (there.rank < one.rank or there.settings == one.settings)
        if alike or not self._leads:
            return
        self._there[one.queue] = one
        self._tickets += 1
        self._asked[self._tickets], self._lacks[one.queue] = one.queue, self._tickets
        record = KeepRecord(self._tickets, QUEUES + one.queue, _ENCODE(one))
        self._desk.effect(Send(self._desk.me, record))
