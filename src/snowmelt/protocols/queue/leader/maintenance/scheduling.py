"""Schedules fire: their items are put by the leader, once each, whoever dies.

Rules:

1. A schedule is of the queue's state: it has the next moment at which it fires. Its item comes in,
   and the moment after that is the next, in one step. So whoever leads next fires for the others.
2. It fires when the leader's clock shows that moment, or later. A clock may be set while its node
   runs. Where one was ahead, what was fired is not fired again: the next moment is waited for.
3. What was *missed*, since nobody led or there was no room, is made up for by one item, for the
   first moment that was missed. Or it is skipped: what is more than `LATE` late is not fired.
4. Its item waits for room in its turn, as a put does, for as long as it takes. One that can never
   fit is skipped. While a disk is full it waits; an item that found no room is fired again.
5. A schedule that is made fires after that, not at once. One that is made again and is the same
   stays as it is. One that is altered fires next at a moment to come, and for none twice.
6. A paused queue is put into. A queue that is deleted takes its schedules with it; a backup has
   them, and the queue that is made of it fires as well. What each fires is its own.
7. In a queue of several partitions they are of the first.
"""

from collections import OrderedDict
from typing import Final

import msgspec
from msgspec.structs import replace

from snowmelt.core.instant import Duration, later, milliseconds, seconds
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.asking import put_problem
from snowmelt.protocols.queue.api.schedules import (
    NEVER,
    SCHEDULES_MAX,
    SIGN,
    ListSchedules,
    Moments,
    Schedule,
    Scheduled,
    ScheduleRows,
    Unschedule,
    What,
)
from snowmelt.protocols.queue.leader.append_check import AppendCheck, never
from snowmelt.protocols.queue.leader.maintenance.withdrawing import Withdrawing
from snowmelt.protocols.queue.leader.open_calls import Answers, keep
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.messages.words import ReplyTo
from snowmelt.protocols.queue.store.write_queue import WriteQueue

LATE: Final = seconds(60)
ROOM_AFTER: Final = milliseconds(1000)
"""So often it is looked whether there is room by now."""
LOOK_EACH: Final = seconds(30)
"""So often the clock is looked at: it may have been set."""
STEP_AFTER: Final = milliseconds(10)
"""The same, for room in a step."""


class Scheduling(LeaderPart):
    """Of one queue, in one term."""

    def __init__(
        self, own: Own, disk: WriteQueue, admission: AppendCheck, withdrawing: Withdrawing
    ) -> None:
        super().__init__(own)
        self._disk = disk
        self._admission = admission
        self._withdrawing = withdrawing
        self._ended: Answers[calls.Changed] = OrderedDict()

    # --- what is asked ----------------------------------------------------------------------------

    def hear(self, operation: OperationId, ask: Schedule | Unschedule | ListSchedules) -> None:
        """Somebody makes one, removes one, or asks which there are."""
        schedules, answer = self._state.schedules, msgspec.Struct()
        match ask:
            case Schedule():
                answer = self._scheduled(ask)
            case Unschedule(_, name):
                known = self._ended.get(operation)
                if known is None:
                    known = calls.Changed(int(schedules.end(name)))
                    keep(self._ended, operation, known, self._outbox.limits.answered)
                answer = known
            case ListSchedules():
                answer = ScheduleRows(schedules.rows())
        self._log.owe(ReplyTo(operation, answer))

    def _scheduled(self, ask: Schedule) -> Scheduled | Declined:
        # Rule 5.
        schedules, name, what = self._state.schedules, ask.name, ask.what
        known = schedules.moments.get(name)
        if known is not None and schedules.what[name] == what:
            return Scheduled(known)
        if known is None and len(schedules.what) >= SCHEDULES_MAX:
            text = f"queue {self._home.queue!r} has {SCHEDULES_MAX} schedules, as many as it may"
            return Declined("Full", text)
        put, settings = self._put(name, what, 0), self._home.settings
        if settings.partitions > 1:  # its key may count later, and has to live here then
            settings = replace(settings, in_order_by_key=1)
        wrong = put_problem(put, 1, settings)
        if wrong is not None:
            return Declined(*wrong)
        if never(self._home, 1, put.size):
            return Declined("Full", f"{put.size} bytes never fit into queue {self._home.queue!r}")
        last = known or Moments(0)
        wall = max(self._outbox.clock, last.last)
        moment = what.after(wall, wall)
        if moment is None or moment >= NEVER:
            return Declined("BadOption", f"every is {what.every!r}; allowed: what comes some day")
        moments = Moments(moment, last.last, last.fired_at, last.fired)
        schedules.make(name, what, moments)
        self._outbox.wake(self._outbox.now)
        return Scheduled(moments)

    def _put(self, name: str, what: What, moment: int) -> calls.Put:
        keyed = self._home.settings.priorities != 1 and not what.keys
        runs = (calls.PriorityRun(what.priority, 1),) if keyed or what.priority else ()
        return calls.Put(
            self._home.queue,
            SIGN + name,
            moment,
            what.offsets,
            what.body,
            what.labels(name, moment),
            -what.delay,
            runs=runs,
            keys=what.keys,
        )

    # --- time -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Fires those whose moment has come."""
        schedules, outbox = self._state.schedules, self._outbox
        if not schedules.what:
            return
        wall = outbox.clock
        due = sorted([(schedules.moments[name].next, name) for name in schedules.what])
        for moment, name in due:
            if moment > wall:
                break
            wait = self._due(name, schedules.what[name], moment)
            if wait:
                outbox.wake(later(outbox.now, wait))
                return
        following = min([schedules.moments[name].next for name in schedules.what])
        if following > wall:
            outbox.wake(later(outbox.now, Duration(min(following - wall, LOOK_EACH))))

    def _due(self, name: str, what: What, moment: int) -> Duration:
        """Its moment has come; after how long to look again, if it can't be put now."""
        wall, put = self._outbox.clock, self._put(name, what, moment)
        if self._admission.knows(put):  # it waits for room, or for its number
            return Duration(0)
        if not moment:  # its record was lost
            return self._goes_on(name, what.after(wall, wall))
        if what.skip and wall - moment > LATE:  # rule 3
            first = what.after(moment, wall - LATE - 1) or NEVER
            self._goes_on(name, first)
            if first > wall:
                return Duration(0)
            put = self._put(name, what, first)
        if put_problem(put, 1, self._home.settings) or never(self._home, 1, put.size):  # rule 4
            self._outbox.note(f"{self._home.queue}: what schedule {name} puts never fits")
            return self._goes_on(name, what.after(moment, wall))
        if self._disk.full or self._withdrawing.full or self._withdrawing.unsure:
            return ROOM_AFTER
        if not self._log.has_room(put.size):
            return STEP_AFTER
        self._admission.put_scheduled(put)
        return Duration(0)

    def _goes_on(self, name: str, moment: int | None) -> Duration:
        """Without an item."""
        schedules = self._state.schedules
        schedules.move(name, replace(schedules.moments[name], next=moment or NEVER))
        return Duration(0)
