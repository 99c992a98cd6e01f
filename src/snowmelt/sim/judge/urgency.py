"""What clients saw of one priority queue; what of it may never be is judged as it comes.

Everything is seen from outside: calls, answers, and when they were made and heard. What needs the
whole history is judged at the end (`urgency_end.py`), by those who judge any history.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from snowmelt.check.history import Ended, Kind, Operation
from snowmelt.client.leases.delivered import WIDE
from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.outcome import Failed, Outcome
from snowmelt.sim.judge.book import Book
from snowmelt.sim.judge.copies import Being, Excuses, Keepers, Layout, Told
from snowmelt.sim.judge.values import Came, Lease, Place, Put, Terms, shortest


class Got(Lease, kw_only=True):
    """Elements under a lease, which come with it; or that there are none."""

    order: int
    """When, in the order of all operations."""
    asked: int
    values: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    failures: tuple[int, ...] = ()
    torn: bool = False
    """Whether some of it was refused: what is said of the rest is not said of all of it."""
    over: int = 0
    """How many more it may have been granted than it could carry."""

    def where(self, index: int) -> int:
        place = self.places[index]
        return (place.priority << WIDE) + place.position


class Stand(msgspec.Struct, frozen=True):
    """How many there are, all in all, it was said."""

    process: str
    called: Instant
    returned: Instant
    total: int


class Selection(msgspec.Struct, frozen=True):
    """What has a rank, it was said; nothing when nothing had."""

    process: str
    called: Instant
    returned: Instant
    rank: int
    share: float | None
    value: str = ""


class Lost(msgspec.Struct, frozen=True):
    """A get of which nobody heard."""

    process: str
    called: Instant
    returned: Instant
    light: bool
    """Whether it may have given back some of what it had, by itself."""


class UrgencyLedger(Book):
    """One queue whose order is that of urgency."""

    def __init__(
        self, queue: str, terms: Terms, excuses: Excuses, layout: Layout, *, early: int = 0
    ) -> None:
        super().__init__(queue, terms, early=early)
        self.excuses = excuses
        self.layout = layout
        self.keepers = Keepers(excuses, layout)
        self.being = Being(excuses)
        self.narrow = False
        """Whether any get may give back by itself some of what it was granted."""
        self.gets: list[Got] = []
        self.lost_gets: list[Lost] = []
        self.attempted: dict[str, None] = {}
        """What somebody said is done, whether anybody heard it or not."""
        self.backs: list[Operation] = []
        self.purged: list[tuple[Instant, Instant | None, int | None]] = []
        self.freed: list[tuple[str, Got, Instant]] = []
        """What was given back of a get, and is there to be got from then on."""
        self.stands: list[Stand] = []
        self.selections: list[Selection] = []
        self._excused: dict[tuple[str, Instant], str] = {}
        """Which calls, by who made them and when, rest on an excuse, and on which."""

    @property
    def excused(self) -> Counter[str]:
        """How many calls rest on an excuse, by the reason."""
        return Counter(self._excused.values())

    def rests(self, process: str, called: Instant, reason: str) -> str:
        """A call rests on an excuse, if there is a reason."""
        if reason:
            self._excused[process, called] = reason
        return reason

    # --- elements in ------------------------------------------------------------------------------

    def sends(
        self, rows: list[tuple[str, int]], headers: bytes, delay: Duration, at: Instant
    ) -> Put:
        """It is on its way, in the order of its priorities: what was asked for, and no more."""
        put = self.by_value[rows[0][0]]
        asked = sorted(zip(put.values, put.priorities, strict=True))
        if sorted(rows) != asked or headers != put.headers or delay != put.delay:
            self.wrong(f"{rows} are put where {asked} were asked for", put.process)
        if not put.sent:
            put.called, put.sent = at, True
            put.due = later(at, delay) if delay else put.due
            put.values = tuple([value for value, _ in rows])
            put.priorities = tuple([priority for _, priority in rows])
        return put

    def done(
        self, put: Put, places: tuple[Place, ...], orders: tuple[int, ...], at: Instant
    ) -> None:
        """It is in the queue, says the queue, there."""
        if put.ended is Ended.SUCCEEDED:
            if self._done_anew(put, places, at):
                return
            if put.places != places or (orders and put.orders and put.orders != orders):
                sentence = f"{put.values[0]} was told to stand at {put.places}, and at {places}"
                self.wrong(sentence, put.process)
            return
        if put.ended is Ended.FAILED:
            self.wrong(f"{put.values[0]} was refused ({put.why}), and is told", put.process)
        if len(places) != len(put.values):
            text = f"{len(places)} positions for {len(put.values)} elements from {put.values[0]}"
            self.wrong(text, put.process)
        told = tuple([place.priority for place in places])
        rows = (0,) * len(places) if put.keyed else put.priorities
        if told != rows:
            self.wrong(f"{put.values[0]} is told to be of priority {told[0]}", put.process)
        self.is_in(put, at)
        put.places, put.orders = places, orders

    # --- elements out -----------------------------------------------------------------------------

    def leased(self, got: Got, items: Iterable[Came]) -> Got | None:
        """A get was answered; None when it found nothing."""
        self.gets.append(got)
        came = self.shown(items, got.returned)
        if not came:
            return None
        got.values = tuple([one.value for one in came])
        got.places = tuple([one.place for one in came])
        got.failures = tuple([one.failures for one in came])
        got.over = got.asked - len(came) if self.narrow else 0
        if len(came) > got.asked:
            self.wrong(f"{len(came)} elements, and {got.asked} were asked for", got.process)
        self._in_order(came, "came", got.process)
        got.ends = later(got.called, shortest(self.terms.lease))
        if self.leapt(got.called, got.ends):
            got.ends = got.called
        return got

    def shown(self, items: Iterable[Came], at: Instant) -> list[Came]:
        """Elements came: of a lease, or only to be looked at."""
        return [self._shown(one, at) for one in items]

    def _shown(self, came: Came, at: Instant) -> Came:
        value, put = came.value, self.put_of(came)
        priority = put.priority(value)
        if came.priority != priority:
            self.wrong(f"{value} came with priority {came.priority}, not {priority}", value)
        if not (put.ended is Ended.FAILED and self._refusal_lost(put, at)):
            self.not_refused(put, value)
        if at + 2 * self.slack(at) < put.due:
            self.wrong(f"{value} is shown before it is due", value)
        return came

    def _in_order(self, items: list[Came], came: str, process: str) -> None:
        urgency = [(self.key(one.value, one.place), one.place.position) for one in items]
        if urgency != sorted(urgency):
            text = f"{items[0].value} and others {came} in no order of urgency"
            self.wrong(text, process)

    def lose(
        self, process: str, called: Instant, at: Instant, outcome: Outcome[Any], light: bool = False
    ) -> None:
        """A get has no answer: it may have had anything, and that comes back."""
        if not isinstance(outcome, Failed):
            self.lost_gets.append(Lost(process, called, at, light or self.narrow))

    def looked(
        self, process: str, called: Instant, items: Iterable[Came], at: Instant, *, dead: bool
    ) -> list[Came]:
        """Somebody was shown these."""
        shown = self.shown(items, at)
        if not dead:
            self._in_order(shown, "are shown", process)
        values = {one.value: None for one in shown}
        for ack in self.acks:
            returned = ack.returned
            if returned is None or called < returned:
                continue
            for value in ack.values:
                told = self.acked_of(ack, value)
                if value not in values or self.excuse(process, called, told, at):
                    continue
                self.wrong(f"{value} was acknowledged, and is shown", process)
        return shown

    # --- leases -----------------------------------------------------------------------------------

    def acked(
        self, got: Got, chosen: list[int], called: Instant, at: Instant, ended: Ended
    ) -> None:
        if chosen:
            self.acks.append(_said(Kind.ACK, got, chosen, called, at, ended))

    def given_back(
        self, got: Got, chosen: list[int], called: Instant, at: Instant, ended: Ended
    ) -> None:
        """Some were said to go back: from the call on another may have them."""
        if chosen:
            self.backs.append(_said(Kind.BACK, got, chosen, called, at, ended))

    def refused_lease(self, got: Got, at: Instant, called: Instant) -> None:
        """Something said of a lease was refused: it must be over, then.

        Where a view ended meanwhile the door has said it twice, and was refused the second time.
        """
        twice = any(called <= view.at <= at for view in self.excuses.views)
        if got.ends <= at or twice:
            return
        epoch = self.layout.epoch(got.token)
        known = any(  # done before, and forgotten, or told to nobody: whoever knows it is back
            self.excuse(got.process, called, word, at)
            or (ack.returned is None and self.keepers.come_out(word, epoch, at))
            for ack, word in _done_before(got, self.acks)
        )
        if not known and not self.let_go(got, called, at):
            self.wrong(
                f"lease {got.token} of {got.process} is lost, it says, and was held", got.process
            )

    def renewed(self, got: Got, called: Instant) -> None:
        """Its time began anew, not before this."""
        until = later(called, shortest(self.terms.lease))
        if not self.leapt(called, until):
            got.ends = max(got.ends, until)

    # --- what is excused --------------------------------------------------------------------------

    def excuse(self, process: str, called: Instant, told: Told, until: Instant) -> str:
        """Why what was told may be undone or forgotten by then; a call of this process needs it."""
        return self.rests(process, called, self.keepers.forgotten(told, until))

    def let_go(self, one: Got | Put, called: Instant, at: Instant) -> bool:
        """Whether what was told by then of some of its elements may be undone or forgotten."""
        words = [Told(place, one.called, called) for place in one.places]
        return any(self.excuse(one.process, called, word, at) for word in words)

    def acked_of(self, ack: Operation, value: str | int) -> Told:
        """What the answer to an acknowledgement told of one of its elements."""
        got = next(one for one in self.gets if one.token == ack.token and value in one.values)
        place = got.places[got.values.index(str(value))]
        assert ack.returned is not None
        return Told(place, Instant(ack.called), Instant(ack.returned))

    def _done_anew(self, put: Put, places: tuple[Place, ...], at: Instant) -> bool:
        """Whether a put that was answered may stand elsewhere now."""
        assert put.returned is not None
        moved = [old for old, new in zip(put.places, places, strict=True) if old != new]
        words = [Told(old, put.called, put.returned) for old in moved]
        return bool(moved) and all(self.excuse(put.process, put.called, one, at) for one in words)

    def _refusal_lost(self, put: Put, at: Instant) -> bool:
        """Whether some disk lost what came since a put was refused, wherever it lay."""
        reason = self.excuses.undone(put.called, at)
        hurts = [one for one in self.excuses.hurts if one.since <= at and put.called <= one.at]
        hurts = [one for one in hurts if not one.whole]
        reason = reason or next((one.reason for one in reversed(hurts)), "")
        return bool(self.rests(put.process, put.called, reason))

    def key(self, value: str, place: Place) -> int:
        """The smaller one is the more urgent."""
        put = self.by_value[value]
        priority = put.priority(value) if put.keyed else place.priority
        return -priority if self.terms.largest_first else priority


def _said(
    kind: Kind, got: Got, chosen: list[int], called: Instant, at: Instant, ended: Ended
) -> Operation:
    """Of some of what was got."""
    values = tuple([got.values[index] for index in chosen])
    returned = at if ended is Ended.SUCCEEDED else None
    return Operation(got.process, kind, values, called, returned, ended, token=got.token)


def _done_before(got: Got, acks: Iterable[Operation]) -> Iterator[tuple[Operation, Told]]:
    """What of a lease was said to be done before it was given."""
    for ack in acks:
        for value, place in zip(got.values, got.places, strict=True):
            if ack.called < got.called and value in ack.values:
                yield ack, Told(place, Instant(ack.called), Instant(ack.returned or ack.called))
