"""The home of positions: it alone says what becomes of the elements that stand there.

Rules
-----
1. A home is *sure* once all members have told what they keep of its blocks (`settling.py`). Until
   then it does nothing: what comes is dropped, and comes again.
2. Whatever it does, it does on its own shelf, has those who keep copies do it, and says so when all
   have flushed. What one message asks for is done at once, for all gets and words in it. Standings
   have a turn, so copies may hear things in any order, or twice.
3. What a get was granted waits until all of it has come, or never will; the other gets of its take
   do not wait for that. What is known to lie with somebody is fetched (`repair.py`); all else is on
   its way from a door, which sends until it is answered. What can't be read here is taken off this
   shelf, and fetched like that from who has a copy. What nobody here can read any more is not to be
   had in this view, and holds nothing else up. Nor is what has its position since an earlier view
   and lies with nobody here: what a door still sends of that, somebody has. A get that is asked
   again may have been leased such elements then, and the word of it is here without them.
4. Under its token, and only under it, an element is acknowledged or given back. When the lease ends
   first, the element is free again. Its home says which was first. Of what is free the last token
   is known, and only a greater one may lease it: an old message leases nothing.
5. What is free again, and what is gone, is reported to the anchor when all copies know it, with the
   next batch that goes up from here. What nobody here has is free, and not to be got: whoever was
   granted it would wait for it. It is in a census when whoever has it is back. The same of what is
   gone: it was not counted here, and leaves no room. What is free by a client's word, or leaves
   room, is told to its door too, which tells it with its own next batch: whatever the client asks
   for next comes after that.
6. Elements for which there is no room are refused, by whoever has none. What of them was not there
   before never was, and its positions are void; what was, may have been got, and stays. All else
   waits for room, and is tried again.
7. Leases begin anew with each view: nobody can tell how much of one is over. Where this process is
   alone with its disk, who held them is gone, and they are over.
8. Nothing is handed out that not all who should keep it have flushed, its lease and itself. Else
   a put that nobody has answered could be refused, or begun anew, after its element was got. What
   is still on its way to them is leased meanwhile, and handed out when they have it; what they
   lack since a view began, or turn out to lack, is copied to them first (`thin.py`).
9. A copy goes with what became of it, in one message: with whom it is alone later, it is not free
   because the word of it was lost.
10. Who says again what was done, since the answer was lost, is given the answer that he was given:
   what was done by the first word can't be done by the second, and would be refused. In another
   view a purge asks what it had done (door, rule 8).
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from snowmelt.core.instant import Duration
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.record import Found
from snowmelt.protocols.priority.anchor import Census, first_of
from snowmelt.protocols.priority.attempts import stamped
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.delivery import Delivery, Leasing
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.leases import Leases
from snowmelt.protocols.priority.lots import in_order
from snowmelt.protocols.priority.messages import (
    Elements,
    End,
    Ended,
    Followed,
    Mark,
    Refusal,
    Store,
    Stored,
    Take,
    Word,
)
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.positions import common, minus
from snowmelt.protocols.priority.recent import Recent
from snowmelt.protocols.priority.reports import Reports
from snowmelt.protocols.priority.rules import Rules, held_by
from snowmelt.protocols.priority.settings import How, QueueSettings, State
from snowmelt.protocols.priority.shelf import Shelf, rows_at
from snowmelt.protocols.priority.spreading import NO_ROOM, Outcome, Spreading
from snowmelt.protocols.priority.thin import Thin
from snowmelt.protocols.priority.urgency import NO_KEYS, Urgency
from snowmelt.protocols.priority.whole_leases import WholeLeases, ended

ANSWERED_PIECES: Final = 65_536
"""So much of what was refused is remembered, with one for each answer."""

Asked = Store | Take | End


class Pending(msgspec.Struct, gc=False):
    """Something done that is not flushed by all yet, and what is to be said then."""

    door: NodeId | None = None
    """Who asked for it; None when the home itself decided."""
    asked: Asked | None = None
    leasings: list[Leasing] = []
    """To be handed out."""
    refusals: tuple[Refusal, ...] = ()
    """Of what was said: not held any more."""
    refused: Shares = ()
    """Of what was stored: not to be had."""
    back: Shares = ()
    gone: Shares = ()
    void: Shares = ()
    lot: int | None = None
    """Elements that may yet find no room."""
    new: Shares = ()
    """What of them nobody had before, as far as is known here (rule 6)."""
    copied: tuple[NodeId, Shares] | None = None
    """A copy that somebody lacked."""
    reason: str = ""
    """Why it was refused."""
    whole: list[Mark] = []
    """What is so here already (`whole_leases.py`)."""


class Home:
    """One queue's home at one node, in one view."""

    def __init__(
        self, desk: Desk, settings: QueueSettings, shelf: Shelf, placing: Placing, reports: Reports
    ) -> None:
        self._desk = desk
        self._settings = settings
        self._queue = settings.queue
        self._shelf = shelf
        self._reports = reports
        self._rules = Rules(desk, settings)
        self._leases = Leases(desk, settings.queue)
        self.spreading = Spreading(desk, settings.queue, placing)
        self.sure = False
        self.there: Shares = ()
        """What stands in this home's blocks, with whomever, as of the settling."""
        self._pending: dict[int, Pending] = {}
        self._busy: set[tuple[NodeId, int]] = set()
        self._answers: Recent[tuple[NodeId, int], Ended | Stored] = Recent(ANSWERED_PIECES)
        """To doors that have not heard them, the same is said again; by door and serial."""
        self._waiting: dict[tuple[NodeId, int, int], Take] = {}
        """Which wants of which takes wait for their elements."""
        self.hopeless: Shares = ()
        """What those who are here can't read: whoever was granted it goes without (rule 3)."""
        self.thin: Thin[tuple[Outcome, Pending]] = Thin()
        """What not all who should keep it have (rule 8)."""
        self.wanted: list[Share] = []
        """What a take waits for that somebody has: to be fetched first, and copied first."""
        self.unread: list[Share] = []
        """What was here and can't be read: to be fetched from who has copies."""
        self.urgency: Urgency | None = None
        """What is free in the order of its keys, where priorities have no number."""
        self._wholes: WholeLeases | None = None
        if settings.keyed:
            self.urgency = Urgency(desk, settings, shelf, placing)
            self._wholes = WholeLeases(desk, shelf, self._rules, self._leases, self.urgency)
        urgent = None if self.urgency is None else self.urgency.in_order
        self._delivery = Delivery(desk, settings.queue, shelf, urgent)
        self.copied: list[tuple[NodeId, Shares, bool]] = []
        """Copies for those who lacked them, and whether they had room."""

    # --- a new view -------------------------------------------------------------------------------

    def begin(self, there: Shares, keys: Mapping[int, int] = NO_KEYS) -> None:
        """All members have told (rule 1), and keys of what lies with others. Rule 7 for leases."""
        self.sure, self.there = True, there
        free: list[Share] = []
        for priority, where, standing in self._shelf.rows.standings(there):
            share = Share(priority, (where,))
            if standing.state == State.FREE:
                free.append(share)
            if standing.state == State.LEASED:
                time = Duration(0) if self._desk.alone else standing.time
                self._leases.lease(standing.token, (share,), time)
            elif standing.state == State.HELD:
                self._leases.hold((share,), standing.due)
        if self.urgency is not None:
            self.urgency.know(keys)
            self.urgency.begin(free)

    def census(self, gone: Shares, void: Shares) -> Census:
        """What this home answers for."""
        free: list[Share] = []
        out: list[Share] = []
        for priority, where, standing in self._shelf.rows.standings(self.there):
            one = Share(priority, (where,))
            (free if standing.state == State.FREE else out).append(one)
        order = max(
            [self._shelf.origins.last_order, *(one.token for one in self._shelf.rows.marks())]
        )
        if self.urgency is not None and not self._settings.items_max:
            last = [share.intervals[-1].stop for share in (*free, *out, *gone, *void)]
            return self.urgency.census(max(last, default=0), gone, order)
        return Census(union(free), union(out), gone, void, order)

    # --- what doors ask for -----------------------------------------------------------------------

    def store(self, door: NodeId, message: Store) -> None:
        if not self._takes(door, message.serial):
            return
        elements = message.elements
        rows = rows_at(self._shelf, elements.shares)
        new = minus(rows.lacking(elements.shares), self.there)
        lot = self._shelf.store(elements)
        if elements.due:
            self._leases.hold(elements.shares, elements.due)
        void = rows.void_of(elements.shares)
        void = union(void) if void else ()
        anew = any(origin.again for origin in elements.origins)
        stamps = stamped(rows, elements.shares, self._desk.epoch) if anew else ()
        pending = Pending(door, message, lot=lot, new=new, refused=void)
        number = self._begin(pending, stamps, elements=True)
        self.thin.comes(number, elements.shares)

    def take(self, door: NodeId, message: Take) -> None:
        """A door wants what its gets were granted."""
        if self.sure:
            self._take(door, message, range(len(message.wants)))

    def end(self, door: NodeId, message: End) -> None:
        """What clients say of their leases, or an operator of what is dead."""
        if not self._takes(door, message.serial):
            return
        marks: list[Mark] = []
        refusals: list[Refusal] = []
        whole, said = ended(self._wholes, message.words)
        for at, word in said:
            those, refused = self._said(word)
            if self.urgency is not None:
                self.urgency.said(word, refused)
            marks += those
            if refused:
                refusals.append(Refusal(at, refused))
        pending = Pending(door, message, refusals=tuple(refusals), whole=whole)
        if all(word.how == How.RENEW for word in message.words):  # it is on no disk
            self._answer(Outcome(0, 1, ""), pending)
            return
        pending.back = _of(marks, State.FREE)
        absent = _absent([word for _, word in said], self._shelf, self.there)  # rule 5
        pending.gone = minus(_of([*marks, *whole], State.GONE), absent)
        pending.void = minus(_of(marks, State.VOID), absent)
        self._leases.hold_all(marks)
        self._begin(pending, marks)

    def arrived(self) -> None:
        """Elements came, or are known to be gone: whoever waits for them may have them now."""
        if not self._waiting:
            self.wanted = []
            return
        waiting, self._waiting, self.wanted = self._waiting, {}, []
        takes: dict[tuple[NodeId, int], list[int]] = {}
        for door, serial, at in waiting:
            takes.setdefault((door, serial), []).append(at)
        for (door, serial), places in takes.items():
            self._take(door, waiting[door, serial, places[0]], places)

    # --- the clock --------------------------------------------------------------------------------

    def tick(self) -> None:
        """Leases end, what is held becomes free, and who has not answered is told again."""
        over = [(shares, self._rules.lapsing(token)) for token, shares in self._leases.over()]
        due = [(shares, self._rules.freed) for shares in self._leases.due()]
        for shares, rule in (*over, *due):
            marks, _ = self._rules.become(self._shelf.rows, shares, rule)
            self._decide(marks)
        self.spreading.again()

    # --- what others have flushed -----------------------------------------------------------------

    def flushed(self, number: int) -> None:
        self._counted(self.spreading.flushed(number))

    def no_room(self, number: int) -> bool:
        """This node's disk has no room: whether that can be refused (rule 6)."""
        pending = self._pending.get(number)
        if pending is None or pending.lot is None:
            return False
        self._desk.take_back(self._shelf.void(pending.lot))
        pending.lot = None
        self._counted(self.spreading.flushed(number, NO_ROOM))
        return True

    def copy(self, node: NodeId, elements: tuple[Elements, ...]) -> None:
        """Gives one who should keep copies what he lacks (`repair.py`)."""
        for some in elements:
            marks = self._shelf.rows.marks_of(some.shares)  # rule 9
            number = self.spreading.spread(some, marks, node)
            self._pending[number] = Pending(copied=(node, some.shares))

    def teach(self, node: NodeId, marks: Iterable[Mark]) -> None:
        """Tells one who keeps copies what became of elements."""
        number = self.spreading.spread(None, marks, node)
        self._pending[number] = Pending()

    def followed(self, source: NodeId, message: Followed) -> None:
        for outcome in self.spreading.followed(source, message):
            self._counted(outcome)

    def loaded(self, number: int, found: tuple[Found, ...]) -> None:
        """The bodies of what is handed out; what can't be read is lacking from now on (rule 3)."""
        door, take, lacking, unread = self._delivery.loaded(number, found)
        self.unread.extend(unread)
        self._waiting.update({(door, take.serial, at): take for at in lacking})

    # --- within -----------------------------------------------------------------------------------

    def _takes(self, door: NodeId, serial: int) -> bool:
        """Whether this is new; what was answered is answered again, as it was (rule 10)."""
        answer = self._answers.get((door, serial))
        if answer is not None:
            if self.urgency is None or not self.urgency.beginning:  # seap, rule 5
                self._desk.send(door, answer)
            return False
        if not self.sure or (door, serial) in self._busy:
            return False
        self._busy.add((door, serial))
        return True

    def _begin(self, pending: Pending, marks: Iterable[Mark], *, elements: bool = False) -> int:
        marks = tuple(marks)
        if marks:
            self._shelf.mark(*marks)
        marks = (*marks, *pending.whole)
        asked = pending.asked
        some = asked.elements if elements and type(asked) is Store else None
        number = self.spreading.spread(some, marks)
        self._pending[number] = pending
        waited_for = self._waiting or self.wanted
        if waited_for and (elements or any(mark.state >= State.GONE for mark in marks)):
            self.arrived()
        return number

    def _decide(self, marks: list[Mark]) -> None:
        if marks:
            self._leases.hold_all(marks)
            self._begin(Pending(back=_of(marks, State.FREE)), marks)

    def _take(self, door: NodeId, message: Take, places: Iterable[int]) -> None:
        """Leases those of the wants whose elements are all there; the others wait for theirs."""
        marks: list[Mark] = []
        pending = Pending(door, message, leasings=[], whole=[])
        wholes = None if self.thin.owed or self.hopeless else self._wholes
        for at in places:
            key, want = (door, message.serial, at), message.wants[at]
            if key in self._waiting or self._delivery.has(*key):
                continue
            leased = wholes.begin(want, message.lease) if wholes is not None else None
            if leased is not None:
                self._delivery.begin(*key)
                pending.whole.append(leased)
                pending.leasings.append(Leasing(at, want.shares, in_order=False))
                continue
            rows = self._shelf.rows
            lacking, lost = rows.lacking(want.shares), common(want.shares, self.hopeless)
            if lacking:
                lost = union([*lost, *_away(lacking, self.there, self._desk.epoch)])
                lacking = minus(lacking, lost)
            owed = self.thin.owed and common(rows.present(want.shares), self.thin.owed)
            if lacking or owed:  # rules 3 and 8
                self._waiting[key] = message
                self.wanted.extend([*common(lacking, self.there), *owed])
                continue
            self._delivery.begin(*key)
            leasing, those = self._lease(at, message, lost)
            pending.leasings.append(leasing)
            marks += those
        if pending.leasings:
            self._begin(pending, marks)

    def _lease(self, at: int, message: Take, lost: Shares) -> tuple[Leasing, list[Mark]]:
        want = message.wants[at]
        rule = self._rules.leasing(want, message.lease)
        marks, refused = self._rules.become(self._shelf.rows, minus(want.shares, lost), rule)
        if self.urgency is not None:  # what another get was given since is not this one's
            self.urgency.leased(minus(want.shares, refused))
        refused = union([*refused, *lost])
        had = _kept_order(want.shares, refused)
        if had:
            self._leases.lease(want.token, union(had), message.lease)
        if len(marks) != 1 or marks[0].shares != had:
            fresh = sum([share.total for mark in marks for share in mark.shares])
            if fresh < sum([share.total for share in had]):
                self._shelf.mark(*marks)
                marks = self._shelf.rows.told_of(had)  # also what was so before: not all may know
        return Leasing(at, had, refused, self.urgency is None), marks

    def _said(self, word: Word) -> tuple[list[Mark], Shares]:
        """What becomes of what a client speaks of; and of which it can't be."""
        if word.how == How.RENEW:
            return [], self._renew(word)
        marks, refused = self._rules.become(self._shelf.rows, word.shares, self._rules.of(word))
        if word.how == How.VOID:
            lacking = self._shelf.rows.lacking(word.shares)
            return [*marks, *_voided(self._desk.epoch, lacking)], ()
        if word.how in (How.DONE, How.PURGED) and refused:  # rule 4; all write it again
            ended = common(refused, self._shelf.ended.of(word.token))
            refused = minus(refused, ended)
            again = Mark(ended, self._desk.epoch, 0, State.GONE, word.token)
            marks = [*marks, again] if ended else marks
        if word.how in (How.DONE, How.BACK, How.FAILED, How.DEAD):
            self._leases.end(word.token, word.shares)
        return marks, refused

    def _renew(self, word: Word) -> Shares:
        token = word.token
        _, refused = self._rules.become(
            self._shelf.rows, word.shares, lambda was: was if held_by(was, token) else None
        )
        if minus(word.shares, refused):
            self._leases.renew(token, word.time)
        # Whoever holds a lease may acknowledge some of it while the rest is renewed (rule 4).
        return minus(refused, self._shelf.ended.of(token)) if refused else refused

    def _counted(self, outcome: Outcome | None) -> None:
        if outcome is None:
            return
        pending = self._pending.pop(outcome.number)
        if pending.copied is not None:
            self.copied.append((*pending.copied, not outcome.refused))
        late = self.thin.came(outcome.number)
        if outcome.refused and type(pending.asked) is Store:
            self._refuse(pending, pending.asked, outcome.refused)
        else:
            if pending.back:
                absent = minus(self._shelf.rows.lacking(pending.back), self.there)  # rule 5
                pending.back = minus(pending.back, absent)
            if self.urgency is not None:  # seap, rule 2
                self.urgency.add(pending.back)
                pending.gone = self.urgency.reported(pending.gone)
                pending.void = pending.void if self._settings.items_max else ()
                if type(pending.asked) is Store and not pending.reason:
                    self.urgency.stored(pending.asked.elements.shares)
            back = pending.back if self.urgency is None else ()
            self._reports.add(back, pending.gone, pending.void)
            self._answer(outcome, pending)
        for one in late:
            self._answer(*one)

    def _refuse(self, pending: Pending, asked: Store, reason: str) -> None:
        """Rule 6: what is new is void, and when all know it, the door hears why."""
        new = union(pending.new)  # a put may change its priority more often than a mark may
        void = union([*pending.refused, *new])
        voided = Pending(pending.door, asked, refused=void, void=new, reason=reason)
        self._begin(voided, _voided(self._desk.epoch, new))

    def _answer(self, outcome: Outcome, pending: Pending) -> None:
        era, door, asked = self._desk.era, pending.door, pending.asked
        if door is None or asked is None:
            return
        if type(asked) is Take:
            self._deliver(outcome, door, asked, pending)
            return
        self._busy.discard((door, asked.serial))
        if type(asked) is Store:
            copies = 0 if pending.reason else outcome.copies
            phase = 0 if self.urgency is None else self.urgency.phase
            told = Stored(
                era, self._queue, asked.serial, copies, pending.reason, pending.refused, phase
            )
            if self.urgency is None:
                self._desk.send(door, told)
                return
            self._answers.keep((door, asked.serial), told, 1)
            self.urgency.tell(door, told)
        else:
            refusals = pending.refusals
            back, gone = pending.back, pending.gone if self._settings.items_max else ()
            told_of = back if self.urgency is None else ()
            answer = Ended(era, self._queue, asked.serial, refusals, told_of, gone)
            pieces = [len(share.intervals) for one in refusals for share in one.shares]
            self._answers.keep((door, asked.serial), answer, 1 + sum(pieces))
            if self.urgency is not None and (back or refusals):  # something is free by now
                self.urgency.tell(door, answer)
            else:
                self._desk.send(door, answer)

    def _deliver(self, outcome: Outcome, door: NodeId, take: Take, pending: Pending) -> None:
        """The leases are flushed by all: their elements too, as soon as they are (rule 8)."""
        leased = self._shelf.wholes.without([one.shares for one in pending.leasings])
        if leased and self.thin.waits(outcome.number, leased, (outcome, pending)):
            return
        void = self._shelf.rows.gone_of(leased) if leased else ()  # there was no room for them
        if void:
            void = union(void)
            for one in pending.leasings:
                lost = common(one.shares, void)
                one.shares, one.void = _kept_order(one.shares, lost), union([*one.void, *lost])
        told = []
        for one in pending.leasings:
            owed = common(one.shares, self.thin.owed) if self.thin.owed else ()
            if not owed:
                told.append(one)
                continue
            self._delivery.end(door, take.serial, one.at)  # somebody lacks what he told that he has
            self._waiting[door, take.serial, one.at] = take
            self.wanted.extend(owed)
        self._delivery.go(door, take, told)


def _absent(words: Iterable[Word], shelf: Shelf, there: Shares) -> Shares:
    """What is done, and lies with nobody here."""
    named = [word.shares for word in words if word.how == How.DONE]
    lacking = [share for shares in named for share in shelf.rows.lacking(shares)]
    return minus(union(lacking), there) if lacking else ()


def _away(lacking: Shares, there: Shares, epoch: int) -> Shares:
    """What of it lies with nobody here, and will not come in this view (rule 3)."""
    first = first_of(epoch)
    earlier = [
        Share(share.priority, (Interval(one.start, min(one.stop, first)),))
        for share in lacking
        for one in share.intervals
        if one.start < first
    ]
    return minus(union(earlier), there) if earlier else ()


def _of(marks: Iterable[Mark], state: State) -> Shares:
    shares = [share for mark in marks if mark.state == state for share in mark.shares]
    return union(shares) if shares else ()


def _kept_order(shares: Shares, refused: Shares) -> Shares:
    return in_order(list(minus(shares, refused))) if refused else shares


def _voided(epoch: int, shares: Shares) -> list[Mark]:
    return [Mark(shares, epoch, 0, State.VOID)] if shares else []
