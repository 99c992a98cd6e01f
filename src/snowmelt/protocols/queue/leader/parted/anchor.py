"""The anchor: it numbers puts, and says in phases who gets what. It is the leader of partition 0.

It is rules 6 to 13 of the package, and 17; its numbers are in `counting.py`. What it must not
forget is one number; all else is asked anew by whoever waits for it.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from snowmelt.core.ends import Ends
from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.shares import SharesHeld
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.partition_names import part_name, part_of, whole_of
from snowmelt.protocols.queue.api.phase_stamp import PhaseStamp
from snowmelt.protocols.queue.leader.open_calls import Answers, keep
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.leader.parted.beside import Led
from snowmelt.protocols.queue.leader.parted.counting import Counting
from snowmelt.protocols.queue.leader.parted.phases import Shared, share_out
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.partition_words import (
    PHASE_MAX,
    CancelPartedGet,
    Grant,
    News,
    NextPhase,
    Nothing,
    PartedGet,
    PartedGetCancelled,
    PartitionReport,
)
from snowmelt.protocols.queue.metadata.absence import waits
from snowmelt.protocols.queue.metadata.finding import of_another
from snowmelt.protocols.queue.streams import node_of

AGAIN_AFTER: Final = milliseconds(300)
LOOK_EVERY: Final = seconds(1)
"""At most so often a get that waits, and is asked again, has all partitions looked at."""
STUCK: Final = seconds(8)
"""So long after its patience a get is told that a partition is silent."""


class QueuedGet(msgspec.Struct):
    want: PartedGet
    door: NodeId
    until: Instant
    """When its patience is over."""
    number: int
    """In which order it came."""


class PartitionState(msgspec.Struct):
    """A partition, as the anchor knows it in its term."""

    at: int
    name: str
    home: Assignment | None = None
    """The last that was heard of."""
    granted: int = 0
    """With which turn its last grants went first."""
    grants: tuple[Grant, ...] = ()
    """Those of which it is not known that they are safe."""
    report: PartitionReport | None = None
    """Of this phase."""


class PhaseState(msgspec.Struct):
    number: int
    last: int = 0
    """Gets that came behind this one belong to the next phase."""
    left: tuple[OperationId, ...] = ()
    asked: tuple[OperationId, ...] = ()
    befores: tuple[int, ...] = ()
    count: int = 0
    """How many items are looked for; with 0 only grants are to become safe."""
    size: int = 0
    upto: int = 0


class Anchor(LeaderPart):
    """Of one queue, in one term of partition 0."""

    def __init__(self, own: Own) -> None:
        super().__init__(own)
        self._queue = whole_of(self._home.queue)
        count = self._home.settings.partitions
        self.parts = [PartitionState(at, part_name(self._queue, at)) for at in range(count)]
        self.parts[0].home = self._home
        self.counting = Counting(own)
        self._wants: OrderedDict[OperationId, QueuedGet] = OrderedDict()
        self._shared = SharesHeld[NodeId]()
        self._came = 0
        """How many gets ever did."""
        self._items = self._bytes = 0
        """What those that wait want, together."""
        self._more_urgent: dict[OperationId, None] = {}
        """Those that want only what comes before an item, and do not wait."""
        self._left: dict[OperationId, NodeId] = {}
        """Those that nobody waits for, which may hold something; and their doors (rule 17)."""
        self._fresh: OrderedDict[OperationId, None] = OrderedDict()
        """Those of which it was not asked yet whether they hold something."""
        self._ends: Ends[OperationId] = Ends()
        self._had: Answers[tuple[int, ...]] = OrderedDict()
        """Gets that were told that there is nothing, and what was left out: they are told the same
        when they are asked again."""
        self._granted: Answers[tuple[NodeId, int]] = OrderedDict()
        """Gets that were given something which they did not hold yet: for which door, and since
        when that asked."""
        self._late: dict[OperationId, None] = {}
        """Those whose patience is over."""
        self._phase: PhaseState | None = None
        self._number = 0
        self._asks = False
        """Whether partitions are to be looked at."""
        self.leaders: Mapping[str, Led] = {}
        """All that this node leads (rule 16)."""
        self._looked = Instant(0)
        self._said = Instant(0)

    # --- gets -------------------------------------------------------------------------------------

    def want(self, source: NodeId, word: PartedGet) -> None:
        """A door asks, or asks again."""
        known, now = self._wants.get(word.operation), self._outbox.now
        if word.made not in (0, self._home.since):
            refused = of_another(self._queue)
            self._outbox.answer(source, Nothing(self._home.queue, word.operation, refused=refused))
        elif known is not None:
            known.door = source
            known.want = replace(known.want, since=word.since)
            self._asks = self._asks or later(self._looked, LOOK_EVERY) <= now
        elif word.operation in self._had:
            away = self._had[word.operation]
            self._outbox.answer(source, Nothing(self._home.queue, word.operation, away))
        elif not self._shared.has_room(word.operation.client, 1, self._outbox.limits.waiting_gets):
            text = f"{len(self._wants)} gets wait at queue {self._queue!r} already"
            self._refuse(word.operation, source, text)
        else:
            until = later(now, word.patience)
            self._came += 1
            self._wants[word.operation] = QueuedGet(word, source, until, self._came)
            self._shared.add(word.operation.client)
            self._items += word.items_max
            self._bytes += word.bytes_max
            self._fresh[word.operation] = None
            if word.before >= 0:
                self._more_urgent[word.operation] = None
            if word.patience > 0:
                self._ends.put(word.operation, until)
                self._outbox.wake(until)
            else:
                self._late[word.operation] = None
            self._asks = True

    @property
    def waiting_gets(self) -> Collection[OperationId]:
        return self._wants.keys()

    def _refuse(self, operation: OperationId, door: NodeId, text: str) -> None:
        refused = Declined("Unavailable", text)
        self._outbox.answer(door, Nothing(self._home.queue, operation, refused=refused))

    def leave(self, source: NodeId, word: CancelPartedGet) -> None:
        """Nobody waits for it any more (rule 17)."""
        operation, asked = word.operation, (source, word.since)
        wanted, granted = self._wants.get(operation), self._granted.get(operation)
        sure = not word.since
        if wanted is not None and (sure or asked == (wanted.door, wanted.want.since)):
            sure = sure and operation in self._fresh  # else it waits, and holds nothing
            self._forget(operation)
            if wanted.door != source:
                self._outbox.answer(wanted.door, Nothing(self._home.queue, operation))
        if not word.since:
            sure = sure and operation not in self._had
            keep(self._had, operation, (), self._outbox.limits.answered)
        if sure or (wanted is None and asked == granted):
            self._left[operation] = source
            self._asks = True
        else:
            self._outbox.answer(source, PartedGetCancelled(self._home.queue, operation))

    def _forget(self, operation: OperationId) -> None:
        wanted = self._wants.pop(operation, None)
        if wanted is None:
            return
        self._shared.remove(operation.client)
        self._items -= wanted.want.items_max
        self._bytes -= wanted.want.bytes_max
        self._more_urgent.pop(operation, None)
        self._fresh.pop(operation, None)
        self._late.pop(operation, None)
        self._ends.forget(operation)

    def ready(self, queue: str, term: int) -> None:
        """A partition has something, or begins (rule 12)."""
        part = self.parts[part_of(queue) or 0]
        if part.home is None or part.home.term < term:
            self._outbox.inside.append(News(part.name))
        if self._wants:
            self._asks = True

    # --- phases -----------------------------------------------------------------------------------

    def serve(self) -> None:
        """Begins a phase if one is wanted, and none is open (rule 6)."""
        self.counting.begin()
        open_ = self._wants or self._left
        if self._asks and open_ and (self._phase is None or not self._phase.count):
            self._begin()
            if self._asks:
                self._outbox.wake(self._outbox.now)

    def _begin(self) -> None:
        self._asks, self._looked = False, self._outbox.now
        asked = tuple(islice(self._fresh, PHASE_MAX))
        some = len(asked) < len(self._fresh)
        befores = [self._wants[one] for one in self._more_urgent]
        limits = self._outbox.limits
        self._number += 1
        self._phase = phase = PhaseState(
            self._number,
            self._wants[asked[-1]].number if some else self._came,
            tuple(islice(self._left, PHASE_MAX)),
            asked,
            count=min(self._items, limits.get_items),
            size=min(self._bytes, limits.fetch_bytes),
            upto=self.counting.upto,
        )
        phase.befores = tuple([one.want.before for one in befores if one.number <= phase.last])
        self._open()

    def _open(self) -> None:
        for at, part in enumerate(self.parts):
            part.report = None
            if self._needed(part):
                self.counting.carry(at)
                self._send(part)
        self._said = self._outbox.now
        self._outbox.wake(later(self._said, AGAIN_AFTER))
        self._look()

    def _needed(self, part: PartitionState) -> bool:
        """Whether this phase waits for its report."""
        phase = self._phase
        assert phase is not None
        return part.report is None and bool(phase.count or part.grants or phase.left)

    def _send(self, part: PartitionState, *, again: bool = False) -> None:
        phase = self._phase
        if phase is None or not self._needed(part):
            return
        home = part.home
        if home is None or not home.active:
            return  # news of it are asked for at the next tick
        turn = NextPhase(
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
            phase.left,
        )
        if self.leaders and self._is_beside(part, home, turn):
            return
        say = self._outbox.send_again if again else self._outbox.send
        say(node_of(home.master), turn)

    def _is_beside(self, part: PartitionState, home: Assignment, turn: NextPhase) -> bool:
        """Whether it is led here, and reports at once."""
        led = self.leaders.get(part.name)
        if led is None or led.partition is None or led.home.term != home.term:
            return False
        part.report = led.partition.at_once(turn)
        if part.report is not None:
            self.counting.heard(part.at)
        return part.report is not None

    def report(self, word: PartitionReport) -> None:
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
        for operation in phase.left:
            door = self._left.pop(operation, None)
            if door is not None:
                self._outbox.answer(door, PartedGetCancelled(self._home.queue, operation))
        self._asks = self._asks or len(self._left) > 0
        if phase.count:
            self._end(phase)

    def _is_away(self, part: PartitionState) -> bool:
        """Whether nobody who is here has a copy of it (rule 13)."""
        presence = self._outbox.presence
        if presence is None or part.home is None:
            return False
        return waits(part.home, presence, self._outbox.now) is not None

    def _end(self, phase: PhaseState) -> None:
        """Shares out what was reported, and says so to partitions and doors."""
        reports = {at: one.report for at, one in enumerate(self.parts) if one.report is not None}
        away = tuple([at for at, one in enumerate(self.parts) if one.report is None])
        apart = {one: self._as_asked(one) for one in self._apart(phase)}
        wants = map(self._as_asked, self._in_order(phase))
        most = self._outbox.limits.fetch_bytes
        shared = share_out(wants, apart, phase.asked, reports, most)
        for operation in phase.asked:
            if operation in self._fresh and self._wants[operation].number <= phase.last:
                del self._fresh[operation]  # else it was forgotten, and has come again
        unsure = shared.short and not shared.ended
        self._asks = self._asks or unsure or len(self._fresh) > 0
        nothing = [*shared.over, *shared.nothing]
        if shared.short and shared.ended:
            late = [one for one in self._late if self._wants[one].number <= phase.last]
            nothing += [one for one in late if one not in shared.given]
        for operation in dict.fromkeys(nothing):
            door = self._wants[operation].door
            self._forget(operation)
            keep(self._had, operation, away, self._outbox.limits.answered)
            self._outbox.answer(door, Nothing(self._home.queue, operation, away))
        self._grant(shared, PhaseStamp(self._home.term, phase.number, phase.upto, away))

    def _in_order(self, phase: PhaseState) -> Iterator[OperationId]:
        """The gets of a phase, as they came."""
        for operation, wanted in islice(self._wants.items(), PHASE_MAX):
            if wanted.number > phase.last:
                return
            yield operation

    def _apart(self, phase: PhaseState) -> Iterator[OperationId]:
        """Those that may be answered though there is nothing."""
        for operation in dict.fromkeys((*phase.asked, *self._more_urgent)):
            wanted = self._wants.get(operation)
            if wanted is not None and wanted.number <= phase.last:
                yield operation

    def _as_asked(self, operation: OperationId) -> PartedGet:
        """What it wants, as far as it may have it."""
        want = self._wants[operation].want
        alone = want.ahead and self._home.settings.deliveries_max == 1  # each delivery is the last
        return replace(want, items_max=1) if alone else want

    def _grant(self, shared: Shared, seen: PhaseStamp) -> None:
        grants: dict[int, list[Grant]] = {}
        each_last = self._home.settings.deliveries_max == 1
        for operation, pieces in shared.given.items():
            wanted, of = self._wants[operation], tuple(sorted(pieces))
            want, door = wanted.want, wanted.door
            if all(pieces.values()):
                keep(self._granted, operation, (door, want.since), self._outbox.limits.answered)
            else:
                self._granted.pop(operation, None)
            ahead = want.ahead and not each_last
            first = shared.again.get(operation, seen)
            left_out = tuple(sorted({*first.away, *seen.away}))
            now = replace(seen, upto=first.upto, away=left_out)
            for at, edges in pieces.items():
                grant = Grant(operation, door, tuple(edges), of, now, ahead, want.since)
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
            self._phase = PhaseState(self._number)
            self._open()

    # --- who is here ------------------------------------------------------------------------------

    def heard(self, home: Assignment) -> None:
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
        presence = self._outbox.presence
        if presence is None:
            return
        for operation, wanted in list(self._wants.items()):
            if presence.view.member(wanted.door) is None:
                self._forget(operation)
        self._look()

    def tick(self) -> None:
        """Asks silent partitions again, and ends patience."""
        now = self._outbox.now
        for operation in self._ends.over(now):
            self._late[operation] = None
            self._asks = True
        if self._ends.next is not None:
            self._outbox.wake(self._ends.next)
        phase = self._phase
        if phase is None:
            return
        if later(self._said, AGAIN_AFTER) > now:  # a queue has one alarm, and this was another's
            self._outbox.wake(later(self._said, AGAIN_AFTER))
            return
        self._said = now
        self._outbox.wake(later(now, AGAIN_AFTER))
        for part in self.parts:
            if self._needed(part):
                self._outbox.inside.append(News(part.name))
                self._send(part, again=True)
        self._look()
        if self._phase is not None:
            self._give_up()

    def _give_up(self) -> None:
        """Gets whose patience is long over are told for whom they wait."""
        now = self._outbox.now
        if later(self._looked, STUCK) > now:
            return
        silent = [part.name for part in self.parts if self._needed(part)]
        text = f"queue {self._queue!r} waits for {' and '.join(silent)}, which nobody leads"
        for operation in list(self._late):
            if later(self._wants[operation].until, STUCK) <= now:
                self._refuse(operation, self._wants[operation].door, text)
                self._forget(operation)
