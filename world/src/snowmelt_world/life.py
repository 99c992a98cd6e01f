"""One life: a family in a world, from a seed to a verdict.

First the safety phase: faults come and go, and whatever happens no invariant may break. Then all
faults end, and within the family's bound everything must come to rest (liveness). So a life has
three bad endings, kept apart because they are sought in different places.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from enum import IntEnum
from random import Random
from typing import Final, Protocol

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds, spelled
from snowmelt.core.names import NodeId
from snowmelt.protocols.etcd import ETCD
from snowmelt_world import injuries
from snowmelt_world.etcd import EtcdNode
from snowmelt_world.scenario import ETCD_DECIDES, Scenario
from snowmelt_world.world import Broken, MachineCrashed, Observer, World

STEPS_MAX: Final = 2_000_000
LOOK_EVERY: Final = milliseconds(500)


class Ending(IntEnum):
    """How a life ended; the number is the exit code of `snowmelt sim`."""

    SETTLED = 0
    INVARIANT_BROKEN = 10
    NEVER_SETTLED = 11
    MACHINE_CRASHED = 12


class Judged(Protocol):
    @property
    def calls(self) -> int:
        """How many it heard of."""

    @property
    def excused(self) -> Mapping[str, int]:
        """How many of them, by reason."""


class Tally(msgspec.Struct, frozen=True):
    """Of how many calls a life was judged, and how many the promise does not cover, by reason."""

    calls: int = 0
    excused: dict[str, int] = {}

    @classmethod
    def of(cls, ledgers: Iterable[Judged]) -> "Tally":
        """Of all of these."""
        excused: Counter[str] = Counter()
        calls = 0
        for one in ledgers:
            calls += one.calls
            excused.update(one.excused)
        return cls(calls, dict(excused))


class FamilyLife(Observer, ABC):
    """What a family brings to a life. `snowmelt_world/families` has one file for each."""

    name: str
    """What its dice are named after."""

    def __init__(self, scenario: Scenario, chance: Random) -> None:
        """Each family draws here whatever it leaves to chance."""
        self._scenario = scenario
        self._chance = chance

    @abstractmethod
    def populate(self, world: World) -> None:
        """Adds nodes and clients, and puts the load into the world's future."""

    @abstractmethod
    def unsettled(self, world: World) -> str:
        """Why the world is not at rest yet, its first word a name; nothing when it is."""

    @abstractmethod
    def judge(self, world: World) -> None:
        """Raises `Broken` when the history of this life shows what may not be."""

    @property
    @abstractmethod
    def bound(self) -> Duration:
        """How long after the last fault it may take to come to rest."""

    @property
    def tally(self) -> Tally | None:
        """What was judged, and what was excused; None when the family excuses nothing."""
        return None

    def _sometime(self, end: int) -> Instant:
        return Instant(self._chance.randrange(end))

    def _dice(self, name: str) -> Random:
        """Dice of their own: what is drawn with them changes nothing that others draw."""
        return Random(f"{self._scenario.seed}/{self.name}/{name}")

    def _down(self, world: World, besides: Container[NodeId] = ()) -> str:
        """Which node does not run though it should, in words."""
        for node in self._scenario.nodes:
            if world.slots[node].node is None and node not in besides:
                return f"{node} does not run"
        return ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    protocol: str
    seed: int
    ending: Ending
    digest: str
    steps: int
    simulated: Instant
    settled_after: Duration | None = None
    sentence: str = ""
    subject: str = ""
    tally: Tally | None = None
    story: tuple[str, ...] = ()


def live(scenario: Scenario, family: type[FamilyLife], *, keep: bool = False) -> Report:
    """Lives it. With `keep`, a bad ending tells its story."""
    life = family(scenario, Random(f"{scenario.seed}/{scenario.protocol}/load"))
    world = World(scenario.seed, scenario.style, life, keep=keep)
    ending, settled_after, sentence, subject = Ending.SETTLED, None, "", ""
    try:
        if scenario.coordinator == ETCD_DECIDES:
            world.add(ETCD, lambda _: EtcdNode())
            world.start(ETCD)
        life.populate(world)
        injuries.schedule(world, (*scenario.faults, *scenario.weather))
        world.run(scenario.faults_end, STEPS_MAX)
        injuries.heal(world)
        settled_after, sentence = _settle(world, life)
        if settled_after is None:
            ending, subject = Ending.NEVER_SETTLED, sentence.split(" ", 1)[0]
        life.judge(world)
    except Broken as broken:
        ending, sentence, subject = Ending.INVARIANT_BROKEN, str(broken), broken.subject
    except MachineCrashed as crashed:
        ending, sentence, subject = Ending.MACHINE_CRASHED, str(crashed), crashed.subject
    return Report(
        protocol=scenario.protocol,
        seed=scenario.seed,
        ending=ending,
        digest=world.trace.digest,
        steps=world.trace.steps,
        simulated=world.now,
        settled_after=settled_after,
        sentence=sentence,
        subject=subject,
        tally=life.tally,
        story=tuple(world.trace.story(subject)) if keep and subject else (),
    )


def _settle(world: World, life: FamilyLife) -> tuple[Duration | None, str]:
    begin = world.now
    while True:
        reason = life.unsettled(world)
        if not reason:
            return Duration(world.now - begin), ""
        if world.now - begin >= life.bound:
            return None, f"{reason}, {spelled(life.bound)} after the last fault"
        if world.trace.steps >= STEPS_MAX:
            return None, f"{reason}, after {STEPS_MAX} steps: it talks without end"
        world.run(later(world.now, LOOK_EVERY), STEPS_MAX)
