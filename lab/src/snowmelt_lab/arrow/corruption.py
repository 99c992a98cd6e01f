"""Arbitrary states: what faults may have left when they end."""

from random import Random

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.arrow import Branch, Claim, Find, Observed, Observer, OrderPlace
from snowmelt.protocols.arrow.edge import ParentEdge, Phase
from snowmelt.protocols.arrow.messages import NUMBERS, Message
from snowmelt_lab.arrow.link import TRANSIT
from snowmelt_lab.arrow.options import Corruption
from snowmelt_lab.arrow.plan import name_of
from snowmelt_lab.arrow.world import World

STRAYS_MAX = 6
NEAR = 3
"""Most strays carry a number that their parent has just used, or will use soon."""


def corrupt(world: World) -> None:
    """Puts a world that has not begun to live into an arbitrary state of the kinds asked for.

    >>> from snowmelt_lab.arrow.options import ArrowOptions
    >>> world = World(ArrowOptions(nodes=9, corrupt=(Corruption.FINDS,), seed=3))
    >>> corrupt(world)
    >>> world.watch.healed_at is None, len(world.flying) > 0
    (True, True)
    """
    kinds = world.options.corrupt
    if Corruption.TREE in kinds:
        _corrupt_trees(world)
    if Corruption.OBSERVERS in kinds:
        for node in world.nodes:
            for edge in node.edges.values():
                _corrupt_edge(edge, world.chance)
    if Corruption.ARROWS in kinds:
        for node in world.nodes:
            near = [node.me, *node.edges, *([node.parent] if node.parent else [])]
            node.arrow.points_at = world.chance.choice(near)
    strays = _Strays(world)
    for source, target in world.links:
        strays.put(source, target)
    world.begin()


def _corrupt_edge(edge: ParentEdge, chance: Random) -> None:
    edge.phase = chance.choice(list(Phase))
    edge.number = chance.choice([0, NUMBERS - 1, chance.randrange(NUMBERS)])
    edge.sent = chance.randint(-2, 4)
    edge.estimate = chance.randint(-2, 6)


def _corrupt_trees(world: World) -> None:
    chance, count = world.chance, world.options.nodes
    for node, tree in zip(world.nodes, world.trees, strict=True):
        near = tree.ground.neighbours
        tree.claims = {name: _claim(chance, count) for name in near if chance.random() < 0.8}
        parent = chance.choice([None, *near])
        children = tuple(name for name in near if name != parent and chance.random() < 0.5)
        tree.claim = Claim(chance.randrange(count), parent)
        tree.branch = Branch(parent, children)
        node.parent = parent
        node.edges = {child: node.new_edge() for child in children}
        at = node.arrow.points_at
        if at != parent and at not in node.edges:
            node.arrow.points_at = node.me


def _claim(chance: Random, count: int) -> Claim:
    """What anybody may have said; small distances that are false take longest to be found out."""
    distance = chance.choice([0, 0, 1, chance.randrange(count + 1)])
    return Claim(distance, chance.choice([None, name_of(chance.randrange(count))]))


class _Strays:
    """Messages that nobody sent, or sent before the faults."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._count = 0

    def put(self, source: int, target: int) -> None:
        """On this link, in any mixture."""
        world, chance = self._world, self._world.chance
        kinds = world.options.corrupt
        found: list[Message | Claim] = []
        if Corruption.FINDS in kinds:
            found += [self._find(source) for _ in range(self._how_many())]
        if Corruption.OBSERVERS in kinds:
            found += [self._observer(source, target) for _ in range(self._how_many())]
        if Corruption.TREE in kinds:
            found += [_claim(chance, world.options.nodes) for _ in range(chance.randint(0, 2))]
        chance.shuffle(found)
        times = sorted(chance.randint(0, TRANSIT) for _ in found)
        for message, at in zip(found, times, strict=True):
            world.stray(source, target, message, Instant(at))

    def _how_many(self) -> int:
        """Often none, sometimes many."""
        return max(0, self._world.chance.randint(-STRAYS_MAX, STRAYS_MAX))

    def _find(self, source: int) -> Find:
        self._count += 1
        return Find(OrderPlace(name_of(source), OperationId(NodeId("stray"), self._count)))

    def _observer(self, source: int, target: int) -> Message:
        chance = self._world.chance
        edge = self._edge(source, target) or self._edge(target, source)
        number = chance.randrange(NUMBERS)
        if edge is not None and chance.random() < 0.8:
            number = (edge.number + chance.randint(-NEAR, NEAR)) % NUMBERS
        if chance.random() < 0.5:
            return Observer(number)
        return Observed(number, points=chance.random() < 0.5)

    def _edge(self, above: int, below: int) -> ParentEdge | None:
        return self._world.nodes[above].edges.get(name_of(below))
