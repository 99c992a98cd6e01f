"""Puts whose bodies find no room are taken back, so that a queue on a full disk can shrink.

1. A step that found no room, on this disk or a follower's, has some time to become safe all the
   same: on others, or as there is room again. Once so many disks have none that it can't be safe
   on the rest, it has no more: whoever put is refused before his client asks another node, for
   then one refusal does not speak for all.
2. If it is not safe by then, the next step takes back what came with bodies and is not safe. The
   items live no more, their numbers are free, the bodies are erased. So no disk needs room for
   these: what is written and erased in one write is not written (`write_queue.py`).
3. None of that was told. Whoever put is told `DiskFull` when that step is safe; who was to have
   such an item asks again.
4. Until then, puts that come are refused.
5. A step that is safe on others alone shows who has room: he is to lead (`controller.py`, rule 2).
   While that is open puts are not answered: who puts asks again, and finds him. A step that
   takes something back shows nothing.
"""

from collections import OrderedDict
from typing import Final

from msgspec.structs import replace

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.core.interval import Interval, IntervalSet, without
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.backups import BROKEN, Restored
from snowmelt.protocols.queue.api.schedules import SIGN
from snowmelt.protocols.queue.leader.maintenance.restoring import no_room
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.leader.publishing import Publishing
from snowmelt.protocols.queue.messages.home_words import Aside
from snowmelt.protocols.queue.messages.words import Owed, ReplyTo, Show
from snowmelt.protocols.queue.state.records import RESTORING
from snowmelt.protocols.queue.state.state import STATUS

ASIDE_WITHIN: Final = milliseconds(700)
"""So long it may take until another leads (rule 5)."""
GRACE: Final = milliseconds(1500)
"""So long others have to make safe what found no room; it is tried again in that time (rule 1)."""


class Withdrawing(LeaderPart):
    """Of one queue, in one term."""

    def __init__(
        self, own: Own, publishing: Publishing, later_puts: OrderedDict[OperationId, calls.Put]
    ) -> None:
        super().__init__(own)
        self._publishing = publishing
        self._later = later_puts
        self._reason = ""
        self._step = 0
        """The one that is to become safe."""
        self._short: set[str] = set()
        """Whose disks have no room for it."""
        self.by: Instant | None = None
        """By when it is to; None while all is well."""
        self._refuses = False
        self._aside = Instant(0)
        """Until when another may begin to lead (rule 5)."""

    @property
    def full(self) -> str:
        """Why puts are refused; empty while they are not (rule 4)."""
        return self._reason if self._refuses and self._log.safe < self._step else ""

    @property
    def unsure(self) -> bool:
        """Whether another may soon lead who has room (rule 5)."""
        tries = self.by is not None and self._log.spares_own and not self._refuses
        return tries or self._outbox.now < self._aside

    def found(self, keeper: str, reason: str) -> None:
        """A disk has no room for a step."""
        self._reason = reason
        if self.by is None or self._log.safe >= self._step:
            self._step, self._refuses = self._log.head, False
            self._short.clear()
            self.by = later(self._outbox.now, GRACE)
        self._short.add(keeper)
        if not self._log.may_be_safe(self._short):
            self.by = min(self.by, self._outbox.now)
        self._outbox.wake(self.by)
        if self._log.erases():  # that may make room
            self._state.changed[STATUS] = None

    def look(self) -> None:
        """Whether the step is safe, or its time is over (rule 2)."""
        assert self.by is not None
        if self._log.safe >= self._step:
            self.by, taken_back = None, self._refuses
            self._refuses = False
            if not taken_back:
                self._step_aside()
        elif self.by <= self._outbox.now:
            self._refuses = True
            self._take_back()
        else:
            self._outbox.wake(self.by)

    def _step_aside(self) -> None:
        # Rule 5.
        home, follower = self._home, self._log.instead_of_own(self._step)
        if self._outbox.presence is not None and follower:
            self._aside = later(self._outbox.now, ASIDE_WITHIN)
            self._outbox.note(f"{home.queue}: no room on this disk; asks that {follower} leads")
            word = Aside(home.queue, home.term, home.run, follower)
            self._outbox.to_coordinator(word)

    def _take_back(self) -> None:
        placed, state = self._log.withdraw(), self._state
        for operation in self._later:
            self._log.owe(ReplyTo(operation, self._declined))
        self._later.clear()
        if not placed:
            return
        gone = IntervalSet([one.where for one in placed])
        takers = [one.operation for one in state.leases.values() if _in(gone, list(one.left))]
        regrouped = self._take_from_groups(gone)
        for one in reversed(placed):
            state.lose(one.where, told=False)
            if one.producer.startswith(SIGN):
                state.schedules.take_back(one.producer, one.sequence)
            elif one.producer:
                state.producers.unnote(one.producer, one.sequence)
        for operation in takers:
            if operation not in state.tokens:
                state.takers.forget(operation)
        if not state.restoring.done:  # `backups.py`, rule 9
            state.restoring = replace(state.restoring, next=BROKEN)
            state.changed[RESTORING] = None
        self._log.answer_anew(lambda owed: self._anew(owed, gone, regrouped=regrouped))
        self._step = self._log.head + 1

    def _take_from_groups(self, gone: IntervalSet) -> bool:
        regrouped = False
        for name, group in self._state.groups:
            if held := _in(gone, group.held):
                group.held = [part for one in group.held for part in without([one], held)]
                self._state.groups.keep(name, group)
                regrouped = True
        return regrouped

    def _anew(self, owed: Owed, gone: IntervalSet, *, regrouped: bool) -> Owed:
        # Rule 3.
        match owed:
            case ReplyTo(operation, calls.PutDone(start, stop) | calls.Receipt(_, start, stop)) if (
                _in(gone, [Interval(start, stop)])
            ):
                self._publishing.forget(operation)
                return ReplyTo(operation, self._declined)
            case ReplyTo(operation, Restored()):
                return ReplyTo(operation, no_room(self._home.queue))
            case ReplyTo(operation, calls.Assigned()) if regrouped:
                return ReplyTo(operation, Declined("Unavailable", self._reason))
            case Show(_, positions) if held := _in(gone, list(positions)):
                return replace(owed, positions=without(positions, held))
            case _:
                return owed

    @property
    def _declined(self) -> Declined:
        return Declined("DiskFull", self._reason)


def _in(gone: IntervalSet, some: list[Interval]) -> list[Interval]:
    """What is gone of some."""
    return [part for one in some for part in gone.common(one)]
