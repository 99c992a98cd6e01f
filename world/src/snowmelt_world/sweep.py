"""Many lives, by any crew, in the order of their seeds; bad ones again, with their story."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import msgspec

from snowmelt_world.families import family
from snowmelt_world.life import Ending, Report, live
from snowmelt_world.planted import Bug
from snowmelt_world.scenario import DISK, Scenario, drawn
from snowmelt_world.work import Crew, in_turn

CHUNK: Final = 16
CHUNK_SECONDS_MAX: Final = 1_200.0


class Lives(msgspec.Struct, frozen=True):
    protocol: str
    seeds: tuple[int, int]
    kinds: tuple[str, ...]
    bug: Bug | None
    coordinator: str


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
    coordinator: str = DISK,
    crew: Crew = in_turn,
) -> Iterator[Report]:
    """Lives every seed, and yields the reports in order as they come."""
    chunks = (seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK))
    spans = [(chunk.start, chunk.stop) for chunk in chunks]
    lives = [Lives(protocol, span, kinds, bug, coordinator) for span in spans]
    with closing(crew(lived, [msgspec.msgpack.encode(some) for some in lives])) as results:
        for reports in results:
            yield from msgspec.msgpack.decode(reports, type=list[Report])


def lived(told: bytes) -> bytes:
    some = msgspec.msgpack.decode(told, type=Lives)
    seeds = range(*some.seeds)
    return msgspec.msgpack.encode(
        [one(some.protocol, seed, some.kinds, some.bug, some.coordinator) for seed in seeds]
    )
