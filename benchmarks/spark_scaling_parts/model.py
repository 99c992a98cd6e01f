"""What micro-batches took, a model fitted to it, and what it says of a thousand cores."""

from typing import Final

import msgspec
import numpy as np

EXECUTOR: Final = ("executors' Java", "executors' Python")
DRIVER: Final = ("driver's Java", "driver's Python")
ROLES: Final = (*EXECUTOR, *DRIVER, "nodes")
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
    driver, work = (sum(map(point.processor.__getitem__, roles)) for roles in (DRIVER, EXECUTOR))
    return driver + work / point.executors / share


def lasting(points: list[Point], seconds: list[float]) -> list[float]:
    """The same fit of what a micro-batch lasts: an event adds where it is, and not elsewhere."""
    ones = np.array([[1.0, one.executors, one.events] for one in points])
    return [float(one) for one in np.linalg.lstsq(ones, np.array(seconds), rcond=None)[0]]


def whole_cores(points: list[Point]) -> tuple[float, float, float]:
    """Start, executor and event, of executors with a whole core each.

    By processor time, since the clock ran for executors with a share: the driver does its part one
    after the other, and executors do theirs side by side.
    """
    start = each = event = 0.0
    for role in ROLES:
        once, of_each, of_event = fitted(points, [one.processor[role] for one in points])
        if role in DRIVER:
            start, each = start + once, each + of_each
        elif role in EXECUTOR:
            start, event = start + of_each, event + of_event
    return start, each, event


def forecast(points: list[Point], work: float) -> dict[str, float]:
    """A thousand executors of a whole core each, with batches whose work lasts so long."""
    start, each, event = whole_cores(points)
    node = fitted(points, [one.processor["nodes"] for one in points])
    over = start + each * THOUSAND
    total = work / max(event, 1e-9) * THOUSAND
    return {
        "work_seconds": work,
        "batch_seconds": round(work + over, 2),
        "busy": round(work / (work + over), 3),
        "events_per_second": round(total / (work + over)),
        "node_cores": round(node[2] * total / (work + over), 1),
    }
