"""Order measured for every number of consumers, chance to fail and place to go back to."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt_lab.order.crew import Crew, worked
from snowmelt_lab.order.distance import Distance, distance
from snowmelt_lab.order.places import PLACES
from snowmelt_world import work as crews_

RUNS_MAX = 1000


class Run(msgspec.Struct, frozen=True):
    """One run: who worked, where failed items went, and how far out of order all came."""

    crew: Crew
    place: str
    delivered: Distance
    confirmed: Distance


class Task(msgspec.Struct, frozen=True):
    """One run that is to be."""

    crew: Crew
    place: str
    items: int
    seed: int


def runs(
    crew: Crew,
    consumers: Sequence[int],
    failures: Sequence[float],
    items: int,
    seed: int,
    by: crews_.Crew = crews_.in_turn,
) -> Iterator[Run]:
    """All runs; `crew` says what they have in common, and `by` who does them.

    >>> crew = Crew(consumers=1, failure=0)
    >>> [(run.place, run.delivered.mean) for run in runs(crew, [3], [0.0], 100, seed=1)]
    [('own place', 0.0), ('tail', 0.0)]
    """
    if len(consumers) * len(failures) * len(PLACES) > RUNS_MAX:
        raise BadOption("--failures", failures, f"fewer, for {RUNS_MAX} runs at most in all")
    crews = [
        msgspec.structs.replace(crew, consumers=number, failure=failure)
        for number in consumers
        for failure in failures
    ]
    tasks = [Task(one, place, items, seed) for one in crews for place in PLACES]
    return _done(by, [msgspec.msgpack.encode(task) for task in tasks])


def _done(by: crews_.Crew, tasks: list[bytes]) -> Iterator[Run]:
    with closing(by(run, tasks)) as results:
        for result in results:
            yield msgspec.msgpack.decode(result, type=Run)


def run(told: bytes) -> bytes:
    task = msgspec.msgpack.decode(told, type=Task)
    order = worked(task.crew, task.place, task.items, task.seed)
    delivered, confirmed = distance(order.delivered), distance(order.confirmed)
    return msgspec.msgpack.encode(Run(task.crew, task.place, delivered, confirmed))


HEAD = (
    *("place", "consumers", "failure", "expected"),
    *("delivered_mean", "delivered_moved", "delivered_p99", "delivered_late_max"),
    *("confirmed_mean", "confirmed_moved", "confirmed_p99", "confirmed_late_max"),
)


def row(run: Run) -> tuple[object, ...]:
    """A run in a line, in the order of `HEAD`.

    >>> len(row(next(runs(Crew(consumers=1, failure=0), [3], [0.0], 10, seed=1)))) == len(HEAD)
    True
    """
    return (
        *(run.place, run.crew.consumers, run.crew.failure, run.crew.expected),
        *msgspec.structs.astuple(run.delivered),
        *msgspec.structs.astuple(run.confirmed),
    )
