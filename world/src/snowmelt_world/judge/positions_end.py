"""The whole history of a queue at its end, as those want it who judge any history.

What may be undone is noted as of unknown outcome, by the excuses of `lapses.py`.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from snowmelt.core.instant import Instant
from snowmelt_world.check.conservation import check_conservation
from snowmelt_world.check.fifo_leased import check_fifo_leased
from snowmelt_world.check.history import Ended, History, Kind, Operation
from snowmelt_world.check.verdict import Undecided, Valid
from snowmelt_world.judge.looks import Stay
from snowmelt_world.judge.positions import Held, PositionLedger, undone
from snowmelt_world.judge.values import FOR_EVER, Put
from snowmelt_world.world import Broken


def judge(ledger: PositionLedger) -> None:
    """Raises `Broken` when the history shows what may not be."""
    _Ending(ledger).judge()


class _Ending:
    def __init__(self, ledger: PositionLedger) -> None:
        self._ledger = ledger

    def judge(self) -> None:
        if any(lapse.until == FOR_EVER for lapse in self._ledger.excuses.lapses):
            return
        self._ledger.looks.judge(self._stays())
        for verdict in (check_conservation(self._totals()), check_fifo_leased(self._order())):
            undecided = isinstance(verdict, Undecided) and self._ledger.drained is None
            if not undecided and not isinstance(verdict, Valid):
                raise Broken(f"{self._ledger.queue}: {verdict}", self._ledger.queue)

    def _totals(self) -> History:
        gets = [
            Operation(one.process, Kind.GET, tuple(one.seen.values()), one.called, one.until)
            for one in self._ledger.held
            if one.seen
        ]
        drain = (
            []
            if self._ledger.drained is None
            else [Operation("steward", Kind.DRAIN, (), self._ledger.drained, self._ledger.drained)]
        )
        puts = [
            told
            for one in self._ledger.puts
            for told in self._put(one, Ended.UNKNOWN if self._may_be_lost(one) else one.ended)
        ]
        acks = [
            one
            if one.returned is None
            or self._ledger.excuses.cover(Instant(one.called), Instant(one.returned)) is None
            else replace(one, returned=None, ended=Ended.UNKNOWN)
            for one in self._ledger.acks
        ]
        return History.of([*puts, *gets, *acks, *drain])

    def _put(self, put: Put, ended: Ended) -> Iterator[Operation]:
        """An operation of each priority."""
        returned = None if ended is Ended.UNKNOWN else put.returned
        unknown = ended is Ended.UNKNOWN or put.start is None
        for run in put.runs:
            start = None if unknown else self._ledger.place(run[0])
            ranks = (put.priority(run[0]),) * len(run) if put.priorities else ()
            yield Operation(put.process, Kind.PUT, run, put.called, returned, ended, start, ranks)

    def _may_be_lost(self, put: Put) -> bool:
        """Whether it was told, or on its way, when what is told may be lost."""
        if put.ended is Ended.FAILED:
            return False
        return undone(put, *self._ledger.excuses.losing)

    def _named(self, held: Held, where: int) -> str | None:
        if held.names is None:
            return self._ledger.at.get(where)
        return held.names.get(where) or held.seen.get(where)

    def _order(self) -> History:
        """Leases as gets, seen or not; what was there before, or was delayed, named as such."""
        puts: list[Operation] = []
        gets: list[Operation] = []
        for put in self._ledger.puts:
            unknown = put.due > put.called or self._may_be_lost(put)
            puts += self._put(put, Ended.UNKNOWN if unknown else put.ended)
        for one in self._ledger.held:
            named = (self._named(one, where) for where in one.positions)
            values = tuple(value for value in named if value is not None)
            gets.append(Operation(one.process, Kind.GET, values, one.called, one.returned))
        before = tuple(
            self._ledger.at[where]
            for where, holders in self._ledger.holders.items()
            if where in self._ledger.at and self._was_there_before(where, holders)
        )
        at = self._ledger.at
        exempt = (*self._ledger.unclear, *self._ledger.looks.passed, *self._held_unseen())
        before += tuple(at[where] for where in exempt if where in at)
        before += self._there_before_a_lapse()
        if before:
            gets.append(Operation("unknown", Kind.GET, before, 0, None, Ended.UNKNOWN))
        # When it is drained, what such a get took has come back.
        lost = self._ledger.lost_gets if self._ledger.drained is None else []
        return History.of([*puts, *gets, *lost, *self._backs()])

    def _held_unseen(self) -> Iterator[int]:
        """What a get may have had that was left, and given back as if nobody had had it."""
        ledger = self._ledger
        for where, holders in ledger.holders.items():
            value = ledger.at.get(where)
            if value is not None and ledger.left_gets:
                put, first = ledger.by_value[value], min(one.called for one in holders)
                if any(one.may_hold(put, first) for one in ledger.left_gets):
                    yield where

    def _backs(self) -> Iterator[Operation]:
        """What was given back, and nobody can have had of whom nobody heard."""
        ledger = self._ledger
        for back in ledger.backs:
            where = ledger.place(str(back.values[0]))
            holders = ledger.holders.get(where, ()) if where is not None else ()
            after = [one for one in holders if one.returned > back.called]
            until = min([one.returned for one in after], default=FOR_EVER)
            unheard = any(one.called <= until for one in ledger.lost_gets)
            lapse = ledger.excuses.cover(Instant(back.called), until)
            if after and not unheard and lapse is None:
                yield back

    def _there_before_a_lapse(self) -> tuple[str, ...]:
        """What was seen first under a name that a lapse took, and was said to be delivered before.

        "Delivery is at least once": a get that nobody heard of may have taken it out of order.
        """
        first: dict[str, bool] = {}
        for one in sorted(self._ledger.held, key=lambda held: held.told):
            for where in one.positions:
                value = self._named(one, where)
                if value is not None:
                    first.setdefault(value, one.names is not None and where in one.again)
        return tuple(value for value, again in first.items() if again)

    def _was_there_before(self, where: int, holders: list[Held]) -> bool:
        """Whether there was a delivery before those that were seen."""
        first = min(holders, key=lambda one: one.told)
        brought_back = self._ledger.redriven is not None and first.returned >= self._ledger.redriven
        given_back = self._ledger.released is not None and first.returned >= self._ledger.released
        return where in first.again or brought_back or given_back

    def _stays(self) -> list[Stay]:
        """From when to when items were there for certain, for anybody to have."""
        stays: list[Stay] = []
        for where, holders in self._ledger.holders.items():
            value = self._ledger.at.get(where)
            unclear = where in self._ledger.unclear or self._was_there_before(where, holders)
            unclear = unclear or where in self._ledger.looks.passed
            if value is None or unclear:
                continue
            put = self._ledger.by_value[value]
            if not put.told or put.due or self._may_be_lost(put):
                continue
            assert put.returned is not None
            first = min(one.called for one in holders)
            if put.returned < first and self._ledger.excuses.cover(put.called, first) is None:
                stays.append(Stay(where, value, put.returned, first))
        return stays
