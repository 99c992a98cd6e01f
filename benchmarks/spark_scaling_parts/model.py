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


def seconds_of(point: Point, share: float, by: str) -> float:
    """How long a micro-batch lasts: by the clock, or as its processor time says.

    On a busy machine the clock tells of others. There it is taken that the driver does all that it
    does with executors idle, and that each of these then works at its share of a core.
    """
    if by == "clock":
        return point.seconds
    used = point.processor
    driver = used["driver's Java"] + used["driver's Python"]
    work = used["executors' Java"] + used["executors' Python"]
    return driver + work / point.executors / share


def lasting(points: list[Point], share: float, by: str) -> list[float]:
    """The same fit of what a micro-batch lasts: an event adds where it is, and not elsewhere."""
    ones = np.array([[1.0, one.executors, one.events] for one in points])
    seconds = np.array([seconds_of(one, share, by) for one in points])
    return [float(one) for one in np.linalg.lstsq(ones, seconds, rcond=None)[0]]


def forecast(points: list[Point], share: float, by: str, work: float) -> dict[str, float]:
    """A thousand executors of a whole core each, with batches whose work lasts so long."""
    known = 1.0 if by == "processor" else share  # the clock can't tell what a whole core had taken
    start, each, event = lasting(points, known, by)
    node = fitted(points, [one.processor["nodes"] for one in points])
    over = max(start, 0.0) + max(each, 0.0) * THOUSAND
    total = work / max(event * known, 1e-9) * THOUSAND
    return {
        "work_seconds": work,
        "batch_seconds": round(work + over, 2),
        "busy": round(work / (work + over), 3),
        "events_per_second": round(total / (work + over)),
        "node_cores": round(node[2] * total / (work + over), 1),
    }
