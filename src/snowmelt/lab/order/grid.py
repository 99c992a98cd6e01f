"""Order measured for every number of consumers, chance to fail and place to go back to."""

from collections.abc import Iterator, Sequence

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.lab.order.crew import Crew, worked
from snowmelt.lab.order.distance import Distance, distance
from snowmelt.lab.order.places import PLACES

RUNS_MAX = 1000


class Run(msgspec.Struct, frozen=True):
    """One run: who worked, where failed items went, and how far out of order all came."""

    crew: Crew
    place: str
    delivered: Distance
    confirmed: Distance


def runs(
    crew: Crew, consumers: Sequence[int], failures: Sequence[float], items: int, seed: int
) -> Iterator[Run]:
    """All runs; `crew` says what they have in common.

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
    return (_run(one, place, items, seed) for one in crews for place in PLACES)


def _run(crew: Crew, place: str, items: int, seed: int) -> Run:
    order = worked(crew, place, items, seed)
    return Run(crew, place, distance(order.delivered), distance(order.confirmed))


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
