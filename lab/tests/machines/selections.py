"""Selections without a network, and in a world where messages overtake each other."""

from heapq import heappop, heappush

from snowmelt.core.instant import START
from snowmelt.core.names import NodeId
from snowmelt.core.node import Received, Send, Started
from snowmelt_lab.machines.overlay import Ring
from snowmelt_lab.machines.overlay.node import OverlayNode
from snowmelt_lab.machines.select.anchor import Selection
from snowmelt_lab.machines.select.candidates import Candidates
from snowmelt_lab.machines.select.elements import Element
from snowmelt_lab.machines.select.family import Selecting
from snowmelt_lab.machines.select.steps import (
    Bounds,
    Counts,
    Done,
    Draw,
    EqualRanks,
    Ranks,
    Sort,
    combined,
    decomposed,
)

SALT = "jobs"
SLOW = (*[1.0] * 15, 10.0, 300.0)
"""How long a message may take: most of them are quick, and a few come long after."""


def name(number):
    return NodeId(f"n{number}")


def spread(priorities, owners, nodes):
    """The elements of each node: the i-th priority with the id i, at the i-th owner."""
    held = [[] for _ in range(nodes)]
    for number, (priority, owner) in enumerate(zip(priorities, owners, strict=True)):
        held[owner].append(Element(priority, number))
    return held


def told(selection, held, salt=SALT):
    """What the anchor comes to when all nodes answer at once: no messages, no overlay."""
    parts = [Candidates(salt, elements) for elements in held]
    answers = [Counts(1, len(elements)) for elements in held]
    for _ in range(10_000):
        step = selection.answered(combined(answers))
        if isinstance(step, Done):
            return step
        shares = decomposed(step, answers)
        drawn = sorted(one for part in parts for one in part.drawn)
        answers = [_answer(part, share, drawn) for part, share in zip(parts, shares, strict=True)]
    raise AssertionError(f"no end: {selection.at}")


def _answer(part, step, drawn):
    match step:
        case Ranks():
            return part.ranks(step)
        case EqualRanks():
            return part.equal_ranks(step)
        case Draw():
            return part.draw(step)
        case Sort(low=low, high=high):
            wanted = [drawn[place - 1] if place else None for place in (low, high)]
            return Bounds(*(one if one in part.drawn else None for one in wanted))


def select(held, k, plan):
    """As `told`, and what the anchor knows in the end."""
    selection = Selection(k, plan)
    return told(selection, held), selection.at


class Air:
    """Nodes on the overlay; each message takes as long as chance wants."""

    def __init__(self, held, k, plan, chance):
        ring = Ring([name(number) for number in range(len(held))], SALT)
        self.families = [
            Selecting(name(number), SALT, elements, k, plan) for number, elements in enumerate(held)
        ]
        self.nodes = {
            family.me: OverlayNode(family.me, SALT, family, ring, sync=True)
            for family in self.families
        }
        self.chance, self.air, self.sent, self.now = chance, [], 0, 0.0
        for node in self.nodes:
            self._handle(node, Started(wall=START))

    def run(self):
        """Until nothing is under way any more; what each node was told in the end."""
        for _ in range(1_000_000):
            if not self.air:
                break
            self.now, _, (source, target, message) = heappop(self.air)
            self._handle(target, Received(source, message))
        assert all(family.sorting.idle and not family.sorting.places for family in self.families)
        return [family.done for family in self.families]

    def _handle(self, node, event):
        for effect in self.nodes[node].handle(event, START):
            assert isinstance(effect, Send)
            self.sent += 1
            due = self.now + self.chance.choice(SLOW) * self.chance.random()
            heappush(self.air, (due, self.sent, (node, effect.target, effect.message)))
        self.nodes[node].check()
