"""Many experiments, in waves: after each wave its rows are kept, so a sweep can be ended any time.

Whoever sweeps says who does the work: this process, or the crew of `snowmelt_world.spread`.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from snowmelt.core.errors import CallerError
from snowmelt_lab.pool.keep import Keep
from snowmelt_lab.pool.options import PoolOptions
from snowmelt_lab.pool.runs import Failed, Ran, Row, done, key_of, outcome_of, told, version
from snowmelt_world.work import Crew, in_turn

WAVE: Final = 16
FAILURES_SHOWN: Final = 3


class SweepFailed(CallerError):
    """Some points could not be run; all others are kept."""


def sweep(
    points: Sequence[PoolOptions],
    folder: Path,
    crew: Crew = in_turn,
    *,
    wave: int = WAVE,
    shown: Callable[[int], None] = lambda _: None,
) -> list[Row]:
    """The points' rows, in the order of the points; `shown` is told how many more are there.

    A point whose row is in the folder already, of the same options, seed, kernel and model, is not
    run again.
    """
    keep = Keep(folder)
    rows = keep.rows(version())
    wanted = {key_of(point): point for point in points}
    todo = [point for key, point in wanted.items() if key not in rows]
    shown(len(wanted) - len(todo))
    failures: list[str] = []
    for some in _waves(todo, wave):
        outcomes = [outcome_of(result) for result in crew(done, [told(point) for point in some])]
        new = [one.row for one in outcomes if isinstance(one, Ran)]
        if new:
            keep.add(new)
        rows.update({row["key"]: row for row in new})
        failures += [
            f"{varied_text(point)}: {one.error}"
            for point, one in zip(some, outcomes, strict=True)
            if isinstance(one, Failed)
        ]
        shown(len(some))
    if failures:
        raise SweepFailed(_failure_text(failures, len(wanted)))
    return [rows[key_of(point)] for point in points]


def _waves(points: list[PoolOptions], size: int) -> Iterable[list[PoolOptions]]:
    """The longest runs first, so that in the end nobody waits for one that began last."""
    ordered = sorted(points, key=expected_work, reverse=True)
    return (ordered[at : at + size] for at in range(0, len(ordered), size))


def expected_work(options: PoolOptions) -> float:
    """How long a run may take, in no unit: objects and their probes, and more near full load.

    >>> near, far = (expected_work(PoolOptions(consumers=number)) for number in (100, 200))
    >>> near > far
    True
    """
    lightly = min(options.load, 1 / options.load)
    return options.objects * (1 + options.max_hops / 4) * lightly


def varied_text(options: PoolOptions) -> str:
    """The options that are not as usual, in a person's words.

    >>> varied_text(PoolOptions(max_hops=5, consumers=200))
    'consumers=200, max_hops=5'
    """
    usual = msgspec.to_builtins(PoolOptions())
    own = msgspec.to_builtins(options)
    return ", ".join(f"{key}={value}" for key, value in own.items() if value != usual[key])


def _failure_text(failures: list[str], count: int) -> str:
    some = "; ".join(failures[:FAILURES_SHOWN])
    more = f"; and {len(failures) - FAILURES_SHOWN} more" if len(failures) > FAILURES_SHOWN else ""
    return f"{len(failures)} of {count} runs failed, the others are kept: {some}{more}"
