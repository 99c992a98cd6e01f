"""A queue with priorities, as who puts into it knows it: the shipped steps.

Which priority an item has is made of its body. So who wants it in, and who judges where it is, need
not be told; and what is put again has the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from zlib import crc32

from msgspec.structs import replace

from snowmelt.client.coalescing.joint import CallerRequest
from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.priority.steps import RankedSteps, ranked_parcels
from snowmelt.client.queue.bodies import (
    CALL,
    NOT_UNIQUE,
    CallLimit,
    PutItems,
    Unique,
    parcels,
)
from snowmelt.client.queue.options import Key
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.interval import Interval
from snowmelt.core.keys import packed
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings

Rank = Callable[[bytes], int]
KEYS: Final = (-(2**63), -3, 0, 7, 2**63 - 1)
"""Where priorities have no number, some items have the same."""
RANKS: Final = 5


def rank_in(priorities: int) -> Rank:
    """Of each body, its priority: of many that there are, a few, so that calls have runs.

    >>> [rank_in(3)(body) for body in (b"a", b"b", b"g")]
    [0, 2, 1]
    >>> {rank_in(256)(b"%d" % number) for number in range(99)} == {0, 63, 127, 191, 255}
    True
    """
    if priorities == ANY:
        return lambda body: KEYS[crc32(body) % len(KEYS)]
    several = min(priorities, RANKS)
    return lambda body: crc32(body) % several * (priorities - 1) // (several - 1)


class ByBody(RankedSteps):
    """The shipped steps, of which nobody has to say a priority."""

    def __init__(self, *cast: Any, rank: Rank) -> None:
        super().__init__(*cast)
        self._rank = rank

    def one(
        self,
        body: Buffer,
        priority: float | None,
        headers: Mapping[str, str | bytes] | None,
        delay: float,
        timeout: float,
        key: Key | None = None,
    ) -> CallerRequest:
        """One item to be put."""
        assert priority is None
        return super().one(body, self._rank(bytes(body)), headers, delay, timeout, key)

    def put_many(  # noqa: PLR0913 - all that a put says
        self,
        bodies: Iterable[Buffer] | Batch,
        headers: Mapping[str, str | bytes] | None,
        delay: float,
        timeout: float,
        sequence: int | None,
        limit: CallLimit = CALL,
        key: Key | Sequence[Key | None] | None = None,
        *,
        unique: Unique = NOT_UNIQUE,
    ) -> Steps[tuple[Interval, ...]]:
        """Many items; where they are, the most urgent first."""
        assert limit == CALL
        pairs = self._pairs(bodies)
        return self.put_ranked(pairs, None, headers, delay, timeout, sequence, key, unique=unique)

    def parcels(self, bodies: Iterable[Buffer]) -> Steps[Iterator[PutItems]]:
        """What is to be staged; by keys it is left as it is, for the judge knows no calls."""
        ranks = yield from self.known(Wait(1.0))
        if not ranks.keyed:
            return ranked_parcels(self._pairs(bodies), None, ranks)
        [one] = parcels(list(bodies))
        return iter([replace(one, keys=packed([self._rank(bytes(one)) for one in bodies]))])

    def _pairs(self, bodies: Iterable[Buffer]) -> list[tuple[int | float, Buffer]]:
        return [(self._rank(bytes(body)), bytes(body)) for body in bodies]


def steps_for(settings: QueueSettings, *cast: Any) -> FifoSteps:
    """Those that ship, for a queue with these settings."""
    if settings.priorities == 1:
        return FifoSteps(*cast)
    return ByBody(*cast, rank=rank_in(settings.priorities))
