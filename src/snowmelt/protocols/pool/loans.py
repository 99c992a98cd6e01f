"""What a producer has given away and may get back: loans, each under a token (rule 4)."""

from collections.abc import Iterator
from random import Random

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.interval import Interval, IntervalSet, merged
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.stock import Parcel, count_of, size_of


class Loan(msgspec.Struct):
    token: int
    consumer: NodeId
    number: int
    attempt: int
    parcels: list[Parcel]
    until: Instant
    once: bool
    """Whether they are dropped, and not offered again, when it is over."""
    heir_until: Instant | None = None
    """Set when the consumer takes them over: it is over when the consumer says so, or never.

    Until then it remembers whether it has them (rule 16).
    """
    tellings: int = 0
    """How often it was told to its consumer."""
    settling: int = 0
    """How many more are done, of which the disk is being told: it is no more the consumer's."""
    done: IntervalSet | None = None
    """Which were settled by their numbers."""

    @property
    def heir(self) -> bool:
        """Whether the consumer takes them over."""
        return self.heir_until is not None

    @property
    def over(self) -> bool:
        return not self.parcels and not self.settling

    def compact(self) -> None:
        """It lasts: it is to keep no more in memory than it counts for."""
        self.parcels = [parcel.compact() for parcel in self.parcels]

    def cut(self, intervals: tuple[Interval, ...]) -> list[Parcel]:
        """Takes objects out of it, all when no interval is named; returns what was taken out."""
        if not intervals:
            taken, self.parcels = self.parcels, []
            return taken
        wanted = IntervalSet(merged(intervals))
        taken, left = [], []
        for parcel in self.parcels:
            start = parcel.start
            for inside in wanted.common(Interval(start, parcel.stop)):
                if start < inside.start:
                    left.append(parcel.part(start, inside.start))
                taken.append(parcel.part(inside.start, inside.stop))
                start = inside.stop
            if start == parcel.start:
                left.append(parcel)
            elif start < parcel.stop:
                left.append(parcel.part(start, parcel.stop))
        self.parcels = left
        return taken


class Loans:
    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._by_token: dict[int, Loan] = {}
        self._by_attempt: dict[tuple[NodeId, int, int], int] = {}
        self.count = 0
        self.size = 0

    def __len__(self) -> int:
        return len(self._by_token)

    def __iter__(self) -> Iterator[Loan]:
        return iter(list(self._by_token.values()))

    def lend(
        self,
        consumer: NodeId,
        number: int,
        attempt: int,
        parcels: list[Parcel],
        until: Instant,
        once: bool,
        heir_until: Instant | None = None,
    ) -> Loan:
        """A new loan, under a token that nobody can guess from another, in any life."""
        token = self._chance.getrandbits(53) or 1
        while token in self._by_token:
            token += 1
        loan = Loan(token, consumer, number, attempt, parcels, until, once, heir_until)
        self._by_token[token] = loan
        self._by_attempt[consumer, number, attempt] = token
        self.count += count_of(parcels)
        self.size += size_of(parcels)
        return loan

    def get(self, token: int) -> Loan | None:
        return self._by_token.get(token)

    def held(self, token: int, consumer: NodeId) -> Loan | None:
        """The loan of a token, when it is this consumer's."""
        loan = self._by_token.get(token)
        return loan if loan is not None and loan.consumer == consumer else None

    def settleable(self, token: int, source: NodeId) -> Loan | None:
        """The same; an heir's also for its next life, which has another name (rule 16)."""
        loan = self._by_token.get(token)
        return loan if loan is not None and (loan.heir or loan.consumer == source) else None

    def given(self, consumer: NodeId, number: int, attempt: int) -> Loan | None:
        """What was given for one attempt of a request and is still on loan."""
        token = self._by_attempt.get((consumer, number, attempt))
        return None if token is None else self._by_token[token]

    def take(self, loan: Loan, intervals: tuple[Interval, ...] = ()) -> list[Parcel]:
        """Takes objects out of a loan; one with nothing left is over."""
        taken = loan.cut(intervals)
        self._forget(loan, taken)
        return taken

    def settle(self, loan: Loan, intervals: tuple[Interval, ...]) -> list[Parcel]:
        """Objects of a loan are done, as soon as that is safe: `settled` or `unsettled` follows."""
        done = loan.cut(intervals)
        loan.settling += count_of(done)
        return done

    def settled(self, loan: Loan, parcels: list[Parcel], intervals: tuple[Interval, ...]) -> None:
        loan.settling -= count_of(parcels)
        if intervals:
            loan.done = IntervalSet() if loan.done is None else loan.done
            for one in parcels:
                loan.done.add(Interval(one.start, one.stop))
        self._forget(loan, parcels)

    def unsettled(self, loan: Loan, parcels: list[Parcel]) -> None:
        """It could not be made safe: the consumer has them still."""
        loan.settling -= count_of(parcels)
        loan.parcels += parcels

    def _forget(self, loan: Loan, parcels: list[Parcel]) -> None:
        self.count -= count_of(parcels)
        self.size -= size_of(parcels)
        if loan.over:
            del self._by_token[loan.token]
            del self._by_attempt[loan.consumer, loan.number, loan.attempt]

    def check(self) -> None:
        """What is counted is what is there."""
        assert self.count == sum(count_of(one.parcels) + one.settling for one in self)
        assert self.size >= sum(size_of(one.parcels) for one in self)
        assert not any(one.over for one in self), "a loan of nothing"
        assert len(self._by_attempt) == len(self._by_token)
