"""A lease over several partitions: what each of them gave, under one number for the program."""

from collections.abc import Iterable, Sequence

import msgspec

from snowmelt.client.leases.delivered import LeasedItems, positions_of
from snowmelt.client.leases.steps import LeaseUpdate
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.protocols.queue.api.settings import PARTITIONS_MAX


class LeasedPartition(msgspec.Struct, frozen=True, eq=False):
    """What one partition gave, and under which token of its own."""

    part: int
    token: int
    places: IntervalSet

    def common(self, some: Iterable[Interval]) -> tuple[Interval, ...]:
        """What of these places it gave."""
        return tuple([each for one in some for each in self.places.common(one)])

    def word(self, whole: LeaseUpdate, left: Sequence[Interval]) -> LeaseUpdate | None:
        """What a word about all says of this; None for nothing. `left` is what is held still."""
        done, back = self.common(whole.done), self.common(whole.back)
        extend = whole.extend and len(self.common(left)) > 0
        if not (done or back or extend):
            return None
        return msgspec.structs.replace(whole, token=self.token, done=done, back=back, extend=extend)


class SharedToken(int):
    """The number of such a lease, unlike that of any other, and what it is made of.

    >>> held = [LeasedPartition(part, token, IntervalSet()) for part, token in ((2, 7), (5, 7))]
    >>> SharedToken.of(held) == SharedToken.of(held[:1]), SharedToken.of(held[:1]) >> 6
    (False, 7)
    """

    held: tuple[LeasedPartition, ...]

    @classmethod
    def of(cls, held: Sequence[LeasedPartition]) -> "SharedToken":
        """That of what these partitions gave together."""
        token = cls(max([one.token * PARTITIONS_MAX + one.part for one in held]))
        token.held = tuple(held)
        return token


def held_of(token: int) -> tuple[LeasedPartition, ...]:
    """What a lease is made of."""
    assert isinstance(token, SharedToken), "leases of several partitions have these"
    return token.held


def together(pieces: Sequence[tuple[int, LeasedItems]]) -> LeasedItems:
    """What several partitions gave, as one lease: it ends with the first of theirs."""
    leases = [one for _, one in pieces]
    token = SharedToken.of(
        [
            LeasedPartition(part, one.token, IntervalSet(positions_of(one.parts)))
            for part, one in pieces
        ]
    )
    parts = sorted([part for one in leases for part in one.parts], key=lambda part: part.start)
    lease, ends = min([one.lease for one in leases]), min([one.ends for one in leases])
    return LeasedItems(token, tuple(parts), lease, ends)
