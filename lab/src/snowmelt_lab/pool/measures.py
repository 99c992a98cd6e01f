"""What is counted while an experiment runs, and what it comes to."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from snowmelt.core.instant import MILLISECOND, Instant
from snowmelt_lab.pool.batches import LEAST, MOST, SIZE_LEAST, half_width

TICK: Final = MILLISECOND


class Measured(msgspec.Struct, frozen=True):
    """One experiment's results. Times are in ticks."""

    throughput: float
    """Objects consumed in a tick."""
    wait_mean: float
    """From a request to its object."""
    wait_ci95: float | None
    """Half the width of its 95 % confidence interval; `None` with too few objects for one."""
    hops_mean: float
    """How many producers were probed for an object."""
    producer_blocked: float
    """The share of time that producers were held up."""
    probe_empty: float
    """The share of probes that found nothing."""
    request_blocked: float
    """The share of requests that waited in line."""
    consumer_busy: float
    """The share of time that consumers used objects."""
    states: dict[str, float]
    """The share of time that a producer had so many objects; less than 0 are requests in its line.
    Empty for the central buffer, whose producers keep nothing."""
    ci95: dict[str, float]
    """Half the width of the 95 % interval of every measure that has one, by its name."""
    messages_per_object: float
    """Messages between processes from request to object; settlements apart."""
    settle_per_object: float
    messages: dict[str, float]
    """The same by kind, settlements too."""
    objects: int
    seconds: float
    """Of real time that the run took."""


class Tally:
    """Counts from a moment on. Its fields are the world's to raise."""

    def __init__(self, now: Instant, held_up: int, producers: int, consumers: int) -> None:
        self.waits: list[int] = []
        self.used = 0
        """How long consumers used objects, in all."""
        self.hops = 0
        self.probes = 0
        self.empty = 0
        self.lined = 0
        self.sent: Counter[type] = Counter()
        self._begin = now
        self._producers = producers
        self._consumers = consumers
        self._held_up = held_up
        self._held_since = now
        self._held_time = 0
        self._states: defaultdict[int, int] = defaultdict(int)
        self._since: dict[str, Instant] = {}

    def held_up(self, change: int, now: Instant) -> None:
        """So many more producers are held up from now on."""
        self._held_time += self._held_up * (now - self._held_since)
        self._held_up += change
        self._held_since = now

    def had(self, producer: str, stock: int, now: Instant) -> None:
        """It had so many objects until now; less than 0 are requests in its line."""
        self._states[stock] += now - self._since.get(producer, self._begin)
        self._since[producer] = now

    @property
    def producers_held_up(self) -> int:
        return self._held_up

    def measured(self, now: Instant, settling: frozenset[type], seconds: float) -> Measured:
        """What it comes to; messages of the kinds `settling` are told apart."""
        self.held_up(0, now)
        objects, span = len(self.waits), max(1, now - self._begin)
        settled = sum(count for kind, count in self.sent.items() if kind in settling)
        wait, half = batch_means(self.waits)
        return Measured(
            throughput=objects * TICK / span,
            wait_mean=wait / TICK,
            wait_ci95=None if half is None else half / TICK,
            hops_mean=self.hops / objects,
            producer_blocked=self._held_time / span / self._producers,
            probe_empty=self.empty / max(1, self.probes),
            request_blocked=self.lined / objects,
            consumer_busy=min(1.0, self.used / span / self._consumers),
            states=shares(self._states),
            ci95={} if half is None else {"wait_mean": half / TICK},
            messages_per_object=(self.sent.total() - settled) / objects,
            settle_per_object=settled / objects,
            messages={kind.__name__: count / objects for kind, count in self.sent.items()},
            objects=objects,
            seconds=seconds,
        )


def shares(times: Mapping[int, float]) -> dict[str, float]:
    """The share of each state in all the time, for states that were.

    >>> shares({2: 30.0, -1: 10.0, 5: 0.0})
    {'-1': 0.25, '2': 0.75}
    """
    whole = sum(times.values())
    return {str(state): time / whole for state, time in sorted(times.items()) if time > 0}


def batch_means(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and half the width of its 95 % confidence interval.

    Neighbours depend on each other, so the values are cut into batches, whose means hardly do. With
    too few values for that there is no interval.

    >>> batch_means([1, 2, 3] * 1000)
    (2.0, 0.0)
    >>> batch_means([1, 2])
    (1.5, None)
    """
    mean = sum(values) / len(values)
    count = min(MOST, len(values) // SIZE_LEAST)
    if count < LEAST:
        return mean, None
    size = len(values) // count
    means = [sum(values[at : at + size]) / size for at in range(0, count * size, size)]
    return mean, half_width(means)
