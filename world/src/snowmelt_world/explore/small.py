"""What a family says of its small world: who is there, what they want, and what may never be.

The *scene* is all that is not a process or a message: how far each user is, which views were
decided, what has been granted so far. It is a value, and every function here is pure: the walk
comes to one scene by many ways, and goes on from it in many.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, ClassVar, Final

import msgspec

from snowmelt.core.instant import START, Duration, Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Effect, Event, Node
from snowmelt_world.explore.machines import Process
from snowmelt_world.explore.value import LeftOut
from snowmelt_world.planted import Bug

Scene = Hashable
IDLE: Final = "time passes"
"""In a prelude: until no timer is set any more."""


class Act(msgspec.Struct, frozen=True):
    """Something that may be done: by a user, an operator, whoever runs a process."""

    words: str
    """As it stands in a story, where no other act of the same moment has the same words."""
    scene: Any
    """How things are then."""
    node: NodeId | None = None
    events: tuple[Event[Any], ...] = ()
    """What that process is given, one after another."""
    until: Instant = START
    """Time does not pass beyond this before it is done."""
    ends: bool = False
    """Whether that process ends by it, in order."""


class Look(msgspec.Struct, frozen=True):
    """What a family may see of a state."""

    scene: Any
    now: Instant
    processes: tuple[Process, ...]
    hurt: bool
    """Whether any injury was done so far."""

    def of(self, node: NodeId) -> Process:
        """One process. O(processes)."""
        return next(one for one in self.processes if one.node == node)


Ask = Callable[[NodeId, Event[Any]], Iterable[Effect[Any]]]
"""Asks a process something, and forgets that it did."""


class SmallLife(ABC):
    words: ClassVar[str] = ""
    """What it shows, in a line."""
    left_out: ClassVar[LeftOut] = frozenset()
    injuries: ClassVar[tuple[str, ...]] = ()
    """Those that it has when nobody says which."""
    prelude: tuple[str, ...] = ()
    """Moves that are made before the walk begins, in this one order, and all that comes of them."""
    horizon: Instant
    """By then all must be at rest, whatever happened."""
    nodes: tuple[NodeId, ...]
    mortal: tuple[NodeId, ...] = ()
    """Those of them that may crash."""

    back_within: Duration = seconds(1)
    """A process that ended is back by then."""
    mail_waits: bool = True
    """Whether what is on its way to one that crashes may come to its next life."""

    def __init__(self, bug: Bug | None = None) -> None:
        self._bug = bug

    @abstractmethod
    def build(self, node: NodeId, life: int) -> Node[Any]:
        """A machine that has not begun."""

    @abstractmethod
    def opening(self) -> Scene:
        """How things are before anything begins."""

    @abstractmethod
    def acts(self, look: Look) -> Iterator[Act]:
        """What may be done now."""

    def alarms(self, look: Look) -> Iterable[Instant]:
        """Moments at which something may be done that may not be done before."""
        del look
        return ()

    @abstractmethod
    def saw(self, look: Look, node: NodeId, effects: list[Effect[Any]]) -> Scene:
        """What a process told its users and its operator; raises `Broken`."""

    def started(self, look: Look, node: NodeId) -> tuple[Scene, tuple[Event[Any], ...]]:
        """A process has begun; what whoever runs it tells it at once."""
        del node
        return look.scene, ()

    def ended(self, look: Look, node: NodeId) -> Scene:
        """A process is gone; `look` is of after that."""
        del node
        scene: Scene = look.scene
        return scene

    def returns(self, look: Look, node: NodeId) -> bool:
        del look, node
        return True

    def is_quick(self, process: Process) -> bool:
        """Whether its disk does at once what it is asked.

        To others an answer that waits for a disk is like one that is long on its way. So this
        leaves out crashes between the two, and what comes together while a disk is busy.
        """
        del process
        return False

    @abstractmethod
    def unsettled(self, look: Look) -> str:
        """Who still waits for what; nothing at rest."""

    def judge(self, look: Look, ask: Ask) -> None:
        """At rest: raises `Broken` when something is lost that was not judged as it was seen."""
        del look, ask
