"""A queue with priorities, as who puts into it knows it: the fifo's steps, and ranks.

Which priority an item has is made of its body. So who wants it in, and who judges where it is, need
not be told; and what is put again has the same.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final
from zlib import crc32

from msgspec.structs import replace

from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.queue.bodies import together
from snowmelt.client.together.joint_puts import One
from snowmelt.core.batch import Batch
from snowmelt.core.keys import packed
from snowmelt.protocols.queue.calls import Put, Run
from snowmelt.protocols.queue.labels import each_own
from snowmelt.protocols.queue.settings import ANY

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


class KeyedSteps(FifoSteps):
    """Puts each item with its key."""

    def __init__(self, *cast: Any, rank: Rank) -> None:
        super().__init__(*cast)
        self._rank = rank

    def _ask(self, body: Any, *more: Any, **named: Any) -> Steps[Any]:
        if type(body) is Put:
            bodies = [bytes(one) for one in Batch(body.offsets, body.blob)]
            body = replace(body, keys=packed(map(self._rank, bodies)))
        return (yield from super()._ask(body, *more, **named))


class RankedSteps(FifoSteps):
    """Puts the most urgent of each call first, and says of how many each priority is."""

    def __init__(self, *cast: Any, rank: Rank) -> None:
        super().__init__(*cast)
        self._rank = rank

    def put(self, some: Sequence[One], wait: Wait, sequence: int | None = None) -> Steps[list[int]]:
        """Where each is."""
        order = sorted(range(len(some)), key=lambda at: self._rank(some[at].body))
        row = [some[at] for at in order]
        headers = each_own([one.headers for one in row])
        items, due = together([one.body for one in row]), -row[0].delay
        done = yield from self._put(items, headers, due, wait, sequence)
        if not done.stop:
            return [-1] * len(some)
        places = [position for one in done.where for position in one]
        return [place for _, place in sorted(zip(order, places, strict=True))]

    def _ask(self, body: Any, *more: Any, **named: Any) -> Steps[Any]:
        if type(body) is Put:
            body = ranked(body, self._rank)
        return (yield from super()._ask(body, *more, **named))


def ranked(put: Put, rank: Rank) -> Put:
    """The same, the most urgent items first; headers are of all alike, or in this order already."""
    bodies = sorted([bytes(body) for body in Batch(put.offsets, put.blob)], key=rank)
    items = together(bodies)
    runs = tuple([Run(one, len(list(some))) for one, some in groupby(bodies, rank)])
    return replace(put, offsets=items.offsets, blob=items.blob, runs=runs)
