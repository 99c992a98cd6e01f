"""Many lives, on every core, in the order of their seeds; bad ones again, with their story."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from snowmelt.sim.families import family
from snowmelt.sim.life import Ending, Report, live
from snowmelt.sim.planted import Bug
from snowmelt.sim.scenario import Scenario, drawn


def one(protocol: str, seed: int, kinds: tuple[str, ...], bug: Bug | None = None) -> Report:
    """One life from its seed; with its story when it ended badly.

    >>> one("echo", 1, ()).ending.name
    'SETTLED'
    """
    scenario = drawn(protocol, seed, kinds, bug)
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
) -> Iterator[Report]:
    """Lives every seed, and yields the reports in order as they come."""
    if jobs == 1:
        for seed in seeds:
            yield one(protocol, seed, kinds, bug)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        chunks = [seeds[at : at + 16] for at in range(0, len(seeds), 16)]
        running = [pool.submit(_lives, protocol, chunk, kinds, bug) for chunk in chunks]
        try:
            for future in running:
                yield from future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _lives(protocol: str, seeds: range, kinds: tuple[str, ...], bug: Bug | None) -> list[Report]:
    return [one(protocol, seed, kinds, bug) for seed in seeds]
