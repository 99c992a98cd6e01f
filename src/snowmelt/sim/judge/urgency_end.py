"""The whole history of a priority queue at its end, judged by those who judge any history.

What the promise does not cover (`copies.py`) is noted as of unknown outcome, or without
its place or order, element by element. A call is counted as excused when an element of its own was
not covered while it lasted, and when its verdict would be another one without an excuse.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Final

import msgspec

from snowmelt.check.conservation import check_conservation
from snowmelt.check.heap import check_heap, passings
from snowmelt.check.history import Ended, History, Kind, Operation, Value
from snowmelt.check.leases import check_leases
from snowmelt.check.sequence import check_linear, check_sequence
from snowmelt.check.verdict import Invalid, Undecided
from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.interval import Interval, merged
from snowmelt.sim.judge.copies import AWAY, Told
from snowmelt.sim.judge.urgency import Got, UrgencyLedger
from snowmelt.sim.judge.urgency_looks import judge_looks
from snowmelt.sim.judge.values import FOR_EVER, Place, Put

CHECKS = (check_sequence, check_linear, check_leases, check_heap, check_conservation)
RETURNS: Final = seconds(30)
"""So soon after its client has given it up a get has given back what it had (door, rule 4): another
door counts that from when it was asked."""
PHASE: Final = seconds(45)
"""So long a get may be on its way where priorities have no number."""
PHASED = (check_linear, check_leases, check_heap, check_conservation)
"""Where orders are those of phases, which many share."""


def judge(ledger: UrgencyLedger) -> None:
    """Raises `Broken` when the history shows what may not be."""
    if ledger.excuses.over is None:
        ending = _Ending(ledger)
        history = ending.history()
        for check in PHASED if ledger.terms.keyed else CHECKS:
            verdict = check(history)
            undecided = isinstance(verdict, Undecided) and ledger.drained is not None
            if isinstance(verdict, Invalid):
                ledger.wrong(str(verdict), verdict.example[-1].process)
            if undecided:
                ledger.wrong(str(verdict), ledger.queue)
        ending.account()
        ending.bound()
        judge_looks(ledger)


class _Ending:
    def __init__(self, ledger: UrgencyLedger) -> None:
        self._ledger = ledger
        self._excuses = ledger.excuses
        self._keepers = ledger.keepers
        self._layout = ledger.layout
        self._first: dict[str, Got] = {}
        """The first get of each, in the order of all operations."""
        self._last: dict[str, Place] = {}
        """Where each element stood at last: positions only grow."""
        self._got_last: dict[Value, int] = {}
        """When each was got the last time."""
        for got in sorted(ledger.gets, key=lambda one: (one.order, one.called)):
            for value, place in zip(got.values, got.places, strict=True):
                self._first.setdefault(value, got)
                self._stood(value, place)
                self._got_last[value] = max(got.called, self._got_last.get(value, 0))
        for put in ledger.puts:
            for value, place in zip(put.values, put.places, strict=False):
                self._stood(value, place)
        self._pending: dict[int, int | None] = {}
        self._epochs = sorted({self._layout.epoch(one.order) for one in ledger.gets if one.order})

    def history(self) -> History:
        drained = self._ledger.drained
        drain = [] if drained is None else [
            Operation("steward", Kind.DRAIN, (), drained, drained)
        ]  # fmt: skip
        told = [*self._told(), *drain]
        unseen = list(self._unseen(absent=True))
        self._count_passings(History.of([*told, *self._unseen(absent=False)]))
        return History.of([*told, *unseen])

    def _told(self) -> Iterator[Operation]:
        for put in self._ledger.puts:
            yield from self._put(put)
        for got in self._ledger.gets:
            yield from self._get(got)
        for ack in self._ledger.acks:
            yield from self._ack(ack)
        yield from self._ledger.backs
        if self._ledger.terms.keyed:
            yield from self._freed()

    def _freed(self) -> Iterator[Operation]:
        """What was given back is there for all that was asked since (`seap`, rule 4).

        Unless a view ends before it is got again, or somebody may have had it of whom nobody heard,
        or who gave it back by himself.
        """
        ledger = self._ledger
        gets = sorted([one for one in ledger.gets if one.order], key=lambda one: one.order)
        for value, had, at in ledger.freed:
            order = self._order_after(at)
            after = [one for one in gets if one.order > had.order and value in one.values]
            if not order or not after or after[0].order < order:
                continue
            until = after[0].returned
            unheard = any(one.called <= until for one in ledger.lost_gets)
            unheard |= any(begun <= until for begun, _, _ in ledger.purged)
            unheard |= any(one.over and had.order < one.order < order for one in gets)
            if not unheard and not any(at <= view.at <= until for view in self._excuses.views):
                yield Operation("giver", Kind.BACK, (value,), at, at, orders=(order,))

    def _stood(self, value: str, place: Place) -> None:
        last = self._last.get(value, place)
        self._last[value] = max(place, last, key=lambda one: one.position)

    def _excuse(self, one: Put | Got | Operation, reason: str) -> str:
        return self._ledger.rests(one.process, Instant(one.called), reason)

    def _count_passings(self, history: History) -> None:
        """Gets that passed what may not have been there, and nothing else."""
        for passing in passings(history):
            if passing.smaller is not None:
                self._excuse(passing.get, AWAY)

    # --- one by one -------------------------------------------------------------------------------

    def _put(self, put: Put) -> Iterator[Operation]:
        if put.ended is not Ended.SUCCEEDED or put.returned is None:
            returned = None if put.ended is Ended.UNKNOWN else put.returned
            yield Operation(
                put.process, Kind.PUT, put.values, put.called, returned, put.ended,
                priorities=tuple([self._sign * one for one in put.priorities]),
            )  # fmt: skip
            return
        for index, value in enumerate(put.values):
            told = Told(put.places[index], put.called, put.returned)
            lost = self._excuse(put, self._keepers.lost(told)) or self._purged(put, value)
            if self._views(put.called, put.returned) & self._keepers.absent(told):
                self._excuse(put, AWAY)
            moved = not lost and self._moved(put, value, told)
            orders = () if lost or moved else put.orders[index : index + 1]
            yield Operation(
                put.process, Kind.PUT, (value,), put.called, None if lost else put.returned,
                Ended.UNKNOWN if lost else Ended.SUCCEEDED,
                priorities=(self._ledger.key(value, told.place),),
                positions=() if lost or moved else (told.place.position,), orders=orders,
            )  # fmt: skip

    def _get(self, got: Got) -> Iterator[Operation]:
        undone = self._excuses.undone(got.called, got.returned)
        if not got.values:
            orders = () if self._excuse(got, undone) or not got.order else (got.order,)
            over = self._over(got)
            yield Operation(
                got.process, Kind.GET, (), got.called, got.returned, orders=orders, over=over
            )
            return
        for index, value in enumerate(got.values):
            told = Told(got.places[index], got.called, got.returned)
            forgotten = self._keepers.forgotten(told, max(got.ends, got.returned))
            lost = self._excuse(got, forgotten) not in ("", AWAY)
            moved = self._moved(got, value, told)
            at = got.order + (0 if self._ledger.terms.keyed else index)
            order = () if lost or moved or not got.order else (at,)
            over = self._over(got) if index + 1 == len(got.values) else 0
            yield Operation(
                got.process, Kind.GET, (value,), got.called, got.returned,
                priorities=(self._ledger.key(value, told.place),),
                positions=() if lost or moved else (told.place.position,), orders=order,
                token=None if lost else got.token, held=0 if forgotten else got.ends, over=over,
            )  # fmt: skip

    def _over(self, got: Got) -> int:
        """How many more it may have had: all it asked for, of a phase of which it was not told.

        So it is when it was asked again, and what it was first given nobody heard, or not all.
        """
        untold = self._ledger.terms.keyed and not got.order
        return got.asked - len(got.values) if untold else got.over

    def _ack(self, ack: Operation) -> Iterator[Operation]:
        for value in ack.values if ack.returned is not None else ():
            one = msgspec.structs.replace(ack, values=(value,))
            if self._keepers.forgotten(self._ledger.acked_of(ack, value)):
                one = msgspec.structs.replace(one, returned=None, ended=Ended.UNKNOWN)
                if self._got_last[value] > (ack.returned or FOR_EVER):
                    self._excuse(ack, AWAY)
            yield one
        if ack.returned is None:
            yield ack

    def _moved(self, one: Put | Got, value: str, told: Told) -> str:
        """Why an element that stands elsewhere at last was forgotten where this call has it."""
        moved = self._last[value] != told.place
        return self._excuse(one, self._keepers.forgotten(told)) if moved else ""

    def _views(self, called: Instant, returned: Instant) -> set[int]:
        """The numbers of the views that there were meanwhile."""
        views = self._excuses.views
        ends = [*[view.at for view in views[1:]], FOR_EVER]
        return {
            view.epoch
            for view, end in zip(views, ends, strict=True)
            if view.at <= returned and called <= end
        }

    @property
    def _sign(self) -> int:
        return -1 if self._ledger.terms.largest_first else 1

    # --- who may have had what without a word -----------------------------------------------------

    def _unseen(self, *, absent: bool) -> Iterator[Operation]:
        """Gets of which nobody heard, by what they may have had; and what was not there."""
        for put in self._ledger.puts:
            if put.ended is not Ended.SUCCEEDED or put.returned is None:
                continue
            for value, place, order in zip(put.values, put.places, put.orders, strict=False):
                told = Told(place, put.called, put.returned)
                away = self._keepers.absent(told) if absent else set()
                yield from self._passed(value, order, away)

    def _passed(self, value: str, order: int, away: set[int]) -> Iterator[Operation]:
        first = self._first.get(value)
        failures = 0 if first is None else first.failures[first.values.index(value)]
        ledger = self._ledger
        redriven = ledger.redriven
        if first is None or failures or (redriven is not None and first.returned >= redriven):
            yield _had(value, order)  # it was delivered before, or purged
            return
        if any(one.light and one.called < first.returned for one in ledger.lost_gets):
            yield _had(value, order)  # it may have been given back
            return
        last = self._layout.epoch(first.order)
        spans = [*self._given_up, *self._not_there(last, order, away)]
        those = [Interval(max(one.start, order), one.stop) for one in spans if order < one.stop]
        for one in merged(those):
            if one.start < first.order:
                yield _had(value, one.start)
            if one.stop < first.order:  # and nobody else may have it then
                yield Operation("door", Kind.BACK, (value,), 0, 0, orders=(one.stop,))

    def _not_there(self, last: int, order: int, away: set[int]) -> Iterator[Interval]:
        """From which order to which it may have been with a get that a view ended, or away."""
        for epoch in self._epochs:
            if self._layout.epoch(order) <= epoch <= last:
                begin = self._layout.first(epoch)
                end = [self._layout.first(one) for one in self._epochs if one > epoch]
                since = begin if epoch in away else None
                if since is None and epoch < last:
                    since = self._pending_since(epoch)
                if since is not None:
                    yield Interval(since, min(end, default=FOR_EVER))

    @cached_property
    def _given_up(self) -> list[Interval]:
        """From which order to which gets of which nobody heard had what they gave back."""
        spare = Duration(RETURNS + (PHASE if self._ledger.terms.keyed else 0))
        lost, gets = self._ledger.lost_gets, self._ledger.gets
        spans: list[Interval] = []
        for one in merged([Interval(one.called, later(one.returned, spare)) for one in lost]):
            since = 1 + max([get.order for get in gets if get.returned < one.start], default=0)
            after = self._order_after(one.stop) or FOR_EVER
            spans.append(Interval(since, max(since, after)))
        return spans

    def _order_after(self, at: int) -> int:
        """What was called since has such orders at least; 0 when nothing was."""
        ledger = self._ledger
        since = [one.order for one in ledger.gets if one.order and one.called > at]
        since += [min(one.orders) for one in ledger.puts if one.orders and one.called > at]
        return min(since, default=0)

    def _pending_since(self, epoch: int) -> int | None:
        """From which order on gets may have been granted what they had not when the epoch ended."""
        if epoch not in self._pending:
            self._pending[epoch] = self._pending_then(epoch)
        return self._pending[epoch]

    def _pending_then(self, epoch: int) -> int | None:
        ledger = self._ledger
        over = min([one.returned for one in ledger.gets if self._layout.epoch(one.order) > epoch])
        calls = [
            one.called
            for one in ledger.gets
            if one.called < over
            and (self._layout.epoch(one.order) > epoch or len(one.values) < one.asked)
            and one.returned >= self._last_of(epoch)
        ]
        calls += [one.called for one in ledger.lost_gets if one.called < over]
        calls += [called for called, _, _ in ledger.purged if called < over]
        if not calls:
            return None
        begun = min(calls)
        before = [
            one.order
            for one in ledger.gets
            if one.returned < begun and self._layout.epoch(one.order) == epoch
        ]
        return max(before, default=self._layout.first(epoch))

    def _last_of(self, epoch: int) -> Instant:
        """When the epoch was over at the earliest: the next view was announced."""
        later_views = [view.at for view in self._excuses.views if view.epoch > epoch]
        return min(later_views, default=FOR_EVER)

    def _purged(self, put: Put, value: str) -> bool:
        if not any(at is None or put.called <= at for _, at, _ in self._ledger.purged):
            return False
        return not any(value in one.values for one in self._ledger.acks)

    # --- the whole --------------------------------------------------------------------------------

    def account(self) -> None:
        """Drained, each element was acknowledged, or may have been, or was purged."""
        ledger = self._ledger
        if ledger.drained is None:
            return
        done = {value for one in ledger.acks for value in one.values}
        left = [
            value
            for put in ledger.puts
            if put.ended is Ended.SUCCEEDED and put.returned is not None
            for value, place in zip(put.values, put.places, strict=True)
            if value not in done and not self._keepers.lost(Told(place, put.called, put.returned))
        ]
        if any(count is None for _, _, count in ledger.purged):
            return
        purged = sum(count or 0 for _, _, count in ledger.purged)
        if len(left) > purged:
            text = f"{left[0]} was put and is gone, and nobody acknowledged it"
            ledger.wrong(f"{text}; {len(left)} are, and {purged} were purged", left[0])

    def bound(self) -> None:
        """No more are there than may be; each from its answer to its first acknowledgement."""
        ledger = self._ledger
        most = ledger.terms.items_max
        hurt = any(not one.whole for one in self._excuses.hurts)
        if not most or ledger.purged or hurt or self._excuses.names:
            return
        ends: dict[Value, int] = {}
        for ack in ledger.acks:
            for value in ack.values:
                ends[value] = min(ack.called, ends.get(value, ack.called))
        changes: list[tuple[int, int, str]] = []
        for put in ledger.puts:
            if put.ended is Ended.SUCCEEDED and put.returned is not None:
                for value, place in zip(put.values, put.places, strict=True):
                    if self._keepers.absent(Told(place, put.called, put.returned)):
                        return  # nobody counts what waits for a node
                    if ends.get(value, FOR_EVER) > put.returned:
                        changes.append((put.returned, 1, value))
                        changes.append((ends.get(value, FOR_EVER), -1, value))
        count = 0
        for _, change, value in sorted(changes):
            count += change
            if count > most:
                ledger.wrong(f"with {value} there are {count}, and {most} may be there", value)


def _had(value: str, order: int) -> Operation:
    return Operation("unknown", Kind.GET, (value,), 0, None, Ended.UNKNOWN, orders=(order,))
