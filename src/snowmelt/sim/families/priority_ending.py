"""The whole history of a priority queue at its end, judged by those who judge any history.

What the promise does not cover is noted as of unknown outcome, by `priority_excuses.py`.
"""

from collections.abc import Iterator

from snowmelt.check.conservation import check_conservation
from snowmelt.check.heap import check_heap
from snowmelt.check.history import Ended, History, Kind, Operation, Value
from snowmelt.check.leases import check_leases
from snowmelt.check.sequence import check_linear, check_sequence
from snowmelt.check.verdict import Invalid, Undecided
from snowmelt.core.instant import Instant
from snowmelt.protocols.priority.anchor import EPOCH_BITS, first_of
from snowmelt.sim.families.priority_excuses import FOR_EVER
from snowmelt.sim.families.priority_ledger import Asked, Got, Ledger

CHECKS = (check_sequence, check_linear, check_leases, check_heap, check_conservation)


def judge(ledger: Ledger) -> None:
    """Raises `Broken` when the history shows what may not be."""
    if ledger.excuses.over is None:
        ending = _Ending(ledger)
        history = ending.history()
        for check in CHECKS:
            verdict = check(history)
            undecided = isinstance(verdict, Undecided) and ledger.drained is not None
            if isinstance(verdict, Invalid):
                ledger.wrong(str(verdict), verdict.example[-1].process)
            if undecided:
                ledger.wrong(str(verdict), ledger.queue)
        ending.account()
        ending.bound()


class _Ending:
    """One queue's history."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._excuses = ledger.excuses
        self._first: dict[str, Got] = {}
        for got in sorted(ledger.gets, key=lambda one: one.called):
            for value in got.values:
                self._first.setdefault(value, got)
        self._epochs = sorted({one.order >> EPOCH_BITS for one in ledger.gets if one.order})

    def history(self) -> History:
        """All of it."""
        ledger = self._ledger
        drained = ledger.drained
        drain = [] if drained is None else [
            Operation("steward", Kind.DRAIN, (), drained, drained)
        ]  # fmt: skip
        puts = [self._put(one) for one in ledger.puts]
        gets = [self._get(one) for one in ledger.gets]
        acks = [self._ack(one) for one in ledger.acks]
        return History.of([*puts, *gets, *acks, *ledger.backs, *self._unseen(), *drain])

    # --- one by one -------------------------------------------------------------------------------

    def _put(self, put: Asked) -> Operation:
        ended = put.ended
        if ended is Ended.SUCCEEDED and self._may_be_lost(put):
            ended = Ended.UNKNOWN
        known = ended is Ended.SUCCEEDED
        positions = tuple([place.position for place in put.places])
        again = put.returned is not None and self._excuses.waits(
            put.returned, FOR_EVER, put.copies
        )  # where nobody has it, whoever asks again may begin it anew
        return Operation(
            put.process, Kind.PUT, put.values, put.called,
            None if ended is Ended.UNKNOWN else put.returned, ended,
            priorities=tuple([self._sign * one for one in put.priorities]),
            positions=() if again or not known else positions,
            orders=put.orders if known else (),
        )  # fmt: skip

    def _get(self, got: Got) -> Operation:
        undone = self._undone(got.called, got.returned)
        again = self._away(got.called, FOR_EVER)  # as in `_put`
        positions = tuple([place.position for place in got.places])
        excused = undone or self._away(got.called, max(got.held, got.returned))
        orders = tuple(range(got.order, got.order + max(1, len(got.values))))
        return Operation(
            got.process, Kind.GET, got.values, got.called, got.returned,
            priorities=tuple([self._sign * place.priority for place in got.places]),
            positions=() if undone or again else positions,
            orders=() if undone or not got.order or (excused and not got.values) else orders,
            token=got.token if got.values and not undone else None,
            held=None if not got.values else 0 if excused else got.held,
        )  # fmt: skip

    def _ack(self, ack: Operation) -> Operation:
        if ack.returned is None:
            return ack
        if not self._undone(ack.called, ack.returned) and not self._away(ack.called, FOR_EVER):
            return ack
        return Operation(ack.process, ack.kind, ack.values, ack.called, None, Ended.UNKNOWN)

    @property
    def _sign(self) -> int:
        return -1 if self._ledger.settings.largest_first else 1

    # --- who may have had what without a word -----------------------------------------------------

    def _unseen(self) -> Iterator[Operation]:
        """Gets of which nobody heard, by what they may have had."""
        for put in self._ledger.puts:
            if put.ended is not Ended.SUCCEEDED or not put.orders:
                continue
            for value, order in zip(put.values, put.orders, strict=True):
                yield from self._passed(put, value, order)

    def _passed(self, put: Asked, value: str, order: int) -> Iterator[Operation]:
        first = self._first.get(value)
        failures = 0 if first is None else first.failures[first.values.index(value)]
        redriven = self._ledger.redriven
        if first is None or failures or (redriven is not None and first.returned >= redriven):
            yield self._had(value, order)  # it was delivered before, or purged
            return
        last = first.order >> EPOCH_BITS
        for epoch in self._epochs:
            if not order >> EPOCH_BITS <= epoch < last:
                continue
            since = self._pending_since(epoch)
            if self._not_there(put, epoch):
                since = first_of(epoch)
            if since is not None:
                yield self._had(value, max(since, order))
            after = min([one for one in self._epochs if one > epoch])
            if not self._not_there(put, after):
                yield Operation("view", Kind.BACK, (value,), 0, 0, orders=(first_of(after),))
        if self._not_there(put, last):
            yield self._had(value, max(first_of(last), order))

    def _had(self, value: str, order: int) -> Operation:
        return Operation("unknown", Kind.GET, (value,), 0, None, Ended.UNKNOWN, orders=(order,))

    def _pending_since(self, epoch: int) -> int | None:
        """From which order on gets may have been granted what they had not when the epoch ended."""
        ledger = self._ledger
        over = min([one.returned for one in ledger.gets if one.order >> EPOCH_BITS > epoch])
        calls = [
            one.called
            for one in ledger.gets
            if one.called < over
            and (one.order >> EPOCH_BITS > epoch or len(one.values) < one.asked)
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
            if one.returned < begun and one.order >> EPOCH_BITS == epoch
        ]
        return max(before, default=first_of(epoch))

    def _last_of(self, epoch: int) -> Instant:
        """When the epoch was over at the earliest: the next view was announced."""
        later_views = [view.at for view in self._excuses.views if view.epoch > epoch]
        return min(later_views, default=FOR_EVER)

    def _not_there(self, put: Asked, epoch: int) -> bool:
        """Whether it may not be there in a view of this number."""
        views = self._excuses.epochs().get(epoch, [])
        return any(self._excuses.away(view, put.copies) for view in views)

    # --- what is excused --------------------------------------------------------------------------

    def _may_be_lost(self, put: Asked) -> bool:
        assert put.returned is not None
        if self._excuses.undone(put.called, put.returned, put.copies):
            return True
        known = {value for one in self._ledger.acks for value in one.values}
        purged = any(at is None or put.called <= at for _, at, _ in self._ledger.purged)
        return purged and not all(value in known for value in put.values)

    def _undone(self, called: int, returned: int) -> bool:
        copies = self._ledger.copies_then(Instant(called), Instant(returned))
        return bool(self._excuses.undone(Instant(called), Instant(returned), copies))

    def _away(self, called: int, returned: int) -> bool:
        copies = self._ledger.copies_then(Instant(called), Instant(called))
        return self._excuses.waits(Instant(called), Instant(returned), copies)

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
            if put.ended is Ended.SUCCEEDED
            and put.returned is not None
            and not self._excuses.undone(put.called, put.returned, put.copies)
            for value in put.values
            if value not in done
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
        most = ledger.settings.items_max
        if not most or ledger.purged or self._excuses.hurts or self._excuses.names:
            return
        ends: dict[Value, int] = {}
        for ack in ledger.acks:
            for value in ack.values:
                ends[value] = min(ack.called, ends.get(value, ack.called))
        changes: list[tuple[int, int, str]] = []
        for put in ledger.puts:
            if put.ended is Ended.SUCCEEDED and put.returned is not None:
                if self._excuses.waits(put.called, put.returned, put.copies):
                    return
                for value in put.values:
                    if ends.get(value, FOR_EVER) > put.returned:
                        changes.append((put.returned, 1, value))
                        changes.append((ends.get(value, FOR_EVER), -1, value))
        count = 0
        for _, change, value in sorted(changes):
            count += change
            if count > most:
                ledger.wrong(f"with {value} there are {count}, and {most} may be there", value)
