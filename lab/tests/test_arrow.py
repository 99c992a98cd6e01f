"""Arrows from arbitrary states: they heal within the bound, stay healed, and queue in one order.

Bugs are planted too: what finds none of them would find nothing.
"""

from random import Random

import msgspec
import pytest

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announced, Received
from snowmelt.protocols.arrow import ArrowNode, Find, Followed, Observed, OrderPlace, RequestPlace
from snowmelt.protocols.arrow.arrow import Arrow
from snowmelt.protocols.arrow.edge import Mend, ParentEdge, Phase
from snowmelt.protocols.arrow.tree import TreeNode
from snowmelt_lab.arrow.experiment import Measured, run
from snowmelt_lab.arrow.options import (
    ROUND_TRIP,
    Arrivals,
    ArrowOptions,
    Corruption,
    TreeKind,
)
from snowmelt_lab.arrow.order import wrong_order
from snowmelt_lab.arrow.plan import plan_of, planned
from snowmelt_lab.arrow.world import Make, World

EDGES = (Corruption.ARROWS, Corruption.FINDS, Corruption.OBSERVERS)
FACTORS = (2.0, 2.0, 2.0, 3.0, 6.0)


def options(
    seed: int, nodes_max: int = 60, corrupt: tuple[Corruption, ...] = EDGES
) -> ArrowOptions:
    chance = Random(seed)
    return ArrowOptions(
        nodes=round(2 * (nodes_max / 2) ** chance.random()),
        tree=chance.choice(list(TreeKind)),
        requests=10,
        arrivals=chance.choice(list(Arrivals)),
        timeout_factor=chance.choice(FACTORS),
        corrupt=corrupt,
        seed=seed,
    )


def complaint(told: Measured) -> str | None:
    """The first thing that is not as the paper has it."""
    if not told.stabilized or told.time_over_round_trip is None:
        return "it never heals"
    if told.closure_breaks:
        return "a legal edge does not stay legal"
    if told.bound_over_round_trip and told.time_over_round_trip > told.bound_over_round_trip:
        return "it heals too late"
    if told.tree_over_round_trip and told.tree_over_round_trip > told.tree_bound_over_round_trip:
        return "the tree is right too late"
    if not told.whole_legal:
        return "every edge is legal, but the whole is not"
    return told.wrong


@pytest.mark.parametrize("part", range(6))
def test_every_edge_is_legal_in_time_from_arbitrary_states(part: int) -> None:
    for seed in range(50 * part, 50 * part + 50):
        assert complaint(run(options(seed))) is None, f"seed {seed}"


def test_the_smallest_trees_heal_too() -> None:
    for seed in range(100):
        made = msgspec.structs.replace(options(seed), nodes=2 + seed % 2)
        assert complaint(run(made)) is None, f"seed {seed}"


def test_every_edge_is_legal_in_time_on_a_tree_that_heals_itself() -> None:
    for seed in range(50):
        made = options(seed, 40, tuple(Corruption))
        assert complaint(run(made)) is None, f"seed {seed}"


def test_five_hundred_nodes_grow_their_tree_in_time_too() -> None:
    made = ArrowOptions(
        nodes=500, tree=TreeKind.BINARY, requests=10, corrupt=tuple(Corruption), seed=3
    )
    assert complaint(run(made)) is None


def test_the_same_seed_tells_the_same() -> None:
    assert run(options(7)) == run(options(7))
    assert run(options(7)) != run(msgspec.structs.replace(options(7), seed=8))


@pytest.mark.parametrize("kind", list(TreeKind))
@pytest.mark.parametrize("arrivals", list(Arrivals))
def test_without_faults_it_is_one_order_from_the_start(kind: TreeKind, arrivals: Arrivals) -> None:
    told = run(ArrowOptions(nodes=20, tree=kind, arrivals=arrivals, requests=60, corrupt=()))
    assert complaint(told) is None
    assert (told.time_over_round_trip, told.ignored) == (0, 0)
    assert told.finds_per_request is not None
    assert 0 < told.finds_per_request < 19


def test_on_a_star_a_find_goes_over_two_edges_at_most() -> None:
    told = run(ArrowOptions(nodes=50, tree=TreeKind.STAR, requests=300, corrupt=()))
    assert told.finds_per_request is not None
    # The root is asked from, or is the end, once in 25; the same node asks again once in 50.
    assert 1.85 < told.finds_per_request < 2


def test_a_longer_time_out_needs_fewer_observers_and_more_time() -> None:
    short, long = (run(ArrowOptions(nodes=60, timeout_factor=factor, seed=3)) for factor in (2, 20))
    assert complaint(short) is complaint(long) is None
    assert short.time_over_round_trip < long.time_over_round_trip
    # Each run lasts as long as it takes; an edge is observed once in a time-out.
    assert short.bound_over_round_trip == 5
    assert long.bound_over_round_trip == 23


@pytest.mark.parametrize("factor", [0.3, 0.7, 1.0])
def test_a_time_out_that_is_too_short_breaks_nothing(factor: float) -> None:
    for seed in range(6):
        calm = ArrowOptions(nodes=15, corrupt=(), timeout_factor=factor, seed=seed, requests=60)
        assert complaint(run(calm)) is None, f"seed {seed}"


def test_one_edge_by_hand() -> None:
    """Both point at each other: phi is 2 until the parent has looked, a round trip at most."""
    world = World(ArrowOptions(nodes=2, corrupt=()))
    parent, child = world.nodes
    parent.arrow.points_at, child.arrow.points_at = child.me, parent.me
    world.begin()
    assert world.watch.healed_at is None
    assert not world.whole_is_legal
    world.run(Instant(3 * ROUND_TRIP))
    assert world.watch.healed_at is not None
    assert (parent.arrow.points_at, child.arrow.points_at) == (parent.me, parent.me)
    assert parent.arrow.tail.filler
    assert world.whole_is_legal


# --- planted bugs ---------------------------------------------------------------------------------


class ForgetsItsOwn(ArrowNode):
    """The paper's events 6 and b(2) to the letter: only what comes from a neighbour counts."""

    def handle(self, event, now):
        edge = self.edges.get(self.arrow.points_at)
        effects = super().handle(event, now)
        if (
            edge is not None
            and isinstance(event, Announced)
            and isinstance(event.fact, RequestPlace)
        ):
            edge.sent -= 1
        return effects


class Unnumbered(ParentEdge):
    def observed(self, answer, *, points):
        return super().observed(Observed(self.number, points=answer.points), points=points)


class CountsNothing(ParentEdge):
    def count_sent(self):
        pass


class IgnoresWhileObserving(ParentEdge):
    def ignores(self):
        phase, self.phase = self.phase, Phase.CORRECT
        told = super().ignores()
        self.phase = phase
        return told


class IgnoresForEver(ParentEdge):
    def ignores(self):
        return self.phase is Phase.CORRECT and self.estimate > 1


class NeverReleases(ParentEdge):
    def observed(self, answer, *, points):
        mend = super().observed(answer, points=points)
        return Mend.NOTHING if mend is Mend.RELEASE else mend


class NeverInjects(ParentEdge):
    def observed(self, answer, *, points):
        mend = super().observed(answer, points=points)
        return Mend.NOTHING if mend is Mend.INJECT else mend


class ObservesOnce(ParentEdge):
    """It takes an edge that was seen once to be right for ever."""

    def observe(self):
        phase, sent = self.phase, self.sent
        word = super().observe()
        if phase is Phase.CORRECT:
            self.phase, self.sent = phase, sent
        return word


class TurnsWithoutPassingOn(ArrowNode):
    """Forward and flip are not one step: a find is passed on, and the arrow stays."""

    def handle(self, event, now):
        at = self.arrow.points_at
        effects = super().handle(event, now)
        if isinstance(event, Received) and isinstance(event.message, Find) and at != self.me:
            self.arrow.points_at = at
        return effects


def with_edge(kind: type[ParentEdge]) -> Make:
    class Planted(ArrowNode):
        def new_edge(self):
            return kind(super().new_edge().number)

    return Planted


def first_complaint(make: Make, corrupt: tuple[Corruption, ...], factor: float = 2.0) -> str | None:
    for seed in range(25):
        made = msgspec.structs.replace(
            options(seed, 30, corrupt), timeout_factor=factor, requests=60
        )
        said = complaint(run(made, make))
        if said is not None:
            return said
    return None


BUGS: dict[str, tuple[Make, tuple[Corruption, ...], float]] = {
    "forgets its own": (ForgetsItsOwn, EDGES, 2.0),
    "forgets its own, without other faults": (ForgetsItsOwn, (), 2.0),
    "unnumbered, with a short time-out": (with_edge(Unnumbered), (), 0.5),
    "counts nothing": (with_edge(CountsNothing), (), 2.0),
    "ignores while observing": (with_edge(IgnoresWhileObserving), EDGES, 2.0),
    "ignores for ever": (with_edge(IgnoresForEver), EDGES, 6.0),
    "never releases": (with_edge(NeverReleases), EDGES, 2.0),
    "never injects": (with_edge(NeverInjects), EDGES, 2.0),
    "observes once": (with_edge(ObservesOnce), EDGES, 2.0),
    "turns without passing on": (TurnsWithoutPassingOn, (), 2.0),
}


@pytest.mark.parametrize(("make", "corrupt", "factor"), BUGS.values(), ids=BUGS)
def test_a_planted_bug_is_found(make: Make, corrupt: tuple[Corruption, ...], factor: float) -> None:
    assert first_complaint(make, corrupt, factor) is not None


def test_with_numbers_the_same_short_time_out_harms_nothing() -> None:
    assert first_complaint(ArrowNode, (), 0.5) is None


def test_a_tree_that_never_takes_a_small_distance_back_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true = TreeNode._best

    def sticky(tree: TreeNode):
        found = true(tree)
        return tree.claim if tree.claim.distance < found.distance else found

    monkeypatch.setattr(TreeNode, "_best", sticky)
    assert first_complaint(ArrowNode, (Corruption.TREE,)) == "it never heals"


def test_a_tree_that_waits_for_its_beats_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TreeNode, "_hurry", lambda _tree, _now: [])
    assert first_complaint(ArrowNode, (Corruption.TREE,)).endswith("too late")


# --- the judges -----------------------------------------------------------------------------------


def places(count: int) -> list[OrderPlace]:
    return [OrderPlace(NodeId("n"), OperationId(NodeId("n"), number)) for number in range(count)]


def test_what_is_no_order_is_told() -> None:
    a, b, c, d = places(4)
    whole = [Followed(a, b), Followed(b, c)]
    assert wrong_order(whole, [b, c], [], [c]) is None
    assert wrong_order([*whole, Followed(a, d)], [b, c, d], [], [c]).startswith("two follow")
    assert wrong_order([*whole, Followed(d, c)], [b, c], [], [c]).endswith("follows two")
    assert wrong_order(whole, [b, c, d], [], [c]).endswith("follows nobody")
    assert wrong_order([*whole, Followed(c, a)], [a, b, c], [], [c]).endswith("in a circle")
    assert wrong_order(whole, [b, c], [], [d]).endswith("is a tail")
    assert wrong_order(whole, [b, c], [], [c, d]) == "2 sinks"


def test_a_flying_find_may_end_a_piece_of_the_order() -> None:
    a, b, c, d = places(4)
    told = [Followed(a, b), Followed(c, d)]
    assert wrong_order(told, [d], [b], [d]) is None
    assert wrong_order(told, [b, d], [], [d]).endswith("is a tail")


def test_plans_are_trees_of_their_kind() -> None:
    for kind in TreeKind:
        plan = planned(kind, 40, Random(5))
        assert len(plan.edges) == 39
        assert all(child in plan.graph[parent] for parent, child in plan.edges)
        assert all(one in plan.graph[other] for one in range(40) for other in plan.graph[one])
    assert planned(TreeKind.STAR, 40, Random(5)).depth == 1
    assert planned(TreeKind.BINARY, 40, Random(5)).depth == 5
    assert planned(TreeKind.OVERLAY, 200, Random(5)).depth < 10
    assert plan_of([None, 0, 1]).depth == 2


def test_an_arrow_is_small() -> None:
    with pytest.raises(AttributeError):
        Arrow(NodeId("a"), places(1)[0]).more = 1


@pytest.mark.parametrize(
    ("changed", "option"),
    [
        ({"nodes": 1}, "--nodes"),
        ({"nodes": 5001}, "--nodes"),
        ({"requests": -1}, "--requests"),
        ({"timeout_factor": 0.0}, "--timeout-factor"),
        ({"timeout_factor": float("nan")}, "--timeout-factor"),
        ({"seed": -1}, "--seed"),
    ],
)
def test_an_experiment_that_can_not_be_had_is_refused(
    changed: dict[str, float], option: str
) -> None:
    with pytest.raises(BadOption) as caught:
        ArrowOptions(**changed)
    assert caught.value.option == option
