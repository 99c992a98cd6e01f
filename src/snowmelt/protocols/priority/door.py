"""One node as the door of one queue: it takes clients' operations, and answers them.

1. Operations stand in line until a batch takes them along (`gathering.py`). What a batch takes
   along *rides*, in its order, and gets its part of the grant in that order.
2. A put without room for all of it gives up what it was granted, and waits in line again until its
   patience ends; a get for which there is nothing waits for word of elements. That word may be
   lost, so some of those who wait ask now and then all the same (`waiting.py`).
3. When a view ends, what rides stands in line again: nothing has been done for it. So does a get
   of which not all homes have answered: some may have leased their part, and some not, and to hand
   out the one part would pass the other, which is free again. Its door says so as the next view
   settles, and what was leased to it is free again as well (`settling.py`). A put that was on its
   way to homes is inquired of (`inquiry.py`), as is what may have been begun at another door: all
   of it, when there may have been a view without this door between two of its own. So is a put in
   line that may have been begun before: who has what was stored of it may be back in this view.
4. A get whose client has gone gives back what it is granted, unless it is asked for again by then.
   So does one that is served when its client has given it up: else that would be leased to nobody
   for a whole lease. It is in hand until the homes have that: when the view ends before, it is of
   those that begin anew (rule 3), and so it is when it is asked for again. It is not said to have
   found nothing: others may have passed what it had. What was leased for it before may be in use,
   though its connection broke: that is left alone. A put without room, of which nothing is
   anywhere, is forgotten with its client: asked for again, it begins.
5. What a grant has for operations that are not in hand any more, or need it no more, is given up
   and given back: nobody else could fill such a position, and who got it would wait for ever.
6. What a get has to settle first waits for its grant, though not for long: so the homes hear both
   at once, and one flush serves both.
7. A put that may have been begun before is never refused: those who have what was stored of it may
   all be away, and come back. When there is no room for it its client hears nothing, and the door
   remembers that it was begun: if it is asked again, it is inquired of again.
8. A purge is one operation, as a get is: whoever asks for it twice, since it takes long, purges
   nothing that was put since it was answered. When a view ends before all homes have told how many
   they removed, it asks in the next one which of these are gone by its token, and then goes on. So
   it tells of all that it removed and that was not forgotten, unless it goes on at another door.
9. What was granted to a get and is too much for one answer goes back, and is what the next get is
   given: so the answer waits until the homes have taken it back (home, rule 5).
10. What one turn brings for a home goes there together: all gets of a wave in one `Take`, all that
   is said of leases in one `End`. Each get is answered when it has all of its own.
11. A get is answered when the others are still in this view (`confirming.py`) if there is nothing
   for it, or if the anchor is at this node and it is granted what this node keeps alone.
"""

from collections.abc import Sequence
from typing import Final

from snowmelt.core.instant import later, milliseconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.priority.answering import Answering
from snowmelt.protocols.priority.batches import (
    RUNS_MAX,
    Batch,
    Cut,
    Grant,
    Run,
    RunCut,
    Share,
    Shares,
    Some,
    summed,
    union,
)
from snowmelt.protocols.priority.beginnings import Beginnings
from snowmelt.protocols.priority.calls import Get, Purge, Put, Settle
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.ends import Ends
from snowmelt.protocols.priority.fields import Token
from snowmelt.protocols.priority.gets import Gets
from snowmelt.protocols.priority.hand import Again, GetInHand, Hand, PutInHand, TakenOver
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import Inquired, Mark, Refusal, Stored, Taken, Word
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.puts import Puts, in_hand
from snowmelt.protocols.priority.reports import Reports
from snowmelt.protocols.priority.searches import Searches
from snowmelt.protocols.priority.sending import Sending
from snowmelt.protocols.priority.settings import How, QueueSettings, State
from snowmelt.protocols.priority.shelf import Shelf

REPORT_SOON: Final = milliseconds(50)
"""So long what is gone waits for a batch that takes it along."""
PURGE_AT_ONCE: Final = 1 << 20

InHand = PutInHand | GetInHand


class Door:
    """Of one queue, at one node."""

    def __init__(
        self,
        desk: Desk,
        settings: QueueSettings,
        shelf: Shelf,
        reports: Reports,
        sending: Sending,
        limits: Limits,
    ) -> None:
        self._desk = desk
        self._given = limits.given if settings.keyed else PURGE_AT_ONCE
        self._settings = settings
        self._shelf = shelf
        self._reports = reports
        self._sending = sending
        self._ends = Ends(desk, settings.queue, sending)
        self._puts = Puts(desk, settings.queue, sending)
        self._gets = Gets(desk, settings, sending, self._ends)
        self._hand = Hand(desk, settings.queue, limits)
        self._answering = Answering(desk, settings, sending, self._hand, self._gets, self._ends)
        self.searches = Searches(self._hand, self._gets, self._ends)
        self._epoch = 0
        """Of the last view."""
        self.interrupted: list[tuple[OperationId, Token]] = []
        """Gets that the end of the last view interrupted, each with its token (rule 3)."""
        self.beginnings = Beginnings(
            desk, settings.queue, shelf, self._hand, sending, self._puts, self._gets
        )

    # --- clients ----------------------------------------------------------------------------------

    def put(self, operation: OperationId, call: Put) -> None:
        if not self._known(operation, call.size):
            begun = call.via != self._desk.via
            self._take_up(in_hand(operation, call, self._desk, again=begun), begun=begun)

    def get(self, operation: OperationId, call: Get) -> None:
        """A client wants elements, and may have something to settle first."""
        if self._known(operation):
            return
        deadline = later(self._desk.now, call.patience)
        one = GetInHand(operation, call, min(call.items_max, self._given), deadline)
        one.heard = later(self._desk.now, call.heard) if call.heard else None
        if call.settle is not None:
            self._answering.settle_soon(one)
        self._take_up(one, begun=call.via != self._desk.via)

    def purge(self, operation: OperationId, call: Purge) -> None:
        if not self._known(operation):
            one = GetInHand(operation, call, min(PURGE_AT_ONCE, self._given), self._desk.now)
            self._take_up(one, begun=call.via != self._desk.via)

    def settle(self, operation: OperationId, call: Settle) -> None:
        self._answering.settle(operation, call)

    def gone(self, client: NodeId) -> None:
        """No connection of this client is open (rule 4)."""
        self._hand.gone(client)

    # --- batches ----------------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        return bool(self._hand.line) or self._reports.pressing

    def batch(self) -> Batch:
        """What leaves now: operations in line, and reports."""
        runs: list[tuple[list[Some], int]] = []
        held, patient = list[Some](), False
        while self._hand.line and len(runs) < RUNS_MAX:
            operation = self._hand.line.popleft()
            one = self._hand.all.get(operation)
            if one is None:
                continue
            if type(one) is GetInHand:
                if one.given_up(self._desk.now):
                    self._answering.answer(one)
                    continue
                runs = runs or [([], 0)]
                runs[-1] = runs[-1][0], runs[-1][1] + one.count
                patient = patient or one.deadline > self._desk.now
                self._hand.riding.append((operation, len(runs) - 1))
                continue
            assert type(one) is PutInHand
            if one.call.delay:
                held.extend(one.counts())
                self._hand.riding.append((operation, -1))
                continue
            if not runs or (runs[-1][1] and not self._settings.keyed):
                runs.append(([], 0))
            runs[-1][0].extend(one.counts())
            self._hand.riding.append((operation, len(runs) - 1))
        back, gone, void = self._reports.taken()
        fresh, self._reports.fresh = self._reports.fresh, False
        rows = tuple([Run(summed(puts), gets) for puts, gets in runs])
        return Batch(rows, summed(held), back, gone, void, patient, fresh)

    def granted(self, grant: Grant) -> None:
        """Positions for what rides (rule 1)."""
        riding, self._hand.riding = self._hand.riding, []
        runs = [RunCut(run) for run in grant.runs]
        held = Cut(grant.held)
        placed: list[PutInHand] = []
        for operation, run in riding:
            one = self._hand.all.get(operation)
            if one is None:
                continue
            if type(one) is GetInHand:
                self._answering.settle_first(operation)
                one.phase = grant.phase
                self._got(one, *runs[run].got(one.count))
                continue
            assert type(one) is PutInHand
            order, positions = (0, held) if run < 0 else (runs[run].order, runs[run].puts)
            count, given_up = self._puts.place(one, positions, order)
            if given_up is not None:
                self._no_room(one, given_up)
                continue
            placed.append(one)
            if run >= 0:
                runs[run].order += count
        self._give_up([share for cut in (held, *[run.puts for run in runs]) for share in cut.left])
        unwanted = union([share for run in runs for share in run.gets.left])
        if unwanted and self._settings.keyed:
            self.searches.unwanted(unwanted)
        elif unwanted:
            self._reports.add(back=unwanted)
        if grant.gone:
            self._shelf.mark(Mark(grant.gone, 0, 0, State.GONE))
        if placed:
            self._puts.send(placed, self._hand.at())

    def fed(self) -> None:
        """There may be elements: whoever waits for some asks."""
        self._hand.waiting.more = False
        for operation in self._hand.waiting:
            self._hand.ask(operation)

    # --- homes ------------------------------------------------------------------------------------

    def leave(self) -> None:
        """The turn is over: homes hear what it brings for them (rule 10)."""
        if self._ends.words:
            self._ends.leave()
        if self._gets.wants:
            self._gets.leave()
        self._answering.leave()
        if self._reports.waiting:
            self._desk.wake(later(self._desk.now, REPORT_SOON), self._settings.queue)

    def stored(self, source: NodeId, message: Stored) -> None:
        sent = self._sending.answered(source, message.serial)
        if sent is None:
            return
        puts = [self._hand.all.get(operation) for operation in sent.operations]
        ours = [one for one in puts if isinstance(one, PutInHand)]
        for one in self._puts.stored(message, ours, sent.message):
            if not one.left and not one.refused:
                answer, now = self._puts.done(one), self._desk.now
                self._hand.leave(one.operation)
                self._hand.answered.keep(one.operation, answer, now, len(answer.orders))
                self._desk.reply(one.operation, answer)
            elif one.placed or not one.refused:  # the rest is tried again (rule 2)
                one.refused = ""
                self._wait(one)
            elif not self._hand.dropped(one):
                self._desk.decline(one.operation, "DiskFull", one.refused)

    def taken(self, source: NodeId, message: Taken) -> None:
        answered = self._sending.partly(source, message.serial, [one.at for one in message.given])
        if answered is None:
            return
        sent, new = answered
        for given in message.given:
            one = self._hand.all.get(sent.operations[given.at]) if given.at in new else None
            new.discard(given.at)
            if isinstance(one, GetInHand) and self._gets.taken(one, given):
                if one.pieces or one.again:
                    if self._gets.fitted(one, self._hand.at()):
                        self._answering.answer(one)
                else:  # what was granted was not to be had; there may be more
                    self._hand.line.append(one.operation)

    def ended(self, operation: OperationId, word: Word, refusal: Refusal | None) -> None:
        """A home has done what was said of a lease, or purged."""
        one = self._hand.all.get(operation)
        if isinstance(one, GetInHand) and isinstance(one.call, Purge):
            if self._gets.removed(one, word, refusal):  # until there is nothing more
                self._hand.line.append(operation)
            return
        if isinstance(one, GetInHand) and self._gets.went_back(one, word):
            if one.waits == 0 and (one.pieces or one.unheard(self._desk.now)):  # rule 9
                self._answering.answer(one)
            elif one.waits == 0:  # rule 4
                self._hand.line.append(one.operation)
            return
        self._answering.ended(operation, word, refusal)

    # --- a new view, and what was begun before ----------------------------------------------------

    def found(self, source: NodeId, message: Inquired) -> None:
        """A member has told what it knows of operations, or that the view still is (rule 11)."""
        sent = self._sending.answered(source, message.serial)
        if sent is None:
            return
        if sent.message.operations:
            self.beginnings.found(message)
        else:
            self._answering.confirmed()

    def viewed(self, placing: Placing | None, anchor: NodeId | None) -> None:
        """Rule 3."""
        self._hand.placing = placing
        asked = self._answering.viewed(placing, anchor)
        self._ends.viewed()
        self._gets.viewed()
        self.searches.taken()
        rides = [operation for operation, _ in self._hand.riding]
        self._hand.riding = []
        self.interrupted = []
        if self._desk.epoch == self._epoch + 1:
            self.interrupted = self._hand.interrupted(self._hand.all)
            self._hand.line.extendleft(reversed(rides))
            self._hand.line.extendleft(one for one, _ in reversed(self.interrupted))
        else:  # there may have been views without this door
            self.interrupted = self._hand.interrupted(asked)  # which nobody else knew of
            self._hand.line.clear()
            self._hand.waiting.clear()
        self._epoch = self._desk.epoch
        self.beginnings.viewed()
        self._hand.send_out()
        in_line = {*self._hand.line, *self._hand.waiting}
        for operation, one in self._hand.all.items():
            if isinstance(one, GetInHand) and one.ready:  # it waits for its settling alone
                continue
            one.waits = 0
            if operation not in in_line and operation not in self.beginnings.inquiry:
                self.beginnings.inquiry.add([operation])
        if placing is not None:
            self._answering.settle_anew(placing)

    def tick(self) -> None:
        """Patience ends, and who waits asks again."""
        now = self._desk.now
        self._reports.hurry()
        self._answering.tick(now)
        for operation in self._hand.waiting.due(now):
            self._hand.ask(operation)
        if self._hand.waiting.next is not None:
            self._desk.wake(self._hand.waiting.next, self._settings.queue)
        for until in self._hand.forget(now):
            self._desk.wake(until, self._settings.queue)

    # --- within: taking up ------------------------------------------------------------------------

    def _known(self, operation: OperationId, size: int = 0) -> bool:
        """Whether it is in hand, was answered, or is another's, or there is no room for it.

        The client hears what there is.
        """
        if self._hand.has(operation):
            return True
        answered = self._hand.answered.get(operation)
        if isinstance(answered, Again) and self._hand.placing is not None:
            return False
        if answered is not None:
            self._desk.reply(operation, answered)
            return True
        elsewhere = self._hand.elsewhere.get(operation)
        taken = isinstance(elsewhere, TakenOver) and elsewhere.era == self._desk.era
        if taken and elsewhere.door != self._desk.me:  # inquiry, rule 6
            self._desk.redirect(operation, elsewhere.door)
            return True
        full = self._hand.full(size)
        if full:
            self._desk.decline(operation, "Unavailable", full)
        return bool(full)

    def _take_up(self, one: InHand, *, begun: bool) -> None:
        self._hand.add(one)
        answered = self._hand.answered.get(one.operation)
        begun = begun or self._hand.elsewhere.get(one.operation) is not None
        if isinstance(answered, Again) and isinstance(one, GetInHand):
            one.again, one.phase = True, answered.order
            self._gets.take(one, answered.granted, answered.token, self._hand.at())
        elif begun:
            one.another = True
            mine = TakenOver(self._desk.me, self._desk.era)
            self._hand.elsewhere.keep(one.operation, mine, self._desk.now)
            self.beginnings.inquiry.add([one.operation])
        else:
            self._hand.line.append(one.operation)

    # --- within: grants ---------------------------------------------------------------------------

    def _got(self, one: GetInHand, shares: Shares, order: int) -> None:
        if shares:
            one.fresh = True
            if self._settings.keyed:  # where these ranks are is found out first
                self.searches.begin(one, shares, order)
            else:
                self._gets.take(one, shares, order, self._hand.at())
            if self._hand.waiting.more:
                self.fed()
            return
        one.order, one.token, one.fresh = one.phase or order, 0, False
        if isinstance(one.call, Purge) or one.deadline <= self._desk.now or one.nobody:
            self._answering.answer(one)
        else:
            self._wait(one)

    def _give_up(self, shares: Sequence[Share]) -> None:
        """Nothing will ever stand at these positions."""
        if shares:
            self._ends.say(sorted(self._hand.at().by_home(union(shares)).items()), How.VOID)

    def _no_room(self, one: PutInHand, given_up: Shares) -> None:
        self._give_up(given_up)
        if one.unwanted:  # rule 4
            self._hand.leave(one.operation)
            return
        if one.deadline > self._desk.now or one.placed:  # a part of it is there
            self._wait(one)
            return
        if self._hand.dropped(one):
            return
        queue, bound = self._settings.queue, self._settings.items_max
        text = f"queue {queue} holds its {bound} items; wait, or get some"
        refusal = Declined("Full", text)  # for good: no other door may begin it any more
        self._hand.answered.keep(one.operation, refusal, self._desk.now)
        self._desk.reply(one.operation, refusal)

    def _wait(self, one: InHand) -> None:
        waiting, each = self._hand.waiting, isinstance(one, PutInHand)
        waiting.add(one.operation, one.deadline, self._desk.now, each=each)
        if waiting.next is not None:
            self._desk.wake(waiting.next, self._settings.queue)
