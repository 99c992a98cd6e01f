"""What happens to arrows and finds, step by step, each step with a sentence; for pictures."""

from collections.abc import Iterator
from typing import Any

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced, Effect, Event, Received, Send
from snowmelt.protocols.arrow import Find, Observed
from snowmelt_lab.arrow.corruption import corrupt
from snowmelt_lab.arrow.options import ROUND_TRIP, ArrowOptions, Corruption
from snowmelt_lab.arrow.plan import Plan, number_of
from snowmelt_lab.arrow.world import World

NODES_MAX = 15
STEPS_MAX = 48
TRIPS_MAX = 20


class OnTheWay(msgspec.Struct, frozen=True):
    """A message on an edge; `done` is the part of the way that it has behind it in the picture."""

    source: int
    target: int
    done: float
    is_find: bool


class Step(msgspec.Struct, frozen=True):
    at: float
    """In round trips."""
    sentence: str
    points_at: tuple[int, ...]
    """Of each node; a sink's is itself."""
    on_the_way: tuple[OnTheWay, ...]
    illegal: tuple[int, ...]
    """Edges whose phi is not 1, each by its child."""


class Traced(msgspec.Struct, frozen=True):
    """A life from an arbitrary state to a legal one, and one request after it."""

    plan: Plan
    steps: tuple[Step, ...]
    left_out: int
    """How many more steps there were."""


def traced(options: ArrowOptions) -> Traced:
    """Follows the nodes while they heal; then the node farthest in number asks for a place.

    >>> [step.sentence for step in traced(ArrowOptions(nodes=2, corrupt=())).steps]
    ['legal, without finds', '1 wants a place', 'the find ends at 0, which points at 1 now']
    """
    if options.nodes > NODES_MAX:
        raise BadOption("--nodes", options.nodes, f"{NODES_MAX} at most, with --draw")
    if Corruption.TREE in options.corrupt:
        raise BadOption("--corrupt", "tree", "arrows, finds, observers, with --draw")
    world = World(options)
    if options.corrupt:
        corrupt(world)
    scribe = _Scribe(world)
    limit = Instant(round((TRIPS_MAX + options.timeout_factor) * ROUND_TRIP))
    while world.watch.healed_at is None and world.step(limit):
        pass
    while world.flying and world.step(limit):
        pass
    world.ask(options.nodes - 1)
    limit = later(
        limit, Duration(options.nodes * ROUND_TRIP)
    )  # with too short a time-out it is ill
    while world.flying and world.step(limit):
        pass
    steps = scribe.steps
    return Traced(world.plan, tuple(steps[:STEPS_MAX]), max(0, len(steps) - STEPS_MAX))


class _Scribe:
    def __init__(self, world: World) -> None:
        self._world = world
        self._ignored = [0] * len(world.nodes)
        begin = "an arbitrary state" if world.options.corrupt else "legal, without finds"
        self.steps = [self._step(begin)]
        world.seen = self._seen

    def _seen(self, one: int, event: Event[Any], effects: list[Effect[Any]]) -> None:
        sentence = self._sentence(one, event, effects)
        if sentence is not None:
            self.steps.append(self._step(sentence))

    def _sentence(self, one: int, event: Event[Any], effects: list[Effect[Any]]) -> str | None:
        to = next(_targets(effects), None)
        match event:
            case Announced():
                return f"{one} wants a place" + (" and has it at once" if to is None else "")
            case Received(source, Find()):
                return self._of_find(one, number_of(source), to)
            case Received(source, Observed()):
                return self._of_answer(one, source, to)
            case _:
                return None

    def _of_find(self, one: int, source: int, to: int | None) -> str | None:
        node = self._world.nodes[one]
        if node.ignored > self._ignored[one]:
            self._ignored[one] = node.ignored
            return f"{one} ignores a find from {source}: one too many"
        if to is None:
            return f"the find ends at {one}, which points at {source} now"
        if to == source:
            return None  # it goes back; there would be too many of these
        return f"{one} passes a find on to {to} and points at {source}"

    def _of_answer(self, one: int, child: NodeId, to: int | None) -> str | None:
        if to is not None:
            return f"{one} saw nothing on the edge to {to}: it sends a find"
        before = self.steps[-1].points_at[one]
        if before == number_of(child) and self._world.nodes[one].arrow.is_sink:
            return f"{one} saw too much on the edge to {before}: it points at itself"
        return None

    def _step(self, sentence: str) -> Step:
        world = self._world
        points_at = tuple(number_of(node.arrow.points_at) for node in world.nodes)
        illegal = [
            child
            for _, child in world.plan.edges
            if (state := world.edge_state(child)) is None or not state.legal
        ]
        return Step(world.now / ROUND_TRIP, sentence, points_at, self._on_the_way(), tuple(illegal))

    def _on_the_way(self) -> tuple[OnTheWay, ...]:
        """The messages of a link stand one behind the other; how far they are is not to scale."""
        return tuple(
            OnTheWay(
                source,
                target,
                0.78 - 0.56 * place / len(link.messages),
                is_find=isinstance(message, Find),
            )
            for (source, target), link in self._world.links.items()
            for place, message in enumerate(link.messages)
        )


def _targets(effects: list[Effect[Any]]) -> Iterator[int]:
    for effect in effects:
        if isinstance(effect, Send) and isinstance(effect.message, Find):
            yield number_of(effect.target)
