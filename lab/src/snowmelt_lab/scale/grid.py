"""The whole experiment: each number of nodes with each number of clients, beside the rival."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt_lab.scale.client import Job
from snowmelt_lab.scale.gates import Times, timed
from snowmelt_lab.scale.plain import plain_queue

Start = Callable[[int], AbstractContextManager[str]]  # so many nodes: their URL, until the end
NODES_MAX = 100


class Point(msgspec.Struct, frozen=True):
    """One measurement. No nodes: the plain queue in one process."""

    nodes: int
    clients: int
    times: Times


HEAD = ("nodes", "clients", "put_seconds", "get_seconds", "total_seconds", "seconds_per_100")


def measured(
    start: Start, nodes: Sequence[int], clients: Sequence[int], job: Job
) -> Iterator[Point]:
    """Measures point by point, the rival first; `job` says what each client does, its URL aside.

    A cluster is started once for each number of nodes, and takes all numbers of clients in turn.

    >>> job = Job(url="", operations=5)
    >>> points = list(measured(lambda nodes: plain_queue(), nodes=[], clients=[1], job=job))
    >>> [(point.nodes, point.clients) for point in points]
    [(0, 1)]
    """
    for count in nodes:
        if not 1 <= count <= NODES_MAX:
            raise BadOption("--nodes", count, f"1 to {NODES_MAX}")
    for count in (0, *nodes):
        copies = min(job.replicas, count) or 1
        with start(count) if count else plain_queue() as url:
            here = msgspec.structs.replace(job, url=url, replicas=copies)
            for number in clients:
                yield Point(count, number, timed(here, number))


def row(point: Point) -> tuple[object, ...]:
    """A point in a line, in the order of `HEAD`.

    >>> row(Point(6, 2, Times(1.0, 3.0, 1.0)))
    (6, 2, 1.0, 3.0, 4.0, 1.0)
    """
    times = point.times
    seconds = (times.put_seconds, times.get_seconds, times.total_seconds, times.seconds_per_100)
    return (point.nodes, point.clients, *seconds)
