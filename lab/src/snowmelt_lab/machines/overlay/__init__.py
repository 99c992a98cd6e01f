"""An order of nodes on a circle, a tree and a hash table on it: the linearized de Bruijn network.

Theory of operation
-------------------
From Feldmann and Scheideler, "Skeap & Seap", section 2 and appendix A. Many nodes answer as one:
what they are asked is gathered up a tree to one of them, the *anchor*, which gives each question
its place in one order; what they keep lies at points of a circle that everybody can work out. This
package is shared by families (`select`, `skeap`, `seap`); what a batch is and means is theirs to
say.

The circle (`labels.py`, `ring.py`):

1. *Labels.* A node's label is a public hash of its id, a point of [0, 1) as a whole number below
   2^64. A node is three *virtual nodes*: the middle one at its label m, the left one at m/2, the
   right one at (m+1)/2. All are ordered by label, kind and node, so that no two are equal.
2. *Sorted cycle.* Each virtual node knows the one before and the one after; the last stands before
   the first, and the place between the two is the *seam*. Left ones lie in the lower half and right
   ones in the upper, so the first is always a left one and the last a right one.
3. *Keys.* What has a key is kept by the key's predecessor: the v with v <= key < succ(v), and round
   the seam the last one.

The aggregation tree (`tree.py`):

4. *Parents known locally.* A right virtual node's parent is its node's middle one, a middle one's
   is its left one, a left one's is the one before it. All of them lie further left, so this is a
   tree, and its root the leftmost of all. So the children of a middle or left one are its node's
   next one, and the one after it when that is a left one and not across the seam; right ones have
   no children, since no left one follows them except across the seam.
5. *Entry.* A node's own operations begin at its left virtual node, above its two others.
6. *Cost.* Edges within a node cost nothing.

Climbing (`climbing.py`), for each place:

7. *Batches.* What waits at a place, its own operations and its children's batches, is combined into
   one batch, numbered by this place, and goes to the parent; what it was made of is remembered. The
   root's is answered by the anchor; each answer is decomposed for the parts remembered.
8. *One on its way.* A place waits for nobody: with none on its way it sends what there is at once;
   while one is on its way, the next gathers, as a group commit does. So a child has at most one
   batch at its parent, and order within a place is kept.
9. *Same number, same answer.* An answer is kept until the child's next number shows that it came. A
   number that comes again gets the same answer again, or waits as it did.
10. *Epochs.* A new one ends all that climbs: whoever uses this drops what is of another epoch, and
   begins with new places.
11. *Synchronous mode*, as in the paper: a place sends only when every child has sent. Then all of
   the tree goes in waves, and every place must send in each, if only an empty batch. A family that
   is not ready holds its node's part of the wave back, and with it the wave.

Routing (`routing.py`):

12. *Bits.* A message to a point takes its first ceil(log2 n) bits, the least significant first. It
    walks along the ring to a middle node, goes on to that node's left one for a 0 and its right one
    for a 1 (free, within one node), and halves its ideal point accordingly; the next middle node is
    looked for on the ideal point's side. At the end it walks to the point's predecessor. It stops
    early when it comes by there.
13. *Never across the seam.* Who looks for a middle node and comes to the seam turns round. Only the
    last hop of what lies before the first virtual node crosses it, to the last.

Join and leave (`node.py`): nodes that know only their neighbours keep all this up while others come
and go. Links lose and double nothing, and deliver in any order; nodes do not crash. Time is cut
into epochs; between two of them lies an *update* of the ring.

14. *Table.* `Put` and `Get` are routed to the key's predecessor. A get that comes before its put
    waits there, and goes with the arc when the arc is handed over. A `Visit` brings the family of
    a point's keeper what another node's part of the family has for it, and `Told` a node that it
    knows; neither goes with an arc, so none may be under way in an update. A visit may go on from
    the point that it came to along one edge of the classical de Bruijn graph, to half of it or to
    half of it and 1/2: that takes one bit, so a few hops; all bits when the keeper of the point
    lies beyond the seam from it, since no middle node near the point is then on its side.
15. *Guests.* A newcomer's three virtual nodes are each routed to their future predecessor, which
    takes them as guests. The left one's host is its parent: from then on the newcomer is served, as
    one more child, and its errands are relayed by that host. A newcomer whose virtual nodes all
    have a host is *ripe*. Who is found to have the same label and name is refused.
16. *Counts.* Each batch carries how many newcomers are ripe and how many members want to leave and
    have none of their own operations unanswered; each counts itself, once an epoch. The last
    node can't leave.
17. *Pause.* An anchor that was told of any announces an update down the tree, to guests too. Who is
    told sends nothing new: it keeps what it would route, and gives back the batches that wait here
    or still come, for the next epoch; who gets one back that it had combined gives back the parts
    and sends no more. (To pass them up would take a way to the anchor and back for every level.) It
    tells both neighbours on the ring how many errands it sent them (`Flush`), and whether it
    leaves. It is quiet once its last batch is answered or came back, its neighbours' counts are
    met, and all below are quiet; then it says so to its parent. What a node does in an update is
    fixed for all its places when the first of them pauses. So when the anchor is quiet, nothing is
    on its way anywhere.
18. *Splice.* The anchor says so down the old tree. Who leaves gives its arc, the gets waiting
    there, its guests and what it keeps to the one before it, once the one behind it has, if that
    leaves too. Who stays puts its ripe guests between itself and the next that stays, gives each
    its part of the arc, tells the next who stands before it, and waits until they have said that it
    came. Guests that are not ripe go with the arc. When all want to leave, the anchor's node stays.
    The old tree passes up that it is done, how many there are, and who is first if that changed.
19. *Resume.* The old anchor gives its state to the first on the ring, which begins the next epoch
    down the new tree, with new climbing. Words of an epoch that has not begun at a place wait there
    until it has; there are none of one that has ended.
"""

from snowmelt_lab.machines.overlay.labels import BITS, CIRCLE, Kind, Place, Virtual, key, label
from snowmelt_lab.machines.overlay.ring import Ring
from snowmelt_lab.machines.overlay.tree import DeBruijnTree

__all__ = ["BITS", "CIRCLE", "DeBruijnTree", "Kind", "Place", "Ring", "Virtual", "key", "label"]
