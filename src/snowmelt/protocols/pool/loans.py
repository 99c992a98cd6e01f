"""What a producer has given away and may get back: loans, each under a token (rule 4)."""

from collections.abc import Iterator
from random import Random

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.stock import Parcel, count_of, size_of, split


class Loan(msgspec.Struct):
    """Objects that a consumer holds."""

    token: int
    consumer: NodeId
    number: int
    attempt: int
    parcels: list[Parcel]
    until: Instant
    once: bool
    """Whether they are dropped, and not offered again, when it is over."""
    settling: bool = False
    """Whether the disk is being told that they are done: until it has, nothing else may happen."""

    def named(self, intervals: tuple[Interval, ...]) -> list[Parcel]:
        """Those of its objects that are named, all when no interval is; they stay in it."""
        if not intervals:
            return list(self.parcels)
        parts = (split(one, interval)[0] for interval in intervals for one in self.parcels)
        return [part for part in parts if part is not None]

    def cut(self, intervals: tuple[Interval, ...]) -> list[Parcel]:
        """Takes objects out of it, all when no interval is named; returns what was taken out."""
        if not intervals:
            taken, self.parcels = self.parcels, []
            return taken
        taken = []
        for interval in intervals:
            left: list[Parcel] = []
            for parcel in self.parcels:
                inside, outside = split(parcel, interval)
                left += outside
                if inside is not None:
                    taken.append(inside)
            self.parcels = left
        return taken


class Loans:
    """All loans of a producer."""

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
    ) -> Loan:
        """A new loan, under a token that nobody can guess from another, in any life."""
        token = self._chance.getrandbits(53) or 1
        while token in self._by_token:
            token += 1
        loan = Loan(token, consumer, number, attempt, parcels, until, once)
        self._by_token[token] = loan
        self._by_attempt[consumer, number, attempt] = token
        self.count += count_of(parcels)
        self.size += size_of(parcels)
        return loan

    def get(self, token: int) -> Loan | None:
        """The loan of a token."""
        return self._by_token.get(token)

    def held(self, token: int, consumer: NodeId) -> Loan | None:
        """The loan of a token, when it is this consumer's."""
        loan = self._by_token.get(token)
        return loan if loan is not None and loan.consumer == consumer else None

    def given(self, consumer: NodeId, number: int, attempt: int) -> Loan | None:
        """What was given for one attempt of a request and is still on loan."""
        token = self._by_attempt.get((consumer, number, attempt))
        return None if token is None else self._by_token[token]

    def take(self, loan: Loan, intervals: tuple[Interval, ...] = ()) -> list[Parcel]:
        """Takes objects out of a loan; one with nothing left is over."""
        taken = loan.cut(intervals)
        self.count -= count_of(taken)
        self.size -= size_of(taken)
        if not loan.parcels:
            del self._by_token[loan.token]
            del self._by_attempt[loan.consumer, loan.number, loan.attempt]
        return taken

    def check(self) -> None:
        """What is counted is what is there."""
        assert self.count == sum(count_of(one.parcels) for one in self)
        assert self.size == sum(size_of(one.parcels) for one in self)
        assert len(self._by_attempt) == len(self._by_token)
