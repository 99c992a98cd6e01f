"""Where a producer's objects are safe: in its memory, or on its disk as well (rule 13).

Both have one face. What is asked is done when `then` is called, in the same step or, after a
flush, in a later one, with why it failed or nothing.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from snowmelt.core.instant import Instant
from snowmelt.core.node import Load, Persist
from snowmelt.core.record import Change, Found, Record
from snowmelt.protocols.pool.alarms import Effects
from snowmelt.protocols.pool.shelf import Shelf, TakenOver
from snowmelt.protocols.pool.stock import Parcel

LOADS_AT_ONCE: Final = 64

Then = Callable[[str, Instant], Effects]


class MemoryStore:
    """What is in memory is as safe as it will be."""

    at_once = True
    """Whether what is asked is done in the same step."""

    def __init__(self) -> None:
        self.count = 0
        """Objects that are not safe yet."""
        self.size = 0
        """Bytes of them."""

    def write(
        self, parcel: Parcel, then: Then, now: Instant, taken: TakenOver | None = None
    ) -> Effects:
        """Makes a parcel safe, and whose it was if it was taken over."""
        del parcel, taken
        return then("", now)

    def settle(self, parcels: list[Parcel], then: Then, now: Instant) -> Effects:
        """Forgets parcels, or parts of them, each once."""
        del parcels
        return then("", now)


class DiskStore:
    """What is on the disk is there again in the next life."""

    at_once = False

    def __init__(self) -> None:
        self.count = self.size = 0
        self._shelf = Shelf()
        self._tickets = 0
        self._thens: dict[int, Then] = {}

    def write(
        self, parcel: Parcel, then: Then, now: Instant, taken: TakenOver | None = None
    ) -> Effects:
        del now
        count, size = len(parcel.batch), parcel.batch.size
        self.count += count
        self.size += size

        def written(failure: str, now: Instant) -> Effects:
            self.count -= count
            self.size -= size
            if failure:
                self._shelf.forget(parcel)
            return then(failure, now)

        return self._persist(self._shelf.write(parcel, taken), written)

    def settle(self, parcels: list[Parcel], then: Then, now: Instant) -> Effects:
        del now

        def settled(failure: str, now: Instant) -> Effects:
            done = self._shelf.unsettled if failure else self._shelf.settled
            done(parcels)
            return then(failure, now)

        return self._persist(self._shelf.settle(parcels), settled)

    def forget_taken(self, number: int) -> Effects:
        """Nobody asks any more whose this was; nobody waits for the disk to hear it."""
        changes = self._shelf.forget_taken(number)
        return self._persist(changes, lambda _failure, _now: []) if changes else []

    def completed(self, ticket: int, failure: str, now: Instant) -> Effects:
        """The disk has done what it was asked, or could not."""
        return self._thens.pop(ticket)(failure, now)

    # --- a new life -------------------------------------------------------------------------------

    def started(self, records: tuple[Record, ...]) -> Effects:
        keys = self._shelf.restore(records)
        effects: Effects = []
        for at in range(0, len(keys), LOADS_AT_ONCE):
            self._tickets += 1
            effects.append(Load(self._tickets, tuple(keys[at : at + LOADS_AT_ONCE])))
        return effects

    def loaded(self, found: tuple[Found, ...]) -> tuple[list[Parcel], list[str]]:
        """Parcels that are to be given still, and why others can't be."""
        parcels: list[Parcel] = []
        reasons: list[str] = []
        for one in found:
            restored, reason = self._shelf.restored(one)
            parcels += restored
            reasons += [reason] if reason else []
        return parcels, reasons

    @property
    def taken(self) -> tuple[TakenOver, ...]:
        """What was taken over in former lives."""
        return self._shelf.taken

    @property
    def stop(self) -> int:
        """The number behind all that is there."""
        return self._shelf.stop

    def _persist(self, changes: tuple[Change, ...], then: Then) -> Effects:
        self._tickets += 1
        self._thens[self._tickets] = then
        return [Persist(self._tickets, changes)]


ObjectStore: TypeAlias = MemoryStore | DiskStore
