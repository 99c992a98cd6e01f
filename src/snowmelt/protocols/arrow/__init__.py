"""One order without a middle, healing itself: the self-stabilizing arrow protocol.

Theory of operation
-------------------
From Tirthapura and Herlihy, "Self-stabilizing distributed queuing". Whoever wants a place in the
queue is put behind one other, who is told; nobody sees the queue as a whole. Three plain layers,
each healing once the one below has: the tree (`tree.py`), the arrows on it (`arrow.py`), and the
watch over each edge (`edge.py`). `ArrowNode` (`node.py`) is the upper two, `TreeNode` the lowest;
both live on every node and tell each other facts (`core.node`, rule 8).

The arrow protocol:

1. *Arrow.* A node points at one neighbour in the tree, or at itself: then it is a sink, and the
   last place that it asked for is a tail. Following the arrows leads to where the queue ends.
2. *Find, forward and flip.* Who wants a place sends a find along its arrow and points at itself. A
   find that comes from a neighbour is passed on along the arrow, or, at a sink, ends: its place
   follows the sink's last (`Followed`). In the same step the arrow is turned to where the find came
   from. A request at a sink needs no find: it follows the sink's own last place at once.
3. *Places.* Finds and sinks that healing makes belong to no request. They carry places of their own
   (`OrderPlace.filler`), so that the order has no holes; whoever gets a filler's turn passes it on.

When is all well? Let phi of an edge be how many of its two ends point across it, and how many finds
are on it, in all.

4. *Legal edge.* Phi is 1. So there are four legal states: one end points across, or the other, and
   no find is there; or neither does, and one find is on its way, in one direction or the other.
5. *Theorem 4.1.* The whole is legal (it could have come about without faults) if and only if every
   edge is. So it is enough to heal each edge, and to leave the others' phi alone while doing it.
   Rule 2 leaves phi of every edge as it was: the find goes where the arrow was.

Each edge is watched by its upper end, the parent; the child never changes phi (`edge.py`):

6. *Observe.* When its time-out comes, the parent begins to observe: it sends an `Observer` with a
   new number and counts the finds that it sends across from now on, its own requests too, whatever
   makes it send them. The child answers at once with `Observed`: the number, and whether it points
   across. Links keep the order, so when the answer is back every find that was on the edge has come
   to the parent or was counted; phi is what was counted, and what points across at either end.
7. *Meanwhile* the parent leaves phi as it is, and takes finds by rule 2. One that comes from where
   the arrow points, on an edge that is not legal, goes back by the same rule. (The paper has cases
   of its own for it, at either end; they do the same.)
8. *Correct.* With phi at 0 the parent sends a find for a filler. With phi above 1 it stops pointing
   across, if it does, and becomes a sink with a filler's place; and from now on it ignores finds
   from the child until phi is 1. An ignored find may be someone's request: who hears nothing asks
   again.
9. *Numbers.* An answer counts while observing, and if it carries the number of the last `Observer`;
   all others are passed over. So answers to an earlier question, of an earlier life or from before
   a time-out that was too short for the link, never harm. An edge with a longer round trip than the
   time-out does not heal, but what is legal stays so. The paper has no numbers, and rests on the
   time-out alone.
10. *Atomic.* One find touches two edges. It is taken and passed on in one step; what the parent of
    one edge does for that edge never changes phi of another.

How long it takes, with R the longest round trip on an edge and a time-out of tau >= 2R:

11. After R whatever was on the edge at the beginning has passed both ends, observers too. Within
    tau after that a new observation begins, and R later the parent knows phi. What is too much
    comes by within another R, and the time-out is long enough for that: observe within R, correct
    within R. So every edge is legal within 3R + tau, which is 5R with the shortest time-out; at the
    same time for all edges, however large the tree. A longer time-out means fewer messages (two an
    edge in tau), and more time: that is the choice to make.
12. A legal edge stays legal (closure): observing a legal edge finds phi at 1 and changes nothing.

The tree under it (`tree.py`), breadth first from a root that the membership's view names:

13. *Claims.* On every beat a node tells its neighbours in the overlay its distance from the root
    and its parent. The root has distance 0. Any other takes as parent the neighbour that claims the
    least distance, the least name among equals, and is one farther. A distance of as many as there
    are nodes is none: then it has no parent. A child is a neighbour that claims this node for its
    parent. When what it hears changes a node's own claim, its next beat comes a tenth of a beat
    later, unless it comes before that. A node that hears a claim that its own would better answers
    with its own at once. So one that joins, or has its view later than others, does not wait for
    their beats. (On a tree that stands neighbours differ by one at most, and both rest.) From
    arbitrary claims the tree is right after as many rounds of claims as the overlay is wide, and
    one more: claims that are too small grow by one with every round, and the true ones spread by
    one edge. The first round takes a beat and R/2, until each has told a claim that these rules
    allow; every other one a tenth of a beat and R/2.
14. *New edges.* When the tree changes (`Branch`), an edge that is gone takes its state with it; who
    pointed across becomes a sink with a filler's place. A new edge is observed at once. Finds and
    observers from a node that is no neighbour in the tree are dropped: the edge they came by is not
    there. So an edge begins in some arbitrary state, and heals by rule 11.

What it asks of the network: links between neighbours that keep the order, and a time-out of at
least two round trips. A connection that ended and came again is such a link with an arbitrary
beginning. Lost, doubled or late messages are faults: they cost order and time, within rule 11.

What is left to the layer above: that there is one token and that it moves, that requests whose find
was ignored are asked again, and that whoever waits behind a dead one is told.
"""

from snowmelt.protocols.arrow.messages import (
    MESSAGES,
    Branch,
    Claim,
    Find,
    Followed,
    Ground,
    Observed,
    Observer,
    OrderPlace,
    RequestPlace,
)
from snowmelt.protocols.arrow.node import ArrowNode
from snowmelt.protocols.arrow.settings import ArrowSettings, TreeSettings
from snowmelt.protocols.arrow.tree import TreeNode

__all__ = [
    "MESSAGES",
    "ArrowNode",
    "ArrowSettings",
    "Branch",
    "Claim",
    "Find",
    "Followed",
    "Ground",
    "Observed",
    "Observer",
    "OrderPlace",
    "RequestPlace",
    "TreeNode",
    "TreeSettings",
]
