"""One queue at one node: its parts, and what each view makes of them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from snowmelt.core.instant import later, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.record import Found
from snowmelt.protocols.overlay.ring import Ring
from snowmelt.protocols.overlay.tree import DeBruijnTree, FlatTree, Tree
from snowmelt.protocols.priority.attempts import stamped
from snowmelt.protocols.priority.batches import INTERVALS_MAX, Share, Shares, Some, union
from snowmelt.protocols.priority.copies import Copies
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.door import Door
from snowmelt.protocols.priority.ends import NOBODY
from snowmelt.protocols.priority.fitting import before_gap, fitting
from snowmelt.protocols.priority.gathering import Gathering
from snowmelt.protocols.priority.home import Home
from snowmelt.protocols.priority.keyed import keys_told, with_keys
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.looking import Looking
from snowmelt.protocols.priority.messages import (
    Ended,
    Fetched,
    Granted,
    Kept,
    Look,
    Looked,
    Mark,
    Read,
    Seen,
    Spare,
)
from snowmelt.protocols.priority.phase_messages import Sought
from snowmelt.protocols.priority.phasing import REPORTED_MAX, Phasing
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.positions import common, minus
from snowmelt.protocols.priority.repair import Repair
from snowmelt.protocols.priority.reports import Reports
from snowmelt.protocols.priority.rules import let_go
from snowmelt.protocols.priority.sending import Sending
from snowmelt.protocols.priority.settings import QueueSettings, State
from snowmelt.protocols.priority.settling import by_size, kept_for
from snowmelt.protocols.priority.shelf import Shelf, number_of
from snowmelt.protocols.priority.writing import Part
from snowmelt.protocols.seap.phase import rank_at

_SHELF: Final = b"q/"
NO_GETS: Final[Mapping[OperationId, int]] = MappingProxyType({})
FORGET_AGAIN: Final = seconds(1)
"""What is to be forgotten is, with the next write; if there is none by then, it is looked again."""


def prefix_of(queue: str) -> bytes:
    """How the keys of a queue's shelf begin on the disk."""
    return _SHELF + queue.encode() + b"/"


def queue_of(key: bytes) -> str:
    """Which queue's shelf a key is of; none when it is of no shelf."""
    return key[len(_SHELF) :].split(b"/", 1)[0].decode() if key.startswith(_SHELF) else ""


class Here:
    """What a view makes of a queue at one node."""

    def __init__(
        self, desk: Desk, settings: QueueSettings, shelf: Shelf, reports: Reports, limits: Limits
    ) -> None:
        assert desk.spread is not None, "there is a view"
        self.placing = Placing(desk.spread, settings.queue, settings.replicas, limits.block)
        tree: Tree = (
            FlatTree(desk.members, settings.queue, limits.arity)
            if limits.flat
            else DeBruijnTree(Ring(desk.members, settings.queue))
        )
        self.gathering = Gathering(desk, settings, tree, self.placing, limits)
        self.home = Home(desk, settings, shelf, self.placing, reports)
        self.copies = Copies(desk, settings.queue, shelf)
        self.repair: Repair | None = None
        self.copying = 0
        """How many copies are on their way to those who lack them."""
        self.phasing: Phasing | None = None
        """Where priorities have no number."""
        if settings.keyed:
            self.phasing = Phasing(desk, settings, self.gathering, self.placing, limits)


class Queue:
    """All of one queue at one node."""

    def __init__(
        self,
        desk: Desk,
        settings: QueueSettings,
        limits: Limits,
        old: "Queue | None" = None,
    ) -> None:
        """With `old` it is the same queue by other settings (queues, rule 5); serials go on."""
        self._desk = desk
        self._limits = limits
        self.settings = settings
        self.name = settings.queue
        self.shelf: Shelf = Shelf(prefix_of(settings.queue), limits, settings)
        if old is not None and old.settings.form == settings.form:
            self.shelf = old.shelf
        elif old is not None:
            self.shelf.next = old.shelf.next
        most = REPORTED_MAX if settings.keyed else INTERVALS_MAX
        self._reports = Reports(bounded=settings.items_max > 0, most=most)
        self.sending: Sending = Sending(desk, self.name) if old is None else old.sending
        self.door = Door(desk, settings, self.shelf, self._reports, self.sending, limits)
        self.looking = Looking(desk, settings, self.sending)
        self.here: Here | None = None
        self._number = 0
        self._copies_read: dict[int, tuple[NodeId, Shares]] = {}
        self._reads: dict[int, tuple[NodeId, Read]] = {}

    # --- views ------------------------------------------------------------------------------------

    def viewed(self) -> None:
        self.sending.clear()
        self._reports.viewed()
        self._copies_read, self._reads = {}, {}
        self.here = None
        if self._desk.era:
            self.here = Here(self._desk, self.settings, self.shelf, self._reports, self._limits)
        self.door.viewed(
            self.here.placing if self.here is not None else None,
            self.here.gathering.root if self.here is not None else None,
        )
        self.looking.viewed(None, None)

    def kept(self) -> dict[NodeId, list[Kept]]:
        """What there is here for each home."""
        assert self.here is not None
        kept = kept_for(self.name, self.shelf, self.here.placing, self._limits.large)
        return with_keys(kept, self.shelf) if self.settings.keyed else kept

    def settled(
        self,
        told: Mapping[NodeId, Kept],
        interrupted: Mapping[OperationId, int] = NO_GETS,
        chosen: Shares = (),
    ) -> None:
        """All have told what they keep of this home's blocks, and which gets begin anew.

        What was chosen among several attempts is of this view (`attempts.py`, rule 5).
        """
        here = self.here
        assert here is not None
        epoch = self._desk.epoch
        gone = union([share for kept in told.values() for share in kept.gone])
        marks = [mark for kept in told.values() for mark in kept.marks]
        for mark in (Mark(gone, epoch, 0, State.GONE), *marks):
            self.shelf.mark(mark)
        rows = self.shelf.rows
        stored = union([share for kept in told.values() for share in kept.stored])
        ended = rows.gone_of(stored)
        there = minus(stored, ended)
        for mark in (
            *let_go(rows, interrupted, there, epoch),
            *stamped(rows, common(chosen, there), epoch),
        ):
            self.shelf.mark(mark)
        said = union([share for one in marks if one.state == State.VOID for share in one.shares])
        voids = rows.voids_of(said)
        lacking = rows.lacking(there) if self.settings.keyed else ()
        here.home.begin(there, keys_told(told.values(), lacking))
        here.repair = Repair(self._desk, self.name, self.shelf, here.placing, there, dict(told))
        here.home.thin.owed = here.repair.owed
        self._teach(here, told, there)
        self._teach_gone(here, told, [Mark(gone, epoch, 0, State.GONE), *voids])
        self._spare_gone(told, ended)
        void = union([share for one in voids for share in one.shares])
        here.gathering.count(here.home.census(gone, void))
        self.looking.viewed(here.gathering.root, here.placing)
        self.door.beginnings.settled()

    def _spare_gone(self, told: Mapping[NodeId, Kept], gone: Shares) -> None:
        """Who has copies of what is gone, from when he was away, has no use for them."""
        for node, kept in sorted(told.items()):
            stale = common(kept.stored, gone)
            if stale and node != self._desk.me:
                self._desk.send(node, Spare(self._desk.era, self.name, stale))

    def _teach(self, here: Here, told: Mapping[NodeId, Kept], there: Shares) -> None:
        """Those who keep copies hear what they did not know themselves."""
        for node, theirs in sorted(here.placing.by_holder(there).items()):
            if node == self._desk.me:
                continue
            known = set(told[node].marks) if node in told else set()
            marks = [mark for mark in self.shelf.rows.marks_of(theirs) if mark not in known]
            if marks:
                here.home.teach(node, marks)

    def _teach_gone(self, here: Here, told: Mapping[NodeId, Kept], gone: Iterable[Mark]) -> None:
        """Those who would keep it hear what is gone, also where nothing is left."""
        for mark in gone:
            small, large = by_size(mark.shares, self._limits.large)
            keepers = here.placing.by_holder(small)
            for node in here.placing.members:
                had = told.get(node)
                known = () if had is None else _ended(had, mark)
                new = minus(union([*keepers.get(node, ()), *large]), known)
                if new and node != self._desk.me:
                    here.home.teach(node, [msgspec.structs.replace(mark, shares=new)])

    # --- looking ----------------------------------------------------------------------------------

    def look(self, source: NodeId, message: Look) -> None:
        phasing = self.here.phasing if self.here is not None else None
        if phasing is not None:
            phasing.look(source, message)
            return
        anchor = self.here.gathering.anchor if self.here is not None else None
        if anchor is not None:
            rank = message.rank
            if message.share is not None:
                rank = rank_at(message.share, anchor.free)
            shares = anchor.ranked(rank) if rank else anchor.first(message.count)
            self._desk.send(source, Looked(self._desk.era, self.name, message.serial, shares))

    def read(self, source: NodeId, message: Read) -> None:
        """A door wants to see what stands here."""
        if self.here is None or not self.here.home.sure:
            return
        home = self.here.home
        if not home.wanted:  # what is looked at is fetched first
            home.wanted.extend(common(self.shelf.rows.lacking(message.shares), home.there))
        if home.urgency is not None:
            shares = home.urgency.in_order(message.shares)
            message = msgspec.structs.replace(message, shares=shares)
        keys = self.shelf.keys(message.shares)
        self._number += 1
        self._reads[self._number] = source, message
        if keys:
            self._desk.load(Part.LOOKS, self.name, self._number, keys)
        else:
            self.loaded(Part.LOOKS, self._number, ())

    def _seen(self, here: Here, message: Read, found: tuple[Found, ...]) -> Seen:
        rows = self.shelf.rows
        read = self.shelf.pieces(found, message.shares)[0]
        first = before_gap(rows, message.shares, read)
        pieces, _ = fitting(first, message.bytes_max)
        here.home.unread.extend(self.shelf.unread(message.shares, found))
        told = union([piece.share for piece in pieces])
        more = bool(minus(rows.present(message.shares), told))
        seen = Seen(self._desk.era, self.name, message.serial, pieces, more=more)
        return self._standing(here, seen)

    def _standing(self, here: Here, seen: Seen) -> Seen:
        """How all stand whose home this is, also those that lie with others for now (repair, 1).

        What is free is counted by what is not: those that are merely there need not be looked at.
        """
        counts: dict[int, Counter[int]] = {state: Counter() for state in State}
        dead: list[Share] = []
        rows, free = self.shelf.rows, counts[State.FREE]
        elsewhere = () if here.repair is None else here.repair.elsewhere
        mine = here.placing.by_home((*rows.stored(), *elsewhere)).get(self._desk.me, ())
        for share in mine:
            free[share.priority] += share.total
        few = len(self._desk.members) < self.settings.replicas
        short = mine if few or here.repair is None else here.repair.short
        for mark in rows.marks():
            if mark.state == State.FREE:
                continue
            there = (*rows.present(mark.shares), *common(mark.shares, elsewhere))
            for share in here.placing.by_home(there).get(self._desk.me, ()):
                counts[mark.state][share.priority] += share.total
                free[share.priority] -= share.total
                dead += [share] if mark.state == State.DEAD else []
        return msgspec.structs.replace(
            seen, leased=counts[State.LEASED].total(), held=counts[State.HELD].total(),
            dead=union(dead),
            free=tuple([Some(row, free[row]) for row in sorted(free) if free[row]]),
            short=sum([share.total for share in short]),
        )  # fmt: skip

    # --- the disk ---------------------------------------------------------------------------------

    def flushed(self, part: Part, number: int) -> None:
        if self.here is None:
            return
        if part == Part.HOME:
            self.here.home.flushed(number)
        elif part == Part.COPIES:
            self.here.copies.flushed(number)

    def no_room(self, part: Part, number: int) -> bool:
        """There is no room for it: whether that can be refused."""
        if self.here is None:
            return True
        if part == Part.HOME:
            return self.here.home.no_room(number)
        return part == Part.COPIES and self.here.copies.no_room(number)

    def take_back(self, key: bytes) -> None:
        """There is no room for bodies that came by no task.

        They were fetched, and are again later; or they are of a view that is over, and nobody has
        been told of them in this one (settling, rule 5).
        """
        number = number_of(key)
        lost = self.shelf.lot(number)
        self._desk.take_back(self.shelf.void(number))
        if self.here is not None and self.here.repair is not None:
            self.here.repair.no_room(lost)

    def loaded(self, part: Part, number: int, found: tuple[Found, ...]) -> None:
        here = self.here
        if here is None:
            return
        if part == Part.HOME:
            here.home.loaded(number, found)
        elif part == Part.COPIES:
            here.copies.loaded(number, found)
        elif part == Part.REPAIR and number in self._copies_read:
            node, shares = self._copies_read.pop(number)
            self._copy(here, node, shares, found)
        elif part == Part.LOOKS and number in self._reads:
            source, message = self._reads.pop(number)
            self._desk.send(source, self._seen(here, message, found))

    # --- what comes back --------------------------------------------------------------------------

    def granted(self, source: NodeId, message: Granted) -> None:
        """From the place above: for those below, and for this node's own operations."""
        grant = self.here.gathering.granted(source, message) if self.here is not None else None
        if grant is not None:
            self.door.granted(grant)

    def ended(self, source: NodeId, message: Ended) -> None:
        """A home has done what it was told: for settlings, purges, or looks."""
        sent = self.sending.answered(source, message.serial)
        if sent is None:
            return
        self._reports.add(message.back, message.gone)  # home, rule 5
        refusals = {one.at: one for one in message.refusals}
        for at, operation in enumerate(sent.operations):
            if operation == NOBODY:
                continue
            word, refusal = sent.message.words[at], refusals.get(at)
            if not self.looking.ended(operation, word, refusal):
                self.door.ended(operation, word, refusal)

    # --- what goes on by itself -------------------------------------------------------------------

    def fetched(self, source: NodeId, message: Fetched) -> None:
        """Elements that this home lacked."""
        if self.here is not None and self.here.repair is not None:
            came = self.here.repair.fetched(source, message)
            self.here.home.copy(self._desk.me, came)  # flushed here, it is copied (repair, 6)
            self.here.home.hopeless = self.here.repair.hopeless
            self._owe(self.here, self.here.repair)

    def pump(self) -> None:
        """Batches leave, repair goes on, what may have been begun before is asked after."""
        here = self.here
        if here is None:
            return
        if here.repair is not None:
            self._repair(here, here.repair)
        gathering = here.gathering
        inquiry = self.door.beginnings.inquiry
        if inquiry.waiting and gathering.open:
            inquiry.begin()
        while True:
            if gathering.fed:
                gathering.fed = False
                self.door.fed()
            own = self.door.batch() if self.door.due and gathering.takes else None
            grant = gathering.send(own)
            fed = False
            if here.phasing is not None:
                grant = here.phasing.go_on(here.home)
                fed = here.phasing.feeds(here.home)
                self._reports.fresh = self._reports.fresh or fed
            if grant is not None:
                self.door.granted(grant)
            elif not fed:
                break
        if here.phasing is not None and self.door.searches.ranks:
            here.phasing.search(self.door.searches)
        self.door.leave()
        self.looking.leave()

    def tick(self) -> None:
        self.sending.again()
        self.door.tick()
        forgets = self.shelf.forgets
        if forgets is not None:
            at = max(self._desk.instant_of(forgets), later(self._desk.now, FORGET_AGAIN))
            self._desk.wake(at, self.name)
        here = self.here
        if here is not None:
            here.home.tick()
            here.gathering.again()
            if here.phasing is not None:
                here.phasing.again()
            if here.repair is not None:
                here.repair.again()

    def sought(self, source: NodeId, message: Sought) -> None:
        phasing = self.here.phasing if self.here is not None else None
        found = phasing.meeting.sought(source, message) if phasing is not None else None
        if found is not None:
            self.door.searches.found(*found)

    def check(self) -> None:
        if self.here is not None:
            self.here.gathering.check()

    def _repair(self, here: Here, repair: Repair) -> None:
        home = here.home
        if repair.rests and not (home.copied or home.unread):  # as mostly
            return
        copied, here.home.copied = here.home.copied, []
        for node, shares, room in copied:
            if node != self._desk.me:  # what was fetched is only flushed here
                here.copying -= 1
            repair.copied(node, shares, room=room)
        if copied:
            self._owe(here, repair)
        if here.home.unread:
            _lose(here.home, repair, self.shelf)
        repair.fetch(here.home.wanted)
        if not here.copying and not self._copies_read:
            due = repair.next_copy(here.home.wanted)
            if due is not None:
                node, shares = due
                keys = self.shelf.keys(shares)
                if keys:
                    self._number += 1
                    self._copies_read[self._number] = due
                    self._desk.load(Part.REPAIR, self.name, self._number, keys)
                else:
                    self._copy(here, node, shares, ())
        if repair.spares and here.home.spreading.all_flush(repair.keepers):
            repair.spare()

    def _copy(self, here: Here, node: NodeId, shares: Shares, found: tuple[Found, ...]) -> None:
        elements = self.shelf.elements(shares, found)
        here.copying += len(elements)
        here.home.copy(node, elements)
        here.home.unread.extend(self.shelf.unread(shares, found))

    def _owe(self, here: Here, repair: Repair) -> None:
        """Others lack more, or less: whoever waits for copies may have what he asked for."""
        here.home.thin.owed = repair.owed
        here.home.arrived()


def _lose(home: Home, repair: Repair, shelf: Shelf) -> None:
    """What can't be read here any more is fetched, as what was never here (home, rule 3)."""
    unread = shelf.rows.present(union(home.unread))
    if home.urgency is not None:
        home.urgency.keep_keys(unread)
    shelf.spare(unread)
    home.there = union([*home.there, *unread])
    repair.lost(unread)
    home.unread, home.hopeless = [], repair.hopeless
    home.arrived()


def _ended(had: Kept, mark: Mark) -> Shares:
    """What somebody knows of a word that elements are gone, or void as of a view."""
    if mark.state == State.GONE:
        return had.gone
    known = [one for one in had.marks if one.state == State.VOID and one.epoch >= mark.epoch]
    return (*had.gone, *[share for one in known for share in one.shares])
