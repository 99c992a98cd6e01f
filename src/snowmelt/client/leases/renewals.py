"""The leases of one consumer: renewed while it works, their acknowledgements gathered.

An acknowledgement is kept until the next get takes it along, or for a tenth of a second at most. A
lease is renewed when a third of it is over. `LeaseRenewals` keeps the books; a thread or a task
calls `tend` at every tick while there is a lease, so that an acknowledgement itself wakes nobody.
The lock is held for moments, never while something is sent.

Rules:

1. A call that takes acknowledgements along answers for them: it says which came too late, or keeps
   them for the next call. The last word of a loop takes over what is on its way, and answers for
   that.
2. Too late is what is open until it is refused, or is refused again. What an earlier call
   acknowledged is done, whatever this one hears. That is asked of each by itself: of one word some
   may be taken and the others refused, and then nothing of the lease is open, though it was not
   lost.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from snowmelt.client.connection.forking import watch
from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import ANSWER_SECONDS, LOOP, Wait
from snowmelt.client.leases.delivered import (
    LateRefusal,
    LeasedItems,
    by_lease,
    position_of,
    positions_of,
    runs,
)
from snowmelt.client.leases.steps import RELEASED, LeaseSteps, LeaseUpdate, ReturnOptions
from snowmelt.client.leases.suspects import kept_together, works_alone
from snowmelt.core.errors import LeaseLost, OutcomeUnknown, SnowmeltError
from snowmelt.core.failures import is_suspect
from snowmelt.core.instant import SECOND, Duration, Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval, IntervalSet, without
from snowmelt.runtime.clock import steady_now
from snowmelt.runtime.logs import tell

GATHER: Final = milliseconds(50)
TICK: Final = 0.05
CLOSING: Final = seconds(ANSWER_SECONDS)
"""For so long a loop that ends tries to settle each lease; its last call may take as long."""
_AGAIN: Final = seconds(1)


Hand: TypeAlias = tuple[LeasedItems, Interval]
"""The item that a loop is working on."""


class RenewedLease:
    """One lease that is worked on, and its acknowledgements that were not sent yet."""

    def __init__(self, delivered: LeasedItems) -> None:
        self.delivered = delivered
        self.since: Instant | None = None  # when the first of those was acknowledged
        self.renew = delivered.renewal
        self._runs: list[list[int]] = []
        self._told: list[tuple[Interval, ...]] = []

    def acked(self, position: int) -> None:
        if self._runs and self._runs[-1][1] == position:
            self._runs[-1][1] = position + 1
        else:
            self._runs.append([position, position + 1])

    def take(self) -> tuple[Interval, ...]:
        """All of them; the caller sends them to the master, and reports the outcome."""
        taken = runs(Interval(start, stop) for start, stop in self._runs)
        self._runs, self.since = [], None
        if taken:
            self._told.append(taken)
        return taken

    def tells(self, taken: tuple[Interval, ...]) -> bool:
        """Whether it is not known yet what came of these."""
        return any(one is taken for one in self._told)

    def last(self) -> tuple[Interval, ...]:
        """All of them, those on their way too: twice does no harm (rule 1)."""
        self.take()
        last, self._told = self.being_told, []
        return last

    def known(self, taken: tuple[Interval, ...]) -> None:
        """The outcome of these is known."""
        if taken:
            self._told = [one for one in self._told if one is not taken]

    def put_back(self, taken: tuple[Interval, ...], now: Instant) -> None:
        self.known(taken)
        self._runs += [[one.start, one.stop] for one in taken]
        self.since = later(now, _AGAIN) if self._runs else None

    def lose(self, lost: tuple[Interval, ...]) -> tuple[Interval, ...]:
        """These are not held any more; returns those whose acknowledgement was not sent."""
        gathered = IntervalSet(Interval(start, stop) for start, stop in self._runs)
        late = tuple([one for some in lost for one in gathered.common(some)])
        gathered.remove_all(late)
        self._runs = [[one.start, one.stop] for one in gathered]
        return late

    def has(self, position: int) -> bool:
        """Whether its acknowledgement may not be sent yet."""
        runs = (*self._runs, *((one.start, one.stop) for told in self._told for one in told))
        return any(start <= position < stop for start, stop in runs)

    @property
    def being_told(self) -> tuple[Interval, ...]:
        """Those that were taken, and nobody knows yet whether the master heard of them."""
        return runs(one for taken in self._told for one in taken)

    def renewed(self) -> None:
        self.renew = self.delivered.renewal

    @property
    def due(self) -> Instant:
        """When something is to be done about it."""
        return self.renew if self.since is None else min(self.renew, later(self.since, GATHER))


Missed: TypeAlias = Callable[[str, tuple[Interval, ...], str], None]
"""Hears which acknowledgements of a queue were not delivered, and why."""


def log_missed(queue: str, done: tuple[Interval, ...], why: str) -> None:
    """Said once, since nobody waits for these: the items will be delivered again."""
    items = _count(done)
    tell("acknowledgements lost", logging.WARNING, queue=queue, items=items, reason=why)


class LeaseRenewals:
    def __init__(self, steps: LeaseSteps, missed: Missed = log_missed) -> None:
        self._steps = steps
        self._missed = missed
        self._leases: dict[int, RenewedLease] = {}
        self._lock = threading.Lock()
        self.tick = TICK
        """Seconds between two calls of `tend`."""
        self.closing = False
        """Whether the loop has ended."""
        self.suspects = False
        """Whether what came last was a suspect: more of them may come, which are got singly."""
        self.settled = 0
        """How many items were acknowledged or given back."""
        self.now = Instant(0)
        """When it looked at the clock last: at an acknowledgement, or a tick ago."""
        self._untold: list[SnowmeltError] = []
        """The first failure to send acknowledgements."""
        watch(self)

    @property
    def idle(self) -> bool:
        """Whether there is no lease to renew."""
        return not self._leases

    def took(self, delivered: LeasedItems) -> bool:
        """The consumer works on these now, unless its loop has ended."""
        self.tick = min(TICK, delivered.lease / SECOND / 8)
        with self._lock:
            if not self.closing:
                self._leases[delivered.token] = RenewedLease(delivered)
            return not self.closing

    def forked(self) -> None:
        """In a child nothing is renewed, and the thread that held the lock is not here."""
        self._lock = threading.Lock()
        self._leases = {}

    def done(self, delivered: LeasedItems, position: int) -> None:
        """Gathers one. Raises `LeaseLost` when it is known to be too late."""
        self.now = now = steady_now()
        with self._lock:
            if delivered.lost or now >= delivered.ends:
                delivered.check_held(now)
            if delivered.gone:
                delivered.check_kept(Interval(position, position + 1))
            leased = self._leases.get(delivered.token)
            if leased is None:  # it was settled before, or is not to be settled here any more
                delivered.check_own(Interval(position, position + 1))
                return
            leased.acked(position)
            if leased.since is None:
                leased.since = now
            self.settled += 1

    def settles(self, delivered: LeasedItems, position: int) -> bool:
        """Whether what becomes of it was said, though the master may not have heard of it."""
        with self._lock:
            leased = self._leases.get(delivered.token)
            return leased is None or leased.has(position)

    def ack(self, delivered: LeasedItems, where: Interval | None) -> None:
        """Gathers all of some positions that is still open, or of all."""
        delivered.check_own(where)
        for one in delivered.open_in(where):
            for position in one:
                self.done(delivered, position)

    def give_back(
        self, delivered: LeasedItems, where: Interval | None, how: ReturnOptions = RELEASED
    ) -> Steps[None]:
        if how.reason:
            delivered.check_own(where)
        back = delivered.open_in(where)
        yield from self._steps.give_back(delivered, where, how)
        self._settled(delivered, back)

    def ack_now(self, delivered: LeasedItems, position: int) -> Steps[None]:
        """This one is done, and that is known when it returns; it waits for none of the others."""
        where = Interval(position, position + 1)
        delivered.check_own(where)
        done = delivered.open_in(where)
        yield from self._steps.ack(delivered, where)
        self._settled(delivered, done)

    def ended(self, delivered: LeasedItems, done: tuple[Interval, ...]) -> None:
        """Some were acknowledged in another way."""
        delivered.settled(done)
        self._settled(delivered, done)

    def _settled(self, delivered: LeasedItems, some: tuple[Interval, ...]) -> None:
        self.settled += _count(some)
        if not delivered.left.total:  # nothing is left to renew
            with self._lock:
                self._leases.pop(delivered.token, None)

    def release(self, hands: Iterable[Hand]) -> Steps[None]:
        """These go back as if they had not been taken, with all of a lease in one word."""
        for delivered, where in by_lease(hands).items():
            yield from self._steps.settle(delivered, LeaseUpdate(delivered.token, back=runs(where)))

    def get(
        self, items_max: int, bytes_max: int, timeout: float, before: int = -1, ended: int = 0
    ) -> Steps[LeasedItems | None]:
        """Leases more, and takes along the acknowledgements of one lease: the first, or `ended`.

        With the place of an item that waits here only what is more urgent. Mostly that is nothing:
        then nothing is to be flushed, so no acknowledgement goes along.
        """
        with self._lock:
            gathered = self._leases.values() if before < 0 else ()
            told = next((one for one in gathered if one.since is not None), None)
            told = self._leases.get(ended) if ended else told
            done = told.take() if told is not None else ()
        word = LeaseUpdate(told.delivered.token, done=done) if told is not None and done else None

        def heard(late: LateRefusal | None) -> None:
            if told is not None:
                self._told(told, done, late)

        try:
            most, wait = 1 if self.suspects else items_max, Wait(timeout, LOOP)
            steps = self._steps.lease(
                most, bytes_max, wait, word, heard, ahead=most > 1, before=before
            )
            delivered, _ = yield from steps
        except BaseException:
            if told is not None and told.tells(done):
                self._keep(told, done)
            raise
        if delivered is None:
            return None
        if self.took(delivered) and (yield from self._part(delivered)):
            return delivered
        with suppress(SnowmeltError):  # else when the lease ends
            yield from self._steps.give_back(delivered, None)
        return None

    def works_alone(self, failures: int, reason: str) -> bool:
        """Whether nothing else is to be begun while this item is in hand."""
        return self.suspects and works_alone(failures, reason, self._steps.deliveries_max)

    def _part(self, delivered: LeasedItems) -> Steps[bool]:
        """Gives back what is not to be worked on with the rest (`suspects.py`).

        Where nobody hears of that, none is worked on: else the rest would be held as long.
        """
        kept = kept_together(delivered)
        self.suspects = is_suspect(kept[0].reason)
        if self.suspects or self._steps.deliveries_max == 1:
            now = steady_now()
            with self._lock:
                told = [one for one in self._leases.values() if one.since is not None]
            for leased in told:
                yield from self._tend(leased, now)
        if kept is delivered.parts:
            return True
        back = without(delivered.open_in(None), positions_of(kept))
        try:
            yield from self._steps.told(delivered, LeaseUpdate(delivered.token, back=back))
        except SnowmeltError:
            with self._lock:
                self._leases.pop(delivered.token, None)
            return False
        delivered.parts = kept
        delivered.settled(back)
        return True

    def tend(self) -> Steps[None]:
        """Does what is due now, until the loop ends; then `close` sends the rest."""
        self.now = now = steady_now()
        with self._lock:
            due = [one for one in self._leases.values() if one.due <= now]
        for leased in due:
            if self.closing:
                return
            yield from self._tend(leased, now)

    def close(self, hand: Hand | None = None, reason: str = "") -> Steps[None]:
        """Tells what was acknowledged, and gives back the rest.

        Nothing of it counts as failed but, with a reason, what was in hand.
        """
        with self._lock:  # from here on an acknowledgement comes too late, and is told so
            self.closing = True
            leases = [self._ended(one) for one in self._leases.values()]
            self._leases.clear()
        late = later(steady_now(), CLOSING)
        for delivered, done, back in leases:
            if steady_now() >= late:
                self._not_told(done, "no node answered in time", OutcomeUnknown)
                continue
            failed = self._failed(delivered, back, hand) if reason else ()
            words = (
                [LeaseUpdate(delivered.token, done=done, back=failed, reason=reason)]
                if failed
                else []
            )
            rest, left = without(back, failed), () if failed else done
            if rest or left:
                words.append(LeaseUpdate(delivered.token, done=left, back=rest))
            yield from self._last_words(delivered, words)

    def _last_words(self, delivered: LeasedItems, words: Sequence[LeaseUpdate]) -> Steps[None]:
        """Tells the last of a lease; of what is done only what was not taken is missed."""
        for word in words:
            try:
                refused = yield from self._steps.told(delivered, word)
            except SnowmeltError as error:
                self._not_told(word.done, str(error), OutcomeUnknown)
                return
            if refused is not None:
                self._not_told(refused.of(_unsettled(delivered, word.done)), refused.why)

    def _ended(
        self, leased: RenewedLease
    ) -> tuple[LeasedItems, tuple[Interval, ...], tuple[Interval, ...]]:
        delivered, done = leased.delivered, leased.last()
        back = without(delivered.open_in(None), done)
        delivered.returned(back)
        return delivered, done, back

    def _failed(
        self, delivered: LeasedItems, back: tuple[Interval, ...], hand: Hand | None
    ) -> tuple[Interval, ...]:
        if hand is None or hand[0] is not delivered:
            return ()
        return tuple(IntervalSet(back).common(hand[1]))

    def _tend(self, leased: RenewedLease, now: Instant) -> Steps[None]:
        delivered = leased.delivered
        with self._lock:  # not sooner: what is taken and not told is lost when this is broken off
            done = leased.take()
            told = leased.being_told
        extend = leased.renew <= now and _count(told) < delivered.left.total
        if not (done or extend):
            return
        word = LeaseUpdate(delivered.token, done=done, extend=extend)
        try:
            refused = yield from self._steps.told(delivered, word)
        except SnowmeltError:
            self._keep(leased, done)
        except BaseException:
            self._keep(leased, done)
            raise
        else:
            if extend and not delivered.lost:
                leased.renewed()
            self._told(leased, done, refused)

    def _told(
        self, leased: RenewedLease, done: tuple[Interval, ...], refused: LateRefusal | None
    ) -> None:
        delivered = leased.delivered
        with self._lock:
            own = done if leased.tells(done) else ()
            leased.known(done)
            late: tuple[Interval, ...] = ()
            if refused is not None:
                delivered.refused(refused)
                late = refused.of(_unsettled(delivered, own))
                late = (*late, *leased.lose(refused.lost or ()))
            if delivered.lost:  # nobody will tell what was gathered meanwhile, or put back
                late = (*late, *leased.take())
            else:
                delivered.settled(done)
            if delivered.lost or not delivered.left.total:
                self._leases.pop(delivered.token, None)
        self._not_told(late, delivered.lost if refused is None else refused.why)

    def _keep(self, leased: RenewedLease, done: tuple[Interval, ...]) -> None:
        now, delivered = steady_now(), leased.delivered
        with self._lock:
            own = done if leased.tells(done) else ()
            leased.put_back(own, now)
            leased.renew = max(leased.renew, later(now, Duration(delivered.lease // 10)))
            kept = self._leases.get(delivered.token) is leased
        if delivered.loss and not kept:  # by another's word; nobody will tell them any more
            self._not_told(_unsettled(delivered, own), delivered.loss)

    def check_told(self, *, ended: bool = True) -> None:
        """Raises when something that was acknowledged was not taken, or may not have been."""
        queue = self._steps.name
        if self._untold:
            raise self._untold[0]
        if not ended:
            raise OutcomeUnknown(f"the last acknowledgements got no answer in {queue}")

    def _not_told(
        self, done: tuple[Interval, ...], why: str, kind: type[SnowmeltError] = LeaseLost
    ) -> None:
        if done:
            queue, position = self._steps.name, position_of(done[0].start)
            self._missed(queue, done, why)
            text = f"{_count(done)} acknowledgements in {queue} from position {position} on: {why}"
            self._untold = self._untold or [kind(text)]


def _unsettled(delivered: LeasedItems, done: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Those of these that no call has acknowledged (rule 2)."""
    held = IntervalSet((*delivered.open_in(None), *delivered.gone))
    return tuple([one for some in done for one in held.common(some)])


def _count(intervals: tuple[Interval, ...]) -> int:
    return sum(one.size for one in intervals)
