"""Runs an experiment in batches, and says what it comes to."""

from collections.abc import Callable, Iterable
from time import perf_counter
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.pool.batches import MOST, Batches, Row
from snowmelt_lab.pool.kernel import central, counts, queue_manager, stochastic
from snowmelt_lab.pool.measures import Measured, shares
from snowmelt_lab.pool.options import Algorithm, PoolOptions

ENGINES: Final[dict[Algorithm, ModuleType]] = {
    Algorithm.STOCHASTIC: stochastic,
    Algorithm.CENTRAL: central,
    Algorithm.MANAGER: queue_manager,
}
BATCH: Final = 20
"""So many times as many objects as the pool can hold make the shortest batch."""
BATCH_LEAST: Final = 1_000
SLICES: Final = 100
"""An experiment is run in so many parts, to show how far it has come."""

Measure = Callable[[Row], float]


class Experiment:
    def __init__(self, options: PoolOptions) -> None:
        self._options = options
        self._engine = ENGINES[options.algorithm]
        self._pool = self._engine.pool(options)
        self._now = 0.0
        self._count(options.warm_up)
        self._pool.states[:] = 0
        whole = max(BATCH_LEAST, BATCH * options.capacity)
        self._batches = Batches(max(1, min(whole, 2 * options.objects // MOST)))
        self._sum = counts.row()

    @property
    def objects(self) -> int:
        return int(self._sum[counts.OBJECTS])

    @property
    def is_narrow(self) -> bool:
        """Whether the wait is known as well as was asked for."""
        wanted = self._options.half_width
        return bool(wanted) and self._batches.narrow(_wait, wanted)

    def batch(self, most: int) -> None:
        """Counts one more batch, or what is left over for one."""
        size = self._batches.size
        row = self._count(min(size, most))
        self._sum += row
        if size <= most:
            self._batches.add(row.tolist())

    def measured(self, seconds: float) -> Measured:
        row = self._sum.tolist()
        producers, consumers = self._options.producers, self._options.consumers
        measures: dict[str, Measure] = {
            "throughput": lambda row: row[counts.OBJECTS] / row[counts.TIME],
            "wait_mean": _wait,
            "hops_mean": lambda row: row[counts.HOPS] / row[counts.OBJECTS],
            "producer_blocked": lambda row: row[counts.HELD_UP] / row[counts.TIME] / producers,
            "probe_empty": lambda row: row[counts.EMPTY] / max(1, row[counts.PROBES]),
            "request_blocked": lambda row: row[counts.LINED] / row[counts.OBJECTS],
            "consumer_busy": lambda row: row[counts.USE] / row[counts.TIME] / consumers,
        }
        halves = {name: self._batches.interval(measure) for name, measure in measures.items()}
        each = zip(self._engine.KINDS, row[counts.MESSAGES :], strict=False)
        messages = {kind: count / row[counts.OBJECTS] for kind, count in each}
        return Measured(
            **{name: measure(row) for name, measure in measures.items()},
            wait_ci95=halves["wait_mean"],
            ci95={name: half for name, half in halves.items() if half is not None},
            states=self._states(),
            messages=messages,
            messages_per_object=sum(messages.values()),
            settle_per_object=0.0,
            objects=self.objects,
            seconds=seconds,
        )

    def _count(self, objects: int) -> NDArray[Any]:
        pool, row, begin = self._pool, counts.row(), self._now
        held_up = pool.states[pool.buffers]
        self._now = self._engine.advance(pool, objects, row)
        np.add.at(pool.states, pool.stock, self._now - pool.since)
        pool.since[:] = self._now
        row[counts.TIME] = self._now - begin
        row[counts.HELD_UP] = pool.states[pool.buffers] - held_up
        return row

    def _states(self) -> dict[str, float]:
        if self._options.algorithm is Algorithm.CENTRAL:
            return {}
        times = self._pool.states.tolist()
        stored = self._pool.buffers + 1
        return shares({at if at < stored else at - len(times): t for at, t in enumerate(times)})


def _make_ready(algorithm: Algorithm) -> None:
    """Compiles, or loads what was compiled, before time is taken."""
    engine = ENGINES[algorithm]
    engine.advance(engine.pool(PoolOptions(producers=1, consumers=1)), 1, counts.row())


def _wait(row: Row) -> float:
    return row[counts.WAIT] / row[counts.OBJECTS]


def run(options: PoolOptions, shown: Callable[[range], Iterable[int]] = iter) -> Measured:
    """Runs an experiment; `shown` may tell how far it has come.

    Objects of the warm-up are not measured. It ends with as many objects as were asked for, or when
    the wait is known as well as was asked for.
    """
    _make_ready(options.algorithm)
    begin = perf_counter()
    experiment = Experiment(options)
    for part in shown(range(SLICES)):
        upto = options.objects * (part + 1) // SLICES
        while experiment.objects < upto and not experiment.is_narrow:
            experiment.batch(options.objects - experiment.objects)
    return experiment.measured(perf_counter() - begin)
