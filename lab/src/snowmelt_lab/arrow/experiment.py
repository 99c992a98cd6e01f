"""An experiment: the nodes heal from an arbitrary state, then requests are made and queued."""

from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt.core.instant import START, Duration, Instant, later
from snowmelt.protocols.arrow import ArrowNode, OrderPlace
from snowmelt.protocols.arrow.tree import HASTE
from snowmelt_lab.arrow.corruption import corrupt
from snowmelt_lab.arrow.options import ROUND_TRIP, Arrivals, ArrowOptions, Corruption
from snowmelt_lab.arrow.order import wrong_order
from snowmelt_lab.arrow.world import Make, World

DISTURBANCE: Final = 0.25
"""Requests in a round trip and node while edges heal: they must not be held up by them."""
AFTER: Final = 2
"""Time-outs for which the healed edges are watched before requests are measured."""
POISSON_GAP: Final = 0.5
"""Round trips between two requests, on average."""


class Measured(msgspec.Struct, frozen=True):
    """What came out. Times are in round trips."""

    stabilized: bool
    """All edges were legal in the end, and since they first were."""
    time_over_round_trip: float | None
    """When the last edge was fully legal."""
    bound_over_round_trip: float | None
    """When it had to be; None without a bound, with a time-out below two round trips."""
    messages: int
    """All that were sent."""
    finds_per_request: float | None
    """Of the requests made after that."""
    order_valid: bool
    wrong: str | None
    """What is wrong with the order, if something is."""
    closure_breaks: int
    """How often a legal edge became another, on a tree that stood."""
    whole_legal: bool
    """Whether the whole was legal when all edges were: theorem 4.1."""
    tree_over_round_trip: float | None
    """When all nodes knew the tree; None when it was not touched."""
    tree_bound_over_round_trip: float | None
    observers: int
    ignored: int
    """Finds that were one too many."""


def run(options: ArrowOptions, make: Make = ArrowNode) -> Measured:
    """Runs an experiment.

    >>> told = run(ArrowOptions(nodes=6, requests=5))
    >>> told.stabilized, told.order_valid, told.time_over_round_trip <= told.bound_over_round_trip
    (True, True, True)
    """
    world = World(options, make)
    if options.corrupt:
        corrupt(world)
    healed = heal(world)
    asked, wrong = requested(world)
    finds = sum(world.finds[place] for place in asked)
    return Measured(
        stabilized=healed.at is not None and not world.closure_breaks,
        time_over_round_trip=_trips(healed.at),
        bound_over_round_trip=bound(world),
        messages=sum(world.sent.values()),
        finds_per_request=finds / options.requests if options.requests else None,
        order_valid=wrong is None,
        wrong=wrong,
        closure_breaks=world.closure_breaks,
        whole_legal=healed.whole_legal,
        tree_over_round_trip=_trips(world.tree_at) if world.trees else None,
        tree_bound_over_round_trip=tree_bound(world),
        observers=world.sent["Observer"],
        ignored=sum(node.ignored for node in world.nodes),
    )


class Healed(msgspec.Struct, frozen=True):
    at: Instant | None
    whole_legal: bool


def heal(world: World) -> Healed:
    """Lets edges heal while requests go on, and some time more, in which they must stay legal."""
    if not world.options.corrupt:
        return Healed(START, world.whole_is_legal)
    due = bound(world) or 5.0 + 20 * world.options.timeout_factor
    until = Instant(round((due + AFTER * world.options.timeout_factor) * ROUND_TRIP))
    whole: bool | None = None
    for at in _disturbance(world, until):
        while world.step(at):
            if whole is None and world.healed_at is not None:
                whole = world.whole_is_legal
        world.now = at
        if at < until:
            world.ask(world.chance.randrange(world.options.nodes))
    return Healed(world.healed_at, bool(whole) and world.whole_is_legal)


def _disturbance(world: World, until: Instant) -> Iterator[Instant]:
    """When requests are made, and at last when it is over."""
    gap = ROUND_TRIP / (DISTURBANCE * world.options.nodes)
    at = later(world.now, _drawn(world, gap))
    while at < until:
        yield at
        at = later(at, _drawn(world, gap))
    yield until


def requested(world: World) -> tuple[list[OrderPlace], str | None]:
    """Makes the requests that are measured; and says what is wrong with the order, if anything."""
    world.followed.clear()
    flying = [place for _, _, place in world.flying]
    asked = list(_asked(world))
    limit = _patience(world)
    while world.flying and world.now < limit:
        world.run(later(world.now, ROUND_TRIP))
    return asked, wrong_order(world.followed, asked, flying, world.tails)


def _asked(world: World) -> Iterator[OrderPlace]:
    """Makes the requests one by one; each may wait for the one before."""
    nodes, requests = world.options.nodes, world.options.requests
    for _ in range(requests):
        one = world.chance.randrange(nodes)
        match world.options.arrivals:
            case Arrivals.SEQUENCE:
                seen = len(world.followed)
                place = world.ask(one)
                _await(world, place, seen)
                yield place
            case Arrivals.ONE_SHOT:
                yield world.ask(one)
            case Arrivals.POISSON:
                world.run(later(world.now, _drawn(world, POISSON_GAP * ROUND_TRIP)))
                yield world.ask(one)


def _await(world: World, place: OrderPlace, seen: int) -> None:
    """Until this place follows one; `seen` is how much had been told before it was asked for."""
    limit = _patience(world)
    while not any(link.by == place for link in world.followed[seen:]):
        if not world.step(limit):
            return


def _patience(world: World) -> Instant:
    """No find that is on its way can take longer, when all is well."""
    return later(world.now, Duration(world.options.nodes * ROUND_TRIP))


def bound(world: World) -> float | None:
    """Round trips within which all edges have to be legal, with what the tree under them needs."""
    edges = world.options.edge_bound
    return None if edges is None else edges + (tree_bound(world) or 0.0)


def tree_bound(world: World) -> float | None:
    """A round of claims, and one more for each edge to the farthest node: rule 13; R is a beat."""
    if Corruption.TREE not in world.options.corrupt:
        return None
    return 1.5 + (1 / HASTE + 0.5) * world.plan.depth


def _drawn(world: World, mean: float) -> Duration:
    return Duration(1 + round(world.chance.expovariate(1 / mean)))


def _trips(at: Instant | None) -> float | None:
    return None if at is None else at / ROUND_TRIP
