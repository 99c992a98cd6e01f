"""What micro-batches took, a model fitted to it, and what it says of a thousand cores."""

from typing import Final

import msgspec
import numpy as np

ROLES: Final = ("executors' Java", "executors' Python", "driver's Java", "driver's Python", "nodes")
THOUSAND: Final = 1000


class Point(msgspec.Struct, frozen=True):
    """What one number of executors took, with so many events for each."""

    executors: int
    events: int
    """Of one micro-batch, for one executor."""
    seconds: float
    """Of a micro-batch, by the clock: the median."""
    processor: dict[str, float]
    """Seconds of a micro-batch, by what spent them."""


def fitted(points: list[Point], values: list[float]) -> list[float]:
    """A start, what each executor adds, and what each event adds: all of them 0 or more.

    What would be below 0 is taken for 0, and the rest is fitted without it.
    """
    ones = [[1.0, one.executors, one.executors * one.events] for one in points]
    columns, found = list(range(3)), np.zeros(3)
    while columns:
        found[:] = 0
        solved = np.linalg.lstsq(np.array(ones)[:, columns], np.array(values), rcond=None)
        found[columns] = solved[0]
        if found.min() >= 0:
            break
        columns.remove(int(found.argmin()))
    return [float(one) for one in found]


def by_clock(points: list[Point]) -> list[float]:
    """The same of the clock, where an event adds to the time of the executor that has it alone."""
    ones = np.array([[1.0, one.executors, one.events] for one in points])
    found = np.linalg.lstsq(ones, np.array([one.seconds for one in points]), rcond=None)[0]
    return [float(one) for one in found]


def forecast(points: list[Point], share: float, seconds: float) -> dict[str, float]:
    """A thousand executors of a whole core each, with batches whose work lasts so long."""
    start, each, event = by_clock(points)
    spending = {role: fitted(points, [one.processor[role] for one in points]) for role in ROLES}
    events = seconds / max(event * share, 1e-9)
    driver = max(start, 0.0) + max(each, 0.0) * THOUSAND
    total = events * THOUSAND
    node = spending["nodes"][2] * total / (seconds + driver)
    return {
        "work_seconds": seconds,
        "batch_seconds": round(seconds + driver, 2),
        "busy": round(seconds / (seconds + driver), 3),
        "events_per_second": round(total / (seconds + driver)),
        "node_cores": round(node, 1),
    }
