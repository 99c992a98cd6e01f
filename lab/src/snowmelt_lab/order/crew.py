"""The simulator: consumers, leases, and items that go back. See the package for the rules."""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from random import Random

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt_lab.order.places import PLACES, Line

SPREAD = (0.5, 1.5)  # of the mean working time
ITEMS_MAX = 1_000_000
CONSUMERS_MAX = 10_000
BATCH_MAX = 1_000
WAITING_MAX = 1_000_000
FAILURE_MAX = 0.5  # above, most of the work is done twice and the run need not end soon


class Crew(msgspec.Struct, frozen=True, kw_only=True):
    """Who is at work, and how: `consumers` c, `failure` f, `lease` T, `batch` b, `work` m.

    >>> Crew(consumers=64, failure=0.01).expected
    12.8
    """

    consumers: int
    failure: float
    lease: float = 10.0  # three heartbeats of 3 s missed, the paper's "approximately 10 seconds"
    batch: int = 1
    work: float = 1.0
    waiting: int = 1000

    def __post_init__(self) -> None:
        _checked("--consumers", self.consumers, 1, CONSUMERS_MAX)
        _checked("--failures", self.failure, 0, FAILURE_MAX)
        _checked("--batch", self.batch, 1, BATCH_MAX)
        _checked("--work", self.work, 0.001, 1e6)
        _checked("--waiting", self.waiting, 1, WAITING_MAX)
        # below, a consumer would lose its lease while it works, which is another experiment
        _checked("--lease", self.lease, SPREAD[1] * self.work * self.batch, 1e9)

    @property
    def expected(self) -> float:
        """The mean distance to first order, for own places and rare failures: 2 f c T / m."""
        return 2 * self.failure * self.consumers * self.lease / self.work


def _checked(option: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise BadOption(option, value, f"{least:g} to {most:g}")


class Order(msgspec.Struct, frozen=True):
    """At which index each rank was delivered for good, and at which it was confirmed."""

    delivered: list[int]
    confirmed: list[int]


def worked(crew: Crew, place: str, items: int, seed: int) -> Order:
    """Lets a crew work until the first so many items are confirmed. O(n log n) for n items.

    >>> worked(Crew(consumers=4, failure=0), "own place", 5, seed=1).delivered
    [0, 1, 2, 3, 4]
    """
    _checked("--items", items, 1, ITEMS_MAX)
    delivered, confirmed = [-1] * items, [-1] * items
    deliveries, confirmations = count(), count()
    missing = items
    for step in _steps(crew, PLACES[place](crew.waiting), Random(f"{seed}/{place}")):
        match step:
            case _Begun(ranks):
                for rank, index in zip(ranks, deliveries):  # noqa: B905  # the count has no end
                    if rank < items:
                        delivered[rank] = index
            case _Confirmed(ranks):
                for rank, index in zip(ranks, confirmations):  # noqa: B905
                    if rank < items:
                        confirmed[rank] = index
                        missing -= 1
        if not missing:
            break
    return Order(delivered, confirmed)


class _Begun(msgspec.Struct, frozen=True):
    """A lease begins that will be confirmed."""

    ranks: list[int]


class _Confirmed(msgspec.Struct, frozen=True):
    """A lease is confirmed, and its consumer free."""

    ranks: list[int]


class _Gone(msgspec.Struct, frozen=True):
    """A consumer is gone without a word, and another takes its place."""


class _Expired(msgspec.Struct, frozen=True):
    """A lease is over that was not confirmed."""

    ranks: list[int]


def _steps(crew: Crew, line: Line, chance: Random) -> Iterator[_Begun | _Confirmed]:
    """Everything that counts, in order of time, for ever."""
    low, high = (crew.work * part for part in SPREAD)
    turn = count()  # what is due at the same time comes in the order it was planned
    due: list[tuple[float, int, _Confirmed | _Gone | _Expired]] = []
    for _ in range(crew.consumers):
        heappush(due, (0.0, next(turn), _Gone()))
    while True:
        now, _, step = heappop(due)
        match step:
            case _Expired(ranks):
                for rank in ranks:
                    line.give_back(rank)
                continue
            case _Confirmed():
                yield step
            case _Gone():
                pass
        ranks = [line.take() for _ in range(crew.batch)]
        over = now + sum(chance.uniform(low, high) for _ in ranks)
        if chance.random() >= crew.failure:
            yield _Begun(ranks)
            heappush(due, (over, next(turn), _Confirmed(ranks)))
        else:
            heappush(due, (over, next(turn), _Gone()))
            heappush(due, (now + crew.lease, next(turn), _Expired(ranks)))
