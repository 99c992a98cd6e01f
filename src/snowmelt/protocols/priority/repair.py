"""A home sees to it that its elements are where they should be: rule 9 of the package.

1. What it lacks itself it fetches from whoever told that he has it; first what a take waits for.
   What was there and can't be read is lacking like that, and whoever should keep it is asked too.
2. Who should keep a copy and did not tell that he has it is given one, when the home has it. So is
   who told it, and says that he can't read it when it is fetched from him: he takes it off his
   shelf. What became of elements, and what is gone, he is told at once: that is small.
3. When all who should keep them do, and have flushed them, whoever else has copies may erase them.
   What somebody told that he has is on his disk (settling, rule 5). What came by a fetch may be on
   no disk yet: so the home has all flush once more before it says so; and what it fetches after
   that, since it could not be read any more, is on its own disk first.
4. What can't be read here when it is to be copied is lacking here from then on, and is copied when
   it has been fetched. What nobody can read nobody is told to erase.
5. Whoever has no room for a copy is asked again a little later, and nothing waits for that copy
   meanwhile: it may be what others get that makes room. For what the home itself fetched there may
   be no room either: it is lacking again, and fetched a little later.
6. What is short of copies is told to whoever asks how the queue stands: what is lacking here, what
   is owed to others, who may have room or not, and what was fetched and is not on this disk yet.
   Whoever replaces one machine after the other waits until nothing is.

There is one fetch under way at a time, and one copy.
"""

from collections.abc import Iterable
from typing import Final

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.desk import Desk, Patience
from snowmelt.protocols.priority.messages import Elements, Fetch, Fetched, Kept, Spare
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.positions import common, first_of, minus
from snowmelt.protocols.priority.shelf import Shelf
from snowmelt.protocols.priority.writing import NO_ROOM

POSITIONS_AT_ONCE: Final = 4_096


class Repair:
    """Of one home, in one view."""

    def __init__(
        self, desk: Desk, queue: str, shelf: Shelf, placing: Placing, there: Shares,
        told: dict[NodeId, Kept],
    ) -> None:  # fmt: skip
        self._desk = desk
        self._queue = queue
        self._shelf = shelf
        self._placing = placing
        self._lacking = shelf.rows.lacking(there)
        self._sources = [(node, kept.stored) for node, kept in sorted(told.items())]
        self._asked: tuple[NodeId, Fetch, Patience] | None = None
        should = self._should = placing.by_holder(there)
        self._owed: dict[NodeId, Shares] = {}
        """What each who should keep copies lacks."""
        self._surplus: dict[NodeId, Shares] = {}
        """What each has that it should not."""
        self._full: dict[NodeId, Instant] = {}
        """Who had no room for a copy, and when to ask him again (rule 5)."""
        self._fetched: Shares = ()
        """What came by a fetch, and is not on this disk yet (rule 6)."""
        self._room = desk.now
        """Not before there may be room for what is fetched (rule 5)."""
        self.keepers = tuple(sorted({*should} - {desk.me}))
        """Who should keep copies of something, but for this node."""
        for node, shares in sorted(should.items()):
            if node != desk.me:
                had = told[node].stored if node in told else ()
                self._owed[node] = minus(shares, had)
        for node, kept in sorted(told.items()):
            extra = minus(common(kept.stored, there), should.get(node, ()))
            if extra:
                self._surplus[node] = extra

    @property
    def done(self) -> bool:
        return not self._lacking and not any(self._owed.values())

    @property
    def rests(self) -> bool:
        """Whether nothing is lacking anywhere, nor too much."""
        if self._lacking or self._surplus:
            return False
        return not self._owed or not any(self._owed.values())

    def fetch(self, wanted: list[Share]) -> None:
        """Asks for what is lacking, what is wanted first (rule 1)."""
        if self._asked is not None or not self._lacking or self._room > self._desk.now:
            return
        first = common(union(wanted), self._lacking) or self._lacking
        for node, has in self._sources:
            shares = first_of(common(first, has), POSITIONS_AT_ONCE)
            if shares:
                message = Fetch(self._desk.era, self._queue, shares)
                self._asked = node, message, Patience.new(self._desk.now)
                self._desk.send(node, message)
                self._desk.wake(self._asked[2].at, self._queue)
                return

    def fetched(self, source: NodeId, message: Fetched) -> tuple[Elements, ...]:
        """What came of it; what the other lacks after all is sought elsewhere."""
        if self._asked is None or self._asked[0] != source:
            return ()
        self._asked = None
        for elements in message.elements:
            self._shelf.store(elements)
        came = [share for elements in message.elements for share in elements.shares]
        self._fetched = union([*self._fetched, *came])
        if message.lacking:  # or damaged there
            self.lacks(source, message.lacking)
        self._lacking = self._shelf.rows.lacking(self._lacking)
        return message.elements

    def lacks(self, source: NodeId, shares: Shares) -> None:
        """He told that he has these, and lacks them after all (rule 2)."""
        self._sources = [
            (node, minus(has, shares) if node == source else has) for node, has in self._sources
        ]
        his = common(shares, self._should.get(source, ()))
        if source in self._owed and his:
            self._owed[source] = union([*self._owed[source], *his])

    def lost(self, shares: Iterable[Share]) -> None:
        """The home can't read these any more: whoever should keep them is asked (rule 1)."""
        lost = union(shares)
        me = self._desk.me
        self._lacking = union([*self._lacking, *lost])
        self._sources = [
            (node, minus(has, lost) if node == me else has) for node, has in self._sources
        ]
        holders = sorted(self._placing.by_holder(lost).items())
        self._sources += [(node, theirs) for node, theirs in holders if node != me]

    def no_room(self, shares: Shares) -> None:
        """There was none for these, which were fetched: later, perhaps (rule 5)."""
        self._lacking = union([*self._lacking, *shares])
        self._room = later(self._desk.now, NO_ROOM)
        self._desk.wake(self._room, self._queue)

    @property
    def hopeless(self) -> Shares:
        """What the home lacks, and nobody here can read."""
        return minus(self._lacking, union([share for _, has in self._sources for share in has]))

    @property
    def short(self) -> Shares:
        """What not all who should keep it have on their disks, as far as is known (rule 6)."""
        owed = [share for shares in self._owed.values() for share in shares]
        if not (owed or self._lacking or self._fetched):  # as mostly
            return ()
        short = union([*owed, *self._lacking, *self._fetched])
        return minus(short, self._shelf.rows.gone_of(short))

    @property
    def elsewhere(self) -> Shares:
        """What the home lacks, and others have."""
        lacking = self._shelf.rows.lacking(self._lacking)
        return minus(lacking, self.hopeless) if lacking else ()

    def again(self) -> None:
        """What was asked for and did not come is asked for again."""
        if self._asked is not None:
            node, message, patience = self._asked
            if patience.over(self._desk.now):
                self._desk.send(node, message)
            self._desk.wake(patience.at, self._queue)
        for at in (self._room, *self._full.values()):
            if at > self._desk.now:
                self._desk.wake(at, self._queue)

    def next_copy(self, wanted: list[Share]) -> tuple[NodeId, Shares] | None:
        """To whom what is to be copied next (rule 2); what is wanted first."""
        first = union(wanted)
        found: tuple[NodeId, Shares] | None = None
        for node, lacked in self._owed.items():
            if self._full.get(node, self._desk.now) > self._desk.now:
                continue
            owed = self._owed[node] = minus(lacked, self._shelf.rows.gone_of(lacked))
            here = self._shelf.rows.present(owed)
            now = common(here, first)
            if now:
                return node, self._some(now)
            if here and found is None:
                found = node, self._some(here)
        return found

    def _some(self, here: Shares) -> Shares:
        first = first_of(here, POSITIONS_AT_ONCE)
        return union(self._shelf.first_lots(first, POSITIONS_AT_ONCE))

    def copied(self, node: NodeId, shares: Shares, *, room: bool) -> None:
        """He has them now, or has no room (rule 5)."""
        if node == self._desk.me:
            self._fetched = minus(self._fetched, shares)
        elif room:
            self._full.pop(node, None)
            self._owed[node] = minus(self._owed[node], shares)
        else:
            self._full[node] = later(self._desk.now, NO_ROOM)
            self._desk.wake(self._full[node], self._queue)

    @property
    def owed(self) -> Shares:
        """What those who should keep it lack, and have room for."""
        lacked = [
            share
            for node, shares in self._owed.items()
            if node not in self._full
            for share in shares
        ]
        return union(lacked)

    @property
    def spares(self) -> bool:
        """Whether somebody may erase copies, once all is flushed (rule 3)."""
        return self.done and not self._fetched and bool(self._surplus)

    def spare(self) -> None:
        for node, shares in self._surplus.items():
            self._desk.send(node, Spare(self._desk.era, self._queue, shares))
        self._surplus = {}
