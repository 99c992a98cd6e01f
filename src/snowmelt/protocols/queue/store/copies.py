"""All copies of a node, and what is at hand of their bodies: what its parts share."""

from collections.abc import Iterator
from typing import Final

from snowmelt.core.errors import StoreDamaged, StoreVersion
from snowmelt.core.node import Halt, Started
from snowmelt.core.record import Change, erase
from snowmelt.protocols.queue.messages import home_words
from snowmelt.protocols.queue.messages.words import Head, Undo
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.store.bodies import Bodies
from snowmelt.protocols.queue.store.copy import COPY, RECORD, TWIN, Copy, kept_in
from snowmelt.protocols.queue.store.send_window import SendWindow
from snowmelt.protocols.queue.store.write_queue import WriteQueue

MARKS_MOST: Final = 2_000
"""Of so many queues at most a node knows that they were deleted."""


class Copies:
    """All copies of queues on one node, by the queue's name."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.disk = WriteQueue()
        self.ways = SendWindow(outbox.limits.way_bytes)
        self.bodies = Bodies(outbox.limits.recent_bytes)
        self._copies: dict[str, Copy] = {}

    def __iter__(self) -> Iterator[str]:
        copies = self._copies.items()
        return iter([queue for queue, copy in copies if not (copy.deleted or copy.left)])

    def of(self, queue: str) -> Copy:
        """The one of a queue; an empty one where there was none."""
        if queue not in self._copies:
            self._copies[queue] = Copy(queue)
        return self._copies[queue]

    def gives_up(self, queue: str) -> bool:
        """Whether a copy is none for now, since what found no room is given up (`copy.py`, 6)."""
        copy, disk = self.of(queue), self.disk
        if not copy.undoing and disk.has_stuck(queue) and not copy.lingers:
            disk.give_up(queue)
            copy.undoing = True
            self.outbox.inside.append(Undo(queue, copy.where()[0], []))
        return copy.undoing

    def known(self, queue: str) -> Copy | None:
        return self._copies.get(queue)

    def erase(self, queue: str, term: int) -> tuple[Change, ...]:
        """The queue was deleted by this term. Of the last so many that is written down."""
        changes, copies = self.of(queue).erase(term), self._copies
        copies[queue] = copies.pop(queue)
        old = [name for name, copy in copies.items() if copy.deleted][:-MARKS_MOST]
        for name in old:
            del copies[name]
            changes += erase(COPY + name.encode()), erase(TWIN + name.encode())
        return changes

    def begin(self, started: Started) -> None:
        told: dict[bytes, None] = {}
        hurt: dict[bytes, None] = {}
        for record in started.records:
            kind, rest = record.key[:1], record.key[1:]
            if kind in (COPY, TWIN):
                (told if self._restore(rest.decode(), record.value) else hurt)[rest] = None
            elif kind == RECORD:
                name, _, key = rest.partition(b"\0")
                self.of(name.decode()).records[key] = record.value
        hurt |= dict.fromkeys([key[1:] for key in started.damaged if key[:1] in (COPY, TWIN)])
        hurt = {name: None for name in hurt if name not in told}
        parts = [key[1:] for key in started.damaged if key[:1] == RECORD]
        for name in {**hurt, **dict.fromkeys([part.partition(b"\0")[0] for part in parts])}:
            self.of(name.decode()).whole = False
            self.outbox.note(f"a record of {name.decode()} can't be read: its copy is none")
        for copy in self._copies.values():
            if not copy.left and copy.home is not None and copy.home.settings.linger:
                copy.reach = Head(copy.fence + 1, 0)

    def _restore(self, queue: str, value: bytes) -> bool:
        """Whether it can be read."""
        try:
            self.of(queue).restore(kept_in(queue, value))
        except StoreVersion as error:
            self.outbox.effect(Halt(str(error), "StoreVersion"))
        except StoreDamaged:
            return False
        return True

    def held(self, after: str, most: int) -> tuple[tuple[home_words.CopyReport, ...], bool]:
        """What the controller asks: which copies there are, some at once, and whether of more."""
        names = sorted(name for name in self._copies if name > after)
        copies = [(name, self._copies[name]) for name in names[:most]]
        held = [
            home_words.CopyReport(name, one.fence, one.home, one.deleted, one.left)
            for name, one in copies
        ]
        return tuple(held), len(names) > most
