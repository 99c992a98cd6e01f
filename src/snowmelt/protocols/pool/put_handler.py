"""Puts on their way into the pool: they wait for room, then until they are safe (rules 3, 13)."""

from collections import deque
from typing import Final

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import OperationId
from snowmelt.core.node import Announce, Reply
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool.alarms import Alarms, Effects
from snowmelt.protocols.pool.calls import CLOSED, Ahead, AwaitRoom, HasRoom, PoolPut, PoolReceipt
from snowmelt.protocols.pool.lending import Lender
from snowmelt.protocols.pool.object_store import ObjectStore, Then
from snowmelt.protocols.pool.rate import Rate
from snowmelt.protocols.pool.settings import PoolSettings
from snowmelt.protocols.pool.shelf import TakenOver
from snowmelt.protocols.pool.stock import Parcel, fitting

PROMISED: Final = seconds(10)
"""For so long; one that makes nothing after all keeps nobody else out for longer."""
NOBODY: Final = 0
AHEAD_MOST: Final = 16
AHEAD_SIZES: Final = 2
"""A place has room for an object so many times as large as the last."""


class PromisedRoom:
    """Room by the asker that was told of it; one has room for one object at most.

    >>> promised = PromisedRoom()
    >>> promised.give(7, Instant(0))
    >>> promised.to_others(7, Instant(0)), promised.to_others(8, Instant(0))
    (0, 1)
    >>> promised.to_others(8, Instant(PROMISED))
    0
    """

    def __init__(self) -> None:
        self._until: dict[int, Instant] = {}

    def give(self, asker: int, now: Instant) -> None:
        """It is told of room."""
        if asker != NOBODY:
            self.used(asker)
            self._until[asker] = later(now, PROMISED)

    def used(self, asker: int) -> None:
        self._until.pop(asker, None)

    def to_others(self, asker: int, now: Instant) -> int:
        """How many others were told of room that is not used yet."""
        while self._until and (first := next(iter(self._until.items())))[1] <= now:
            del self._until[first[0]]
        return len(self._until) - (asker in self._until)

    @property
    def count(self) -> int:
        return len(self._until)

    @property
    def next_end(self) -> Instant | None:
        """When the oldest of them has kept others out for long enough."""
        return next(iter(self._until.values()), None)


class PromisedSlots:
    """Room that the program was told of ahead, and that is neither used nor given up (rule 19).

    >>> places = PromisedSlots()
    >>> places.told(places.fit(7, 1000, 100)), places.count, places.size
    ([Announce(fact=Ahead(count=5, size=200))], 5, 1000)
    >>> places.end(200), places.size
    (None, 800)
    >>> places.call_back(), places.call_back()
    ([Announce(fact=Ahead(count=0, size=0))], [])
    """

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self._called_back = False

    @staticmethod
    def fit(count: int, size: int, usual: int) -> Ahead:
        """Places within so many objects and bytes, for objects of this size and twice it."""
        each = AHEAD_SIZES * max(1, usual)
        return Ahead(max(0, min(count, AHEAD_MOST, size // each)), each)

    def told(self, ahead: Ahead) -> Effects:
        if not ahead.count:
            return []
        self._called_back = False
        self.count += ahead.count
        self.size += ahead.count * ahead.size
        return [Announce(ahead)]

    def end(self, size: int) -> None:
        """One is used, or given up."""
        self.count -= 1
        self.size -= size

    def call_back(self) -> Effects:
        """Somebody waits for room, or nobody may put any more: who has not taken one gets none."""
        if self._called_back or not self.count:
            return []
        self._called_back = True
        return [Announce(Ahead(0, 0))]


class _Putting(msgspec.Struct):
    operation: OperationId
    batch: Batch
    begun: Instant
    numbers: list[Interval]
    admitted: int = 0
    safe: int = 0
    failed: int = 0
    failure: str = ""
    left: bool = False
    """Whether the rest of it still waited when this process was asked to leave."""
    answered: bool = False

    @property
    def rest(self) -> Batch:
        return self.batch.slice(self.admitted, self.batch.count) if self.admitted else self.batch


class _Asking(msgspec.Struct, frozen=True):
    """Somebody who waits to be told of room."""

    asker: int
    begun: Instant


class PutHandler:
    """Who wants to put, and who wants to know when there is room."""

    def __init__(
        self, settings: PoolSettings, alarms: Alarms, keep: ObjectStore, lender: Lender
    ) -> None:
        self.put_count = 0
        self.put_bytes = 0
        self.blocked = Duration(0)
        self.numbers = 0
        self.used = False
        """Whether anything was ever put here."""
        self._settings = settings
        self._alarms = alarms
        self._keep = keep
        self._lender = lender
        self._rate = Rate()
        self._puts: deque[_Putting] = deque()
        self._rooms: dict[OperationId, _Asking] = {}
        self._promised = PromisedRoom()
        self.places = PromisedSlots()

    # --- what the program asks --------------------------------------------------------------------

    def put(self, operation: OperationId, put: PoolPut, now: Instant) -> Effects:
        batch = Batch(put.offsets, put.blob)
        count = batch.count
        most = self._settings.bytes_max
        if batch.size > most and (largest := max(map(len, batch))) > most:  # it would wait for ever
            text = f"an object of {largest} bytes; max_bytes of this producer is {most}"
            return [Reply(operation, Declined("TooLarge", text))]
        if self._lender.leaving and not put.ahead:
            return [Reply(operation, _leaving())]
        if not count:
            return [Reply(operation, PoolReceipt(0, Interval(self.numbers, self.numbers)))]
        self.used = True
        self._promised.used(put.asker)
        self._rate.made(count, now)
        if put.ahead:  # it is told already that it is kept
            self.places.end(put.ahead)
            return self._take_in(batch, now)[1]
        if not self._puts and self._keep.at_once and self._fitting(batch, now) == count:
            numbers, effects = self._take_in(batch, now)
            ahead = self._tell_ahead(batch) if put.asker != NOBODY else []
            return [*effects, Reply(operation, PoolReceipt(count, numbers)), *ahead]
        putting = _Putting(operation, batch, now, [])
        self._puts.append(putting)
        effects = self.admit(now)
        if self._puts and self._puts[-1] is putting:
            self._alarms.set(("put", operation), later(now, put.patience))
            effects += self.places.call_back()
        return effects

    def _take_in(self, batch: Batch, now: Instant) -> tuple[Interval, Effects]:
        """It fits as a whole: it is in at once."""
        parcel = self._numbered(batch)
        self._came(parcel)
        self._rate.freed(now)
        effects = self._lender.arrived(parcel, now)
        if self._rooms:
            effects += self._tell_of_room(now)
        return Interval(parcel.start, parcel.stop), effects

    def _tell_ahead(self, batch: Batch) -> Effects:
        """A program that puts one after another is told of room for the next ones (rule 19)."""
        count, size = self._room()
        if self.held_up or self.places.count or not (self._keep.at_once and self._rate.quick):
            return []
        count -= self._promised.count
        return self.places.told(self.places.fit(count, size, batch.size // batch.count))

    def give_up(self, size: int, now: Instant) -> Effects:
        """Nobody puts anything in a place that was told of ahead."""
        self.places.end(size)
        return self.admit(now) if self.held_up else []

    def await_room(self, operation: OperationId, ask: AwaitRoom, now: Instant) -> Effects:
        """Nothing is to be made before there is room for it."""
        if self._lender.leaving:
            return [Reply(operation, _leaving())]
        self._rooms[operation] = _Asking(ask.asker, now)
        self._alarms.set(("room", operation), later(now, ask.patience))
        told = self._tell_of_room(now)
        return [*told, *self.places.call_back()] if self._rooms else told

    def withdraw(self, operation: OperationId, now: Instant) -> Effects:
        """Its time is over: what is in the pool stays there, the rest never comes in."""
        self._alarms.cancel(("room", operation))
        if (asking := self._rooms.pop(operation, None)) is not None:
            self._waited(asking.begun, now)
            return [Reply(operation, Declined("Full", "no room was made in the time given"))]
        for putting in self._puts:
            if putting.operation == operation:
                self._puts.remove(putting)
                self._waited(putting.begun, now)
                self._rate.freed(now)
                return self._cut_short(putting)
        return []

    def leave(self) -> Effects:
        effects: Effects = [Reply(operation, _leaving()) for operation in self._rooms]
        self._rooms.clear()
        while self._puts:
            putting = self._puts.popleft()
            putting.left = True
            effects += self._cut_short(putting)
        return [*effects, *self.places.call_back()]

    def adopt(self, batch: Batch, taken: TakenOver, stored: Then, now: Instant) -> Effects:
        """Objects of one who leaves are this one's once they are safe, even above its bounds."""
        self.used = True
        parcel = self._numbered(batch)

        def then(failure: str, now: Instant) -> Effects:
            if failure:
                return stored(failure, now)
            self._came(parcel)
            return [*stored("", now), *self._lender.arrived(parcel, now)]

        return self._keep.write(parcel, then, now, taken)

    def rate(self, now: Instant) -> float:
        """How many objects a second are made here when nothing holds the program up."""
        if not self.used:
            return 0.0
        return self._rate.now(now, held_up=self.held_up)

    def blocked_until(self, now: Instant) -> Duration:
        """How long puts have waited for room, those that wait still counted in."""
        begun = [one.begun for one in self._puts]
        begun += [one.begun for one in self._rooms.values()]
        return Duration(self.blocked + sum(now - one for one in begun))

    # --- room -------------------------------------------------------------------------------------

    @property
    def held_up(self) -> bool:
        return bool(self._puts or self._rooms)

    def admit(self, now: Instant) -> Effects:
        """Lets in what waits, as far as there is room; whoever waits in line is served first."""
        effects = self._lender.serve(now)
        while self._puts:
            putting = self._puts[0]
            count = self._fitting(putting.rest, now)
            if not count:
                break
            parcel = self._numbered(_first(putting.rest, count))
            putting.admitted += count
            putting.numbers.append(Interval(parcel.start, parcel.stop))
            if putting.admitted == putting.batch.count:
                self._puts.popleft()
                self._alarms.cancel(("put", putting.operation))
                self._waited(putting.begun, now)
            effects += self._arrive(parcel, putting, now)
        if self._rooms:
            effects += self._tell_of_room(now)
        return effects

    def _tell_of_room(self, now: Instant) -> Effects:
        """Those who ask are told, as many as there is room for, in their order (rule 14)."""
        count, size = self._room()
        if self._puts or count <= 0 or size <= 0:
            return []
        told: Effects = []
        for operation, asking in list(self._rooms.items()):
            if self._promised.to_others(asking.asker, now) >= count:
                continue
            self._promised.give(asking.asker, now)
            self._waited(asking.begun, now)
            del self._rooms[operation]
            self._alarms.cancel(("room", operation))
            told.append(Reply(operation, HasRoom()))
        if told:
            self._rate.freed(now)
        if self._rooms and (end := self._promised.next_end) is not None:
            self._alarms.set(("promised", None), end)
        return told

    def check(self) -> None:
        """A put that waits has something to bring; one that leaves has none."""
        assert all(one.admitted < one.batch.count for one in self._puts)
        assert not (self._lender.leaving and self._puts), "a producer that leaves takes puts"

    def _room(self) -> tuple[int, int]:
        """How many objects, and bytes, may come in."""
        settings, lender, keep, places = self._settings, self._lender, self._keep, self.places
        count = settings.buffers - lender.stock.count - keep.count - places.count
        size = lender.stock.size + lender.loans.size + keep.size + places.size
        return count, settings.bytes_max - size

    def _fitting(self, batch: Batch, now: Instant) -> int:
        """How many of the first objects may come in."""
        count, size = self._room()
        first = self._lender.line.first(now) if count < batch.count else None
        if first is not None and self._keep.at_once:  # these will not stay
            count += max(1, fitting(batch, first.objects_max, first.bytes_max))
        return fitting(batch, count, size)

    def _waited(self, since: Instant, now: Instant) -> None:
        self.blocked = Duration(self.blocked + now - since)

    # --- objects come in --------------------------------------------------------------------------

    def _numbered(self, batch: Batch) -> Parcel:
        parcel = Parcel(self.numbers, batch.compact())
        self.numbers = parcel.stop
        return parcel

    def _came(self, parcel: Parcel) -> None:
        self.put_count += parcel.batch.count
        self.put_bytes += parcel.batch.size

    def _arrive(self, parcel: Parcel, putting: _Putting, now: Instant) -> Effects:
        def then(failure: str, now: Instant) -> Effects:
            if failure:
                return self._failed(putting, parcel.batch.count, failure)
            served = self._lender.arrived(parcel, now)
            self._came(parcel)
            putting.safe += parcel.batch.count
            if putting.safe < putting.batch.count:
                return [*self._answer(putting), *served]
            self._rate.freed(now)
            return [*self._answer(putting), *served, *self._tell_ahead(putting.batch)]

        return self._keep.write(parcel, then, now)

    def _answer(self, putting: _Putting) -> Effects:
        """Once nothing of it waits for room or for the disk, it is told what came of it."""
        if putting.answered or putting.safe + putting.failed < putting.batch.count:
            return []
        putting.answered = True
        if putting.failure:
            text = f"{putting.failure}; {putting.safe} of its objects are in the pool"
            return [Reply(putting.operation, Declined("DiskFull", text))]
        numbers = putting.numbers or [Interval(self.numbers, self.numbers)]
        whole = Interval(numbers[0].start, numbers[-1].stop)
        return [Reply(putting.operation, PoolReceipt(putting.safe, whole, putting.left))]

    def _cut_short(self, putting: _Putting) -> Effects:
        self._alarms.cancel(("put", putting.operation))
        putting.batch = putting.batch.slice(0, putting.admitted)
        return self._answer(putting)

    def _failed(self, putting: _Putting, count: int, failure: str) -> Effects:
        putting.failed += count
        putting.failure = failure
        if putting in self._puts:
            self._puts.remove(putting)
        return self._cut_short(putting)


def _first(batch: Batch, count: int) -> Batch:
    return batch if count == batch.count else batch.slice(0, count)


def _leaving() -> Declined:
    return Declined("Closed", CLOSED)
