"""What is counted while an experiment runs, and what it comes to."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from snowmelt.core.instant import MILLISECOND, Instant

TICK: Final = MILLISECOND
BATCHES: Final = 10
"""Few and long: at a load of 100 % a pool remembers for some ten thousand objects."""
STUDENT: Final = 2.262
"""The 97.5 % point of Student's t for one less than so many batches."""


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

    def __init__(self, now: Instant, held_up: int, producers: int) -> None:
        self.waits: list[int] = []
        self.hops = 0
        self.probes = 0
        self.empty = 0
        self.lined = 0
        self.sent: Counter[type] = Counter()
        self._begin = now
        self._producers = producers
        self._held_up = held_up
        self._held_since = now
        self._held_time = 0

    def held_up(self, change: int, now: Instant) -> None:
        """So many more producers are held up from now on."""
        self._held_time += self._held_up * (now - self._held_since)
        self._held_up += change
        self._held_since = now

    @property
    def producers_held_up(self) -> int:
        """How many are now."""
        return self._held_up

    def measured(self, now: Instant, settling: frozenset[type], seconds: float) -> Measured:
        """What it comes to; messages of the kinds `settling` are told apart."""
        self.held_up(0, now)
        objects, span = len(self.waits), max(1, now - self._begin)
        settled = sum(count for kind, count in self.sent.items() if kind in settling)
        wait, half_width = batch_means(self.waits)
        return Measured(
            throughput=objects * TICK / span,
            wait_mean=wait / TICK,
            wait_ci95=None if half_width is None else half_width / TICK,
            hops_mean=self.hops / objects,
            producer_blocked=self._held_time / span / self._producers,
            probe_empty=self.empty / max(1, self.probes),
            request_blocked=self.lined / objects,
            messages_per_object=(self.sent.total() - settled) / objects,
            settle_per_object=settled / objects,
            messages={kind.__name__: count / objects for kind, count in self.sent.items()},
            objects=objects,
            seconds=seconds,
        )


def batch_means(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and half the width of its 95 % confidence interval.

    Neighbours depend on each other, so the values are cut into batches, whose means hardly do. With
    too few values for that there is no interval.

    >>> mean, half_width = batch_means(range(3000))
    >>> mean, round(half_width)
    (1499.5, 650)
    >>> batch_means([1, 2])
    (1.5, None)
    """
    mean = sum(values) / len(values)
    size = len(values) // BATCHES
    if size < 10:
        return mean, None
    means = [sum(values[at : at + size]) / size for at in range(0, BATCHES * size, size)]
    middle = sum(means) / BATCHES
    variance = sum((one - middle) ** 2 for one in means) / (BATCHES - 1)
    return mean, STUDENT * math.sqrt(variance / BATCHES)
