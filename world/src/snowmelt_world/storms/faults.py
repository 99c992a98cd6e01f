"""What can be done to the processes of a run, and how a seed draws what is done when.

A family offers cards: a fault, whom it hits, and for how long. They are dealt from a shuffled deck,
so each comes as often as it stands there. Whom a card hits is found when its time comes, since
roles change: who holds a baton, who leads. All else is drawn before the run begins, and written
down with it.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from random import Random
from typing import Final

import msgspec


class Fault(StrEnum):
    """The kinds of faults."""

    KILL = "kill"
    """A process is killed (SIGKILL), and started again on its disk."""
    STOP = "stop"
    """A process stands still (SIGSTOP), mostly for longer than it is waited for, and goes on."""
    LEAVE = "leave"
    """A process is asked to end in order, and is started again."""
    JOIN = "join"
    """One more node comes, with an empty disk, and stays."""
    CUT = "cut"
    """Two processes don't hear each other, or one does not hear the other; all else passes."""
    SEVER = "sever"
    """A process of clients hears only some of the nodes."""
    SLOW = "slow"
    """What goes to a process, and what it sends, is slow."""
    FULL = "full"
    """A node's disk is full to the last byte."""
    FAIL = "fail"
    """A node's disk fails and loses what was not flushed; the node must end by itself."""
    LOSE = "lose"
    """All nodes are killed, the disk of the one that decides is lost, and it is rescued."""
    FORK = "fork"
    """Clients fork now and then, and the child must leave alone what is its parent's."""
    LIMITS = "limits"
    """There is little room for what is on its way, and clients ask for much at once."""


NODE: Final = "node"
LEADER: Final = "leader"
"""The node that decides on the members just now."""
ETCD: Final = "etcd"
PROCESSES: Final = "two"
"""Two processes of the cluster, between which something is done."""
PACE: Final = 0.5
"""By so much of the pause between two faults each of them varies."""


class Card(msgspec.Struct, frozen=True):
    """A fault that a family offers."""

    fault: Fault
    part: str
    """Whom it hits: one of those above, a role of the clients, or a part that the family seeks."""
    seconds: tuple[float, float]
    """For how long at least and at most."""
    often: int = 1
    """How many of them are in the deck."""
    window: tuple[float, float] = (0.0, 1.0)
    """From when to when it may come, as shares of the whole time."""
    bits: tuple[float, float] = (8e6, 50e6)
    """A second, of a slow link, at least and at most."""


class Phases(msgspec.Struct, frozen=True):
    """A storm, then a calm in which all is up, and so on by turns; in seconds."""

    storm: float = float("inf")
    calm: float = 0.0
    last: float = 0.0
    """The calm at the end."""

    def storms(self, seconds: float) -> list[tuple[float, float]]:
        """When each begins, and how long it is.

        >>> Phases(25, 15, 20).storms(100)
        [(0.0, 25), (40.0, 25), (80.0, 20.0)]
        >>> Phases().storms(100)
        [(0.0, 100.0)]
        """
        found, at = list[tuple[float, float]](), 0.0
        while (left := seconds - at) > 0 and (not found or left > self.calm):
            found.append((at, min(self.storm, left)))
            at += self.storm + self.calm
        return found


class Drawn(msgspec.Struct, frozen=True):
    """A fault that is to come."""

    at: float
    """Seconds after its storm began."""
    card: Card
    seconds: float
    seed: int
    """By which it is drawn whom it hits, of those who can be hit then."""


def planned(
    cards: Sequence[Card], seed: int, every: float, seconds: float, storm: tuple[float, float]
) -> Iterator[Drawn]:
    """What comes in a storm, which begins then and lasts so long, of a run of so many seconds.

    >>> cards = [Card(Fault.KILL, NODE, (1, 2)), Card(Fault.STOP, NODE, (3, 4))]
    >>> drawn = list(planned(cards, 7, 2.0, 20, (0.0, 20.0)))
    >>> len(drawn) > 5, {one.card.fault.value for one in drawn} == {"kill", "stop"}
    (True, True)
    >>> drawn == list(planned(cards, 7, 2.0, 20, (0.0, 20.0)))
    True
    """
    begin, length = storm
    chance = Random(f"{seed}/{begin:g}")
    deck: list[Card] = []
    at = _pause(chance, every)
    while every and at < length:
        if not deck:
            deck = [card for card in cards for _ in range(card.often)]
            chance.shuffle(deck)
        share = (begin + at) / seconds
        card = next((one for one in deck if one.window[0] <= share <= one.window[1]), None)
        if card is None:  # whatever is left comes earlier, or later
            deck = []
            if not any(one.window[0] <= share <= one.window[1] for one in cards):
                at += _pause(chance, every)
            continue
        deck.remove(card)
        yield Drawn(at, card, chance.uniform(*card.seconds), chance.getrandbits(32))
        at += _pause(chance, every)


def _pause(chance: Random, every: float) -> float:
    return every * chance.uniform(1 - PACE, 1 + PACE)
