"""Metrics of the queues that a node leads.

1. A queue has its name as a label, if it was among the first so many that this node has told of.
   The rest are told together, as `OTHER`: so a cluster of 10,000 queues is no 10,000 series.
2. Of these the counters are what was counted since each was first seen here: so they only grow,
   though queues come and go.
"""

from collections.abc import Iterable
from typing import Final

from snowmelt.protocols.queue.api.statuses import QueueStatus
from snowmelt.runtime.http.exposition import COUNTER, GAUGE, SUMMARY, MetricFamily, labelled

OTHER: Final = "(other)"
"""No queue has this name."""
STATES: Final = ("ready", "leased", "delayed", "dead", "assigned", "staged")
AGES: Final = ("ready", "leased", "delayed")
GAUGES: Final = {
    "bytes": ("bytes", "Bytes of bodies and headers that count in the bounds."),
    "waiting_gets": ("waiting_gets", "Gets that wait for an item."),
    "waiting_puts": ("waiting_puts", "Puts that wait for room."),
    "short_of_copies": ("items_short_of_copies", "Items on fewer nodes than they should be."),
    "followers_behind": ("followers_behind", "Followers that lack the last step, or are away."),
    "paused": ("paused", "Whether no items are handed out (1) or are (0)."),
}
COUNTERS: Final = {
    "put": ("put", "Items that came in."),
    "delivered": ("delivered", "Items given out, each time."),
    "done": ("acknowledged", "Items acknowledged."),
    "returned": ("returned", "Items that came back after a delivery, for whatever reason."),
    "failed": ("failed", "Items that came back with a reason, or since their lease ended."),
    "expired": ("expired", "Items that came back since their lease ended."),
    "died": ("died", "Items set aside as dead."),
    "purged": ("purged", "Items removed by a purge."),
    "aged": ("aged", "Items that waited for longer than the queue keeps them."),
    "lost": ("lost", "Items of which no copy can be read."),
}


class QueueMetrics:
    """What is told of queues by one node; it remembers which have a name of their own."""

    def __init__(self, named_max: int) -> None:
        self._named_max = named_max
        self._named: dict[str, None] = {}
        self._seen: dict[str, list[float]] = {}
        """By each other queue, its counters as they were last seen (rule 2)."""
        self._totals = [0.0] * (len(COUNTERS) + 2)

    def begin(self) -> "QueueFamilies":
        """What is to be told now, of no queue yet."""
        return QueueFamilies()

    def add(self, told: "QueueFamilies", rows: Iterable[QueueStatus]) -> None:
        for row in rows:
            if row.queue not in self._named and len(self._named) < self._named_max:
                self._named[row.queue] = None
            if row.queue in self._named:
                told.add(row.queue, row, _counts(row))
            else:
                self._count(row)
                told.others.append(row)
            told.led.append(row.queue)

    def end(self, told: "QueueFamilies") -> list[MetricFamily]:
        """All families; queues that this node leads no more make room for other names."""
        here = set(told.led)
        self._named = {name: None for name in self._named if name in here}
        self._seen = {name: seen for name, seen in self._seen.items() if name in here}
        if told.others:
            told.add_others(self._totals)
        return told.families

    def _count(self, row: QueueStatus) -> None:
        now = _counts(row)
        before = self._seen.get(row.queue, now)
        self._seen[row.queue] = now
        for at, (was, is_now) in enumerate(zip(before, now, strict=True)):
            self._totals[at] += max(0.0, is_now - was)


class QueueFamilies:
    """Families that grow queue by queue."""

    def __init__(self) -> None:
        self.led: list[str] = []
        self.others: list[QueueStatus] = []
        self._items = MetricFamily("snowmelt_queue_items", GAUGE, "Items, by what they are.")
        self._ages = MetricFamily(
            "snowmelt_queue_oldest_item_age_seconds",
            GAUGE,
            "For how long the oldest item has been in the queue, by what it is.",
        )
        self._delivery = MetricFamily(
            "snowmelt_queue_delivery_age_seconds",
            SUMMARY,
            "For how long items had been in the queue when they were given out.",
        )
        self._gauges = [
            MetricFamily(f"snowmelt_queue_{name}", GAUGE, said) for name, said in GAUGES.values()
        ]
        self._counters = [
            MetricFamily(f"snowmelt_queue_{name}_total", COUNTER, said)
            for name, said in COUNTERS.values()
        ]

    @property
    def families(self) -> list[MetricFamily]:
        return [self._items, self._ages, self._delivery, *self._gauges, *self._counters]

    def add(self, name: str, row: QueueStatus, counts: list[float]) -> None:
        labels = labelled(queue=name)
        for state in STATES:
            self._items.add(getattr(row, state), _and_state(labels, state))
        for state in AGES:
            oldest: float | None = getattr(row, f"oldest_{state}")
            if oldest is not None:
                self._ages.add(oldest, _and_state(labels, state))
        for family, field in zip(self._gauges, GAUGES, strict=True):
            family.add(int(getattr(row, field)), labels)
        self._count(labels, counts)

    def add_others(self, counts: list[float]) -> None:
        """All queues without a name, together."""
        labels, rows = labelled(queue=OTHER), self.others
        for state in STATES:
            count = sum([getattr(row, state) for row in rows])
            self._items.add(count, _and_state(labels, state))
        for state in AGES:
            ages = [getattr(row, f"oldest_{state}") for row in rows]
            known = [one for one in ages if one is not None]
            if known:
                self._ages.add(max(known), _and_state(labels, state))
        for family, field in zip(self._gauges, GAUGES, strict=True):
            family.add(sum([int(getattr(row, field)) for row in rows]), labels)
        self._count(labels, counts)

    def _count(self, labels: str, counts: list[float]) -> None:
        *plain, ages, timed = counts
        for family, count in zip(self._counters, plain, strict=True):
            family.add(count, labels)
        self._delivery.add(ages, labels, "_sum")
        self._delivery.add(timed, labels, "_count")


def _and_state(labels: str, state: str) -> str:
    return f'{labels[:-1]},state="{state}"}}'


def _counts(row: QueueStatus) -> list[float]:
    """Its counters, in the order of `COUNTERS`; then the ages at delivery, and of how many."""
    plain: list[float] = [getattr(row, field) for field in COUNTERS]
    return [*plain, row.delivery_ages, row.deliveries_timed]
