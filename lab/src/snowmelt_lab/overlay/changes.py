"""Joins and leaves with the machines, in synchronous rounds: how long until served, until restored.

A newcomer puts an element at once, while it still looks for its place. It is *served* when it has a
host, and the overlay is *restored* when each node is on the ring, has its new tree, and works.
"""

from collections.abc import Callable
from random import Random
from statistics import fmean
from typing import Any, Final

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.core.node import Announce, Announced, Effect
from snowmelt_lab.machines.overlay import Ring
from snowmelt_lab.machines.overlay.node import Join, Leave, Left, OverlayNode, Served, settled
from snowmelt_lab.overlay.arrays import name
from snowmelt_lab.overlay.line import Line
from snowmelt_world.rounds import Rounds

ROUNDS_MAX: Final = 10_000


class Span(msgspec.Struct, frozen=True):
    """Rounds, in the mean and at the most."""

    mean: float
    most: int


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int
    trials: int
    served: Span
    """From a newcomer's asking until it has a host: the way of its question is in it."""
    first_put: Span
    """From a newcomer's asking until what it put is kept."""
    join_restored: Span
    leave_restored: Span
    left: Span
    """From the wish until the node may end."""
    crowd: int
    """How many come, and then go, at once."""
    crowd_join_restored: int
    crowd_leave_restored: int


class Trial:
    """An overlay in lock step, and when its nodes told what."""

    def __init__(self, nodes: int, newcomers: int, salt: str, seed: int) -> None:
        self.chance = Random(f"{seed}/{nodes}/changes")
        self.founders = [name(number) for number in range(nodes)]
        self.newcomers = [name(nodes + number) for number in range(newcomers)]
        ring = Ring(self.founders, salt)
        founders = set(self.founders)
        self.lines = {node: Line() for node in (*self.founders, *self.newcomers)}
        self.nodes = {
            node: OverlayNode(node, salt, line, ring if node in founders else None)
            for node, line in self.lines.items()
        }
        self.asked: list[NodeId] = []
        self.told: dict[tuple[NodeId, type], int] = {}
        self.rounds = Rounds(dict(self.nodes), watch=self._note)

    def join(self, newcomers: list[NodeId]) -> dict[str, list[int]]:
        """These come at once, each with a put; how long it takes."""
        self.asked += newcomers
        for node in newcomers:
            self.lines[node].put(f"of {node}")
            self.rounds.handle(node, Announced(Join(self.chance.choice(self.founders))))
        kept: dict[NodeId, int] = {}
        begun = self.rounds.rounds

        def look() -> None:
            for node in newcomers:
                if not self.lines[node].pending:
                    kept.setdefault(node, self.rounds.rounds - begun)

        restored = self._run(look)
        served = [self.told[node, Served] - begun for node in newcomers]
        return {"served": served, "kept": list(kept.values()), "restored": [restored]}

    def leave(self, leavers: list[NodeId]) -> dict[str, list[int]]:
        """These go at once; how long it takes."""
        begun = self.rounds.rounds
        for node in leavers:
            self.rounds.handle(node, Announced(Leave()))
        restored = self._run(lambda: None)
        left = [self.told[node, Left] - begun for node in leavers]
        return {"left": left, "restored": [restored]}

    def _run(self, look: Callable[[], None]) -> int:
        """Until all who came are on the ring, all who go have gone, and all work in one epoch."""
        begun, restored = self.rounds.rounds, 0
        while not self.rounds.quiet and self.rounds.rounds - begun < ROUNDS_MAX:
            self.rounds.step()
            look()
            if not restored and self._restored():
                restored = self.rounds.rounds - begun
        assert restored, "the overlay was not restored"
        return restored

    def _restored(self) -> bool:
        here = [one for one in self.nodes.values() if one.standing.member]
        gone = all(one.standing.gone or not one.standing.wants_to_leave for one in here)
        come = all(self.nodes[node].standing.member for node in self.asked)
        return come and gone and settled(here)

    def _note(self, node: NodeId, effect: Effect[Any]) -> None:
        if isinstance(effect, Announce):
            self.told[node, type(effect.fact)] = self.rounds.rounds


def measured(nodes: int, salt: str, trials: int, seed: int) -> Changes:
    """So many joins and leaves one by one, and a crowd of a tenth of the nodes at once."""
    crowd = max(1, nodes // 10)
    trial = Trial(nodes, trials + crowd, salt, seed)
    joins = [trial.join([node]) for node in trial.newcomers[:trials]]
    leaves = [trial.leave([node]) for node in trial.newcomers[:trials]]
    many_join = trial.join(trial.newcomers[trials:])
    many_leave = trial.leave(trial.newcomers[trials:])
    return Changes(
        nodes=nodes,
        trials=trials,
        served=_span(joins, "served"),
        first_put=_span(joins, "kept"),
        join_restored=_span(joins, "restored"),
        leave_restored=_span(leaves, "restored"),
        left=_span(leaves, "left"),
        crowd=crowd,
        crowd_join_restored=many_join["restored"][0],
        crowd_leave_restored=many_leave["restored"][0],
    )


def _span(runs: list[dict[str, list[int]]], word: str) -> Span:
    rounds = [each for run in runs for each in run[word]]
    return Span(round(fmean(rounds), 1), max(rounds))
