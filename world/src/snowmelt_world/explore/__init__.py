"""Small worlds, walked whole: every order in which what may happen can happen.

A life of the simulated world is one way through what may happen, drawn by chance. Here nothing is
drawn: two or three nodes, a few calls and one or two injuries leave so few states that all of them
can be visited. It is possible because machines are pure and their states are values.

What is walked (`moves.py`):

1. *Messages.* Each pair of nodes has a link each way, which keeps the order. Of all links any may
   bring its oldest message next.
2. *Disks.* What is asked of a disk is done in order, one after another; each may be done at any
   moment before time passes.
3. *Time.* It is the same for all, and passes only when nothing is left to be done at once: no
   message on a link that moves, no disk that was asked, no timer that is due, nobody who wants to
   call. Then it leaps to the next moment at which something is due. Timers of one moment expire in
   any order, and among the messages that they cause.
4. *Leisure.* What may be put off has a moment by which it must be done: a process that ended
   begins again within a second, a node enters a new view within a heartbeat. Any moment until then
   at which something else is due will do.
5. *Injuries* may be done at any moments, in the order in which they are named: `crash` ends a
   process, with each beginning of what its disk was asked for done or not, and what is on its way
   there lost, or brought to its next life; `lose` and `repeat` take the oldest message of a link,
   or bring it twice; `overtake` lets the next one by; with `stall` a link stands still for up to
   four seconds while time passes.
6. *Rest.* Where all calls are answered and everybody is back, time stands still: beats go on for
   ever and change nothing. Injuries that are left may still be done.

What is judged: after every step the node's own invariants (`check`); at every answer what users saw
(each family's file); at every rest what is there still; and that the rest comes: a world that is
not at rest by its horizon breaks its promise too.

States are told apart by their value (`value.py`), times included. The walk is breadth first, so the
first story that breaks something is one of the shortest (`walk.py`); it is a script, and can be
played again (`story.py`). A step of one machine is done once, whatever else is the case around it
(`machines.py`): a hundred thousand states of a world are a few thousand of its machines.

What is not walked: messages of one link that overtake each other, or are late by other times than
rule 5's; names drawn by chance, which are numbered instead (`value.Dice`); clocks that differ; and
what a family's file says it leaves out.
"""

from snowmelt.core.errors import BadOption
from snowmelt_world.explore import queue
from snowmelt_world.explore.baton import BatonWorld, TwoNodes
from snowmelt_world.explore.membership import Leaver, MembershipWorld
from snowmelt_world.explore.moves import INJURIES
from snowmelt_world.explore.pool import OneEach, PoolWorld, TwoLeave
from snowmelt_world.explore.small import SmallLife

__all__ = ["INJURIES", "WORLDS", "injuries_named", "small_world"]

WORLDS: dict[str, dict[str, type[SmallLife]]] = {
    "baton": {"wants": BatonWorld, "handover": TwoNodes},
    "membership": {"join": MembershipWorld, "leave": Leaver},
    "pool": {"leaver": PoolWorld, "leavers": TwoLeave, "pair": OneEach},
    "queue": {
        "copies": queue.QueueWorld,
        "put": queue.OnePut,
        "two": queue.TwoDie,
        "release": queue.Release,
        "turns": queue.InTurn,
        "alter": queue.Altered,
        "crowd": queue.Crowd,
        "ranked": queue.Ranked,
        "keys": queue.ByKeys,
        "pair": queue.Pair,
        "back": queue.Back,
    },
}
"""By protocol and name; the first of each is what is meant when nobody says which."""


def small_world(protocol: str, name: str = "") -> type[SmallLife]:
    """A small world by its name, the protocol's first when none is given.

    >>> small_world("pool").words
    'two producers, one consumer and one leaver'
    >>> small_world("baton", "five")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --world is 'five'; allowed: wants, handover
    """
    worlds = WORLDS.get(protocol)
    if worlds is None:
        raise BadOption("--protocol", protocol, ", ".join(WORLDS) + " with --explore")
    name = name or next(iter(worlds))
    if name not in worlds:
        raise BadOption("--world", name, ", ".join(worlds))
    return worlds[name]


def injuries_named(text: str, life: type[SmallLife]) -> tuple[str, ...]:
    """Those of a world, or those named by commas, in the order in which they come.

    >>> injuries_named("crash,lose,lose", small_world("baton")), injuries_named("none", OneEach)
    (('crash', 'lose', 'lose'), ())
    """
    if not text:
        return life.injuries
    if text == "none":
        return ()
    named = tuple(text.split(","))
    for one in named:
        if one not in INJURIES:
            raise BadOption("--injuries", one, "none, or by commas: " + ", ".join(INJURIES))
    if "crash" in named and not life.mortal:
        raise BadOption("--injuries", "crash", "in this world nobody crashes; choose another")
    return named
