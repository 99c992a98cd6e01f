"""The steps in which a queue's records are written here and at its mirrors (`records.py`).

The journal of a queue is a small map of keys to values, and a *step* is what one write changes in
it. Rules:

1. A step is written on the master's disk and sent to the mirrors at the same time; steps have
   numbers without gaps. What is sent names the step that it goes on from, and a mirror takes it
   only if it has that one, of this very journal: a journal is named by its term and by a number
   that its master drew when it began it.
2. A step is *safe* when the master and so many mirrors as make `copies_needed` have it, flushed.
   What depends on a step is told only then, in the order of steps. Only the word of a mirror counts
   that names this journal.
3. A mirror that misses some of the last steps gets what they changed, in one message. One that
   keeps the step with which this journal began goes on from there. Any other gets the whole map, in
   pieces (`transfer.py`); it counts when it has the last of them.
4. A mirror takes nothing of a term earlier than one it has been fenced by, nor of another journal
   of that term (`mirrors.py`).
5. Where flushes may linger, positions are told that are not on any disk. So that none of them is
   given again, a bound above them is: the step that raises it, and all until it is safe, wait for
   their flush. A master whose journal may have lost steps begins above the bound.
6. The bodies of puts that a step admits early (`early.py`) are sent with it, once. They are no part
   of the journal: a mirror that is sent later what it lacks is sent none.
7. What changes nothing is told by who was still master when it was asked, whatever clocks say: it
   waits until so many mirrors as make `copies_needed` have said since (`confirming.py`) that they
   heard of no later journal. A later master asks so many first that one of them is among those
   (`succession.py`, rule 2). Who needs no mirror has none to ask: a later one needs its own word.
"""

from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.protocols.fifo import messages
from snowmelt.protocols.fifo.confirming import Confirming
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.early import riding
from snowmelt.protocols.fifo.limits import LIMITS
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.records import other_keys, record
from snowmelt.protocols.fifo.streams import node_of
from snowmelt.protocols.fifo.transfer import Transfer

Then = Callable[[], None]
ToMirror = messages.Mirror | messages.Follow | messages.Snapshot | messages.Copy
RESEND_AFTER: Final[Duration] = milliseconds(500)
BOUND_AHEAD: Final = 1 << 16
"""So far above the last position the bound is set."""


class Copyist(msgspec.Struct):
    """A mirror as the master sees it."""

    step: int = -1
    """The last step it said it has; -1: nothing of this journal yet."""
    asked: Instant = Instant(0)
    """When it was last sent something that it has not confirmed."""
    heard: Instant = Instant(0)
    """When it last said something; or, after it had all, was first sent something more."""
    number: int = 0
    """Of the last snapshot it was sent; what it has from before that counts no more."""
    transfer: Transfer | None = None
    """The whole journal, on its way there."""


class Journal:
    """The steps of one queue in one term, as its master writes them."""

    def __init__(
        self,
        queue: Queue,
        term: int,
        step: int,
        mirrors: tuple[str, ...],
        *,
        name: int = 0,
        base: tuple[int, int] = (0, 0),
        home: messages.Home | None = None,
    ) -> None:
        self.queue = queue
        self.term = term
        self.name = name
        self.step = step
        self.here = step
        self.mirrors = {name: Copyist() for name in mirrors}
        self._base = (*base, step)
        self.limits = LIMITS
        self._home = home
        self._linger = queue.settings.linger
        self._copies_needed = queue.settings.copies_needed
        self._next: list[Then] = []
        self._waiting: deque[tuple[int, int, Then]] = deque()
        """What waits for a step, and for a question (rule 7)."""
        journal = queue.name, term, name
        self.confirming = Confirming(self._copies_needed - 1, mirrors, journal)
        self._bound_step = -1
        self._transfers = 0
        self._lately: deque[tuple[int, tuple[bytes, ...]]] = deque()
        """The last steps, and what each changed (rule 3)."""
        self._lately_keys = 0
        self._bodies: list[messages.Copy] = []

    @property
    def safe(self) -> int:
        """The last step that is safe (rule 2)."""
        needed = self._copies_needed - 1
        if needed == 0:
            return self.here
        steps = sorted((one.step for one in self.mirrors.values()), reverse=True)
        return min(self.here, steps[needed - 1]) if needed <= len(steps) else -1

    @property
    def mirrors_behind(self) -> int:
        """How many mirrors lack a step that is safe with others."""
        safe = self.safe
        return sum(one.step < safe for one in self.mirrors.values())

    def bring(self, body: messages.Copy) -> None:
        """This goes to the mirrors with the next step (rule 6)."""
        self._bodies.append(body)

    def after(self, then: Then) -> None:
        """What is to be done when all that was changed until now is safe."""
        self._next.append(then)

    @property
    def waiting(self) -> int:
        """How much is to be told or done when a step is safe, or a question confirmed."""
        return len(self._waiting) + len(self._next)

    @property
    def unwritten(self) -> bool:
        """Whether something has changed, or is to be told, that is of no step yet."""
        return bool(self.queue.changed or self._next)

    @property
    def lax(self) -> bool:
        """Whether nothing waits for a step: there is no mirror, and flushes may be late."""
        if not self._linger or self.mirrors:  # as most queues are
            return False
        return self._bound_step <= self.safe and self.queue.tail <= self.queue.bound

    @property
    def linger(self) -> Duration:
        """How late the flush of the last step may be (rule 5)."""
        return self._linger if self._linger and self._bound_step <= self.safe else Duration(0)

    def write(self) -> messages.Pairs:
        """Makes the next step of what has changed; nothing when nothing has."""
        queue = self.queue
        keys: tuple[bytes, ...] = ()
        if queue.changed:
            if self._linger and queue.tail + BOUND_AHEAD // 2 > queue.bound:
                queue.bound = queue.tail + BOUND_AHEAD
                queue.changed[b"s"] = None
                self._bound_step = self.step + 1
            keys = tuple(queue.changed)
            queue.changed.clear()
            self.step += 1
            if self.mirrors:
                self._note(keys)
        if self._next:
            step, question = self.step, 0 if keys else self.confirming.ask(self.step)
            self._waiting.extend([(step, question, then) for then in self._next])
            self._next.clear()
        return tuple([(key, record(queue, key)) for key in keys])

    def _note(self, keys: tuple[bytes, ...]) -> None:
        for mirror in self.mirrors.values():
            if mirror.transfer is not None:
                mirror.transfer.changed(keys)
        self._lately.append((self.step, keys))
        self._lately_keys += len(keys)
        while self._lately and self._lately_keys > self.limits.journal_lately:
            self._lately_keys -= len(self._lately.popleft()[1])

    # --- to the mirrors ---------------------------------------------------------------------------

    def to_mirrors(self, pairs: messages.Pairs, now: Instant) -> Iterator[tuple[str, ToMirror]]:
        """The step just written, for those that follow; and pieces that waited for a whole step."""
        name, linger = self.queue.name, self.linger
        bodies, more = riding(self._bodies)
        self._bodies = []
        step = messages.Mirror(
            name, self.term, self.name, self.step - 1, self.step, linger, pairs, bodies
        )
        for keeper, mirror in self.mirrors.items():
            yield from ((keeper, body) for body in more)
            if mirror.transfer is not None:
                if mirror.transfer.message is None:
                    yield from self._sent(keeper, self._piece(mirror.transfer), now)
            elif mirror.step >= 0:
                if mirror.step == self.step - 1:
                    mirror.heard = now
                mirror.asked = now
                yield keeper, step

    def to_laggards(
        self, here: Container[str], now: Instant, *, anew: bool = False
    ) -> Iterator[tuple[str, ToMirror]]:
        """What each mirror here lacks that has been silent for too long (rule 3)."""
        for keeper, mirror in self.mirrors.items():
            due = anew or later(mirror.asked, RESEND_AFTER) <= now
            if keeper in here and mirror.step < self.step and due:
                if not mirror.heard:
                    mirror.heard = now
                yield from self._sent(keeper, self._lacks(mirror), now)

    def _lacks(self, mirror: Copyist) -> ToMirror | None:
        if mirror.transfer is not None:
            return mirror.transfer.message or self._piece(mirror.transfer)
        if mirror.step >= 0:
            return self._caught_up(mirror)
        assert self._home is not None, "who has mirrors was told so by the registry"
        return messages.Follow(self.queue.name, self.term, self.name, *self._base, self._home)

    def _caught_up(self, mirror: Copyist) -> ToMirror | None:
        """What the steps changed that it lacks, as it stands behind the last of them."""
        if self.queue.changed:
            return None  # what stands now is of no step yet; it comes with the next
        if not self._lately or self._lately[0][0] > mirror.step + 1:
            return self._begin_transfer(mirror)
        missed = (keys for step, keys in self._lately if step > mirror.step)
        keys = dict.fromkeys(key for some in missed for key in some)
        pairs = tuple((key, record(self.queue, key)) for key in keys)
        name, now = self.queue.name, Duration(0)
        return messages.Mirror(name, self.term, self.name, mirror.step, self.step, now, pairs)

    def _begin_transfer(self, mirror: Copyist) -> ToMirror | None:
        self._transfers += 1
        keys = other_keys(self.queue)
        mirror.transfer = Transfer(self._transfers, keys, self.limits)
        mirror.number, mirror.step = self._transfers, -1
        return self._piece(mirror.transfer)

    def _piece(self, transfer: Transfer) -> ToMirror | None:
        """The next piece; the last one only when no change waits for its step."""
        assert self._home is not None, "who has mirrors was told so by the registry"
        pairs, last = transfer.next(self.queue, record, whole=not self.queue.changed)
        if not pairs and not last:
            return None
        transfer.piece += 1
        transfer.message = messages.Snapshot(
            self.queue.name,
            self.term,
            self.name,
            transfer.number,
            transfer.piece,
            self.step if last else -1,
            self._home,
            pairs,
        )
        return transfer.message

    def _sent(
        self, keeper: str, message: ToMirror | None, now: Instant
    ) -> Iterator[tuple[str, ToMirror]]:
        self.mirrors[keeper].asked = now  # it was looked at, though it may have to wait for a step
        if message is not None:
            yield keeper, message

    # --- from the mirrors -------------------------------------------------------------------------

    def mirrored(self, message: messages.Mirrored, now: Instant) -> Iterator[tuple[str, ToMirror]]:
        """A mirror has all steps up to this one; if it begins with it, it gets those since."""
        mirror = self.mirrors.get(message.keeper)
        if mirror is None or message.number != mirror.number:
            return
        self.confirming.took(message.keeper, message.step)
        begins = mirror.step < 0
        mirror.heard = now
        mirror.step = max(mirror.step, message.step)
        mirror.transfer = None
        if begins and mirror.step < self.step:
            yield from self._sent(message.keeper, self._caught_up(mirror), now)

    def pieced(self, message: messages.Pieced, now: Instant) -> Iterator[tuple[str, ToMirror]]:
        """A mirror has a piece: the next one, if it can be made now."""
        mirror = self.mirrors.get(message.keeper)
        if mirror is None or mirror.transfer is None:
            return
        transfer = mirror.transfer
        if (message.number, message.piece) == (transfer.number, transfer.piece):
            mirror.heard = now
            transfer.message = None
            yield from self._sent(message.keeper, self._piece(transfer), now)

    def behind(self, message: messages.Behind, now: Instant) -> Iterator[tuple[str, ToMirror]]:
        """A mirror lacks what came before what it was sent."""
        mirror = self.mirrors.get(message.keeper)
        if mirror is None:
            return
        mirror.heard = now
        number = 0 if mirror.transfer is None else mirror.transfer.number
        if message.number != number:
            return  # it speaks of an attempt that is over
        mirror.transfer, mirror.step = None, message.step
        lacks = self._caught_up(mirror) if message.step >= 0 else self._begin_transfer(mirror)
        yield from self._sent(message.keeper, lacks, now)

    def again(self, here: Container[str]) -> Instant | None:
        """When a silent mirror here is to be written to again; None when none owes a word."""
        mirrors = self.mirrors.items()
        behind = [one.asked for name, one in mirrors if name in here and one.step < self.step]
        behind += self.confirming.asked(here)
        return later(min(behind), RESEND_AFTER) if behind else None

    def silent(self, here: Container[str], since: Instant) -> str | None:
        """A mirror here that lacks something, and has said nothing since then."""
        for name, mirror in self.mirrors.items():
            if name in here and mirror.step < self.step and 0 < mirror.heard <= since:
                return name
        return self.confirming.silent(here, since)

    def due(self) -> list[Then]:
        """What may be done now, since its step is safe; in order, and so much at most (`told`)."""
        ready: list[Then] = []
        waiting = self._waiting
        if not (waiting or self._next):
            return ready
        lax, most = self.lax, self.limits.told
        safe = self.step if lax else self.safe
        while waiting and len(ready) < most:
            step, question, then = waiting[0]
            if step > safe or not self.confirming.is_confirmed(question):
                break
            waiting.popleft()
            ready.append(then)
        if lax:
            room = most - len(ready)
            ready += self._next[:room]
            del self._next[:room]
        return ready


def remind_mirrors(desk: Desk, journal: Journal, *, anew: bool = False) -> None:
    """Sends each mirror that is here and silent what it lacks."""
    if desk.presence is not None:
        here = desk.presence.keepers
        tell(desk, journal.to_laggards(here, desk.now, anew=anew))
        journal.confirming.tell(desk)


def tell(desk: Desk, words: Iterator[tuple[str, ToMirror]]) -> None:
    """Sends what is for mirrors, and looks later whether it came."""
    for name, message in words:
        desk.send(node_of(name), message)
        desk.alarms.wake(message.queue, later(desk.now, RESEND_AFTER))
