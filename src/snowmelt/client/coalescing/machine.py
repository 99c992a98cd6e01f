"""What is asked while a call is on its way goes together, as one; a machine without a clock.

A *ticket* is what one caller asks. A *call* is made of tickets of one key: only those may go in it
(`tickets.py`). `InFlight` decides whether more may go while some are on their way.

1. When no call of its key is on its way, what is asked goes at once: nobody waits for company.
2. While one is, tickets gather. They go when that is back, when a call's worth is there, or when
   what is on its way is late (`late`). So a silent node, or a get that waits for items, holds up
   the others no longer than that.
3. What goes is cut into calls, first come first: each of one key, and no more than a call's worth,
   unless one ticket is. Where order counts no ticket overtakes another: a ticket behind one that
   waits also waits, and only neighbours go in one call; else all of one key may.
4. Who leaves takes only its own ticket along: one that still waits is not sent, and one that has
   gone is not answered. A get that all have left, who went in it, leaves its queue.
5. What a call for several is refused for may be the fault of one. Then each goes alone (`apart`).
6. A ticket for which the answer had nothing goes again, ahead of those that came later (`again`).
7. Every ticket has its time. When it is over the ticket is out, whatever becomes of its call. The
   one whose time ends last in its call, or hardly before, is answered by the call, which keeps this
   very time and knows why nothing came. It is out when the call is overdue.
8. A crowd goes in two halves, each a call: else this process waits while the node works, and the
   node while this process does. So two calls of a key may be on their way, if the second has half a
   crowd, and no fewer than half of those in the first: many small calls cost more than they gain.
9. Where a get may bring what was put after others, all puts that gather go before it (`all_of_it`).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from snowmelt.client.coalescing.tickets import Bundle, Ticket, cut
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.protocols.calling import LONGEST_MOVE

LATE: Final = milliseconds(5)
OVERDUE: Final = Duration(LONGEST_MOVE + seconds(1.0))
"""As long as a call waits for an answer that is coming, and some more."""
CROWD: Final = 32
"""So many tickets gain by going in halves; fewer lose by it, since each call costs a flush."""


class InFlightCall(msgspec.Struct, frozen=True):
    since: Instant
    tickets: int


class InFlight:
    """Of one line.

    >>> flight = InFlight(late=Duration(50), crowd=32)
    >>> flight.begin("a key", 1, 20, Instant(0))
    >>> flight.holds_up("a key", 15, Instant(49)), flight.holds_up("a key", 15, Instant(50))
    (True, False)
    >>> flight.holds_up("a key", 16, Instant(49))  # half a crowd
    False
    """

    def __init__(self, late: Duration, crowd: int) -> None:
        self._late = late
        self._crowd = crowd
        self._calls: dict[Hashable, dict[int, InFlightCall]] = {}
        """By keys; the last to go is the last."""
        self._half = 0
        """How many are half of the crowd, when there was one."""

    def __contains__(self, key: Hashable) -> bool:
        return key in self._calls

    def __bool__(self) -> bool:
        return bool(self._calls)

    @property
    def numbers(self) -> set[int]:
        return set(chain.from_iterable(self._calls.values()))

    def begin(self, key: Hashable, number: int, tickets: int, now: Instant) -> None:
        self._calls.setdefault(key, {})[number] = InFlightCall(now, tickets)

    def back(self, key: Hashable, number: int) -> None:
        calls = self._calls.get(key)
        if calls is not None:
            calls.pop(number, None)
            if not calls:
                del self._calls[key]

    def opens(self, key: Hashable) -> Instant:
        """Until when one waits for the calls of this key."""
        calls = self._calls.get(key)
        return Instant(0) if not calls else later(next(reversed(calls.values())).since, self._late)

    def holds_up(self, key: Hashable, count: int, now: Instant) -> bool:
        """Whether so many of this key wait."""
        return now < self.opens(key) and not self._is_half(key, count)

    def cuts(self, count: int) -> int:
        """How many of so many go first, the others at once behind them (rule 8).

        All, but for a crowd when nothing is on its way; one that is a half by itself goes whole.
        """
        if count < self._crowd:
            return count
        half, last = (count + 1) // 2, self._half
        self._half = count if self._calls else half
        return count if self._calls or count <= last else half

    def _is_half(self, key: Hashable, count: int) -> bool:
        """Whether so many may be the second call on its way."""
        first, *more = self._calls[key].values()
        return not more and 2 * count >= max(self._crowd, first.tickets)


class Coalescer:
    """The tickets of one kind to one queue.

    >>> line = Coalescer(worth=100, late=Duration(50), ordered=True)
    >>> one = line.ask("one", "a key", 1, Instant(1000))
    >>> [first] = line.go(Instant(0))
    >>> two = line.ask("two", "a key", 1, Instant(1000))
    >>> three = line.ask("three", "a key", 1, Instant(1000))
    >>> line.go(Instant(1)), line.due
    ([], 50)
    >>> line.back(first)
    >>> [[ticket.what for ticket in each.tickets] for each in line.go(Instant(2))]
    [['two', 'three']]
    """

    def __init__(
        self,
        worth: int,
        late: Duration = LATE,
        overdue: Duration = OVERDUE,
        crowd: int = CROWD,
        *,
        ordered: bool = False,
    ) -> None:
        self._worth = worth
        self._late = late
        self._overdue = overdue
        self._ordered = ordered
        self._numbers = 0
        self._waiting: list[Ticket] = []
        self._weight = 0  # of those
        self._in_flight = InFlight(late, crowd)
        self._ends: dict[int, Instant] = {}
        """When the time of the last ticket of each call is over."""
        self._open: dict[int, int] = {}
        """The tickets without an answer, and in which call each is; 0: it waits."""
        self._tickets: dict[int, Ticket] = {}
        self._next_over: Instant | None = None
        """No ticket's time is over before."""

    # --- in ---------------------------------------------------------------------------------------

    def ask(self, what: Any, key: Hashable, weight: int, until: Instant) -> int:
        """A caller asks; the number of its ticket."""
        self._numbers = number = self._numbers + 1
        ticket = Ticket(number, what, key, weight, until)
        self._tickets[number] = ticket
        self._open[number] = 0
        self._expect(until)
        self._waiting.append(ticket)
        self._weight += weight
        return number

    def leave(self, number: int) -> int | None:
        """Rule 4: in which call its ticket has gone, 0 for none; None when it was answered."""
        self._tickets.pop(number, None)
        call = self._open.pop(number, None)
        if call == 0:
            self._drop(number)
        return call

    def over(self, now: Instant) -> list[tuple[Ticket, int]]:
        """Rule 7: the tickets whose time is over, and in which call each is. They are out."""
        if self._next_over is None or now < self._next_over:
            return []
        late = [each for each in self._tickets.values() if self._over_at(each) <= now]
        left = [(each, self.leave(each.number) or 0) for each in late]
        self._next_over = self._soonest()
        return left

    # --- on their way -----------------------------------------------------------------------------

    def go(self, now: Instant, *, all_of_it: bool = False) -> list[Bundle]:
        """Rules 1, 2 and 9: the calls to be made now, in this order."""
        going = self._waiting
        if not going:
            return []
        self._waiting = []
        if self._weight < self._worth and self._in_flight and not all_of_it:
            going, self._waiting = self._parted(going, now)
        self._weight = sum([each.weight for each in self._waiting])
        calls = cut(going, self._worth, ordered=self._ordered)
        if len(calls) == 1:
            first = self._in_flight.cuts(len(going))
            calls = [each for each in (going[:first], going[first:]) if each]
        return [self._gone(each, now) for each in calls]

    def back(self, bundle: Bundle) -> None:
        """A call is back; each of its tickets was answered, has left, or goes again."""
        self._ends.pop(bundle.number, None)
        self._in_flight.back(bundle.key, bundle.number)

    def lone(self, key: Hashable, now: Instant) -> Bundle | None:
        """A call without a ticket, by its one caller, when nothing else is there (rule 1)."""
        return None if self._waiting or key in self._in_flight else self._begun(key, (), now)

    def waits(self, number: int) -> bool:
        return number in self._open

    def within(self, number: int, bundle: Bundle) -> bool:
        """Whether this call decides over this ticket, which has no answer yet."""
        return self._open.get(number) == bundle.number

    def answered(self, number: int) -> None:
        self._open.pop(number, None)
        self._tickets.pop(number, None)

    def again(self, tickets: Sequence[Ticket]) -> None:
        """Rule 6: these tickets go again, ahead of later ones."""
        here = [each for each in tickets if each.number in self._open]
        for each in here:
            self._open[each.number] = 0
        self._waiting[:0] = here
        self._weight += sum([each.weight for each in here])
        for each in here:  # their call is not to tell them any more
            self._expect(each.until)

    def apart(self, tickets: Iterable[Ticket], now: Instant) -> list[Bundle]:
        """Rule 5: each by itself, at once and in order."""
        here = [each for each in tickets if each.number in self._open]
        return [self._gone([each], now) for each in here]

    def restore(self) -> None:
        """A step was broken off in the middle: tickets that were not sent wait."""
        self._waiting = [
            each for each in self._tickets.values() if self._open.get(each.number, 0) == 0
        ]
        self._weight = sum([each.weight for each in self._waiting])

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def due(self) -> Instant | None:
        """When something is to be done next: `go` or `over`."""
        keys = {each.key for each in self._waiting}
        opens = [self._in_flight.opens(key) for key in keys if key in self._in_flight]
        if self._next_over is not None:
            opens.append(self._next_over)
        return min(opens, default=None)

    def check(self) -> None:
        """Every ticket waits, or is in a call that is on its way."""
        assert self._weight == sum(each.weight for each in self._waiting)
        assert self._tickets.keys() == self._open.keys()
        waiting = {each.number for each in self._waiting}
        assert waiting == {number for number, call in self._open.items() if call == 0}
        away = self._in_flight.numbers
        assert {call for call in self._open.values() if call} <= away
        assert self._ends.keys() <= away
        soonest = self._soonest()
        assert soonest is None or (self._next_over is not None and self._next_over <= soonest)

    # --- within -----------------------------------------------------------------------------------

    def _expect(self, until: Instant) -> None:
        """A ticket's time may be over then."""
        if self._next_over is None or until < self._next_over:
            self._next_over = until

    def _over_at(self, ticket: Ticket) -> Instant:
        last = self._ends.get(self._open[ticket.number])
        told_by_call = last is not None and later(ticket.until, self._late) >= last
        return later(ticket.until, self._overdue) if told_by_call else ticket.until

    def _soonest(self) -> Instant | None:
        return min(map(self._over_at, self._tickets.values()), default=None)

    def _parted(self, waiting: list[Ticket], now: Instant) -> tuple[list[Ticket], list[Ticket]]:
        held = {
            key
            for key, count in Counter([each.key for each in waiting]).items()
            if self._in_flight.holds_up(key, count, now)
        }
        if not self._ordered:
            going = [each for each in waiting if each.key not in held]
            return going, [each for each in waiting if each.key in held]
        first = next((at for at, each in enumerate(waiting) if each.key in held), len(waiting))
        return waiting[:first], waiting[first:]

    def _gone(self, tickets: Sequence[Ticket], now: Instant) -> Bundle:
        bundle = self._begun(tickets[0].key, tuple(tickets), now)
        for each in tickets:
            self._open[each.number] = bundle.number
        self._ends[bundle.number] = max([each.until for each in tickets])
        return bundle

    def _begun(self, key: Hashable, tickets: tuple[Ticket, ...], now: Instant) -> Bundle:
        self._numbers = call = self._numbers + 1
        self._in_flight.begin(key, call, len(tickets), now)
        return Bundle(call, key, tickets)

    def _drop(self, number: int) -> None:
        for at, each in enumerate(self._waiting):
            if each.number == number:
                self._weight -= each.weight
                del self._waiting[at]
                return
