"""One partition of a queue, as its leader has it: it places puts, reports what is ready, leases it.

It is rules 4 to 9 of the package, and 12. What is in it is a queue like any other.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from snowmelt.core.interval import POSITION_MAX, Interval, merged
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.partition_names import part_name, part_of, whole_of
from snowmelt.protocols.queue.leader.append_check import AppendCheck
from snowmelt.protocols.queue.leader.getting import Getting
from snowmelt.protocols.queue.leader.open_calls import OpenCalls
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.leader.parted.anchor import Anchor
from snowmelt.protocols.queue.leader.parted.beside import Led
from snowmelt.protocols.queue.leader.parted.numbering import Entrant, Numbering
from snowmelt.protocols.queue.leader.publishing import Publishing
from snowmelt.protocols.queue.leader.transacting import Transacting
from snowmelt.protocols.queue.messages.partition_words import (
    Grant,
    Holds,
    NextPhase,
    Numbers,
    OwedGrant,
    PartitionReport,
    Post,
    Ready,
)
from snowmelt.protocols.queue.messages.words import Decided, Deliver, ReplyTo, Say, SpreadPut
from snowmelt.protocols.queue.state.failures import tellable
from snowmelt.protocols.queue.state.keyed import stretches
from snowmelt.protocols.queue.state.offers import Offers
from snowmelt.protocols.queue.state.state import STATUS, QueueState
from snowmelt.protocols.queue.state.tails import bounded

Listed = tuple[tuple[int, ...], bytes, bool]
"""What is ready: runs, keys, and whether there are more."""


class Partition(LeaderPart):
    """Of one queue, in one term of its leader."""

    def __init__(
        self,
        own: Own,
        ways_in: tuple[AppendCheck, Publishing, Transacting],
        opened: OpenCalls,
        getting: Getting,
    ) -> None:
        super().__init__(own)
        queue, by_key = self._home.queue, self._state.by_key
        self.numbering = Numbering(own)
        self.anchor = Anchor(own) if part_of(queue) == 0 else None
        self.uncertain = False
        """Whether steps of the last term may be missing: what they placed stays unused."""
        self._offers = by_key if isinstance(by_key, Offers) else None
        """What may be given, where that goes by keys."""
        self._admission, self._publishing, self._transacting = ways_in
        self._admission.numbering = self._publishing.numbering = self.numbering
        self._open = opened
        self._getting = getting
        self._named = part_name(whole_of(queue), 0)
        self._heard = 0
        """The latest term of an anchor that was heard of."""
        self._last = 0, 0
        """The term and the number of the last turn."""
        self._granted = 0, 0
        """The same of that whose grants were handled."""
        self._turn: tuple[NodeId, NextPhase] | None = None
        """What is to be reported, once all that has numbers is placed."""
        self._said: Say | None = None
        """The last report."""
        self._listed: tuple[tuple[int, int, int], Listed] = (-1, 0, 0), ((), b"", False)
        """As of which step it looked for how many, in how many bytes, and what it found."""
        self._watches = True
        """Whether the anchor is to hear as soon as something is ready."""
        self._begun = False

    def goes_beside(self, leaders: Mapping[str, Led]) -> None:
        """These are all that this node leads."""
        self.numbering.leaders = leaders
        if self.anchor is not None:
            self.anchor.leaders = leaders

    # --- puts -------------------------------------------------------------------------------------

    def numbers(self, source: NodeId, word: Numbers) -> None:
        """The anchor gives some (rules 3 and 10)."""
        if not self._is_old(source, word.anchor):
            self.numbering.told(word)

    def _is_old(self, source: NodeId, term: int) -> bool:
        """Whether a later anchor was heard of; none that is far later is believed."""
        if term < self._heard or self._outbox.alarm(source, self._named, term, self._heard):
            return True
        self._heard = term
        return False

    def begin(self, term: int) -> None:
        """It is served from now on; so late an anchor is known to be."""
        self._heard = max(self._heard, term)
        if not self._begun:
            self._begun = True
            self._say_ready()

    def opened(self) -> None:
        """A backup has come in, and may be used (`backups.py`, rule 10)."""
        if self.anchor is not None:
            self.anchor.counting.begin_anew()
        self._begun = self._watches = True

    def serve(self, full: str) -> None:
        """Places, asks, and reports, as far as it may now."""
        numbering = self.numbering
        while True:
            for entrant in numbering.entering(self._log):
                self._enter(entrant, full)
            if not numbering.ask():
                break
        if self._turn is not None and not self.numbering.unplaced:
            self._report(*self._turn)
            self._turn = None
        elif self._watches and self._begun and self._has_some():
            self._say_ready()
        if self.anchor is not None:
            self.anchor.serve()

    def _has_some(self) -> bool:
        """Whether a get may be given something."""
        state = self._state
        if state.paused or not state.ready.total:
            return False
        return self._offers is None or bool(self._offers.look(1, 1, self._getting.pace)[0])

    def _enter(self, entrant: Entrant, full: str) -> None:
        """It comes in, at its numbers (rule 4)."""
        tails, what, first = self._state.tails, entrant.what, entrant.first
        if self.uncertain:
            self.uncertain = False
            tails.leap(first)
            self._state.changed[STATUS] = None
        if isinstance(what, calls.PublishStaged | Decided):
            tails[:] = [max(tail, first) for tail in tails]
            self._state.changed[STATUS] = None  # though it be refused by now
        if isinstance(what, Decided):
            self._transacting.decided(what, numbered=True)
        elif isinstance(what, calls.PublishStaged):
            for operation in entrant.operations:
                self._publishing.publish(operation, what, numbered=True)
        elif full:
            for operation in entrant.operations:
                self._log.owe(ReplyTo(operation, Declined("DiskFull", full)))
        else:
            for rank in _ranks(what):
                tails[rank] = first
            if not self._admission.place(tuple(entrant.operations), what):
                self._state.changed[STATUS] = None  # its numbers stay unused

    # --- gets -------------------------------------------------------------------------------------

    def turn(self, source: NodeId, word: NextPhase) -> None:
        """A phase has ended, or begins (rules 7 and 9)."""
        if self._is_old(source, word.anchor):
            return
        if word.numbers is not None:
            self.numbering.told(word.numbers)
        last, granted = (word.anchor, word.number), (word.anchor, word.granted)
        if last < self._last:
            return
        if granted > self._granted:
            self._granted = granted
            for grant in word.grants:
                self._grant(word, grant)
        if last > self._last:
            for operation in word.left:  # rule 17
                self._open.end(operation)
                self._getting.gone(operation)
        if last > self._last or self._said is None or self._said.told:
            self._turn = source, word
        self._last = last

    def at_once(self, word: NextPhase) -> PartitionReport | None:
        """What it reports to an anchor beside it, if that waits for nothing (rule 16)."""
        if self._is_old(self._outbox.me, word.anchor) or (word.anchor, word.number) <= self._last:
            return None
        if word.numbers is not None:
            self.numbering.told(word.numbers)
        if word.grants or word.left or self.numbering.unplaced or not self._log.is_settled:
            return None
        self._last, self._turn = (word.anchor, word.number), None
        report = self._made(word)
        if self._watches and self._state.ready.total:
            self._outbox.wake(self._outbox.now)
        return report

    def _grant(self, word: NextPhase, grant: Grant) -> None:
        """It is leased, as far as it is ready still; what one has is delivered again."""
        operation, state = grant.operation, self._state
        self._open.end(operation)
        asked = grant.of, grant.seen.away, grant.since
        owed = OwedGrant(grant.door, word.anchor, word.granted, *asked)
        self._open.add(operation, owed)
        token = state.tokens.get(operation)
        if token is None and not state.takers.had(operation):
            found = self._ready_still(map(Interval, grant.runs[::2], grant.runs[1::2]))
            if found:
                token = next(self._getting.tokens)
                secret = self._outbox.secret()
                state.take(
                    operation, token, found, ahead=grant.ahead, seen=grant.seen, secret=secret
                )
        if token is None:
            nothing = calls.Leased(0, (), (), self._home.settings.lease)
            self._log.owe(ReplyTo(operation, nothing))
        else:
            if not grant.runs:  # it was given before, and may not have been heard
                self._outbox.doubt(grant.door)
            if state.leases[token].seen != grant.seen:
                state.leases[token].seen = grant.seen
                state.touch(token)
            self._log.owe(Deliver(operation, token, ""))

    def _ready_still(self, granted: Iterable[Interval]) -> list[Interval]:
        """What of this may be leased now."""
        if self._offers is not None:
            return stretches(sorted(self._offers.give(granted, self._getting.pace)))
        return merged([part for one in granted for part in self._state.ready.common(one)])

    def _report(self, source: NodeId, word: NextPhase) -> None:
        """Told when all that it says is safe, and it is sure that this one leads (rule 8)."""
        self._said = Say(source, self._made(word))
        self._log.owe(self._said)

    def _made(self, word: NextPhase) -> PartitionReport:
        runs, keys, more = self._first(word) if word.count else ((), b"", False)
        self._watches = not (word.count and runs)
        return PartitionReport(
            self._home.queue,
            self._home.term,
            word.anchor,
            word.number,
            runs,
            keys,
            more,
            tuple(self._holds(word.asked)) if word.asked else (),
            tuple(self._alive(word.befores)) if word.befores else (),
        )

    def _first(self, word: NextPhase) -> Listed:
        """What is ready; the same while nothing changes here."""
        state = self._state
        if state.paused or not state.ready.total:
            return (), b"", False
        if state.changed or max(state.tails) > word.upto or self._getting.pace is not None:
            return self._looked_up(word)
        known = self._log.head, word.count, word.size
        if self._listed[0] != known:
            self._listed = known, self._looked_up(word)
        return self._listed[1]

    def _looked_up(self, word: NextPhase) -> Listed:
        state, keys, runs = self._state, list[bytes](), list[int]()
        found, more = self._some(word)
        for interval in found:
            for batch, first, stop in state.batches.over(interval):
                each = batch.size // (batch.stop - batch.start) or 1
                if state.keyed is not None:
                    for place in range(first, stop):
                        runs += (place, place + 1, each)
                    keys.append(state.keys.row(Interval(first, stop)))
                elif runs and runs[-2] == first and runs[-1] == each:
                    runs[-2] = stop
                else:
                    runs += (first, stop, each)
        return tuple(runs), b"".join(keys), more

    def _some(self, word: NextPhase) -> tuple[list[Interval], bool]:
        """The first that a get may be given, and whether there are others behind them."""
        state, limits = self._state, self._outbox.limits
        most = min(word.count, limits.get_items), min(word.size, limits.fetch_bytes)
        late = max(state.tails) > word.upto  # some have numbers from after the phase began
        if self._offers is not None:
            before = word.upto if late else -1
            places, more = self._offers.look(*most, self._getting.pace, before)
            found = stretches(places)
            told = tellable(found, state.failures, state.batches, limits.spans_bytes)
            return told, more or len(told) < len(found)
        below = (word.upto,) * len(state.tails) if late else ()
        found = state.first(*most, below, in_turn=True)
        total = _below(state, below) if late else state.ready.total
        return found, sum([one.size for one in found]) < total

    def _holds(self, asked: tuple[OperationId, ...]) -> Iterator[Holds]:
        """Which of these gets have a lease here, or had one (rule 11)."""
        state = self._state
        for at, operation in enumerate(asked):
            token = state.tokens.get(operation)
            if token is not None:
                lease = state.leases[token]
                rank = max(map(self._rank, lease.left))
                yield Holds(at, lease.left.total, rank, lease.seen)
            elif state.takers.had(operation):
                yield Holds(at, 0)

    def _rank(self, where: Interval) -> tuple[int, int]:
        """Of the last of some positions."""
        if self._state.keyed is None:
            return 0, where.stop - 1
        return max(zip(self._state.keys.of(where), where, strict=True))

    def _alive(self, places: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        state = self._state
        for place in places:
            if place in state.batches.live:
                yield place, self._rank(Interval(place, place + 1))[0]

    def _say_ready(self) -> None:
        """Gets may wait for it (rule 12)."""
        self._watches = False
        word = Ready(self._home.queue, self._home.term)
        self._outbox.inside.append(Post(self._named, word))

    @property
    def waiting_gets(self) -> Collection[OperationId]:
        """Those that wait at the anchor, where this is it."""
        return () if self.anchor is None else self.anchor.waiting_gets

    # --- time -------------------------------------------------------------------------------------

    def tick(self) -> None:
        self.numbering.tick()
        if self.anchor is not None:
            self.anchor.tick()


def _below(state: QueueState, below: tuple[int, ...]) -> int:
    """How many are ready, of each priority those below a number."""
    if state.keyed is None:
        return bounded(state.ready, below).total
    over = state.ready.common(Interval(below[0], POSITION_MAX))
    return state.ready.total - sum([one.size for one in over])


def _ranks(put: calls.Put | SpreadPut) -> tuple[int, ...]:
    """The priorities of its items."""
    if isinstance(put, SpreadPut):
        return (put.priority,)
    return tuple([run.priority for run in put.runs]) or (0,)
