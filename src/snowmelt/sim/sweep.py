"""Many lives, on every core, in the order of their seeds; bad ones again, with their story."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Final

from snowmelt.sim.crew import spread
from snowmelt.sim.families import family
from snowmelt.sim.life import Ending, Report, live
from snowmelt.sim.planted import Bug
from snowmelt.sim.scenario import DISK, Scenario, drawn

CHUNK: Final = 16
CHUNK_SECONDS_MAX: Final = 1_200.0


def one(
    protocol: str,
    seed: int,
    kinds: tuple[str, ...],
    bug: Bug | None = None,
    coordinator: str = DISK,
) -> Report:
    """One life from its seed; with its story when it ended badly.

    >>> one("echo", 1, ()).ending.name
    'SETTLED'
    """
    scenario = drawn(protocol, seed, kinds, bug, coordinator=coordinator)
    report = live(scenario, family(protocol))
    return report if report.ending is Ending.SETTLED else again(scenario)


def again(scenario: Scenario) -> Report:
    """The same life once more, this time keeping what happened."""
    return live(scenario, family(scenario.protocol), keep=True)


def sweep(
    protocol: str,
    seeds: range,
    kinds: tuple[str, ...],
    bug: Bug | None = None,
    jobs: int = 1,
    coordinator: str = DISK,
) -> Iterator[Report]:
    """Lives every seed, and yields the reports in order as they come."""
    if jobs == 1:
        for seed in seeds:
            yield one(protocol, seed, kinds, bug, coordinator)
        return
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    lives = partial(_lives, protocol, kinds, bug, coordinator)
    with closing(spread(lives, chunks, jobs, CHUNK_SECONDS_MAX)) as results:
        for reports in results:
            yield from reports


def _lives(
    protocol: str, kinds: tuple[str, ...], bug: Bug | None, coordinator: str, seeds: range
) -> list[Report]:
    return [one(protocol, seed, kinds, bug, coordinator) for seed in seeds]
