"""What a node does as one who keeps copies: it writes what homes say, and lends what it has."""

from typing import Final

from snowmelt.core.names import NodeId
from snowmelt.core.record import Found
from snowmelt.protocols.priority.batches import Shares, union
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.messages import Fetch, Fetched, Follow, Followed, Spare
from snowmelt.protocols.priority.shelf import Shelf
from snowmelt.protocols.priority.spreading import NO_ROOM
from snowmelt.protocols.priority.writing import Part

LOTS_AT_ONCE: Final = 64
"""So many lots are sent in one piece."""


class Copies:
    """One queue's copies at one node, in one view."""

    def __init__(self, desk: Desk, queue: str, shelf: Shelf) -> None:
        self._desk = desk
        self._queue = queue
        self._shelf = shelf
        self._number = 0
        self._writing: dict[int, tuple[NodeId, Follow, list[int]]] = {}
        self._lending: dict[int, tuple[NodeId, Fetch, Shares]] = {}
        self.spared: Shares = ()
        """What was here in this view, and is with others now (inquiry, rule 7)."""

    def follow(self, home: NodeId, message: Follow) -> None:
        """A home did this: here too; marks first, what is void here may not be so any more."""
        self._shelf.mark(*message.marks)
        lots = [self._shelf.store(elements) for elements in message.elements]
        self._number += 1
        self._writing[self._number] = home, message, [lot for lot in lots if lot is not None]
        self._desk.await_flush(Part.COPIES, self._queue, self._number)

    def flushed(self, number: int) -> None:
        home, message, _ = self._writing.pop(number)
        self._desk.send(home, Followed(self._desk.era, self._queue, message.serial))

    def no_room(self, number: int) -> bool:
        """There is no room for it: whether that can be refused."""
        home, message, lots = self._writing[number]
        if not lots:
            return False
        del self._writing[number]
        for lot in lots:
            self._desk.take_back(self._shelf.void(lot))
        self._desk.send(home, Followed(self._desk.era, self._queue, message.serial, NO_ROOM))
        return True

    def fetch(self, home: NodeId, message: Fetch) -> None:
        """A home lacks what is here: some of it, the home asks on."""
        wanted = self._shelf.first_lots(message.shares, LOTS_AT_ONCE)
        self._number += 1
        self._lending[self._number] = home, message, wanted
        keys = self._shelf.keys(wanted)
        if keys:
            self._desk.load(Part.COPIES, self._queue, self._number, keys)
        else:
            self.loaded(self._number, ())

    def loaded(self, number: int, found: tuple[Found, ...]) -> None:
        """The bodies of what is lent; what can't be read is not here from now on (repair, 2)."""
        home, message, wanted = self._lending.pop(number)
        elements = self._shelf.elements(wanted, found)
        unread = self._shelf.unread(wanted, found)  # all else can be asked for again
        self._shelf.spare(unread)
        lacking = union([*self._shelf.rows.lacking(message.shares), *unread])
        self._desk.send(home, Fetched(self._desk.era, self._queue, elements, lacking))

    def spare(self, message: Spare) -> None:
        """All who should keep these do: they need not be here."""
        here = self._shelf.rows.present(message.shares)
        self.spared = union([*self.spared, *here])
        self._shelf.spare(here)
