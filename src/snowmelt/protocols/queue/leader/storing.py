"""Bodies on data nodes, as the leader sees it: who is to have them, who has them, who may erase.

1. A put, of one priority, is *pending*: its door has the bodies, the leader gives it a place and
   data nodes, drawn of all who are here. It is *stored*: these have flushed it. It is *admitted*:
   only then its step is written, with those that have it. Who has it later is named by a later one.
2. It is admitted when all that are to have it do, or as many as must, a while ago. Who can't take
   it, or left, is replaced; with too few it is refused.
3. A door says again and again that it waits. With one that is silent goes what it offered.
4. Copies are made anew, from one node to another, while fewer than there should be have a body.
   Those do not count whose disks are gone for good, who can't read it, who left a while ago, or who
   is to leave. Who is away stays named. What nobody who is named has any more is lost.
5. A data node asks what of its bodies nobody needs. What is neither in the state, nor waits to be,
   was never told as put, or is over, if its place is no later leader's. That is told when it is
   sure that this one leads still, and all that it saw is safe (`log.py`, rule 3).
6. Who has one that is needed, and is not named, is named from then on. Who is to leave is named no
   more once others have what it has; when that is safe, it may erase it.
7. Who is to have one, and says nothing to this leader for a while, is *silent*: the two may never
   hear each other, though both are here. Others are drawn before it, and in its place, until it
   says something. Where they are too few it is asked still; what it has after all, counts. A put
   for which too few say anything, for longer, is refused, and who is silent is named.
"""

from collections.abc import Container, Iterable
from itertools import islice
from typing import Final

import msgspec

from snowmelt.core.instant import SECOND, Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import SLOWEST, Declined
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.leader.append_check import AppendCheck
from snowmelt.protocols.queue.leader.open_calls import PUT_COST, OpenCalls
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.leader.publishing import Publishing
from snowmelt.protocols.queue.messages.words import (
    BodyStored,
    CopyBody,
    EraseBodies,
    Goes,
    Key,
    Lacks,
    Offer,
    ReplyTo,
    Spare,
    SpreadPut,
)
from snowmelt.protocols.queue.state.batches import parsed
from snowmelt.protocols.queue.state.spread import Lies, body_key
from snowmelt.protocols.queue.streams import Presence, gone_for_ever, node_of

GRACE: Final = milliseconds(500)
"""So long the last copies are waited for (rule 2)."""
SILENT: Final = seconds(5)
"""A door (rule 3), or a data node, which is also given the time that the bytes take (rule 7)."""
REFUSED_AFTER: Final = seconds(8)
"""A little less than clients wait, if nothing is said of that."""
PASSED_OVER: Final = seconds(600)
"""So long at most: who has nothing of the queue has nothing to say."""
AWAY_LONG: Final = seconds(60)
LEAVES_FOR: Final = seconds(3)
AGAIN_AFTER: Final = milliseconds(300)
COPIED_WITHIN: Final = seconds(5)
"""A copy that is not there by then is asked for again."""
COPIED_AT_ONCE: Final = 8
LOOKED_AT: Final = 1_000


def inline_bound(settings: QueueSettings, presence: Presence | None) -> int:
    """How many bytes at most go with their step: where all nodes have copies, any (rule 1).

    With keys it is any, too: a door tells no leader of them.
    """
    alone = presence is None or len(presence.keepers) <= settings.replicas
    return 1 << 40 if alone or settings.priorities == ANY else settings.inline_max


class Storing(LeaderPart):
    """Of one queue, in one term."""

    def __init__(
        self, own: Own, ways_in: tuple[AppendCheck, Publishing], opened: OpenCalls
    ) -> None:
        super().__init__(own)
        self.inline = 0
        """What weighs more lies on data nodes."""
        self._admission, self._publishing = ways_in
        self._open = opened
        self._offered: dict[OperationId, SpreadPut] = {}
        """All that wait for an answer."""
        self._pending: dict[OperationId, SpreadPut] = {}
        """Those whose bodies are not stored."""
        self._placed: dict[int, SpreadPut] = {}
        """Those that have places, by these, and are not in the state."""
        self._leavers: dict[str, Instant] = {}
        """Who is to leave, and until when that holds."""
        self._few: dict[int, None] = {}
        """Of what there are too few copies, by places."""
        self._flying: dict[int, Instant] = {}
        """Of which of those one is on its way, and until when that is believed."""
        self._look_at: Instant | None = None
        self._owes: dict[str, Instant] = {}
        """Who was to have something, and since when it says nothing (rule 7)."""

    # --- pending ----------------------------------------------------------------------------------

    def offer(self, door: NodeId, word: Offer, full: str) -> None:
        """A client of that node puts (rule 1)."""
        operation, now = word.operation, self._outbox.now
        known = self._open.calls.get(operation)
        if known is not None:
            if type(known) is SpreadPut:
                known.door, known.heard = door, now
                if operation in self._pending:
                    self._ask(known)
            return
        fields = msgspec.structs.asdict(word.put)
        put = SpreadPut(**fields, operation=operation, door=door, asked=now, heard=now)
        self._open.add(operation, put)
        self._offered[operation] = put
        self._outbox.wake(later(now, GRACE))
        knows = self._publishing.knows(operation) if put.hold else self._admission.knows(put)
        if knows:
            self._admit(put)
        elif full:
            self._log.owe(ReplyTo(operation, Declined("DiskFull", full)))
        else:
            put.place = self._state.spread.place(put.count)
            self._pending[operation] = self._placed[put.place.start] = put
            self._ask(put)

    def _ask(self, put: SpreadPut) -> None:
        """Tells its door who is to have it, and has not (rules 2 and 7)."""
        presence, home, now = self._outbox.presence, self._home, self._outbox.now
        if presence is None:
            return
        stay = [one for one in self._staying(presence) if one not in put.refused]
        way, needed = put.size * SECOND // SLOWEST, home.settings.copies_needed
        heard = self._heard(stay, SILENT + way, put.has)
        put.wanted = {one: None for one in put.wanted if one in heard or one in put.has}
        for some in (heard, stay):
            others = [one for one in some if one not in put.wanted]
            few = min(home.settings.replicas - len(put.wanted), len(others))
            put.wanted |= dict.fromkeys(self._outbox.chance.sample(others, max(0, few)))
        lacking = tuple([one for one in put.wanted if one not in put.has])
        for one in lacking:
            self._owes.setdefault(one, now)
        word = Goes(home.queue, home.term, put.operation, put.place, self._outbox.wall, lacking)
        self._outbox.send(put.door, word)
        time = REFUSED_AFTER + way
        answers = self._heard(stay, time, put.has)
        if put.asked + time <= now and len({*answers, *put.has}) < needed:
            silent = [node_of(one) for one in stay if one not in answers]
            whom = " and ".join(silent or presence.left or ("others",))
            text = f"{self._outbox.me}, its leader, does not hear them; {needed} copies are needed"
            self._refuse(put, "Unavailable", f"queue {home.queue!r} waits for {whom}: {text}")

    def _heard(self, some: Iterable[str], time: int, has: Container[str] = ()) -> list[str]:
        """Those that have it, or say something, as far as is known (rule 7)."""
        at, owes = self._outbox.now - time, self._owes
        return [one for one in some if one in has or owes.get(one, self._outbox.now) > at]

    def _refuse(self, put: SpreadPut, error: str, text: str) -> None:
        if self._pending.pop(put.operation, None) is not None:
            self._log.owe(ReplyTo(put.operation, Declined(error, text)))

    def _staying(self, presence: Presence) -> list[str]:
        return [one for one in presence.keepers if one not in self._leavers]

    # --- stored -----------------------------------------------------------------------------------

    def stored(self, word: BodyStored) -> None:
        self._owes.pop(word.keeper, None)
        place, term, _ = parsed(word.key)
        lies, put = self._state.spread.held.get(place), self._placed.get(place)
        if lies is not None:
            if lies.term == term and word.keeper not in lies.nodes:
                self._name(place, lies, (*lies.nodes, word.keeper))
        elif put is not None and term == self._home.term:
            put.has[word.keeper] = None
            if put.operation in self._pending:
                self._look(put)

    def _look(self, put: SpreadPut) -> None:
        """Whether it is stored (rule 2)."""
        now = self._outbox.now
        if len(put.has) < self._home.settings.copies_needed:
            return
        put.enough = put.enough or now
        if all(one in put.has for one in put.wanted) or later(put.enough, GRACE) <= now:
            self._admit(put)

    def _admit(self, put: SpreadPut) -> None:
        self._pending.pop(put.operation, None)
        if put.hold:
            self._publishing.stage(put.operation, put)
        else:
            self._admission.put(put.operation, put)

    def lacks(self, word: Lacks) -> None:
        """One can't take it, or can't read it any more."""
        self._owes.pop(word.keeper, None)
        place, term, _ = parsed(word.key)
        lies, put = self._state.spread.held.get(place), self._placed.get(place)
        if lies is not None and lies.term == term:
            if word.keeper in lies.nodes:
                self._name(place, lies, tuple([one for one in lies.nodes if one != word.keeper]))
        elif put is not None and term == self._home.term and word.reason:
            # Without one it was only looked for, perhaps before it came.
            put.refused[word.keeper] = word.reason
            put.has.pop(word.keeper, None)
            if put.operation in self._pending:
                self._ask(put)
                if len(put.wanted) < self._home.settings.copies_needed:
                    self._refuse(put, "DiskFull", word.reason)

    # --- copies anew ------------------------------------------------------------------------------

    def _name(self, place: int, lies: Lies, nodes: tuple[str, ...]) -> None:
        """These have it; and with none, nobody has (rule 4)."""
        lies = msgspec.structs.replace(lies, nodes=nodes)
        self._state.spread.name(place, lies)
        if nodes:
            self._count(place, lies)
            return
        where = Interval(place, lies.stop)
        for batch in self._state.batches.all():
            if batch.place == where:
                where = Interval(batch.start, batch.stop)
                break
        self._few.pop(place, None)
        self._outbox.note(f"{self._home.queue}: nobody has the bodies of {where} any more")
        self._state.lose(where)

    def viewed(self) -> None:
        presence, self._look_at = self._outbox.presence, None
        self.inline = inline_bound(self._home.settings, presence) + PUT_COST
        if presence is None:
            return
        self._owes.clear()
        for place, lies in list(self._state.spread.held.items()):
            gone = [one for one in lies.nodes if gone_for_ever((one,), presence)]
            if gone:
                self._name(place, lies, tuple([one for one in lies.nodes if one not in gone]))
            else:
                self._count(place, lies)
        left = [at for at in presence.left.values() if later(at, AWAY_LONG) > self._outbox.now]
        if left and self._state.spread.held:
            self._look_at = later(min(left), AWAY_LONG)
            self._outbox.wake(self._look_at)

    def _count(self, place: int, lies: Lies) -> None:
        """Whether there are too few copies of it."""
        presence = self._outbox.presence
        if presence is None:
            return
        staying = self._staying(presence)
        there = [one for one in lies.nodes if one in staying or self._returns(one, presence)]
        if len(there) < min(self._home.settings.replicas, len(staying)):
            self._few[place] = None
            self._outbox.wake(self._outbox.now)
        else:
            self._few.pop(place, None)

    def _returns(self, keeper: str, presence: Presence) -> bool:
        """Whether it may be back soon."""
        if keeper in presence.keepers:
            return False  # it is to leave
        left = presence.left.get(node_of(keeper))
        return left is not None and later(left, AWAY_LONG) > self._outbox.now

    def _copy_anew(self) -> None:
        """From one that has it to one that has not; some at once (rule 4)."""
        presence, now = self._outbox.presence, self._outbox.now
        flying = self._flying.items()
        self._flying = {one: end for one, end in flying if end > now and one in self._few}
        for place in list(islice(self._few, LOOKED_AT)):
            del self._few[place]
            lies = self._state.spread.held.get(place)
            if lies is None:
                continue
            self._few[place] = None  # it comes last
            if len(self._flying) >= COPIED_AT_ONCE or presence is None:
                break
            if place not in self._flying:
                self._pass(place, lies, presence)
        if self._few:
            self._outbox.wake(later(now, AGAIN_AFTER))

    def _pass(self, place: int, lies: Lies, presence: Presence) -> None:
        sources = [one for one in lies.nodes if one in presence.keepers]
        targets = [one for one in self._staying(presence) if one not in lies.nodes]
        if not sources or not targets:
            return
        chance, home = self._outbox.chance, self._home
        some = [self._heard(one, SILENT) or one for one in (sources, targets)]
        source, target = map(chance.choice, some)
        self._flying[place] = later(self._outbox.now, COPIED_WITHIN)
        word = CopyBody(home.queue, home.term, body_key(place, lies), node_of(target))
        self._outbox.send(node_of(source), word)

    # --- what may be erased -----------------------------------------------------------------------

    def spare(self, word: Spare) -> None:
        """A data node asks (rules 5 and 6)."""
        self._owes.pop(word.keeper, None)
        if word.leaves:
            known = word.keeper in self._leavers
            self._leavers[word.keeper] = later(self._outbox.now, LEAVES_FOR)
            if not known:
                self._outbox.wake(later(self._outbox.now, LEAVES_FOR))
                self.viewed()
        over = [key for key in word.keys if self._is_over(key, word)]
        if over:
            number = word.number if word.leaves else 0
            self._log.owe(EraseBodies(word.keeper, tuple(over), number))

    def _is_over(self, key: Key, word: Spare) -> bool:
        place, term, _ = parsed(key)
        lies, keeper = self._state.spread.held.get(place), word.keeper
        if lies is None or lies.term != term:
            return term <= self._home.term and not self._waits(place, term)
        if keeper not in lies.nodes:
            if not word.leaves:
                self._name(place, lies, (*lies.nodes, keeper))
            return word.leaves
        rest, presence = tuple([one for one in lies.nodes if one != keeper]), self._outbox.presence
        here = presence is not None and any(one in presence.keepers for one in rest)
        if word.leaves and place not in self._few and here:
            self._name(place, lies, rest)
        return False

    def _waits(self, place: int, term: int) -> bool:
        """Whether it may be admitted still."""
        put = self._placed.get(place)
        if put is None or term != self._home.term:
            return False
        return put.operation in self._pending or self._admission.has(put)

    # --- time -------------------------------------------------------------------------------------

    @property
    def short(self) -> int:
        """Of how many items there are too few copies."""
        held = self._state.spread.held
        return sum([held[place].stop - place for place in self._few if place in held])

    def gone(self, operation: OperationId, put: SpreadPut) -> None:
        """Nobody waits for it any more."""
        self._pending.pop(operation, None)
        self._admission.gone(operation, put)

    def tick(self) -> None:
        """Says again, forgets, and has copies made."""
        if self._offered or self._placed:
            self._tick_offered()
        now = self._outbox.now
        ended = [one for one, end in self._leavers.items() if end <= now]
        for one in ended:
            del self._leavers[one]
        if ended or (self._look_at is not None and self._look_at <= now):
            self.viewed()
        if self._few:
            self._copy_anew()
        for at in (self._look_at, *self._leavers.values()):
            if at is not None:
                self._outbox.wake(at)

    def _tick_offered(self) -> None:
        now, owes = self._outbox.now, self._owes
        self._owes = {one: at for one, at in owes.items() if later(at, PASSED_OVER) > now}
        for operation, put in list(self._offered.items()):
            if operation not in self._open.calls:
                del self._offered[operation]
            elif later(put.heard, SILENT) <= now:  # rule 3
                self._open.end(operation)
                self.gone(operation, put)
            elif operation in self._pending:
                self._look(put)
        for place in list(self._placed):
            if place in self._state.spread.held or not self._waits(place, self._home.term):
                del self._placed[place]
                lies = self._state.spread.held.get(place)
                if lies is not None:
                    self._count(place, lies)
        if self._offered or self._placed:
            self._outbox.wake(later(now, GRACE))
