"""What a family of promises adds to a storm: its clients, what it judges, and whom faults hit."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt_world.storms.crowd import ClientLife, StormCrowd
from snowmelt_world.storms.faults import Card, Fault, Phases
from snowmelt_world.storms.scene import Scene, Victim
from snowmelt_world.storms.setting import StormSetting
from snowmelt_world.storms.words import StdinWords

KINDS: Final = {
    "fifo": "queues",
    "priority": "queues",
    "any": "queues",
    "pool": "pool",
    "baton": "baton",
    "spark": "spark",
}
"""Each kind of storm, and the package that has its family."""


class Judgement(msgspec.Struct, kw_only=True):
    """What the journals of a run say."""

    operations: int
    longest_wait_s: float
    """The longest that a client waited for what it wanted, whatever was done meanwhile."""
    properties: dict[str, list[str]]
    """Each promise, with a sentence for each time that it was broken."""
    counted: dict[str, Any] = {}
    """What is told beside."""
    unjudged: list[str] = []
    """Where the machine itself may have been too slow."""

    @property
    def broken(self) -> list[str]:
        return [sentence for found in self.properties.values() for sentence in found]


class StormFamily(ABC):
    """One kind of promises."""

    settings: type[msgspec.Struct]
    """What `--set` can change."""
    own: frozenset[Fault] = frozenset()
    """Faults that its clients do to themselves."""
    plants: tuple[str, ...] = ()
    """Lies that a client can be made to write down, to see that the judge finds them."""
    every: float = 2.0
    """Seconds from one fault to the next, where nobody says."""
    spares_first: bool = False
    """Whether nothing is done to the node that decides on its disk."""

    @abstractmethod
    def cards(self, setting: StormSetting) -> Sequence[Card]:
        """What may be done."""

    def phases(self, setting: StormSetting) -> Phases:
        """When there are faults, and when all is calm."""
        return Phases()

    @abstractmethod
    def processes(self, setting: StormSetting) -> Sequence[tuple[str, int]]:
        """The processes of clients: a role, and a number in it."""

    @abstractmethod
    def live(self, setting: StormSetting, life: ClientLife, words: StdinWords) -> None:
        """What such a process does, until it is asked to end."""

    def seek(self, part: str, scene: Scene, chance: Random) -> Iterable[Victim]:
        """Who plays a part of this family just now; the first that is free is hit."""
        raise NotImplementedError(part)

    def before(self, victim: Victim, scene: Scene, chance: Random) -> None:
        """Somebody is about to be hit."""

    @abstractmethod
    def finish(self, setting: StormSetting, crowd: StormCrowd) -> list[str]:
        """The load is over, all is up: clients end, and what is left is taken. What was wrong."""

    @abstractmethod
    def judge(
        self, setting: StormSetting, lives: Sequence[ClientLife], folder: Path, ended: int
    ) -> Judgement:
        """Reads all that was written down; the load ended at that moment."""

    def read(self, given: Mapping[str, Any]) -> Any:
        """The settings, of these and those that nobody gave."""
        unknown = [name for name in given if name not in self.settings.__struct_fields__]
        if unknown:
            allowed = ", ".join(self.settings.__struct_fields__)
            raise BadOption("--set", unknown[0], f"one of {allowed}")
        try:
            return msgspec.convert(dict(given), self.settings, strict=False)
        except msgspec.ValidationError as error:
            raise BadOption("--set", dict(given), f"values of their kinds ({error})") from error


def family_of(kind: str) -> StormFamily:
    """The family of a kind of storm.

    >>> type(family_of("pool")).__name__
    'PoolStorm'
    >>> family_of("lifo")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --kind is 'lifo'; allowed: fifo, priority, any, pool, baton, \
spark
    """
    if kind not in KINDS:
        raise BadOption("--kind", kind, ", ".join(KINDS))
    found: StormFamily = import_module(f"snowmelt_world.storms.{KINDS[kind]}.family").FAMILY
    return found
