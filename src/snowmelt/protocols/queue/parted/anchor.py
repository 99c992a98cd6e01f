"""The anchor: it numbers puts, and says in phases who gets what. It is the leader of partition 0.

It is rules 6 to 13 of the package, and its numbers are in `counting.py`. What it must not forget is
one number; all else is asked anew by whoever waits for it.
"""

from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.absence import waits
from snowmelt.protocols.queue.deadlines import Ends
from snowmelt.protocols.queue.desk import Desk
from snowmelt.protocols.queue.log import Log
from snowmelt.protocols.queue.messages import Home
from snowmelt.protocols.queue.open_calls import Answers, keep
from snowmelt.protocols.queue.parted.beside import Led
from snowmelt.protocols.queue.parted.counting import Counting
from snowmelt.protocols.queue.parted.names import part_name, part_of, whole_of
from snowmelt.protocols.queue.parted.phases import share_out
from snowmelt.protocols.queue.parted.words import (
    PHASE_MAX,
    Grant,
    Leave,
    News,
    Nothing,
    Report,
    Turn,
    Want,
)
from snowmelt.protocols.queue.state import State
from snowmelt.protocols.queue.streams import node_of

AGAIN_AFTER: Final = milliseconds(300)
LOOK_EVERY: Final = seconds(1)
"""At most so often a get that waits, and is asked again, has all partitions looked at."""
STUCK: Final = seconds(8)
"""So long after its patience a get is told that a partition is silent."""


class Wanted(msgspec.Struct):
    want: Want
    door: NodeId
    until: Instant
    """When its patience is over."""


class Part(msgspec.Struct):
    """A partition, as the anchor knows it in its term."""

    at: int
    name: str
    home: Home | None = None
    """The last that was heard of."""
    granted: int = 0
    """With which turn its last grants went first."""
    grants: tuple[Grant, ...] = ()
    """Those of which it is not known that they are safe."""
    report: Report | None = None
    """Of this phase."""


class Phase(msgspec.Struct):
    number: int
    wants: tuple[OperationId, ...] = ()
    asked: tuple[OperationId, ...] = ()
    befores: tuple[int, ...] = ()
    count: int = 0
    """How many items are looked for; with 0 only grants are to become safe."""
    size: int = 0
    upto: int = 0


class Anchor:
    """Of one queue, in one term of partition 0."""

    def __init__(self, desk: Desk, home: Home, state: State, log: Log) -> None:
        self._desk = desk
        self._home = home
        self._queue = whole_of(home.queue)
        count = home.settings.partitions
        self.parts = [Part(at, part_name(self._queue, at)) for at in range(count)]
        self.parts[0].home = home
        self.counting = Counting(desk, home, state, log)
        self._wants: OrderedDict[OperationId, Wanted] = OrderedDict()
        self._fresh: OrderedDict[OperationId, None] = OrderedDict()
        """Those of which it was not asked yet whether they hold something."""
        self._ends: Ends[OperationId] = Ends()
        self._had: Answers[bool] = OrderedDict()
        """Gets that were told that there is nothing: asked again they are told the same."""
        self._late: dict[OperationId, None] = {}
        """Those whose patience is over."""
        self._phase: Phase | None = None
        self._number = 0
        self._asks = False
        """Whether partitions are to be looked at."""
        self.leaders: Mapping[str, Led] = {}
        """All that this node leads (rule 16)."""
        self._looked = Instant(0)
        self._said = Instant(0)

    # --- gets -------------------------------------------------------------------------------------

    def want(self, source: NodeId, word: Want) -> None:
        """A door asks, or asks again."""
        known, now = self._wants.get(word.operation), self._desk.now
        if known is not None:
            known.door = source
            self._asks = self._asks or later(self._looked, LOOK_EVERY) <= now
        elif word.operation in self._had:
            self._desk.send(source, Nothing(self._home.queue, word.operation))
        elif len(self._wants) >= self._desk.limits.waiting_gets:
            text = f"{len(self._wants)} gets wait at queue {self._queue!r} already"
            self._refuse(word.operation, source, text)
        else:
            until = later(now, word.patience)
            self._wants[word.operation] = Wanted(word, source, until)
            self._fresh[word.operation] = None
            if word.patience > 0:
                self._ends.put(word.operation, until)
                self._desk.wake(until)
            else:
                self._late[word.operation] = None
            self._asks = True

    def _refuse(self, operation: OperationId, door: NodeId, text: str) -> None:
        refused = Declined("Unavailable", text)
        self._desk.send(door, Nothing(self._home.queue, operation, refused=refused))

    def leave(self, word: Leave) -> None:
        """Nobody waits for it any more."""
        self._forget(word.operation)

    def _forget(self, operation: OperationId) -> None:
        self._wants.pop(operation, None)
        self._fresh.pop(operation, None)
        self._late.pop(operation, None)
        self._ends.forget(operation)

    def ready(self, queue: str, term: int) -> None:
        """A partition has something, or begins (rule 12)."""
        part = self.parts[part_of(queue) or 0]
        if part.home is None or part.home.term < term:
            self._desk.inside.append(News(part.name))
        if self._wants:
            self._asks = True

    # --- phases -----------------------------------------------------------------------------------

    def serve(self) -> None:
        """Begins a phase if one is wanted, and none is open (rule 6)."""
        self.counting.begin()
        if self._asks and self._wants and (self._phase is None or not self._phase.count):
            self._begin()
            if self._asks:
                self._desk.wake(self._desk.now)

    def _begin(self) -> None:
        self._asks, self._looked = False, self._desk.now
        asked = tuple(islice(self._fresh, PHASE_MAX))
        wants = tuple(dict.fromkeys((*islice(self._wants, PHASE_MAX), *asked)))
        some = [self._wants[one].want for one in wants]
        limits = self._desk.limits
        self._number += 1
        self._phase = Phase(
            self._number,
            wants,
            asked,
            tuple([one.before for one in some if one.before >= 0]),
            min(sum([one.items_max for one in some]), limits.get_items),
            min(sum([one.bytes_max for one in some]), limits.fetch_bytes),
            self.counting.upto,
        )
        self._open()

    def _open(self) -> None:
        for at, part in enumerate(self.parts):
            part.report = None
            self.counting.carry(at)
            self._send(part)
        self._said = self._desk.now
        self._desk.wake(later(self._said, AGAIN_AFTER))
        self._look()

    def _needed(self, part: Part) -> bool:
        """Whether this phase waits for its report."""
        assert self._phase is not None
        return part.report is None and (self._phase.count > 0 or len(part.grants) > 0)

    def _send(self, part: Part) -> None:
        phase = self._phase
        if phase is None or not self._needed(part):
            return
        home = part.home
        if home is None or not home.active:
            return  # news of it are asked for at the next tick
        turn = Turn(
            part.name,
            home.term,
            self._home.term,
            phase.number,
            part.granted,
            part.grants,
            self.counting.of(part.at, home.term),
            phase.count,
            phase.size,
            phase.upto,
            phase.asked,
            phase.befores,
        )
        if self.leaders and self._is_beside(part, home, turn):
            return
        self._desk.send(node_of(home.master), turn)

    def _is_beside(self, part: Part, home: Home, turn: Turn) -> bool:
        """Whether it is led here, and reports at once."""
        led = self.leaders.get(part.name)
        if led is None or led.parted is None or not led.serving or led.home.term != home.term:
            return False
        part.report = led.parted.at_once(turn)
        if part.report is not None:
            self.counting.heard(part.at)
        return part.report is not None

    def report(self, word: Report) -> None:
        """A partition says what it has (rule 8)."""
        phase, part = self._phase, self.parts[part_of(word.queue) or 0]
        if phase is None or (word.anchor, word.number) != (self._home.term, phase.number):
            return
        if part.home is None or word.term != part.home.term:
            return
        part.report, part.grants = word, ()
        self.counting.heard(part.at)
        self._look()

    def _look(self) -> None:
        """Whether the phase has ended: all have reported who are to."""
        phase = self._phase
        if phase is None:
            return
        for part in self.parts:
            if self._needed(part):
                if not self._is_away(part):
                    return
                part.grants = ()
        self._phase = None
        if phase.count:
            self._end(phase)

    def _is_away(self, part: Part) -> bool:
        """Whether nobody who is here has a copy of it (rule 13)."""
        presence = self._desk.presence
        if presence is None or part.home is None:
            return False
        return waits(part.home, presence, self._desk.now) is not None

    def _end(self, phase: Phase) -> None:
        """Shares out what was reported, and says so to partitions and doors."""
        reports = {at: one.report for at, one in enumerate(self.parts) if one.report is not None}
        away = tuple([at for at, one in enumerate(self.parts) if one.report is None])
        open_ = [self._wants[one].want for one in phase.wants if one in self._wants]
        if self._home.settings.deliveries_max == 1:  # each delivery is the last
            open_ = [msgspec.structs.replace(w, items_max=1) if w.ahead else w for w in open_]
        shared = share_out(open_, phase.asked, reports, self._desk.limits.fetch_bytes)
        for operation in phase.asked:
            self._fresh.pop(operation, None)
        self._asks = self._asks or len(shared.left) > 0 or len(self._fresh) > 0
        self._grant(shared.given, away, phase.upto)
        for operation in (*shared.over, *shared.nothing):
            if operation in shared.over or operation in self._late or self._waits_not(operation):
                door = self._wants[operation].door
                self._forget(operation)
                keep(self._had, operation, True, self._desk.limits.answered)
                self._desk.send(door, Nothing(self._home.queue, operation, away))

    def _waits_not(self, operation: OperationId) -> bool:
        return self._wants[operation].want.before >= 0

    def _grant(
        self, given: dict[OperationId, dict[int, list[int]]], away: tuple[int, ...], upto: int
    ) -> None:
        grants: dict[int, list[Grant]] = {}
        each_last = self._home.settings.deliveries_max == 1
        for operation, pieces in given.items():
            wanted, of = self._wants[operation], tuple(sorted(pieces))
            ahead = wanted.want.ahead and not each_last
            for at, edges in pieces.items():
                grant = Grant(operation, wanted.door, tuple(edges), of, away, upto, ahead)
                grants.setdefault(at, []).append(grant)
            self._forget(operation)
        if not grants:
            return
        granted = self._number + 1
        for at, some in grants.items():
            self.parts[at].grants = tuple(some)
            self.parts[at].granted = granted
        if self._asks and self._wants:
            self._begin()
        else:
            self._number += 1
            self._phase = Phase(self._number)
            self._open()

    # --- who is here ------------------------------------------------------------------------------

    def heard(self, home: Home) -> None:
        """Who leads a partition, or is to."""
        part = self.parts[part_of(home.queue) or 0]
        if part.home is not None and (part.home.term, part.home.active) > (home.term, home.active):
            return
        news = part.home is None or part.home.term < home.term or not part.home.active
        part.home = home
        if news:
            self._send(part)  # what the last leader reported stands
        self._look()

    def viewed(self) -> None:
        """Doors that are gone want nothing more."""
        presence = self._desk.presence
        if presence is None:
            return
        for operation, wanted in list(self._wants.items()):
            if presence.view.member(wanted.door) is None:
                self._forget(operation)
        self._look()

    def tick(self) -> None:
        """Asks silent partitions again, and ends patience."""
        now = self._desk.now
        for operation in self._ends.over(now):
            self._late[operation] = None
            self._asks = True
        if self._ends.next is not None:
            self._desk.wake(self._ends.next)
        phase = self._phase
        if phase is None:
            return
        if later(self._said, AGAIN_AFTER) > now:  # a queue has one alarm, and this was another's
            self._desk.wake(later(self._said, AGAIN_AFTER))
            return
        self._said = now
        self._desk.wake(later(now, AGAIN_AFTER))
        for part in self.parts:
            if self._needed(part):
                self._desk.inside.append(News(part.name))
                self._send(part)
        self._look()
        if self._phase is not None:
            self._give_up()

    def _give_up(self) -> None:
        """Gets whose patience is long over are told for whom they wait."""
        now = self._desk.now
        if later(self._looked, STUCK) > now:
            return
        silent = [part.name for part in self.parts if self._needed(part)]
        text = f"queue {self._queue!r} waits for {' and '.join(silent)}, which nobody leads"
        for operation in list(self._late):
            if later(self._wants[operation].until, STUCK) <= now:
                self._refuse(operation, self._wants[operation].door, text)
                self._forget(operation)
