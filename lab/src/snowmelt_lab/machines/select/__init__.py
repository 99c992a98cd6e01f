"""The k-th smallest of elements that lie spread over many nodes: KSelect, on the overlay.

Theory of operation
-------------------
From Feldmann and Scheideler, "Skeap & Seap", section 4. No node sees all elements, and no message
carries more than a few of them. The *anchor* asks all nodes something, down the aggregation tree;
what they answer is combined on its way up. What may still be the k-th smallest are the
*candidates*: those between two bounds that the anchor knows. Three phases make them fewer.

What is asked (`steps.py`, `candidates.py`):

1. *Elements* are compared by priority, then by id, so no two are equal. They are whole numbers;
   whoever has other priorities maps them so that their order is kept. Nothing is put or taken out
   while a selection runs.
2. *Windows* are half-open: from an element on, up to another one. A step tells the window of all
   candidates each time, so a node keeps nothing but its elements, and what it drew last.
3. *Ranks.* A node tells the two of its own candidates round the place in its own order that k has
   in the order of all. The least and the greatest of them come up.
4. *Draw.* A node counts its candidates before a narrower window and those behind it, and draws from
   those within: an element is drawn when a hash of the salt, the number of the draw and its id is
   less than the chance told. So a draw that is made again is the same. Three sums come up.
5. *Sort.* Each drawn element gets a number from 1 on, by decomposition of the interval of all, and
   is sorted by rules 8 to 11. The elements of the one or two places that are asked for come up.
6. *Counting.* All steps are waves of the overlay's synchronous mode, so each answer is of every
   node, however long messages take. The first batch counts nodes and elements. A node whose drawn
   elements have no place yet is not ready, and holds the wave back until they have.
7. *Size.* A step or an answer is of a fixed number of elements and counts: O(log n) bits.

Distributed sorting (`sorting.py`), of s elements:

8. *Roots.* Element i goes to the keeper of the point h(i).
9. *Copies.* From there a tree grows along the edges of the classical de Bruijn graph, one copy of
   the element at each of its places: who has the copies of an interval keeps the one in the
   middle, j, and sends the halves on to p/2 and (p+1)/2, p being the point where it is. An empty
   half is not sent.
10. *Meetings.* Copy j of element i and copy i of element j go to h(i, j) = h(j, i), where they are
    compared; both are told. Copy i of element i meets nobody.
11. *Places.* How many were smaller is added up the tree; with one more it is the element's place
    among the s, which the root tells the node that has the element.

The anchor (`anchor.py`), by a *plan* (`plans.py`):

12. *Phase 1*, while it pays: Ranks, then a Draw with no chance, to count.
13. *Phase 2*: a Draw from what phase 1 left, a Sort, and from the places l and r of the sample,
    on both sides of where the k-th smallest should be, the next window.
14. *Verified.* The counts of the next Draw say whether the k-th smallest lies in the window. When
    it lies before or behind it, the candidates are those before or behind: a miss narrows too. So
    the selection is always exact, whatever was drawn, and it draws again.
15. *Phase 3*: when few are left all are drawn, and place k is asked for.
16. *No such rank.* k is 1 at least, and at most as many as there are elements; else all are told
    so.

The repaired plan is the default:

17. *Shares.* Arcs of the ring are uneven, so k has the place k c/N in the order of a node that has
    c of the N candidates. Who has less than a quarter of the mean keeps silent, since one of a few
    says nothing of the whole; rule 14 makes up for it. Phase 1 pays with more than 64 candidates a
    node, as long as it halves them.
18. *Sample.* 3 sqrt(n) elements, at least 32, so that their copies are a few for each node. l and r
    are 1.25 standard deviations of the sample's own count away, and one place more: a miss now and
    then costs less than wider windows do.
19. *Guess.* While a window is verified the next sample is drawn from it already, by the number of
    candidates that it should have. What is far too many or too few is drawn again, now by the true
    number. So an iteration takes two waves.

The printed plan is the paper's, for comparison. Where it stops working:

20. It takes floor(k/n) and ceil(k/n) as every node's place, as if shares were equal. With k < n the
    first is 0: no lower bound. Who has fewer candidates tells its greatest, so the bound above may
    exclude the k-th smallest.
21. Its sample is sqrt(n), its margin (ln n)^1/2 n^1/4: below about 700 nodes that is more than half
    the sample, so for k in the middle nothing is ever removed, and it never ends. It is stopped
    after 64 samples.
22. It takes rank(c_l) from k where rank(c_l) - 1 candidates are removed, so each iteration that
    has a c_l returns an element one too early. And it does not verify.
"""

from snowmelt_lab.machines.select.anchor import Selection
from snowmelt_lab.machines.select.elements import Element, Window
from snowmelt_lab.machines.select.family import Selecting
from snowmelt_lab.machines.select.plans import Plan, PrintedPlan, RepairedPlan
from snowmelt_lab.machines.select.steps import End

__all__ = [
    "Element",
    "End",
    "Plan",
    "PrintedPlan",
    "RepairedPlan",
    "Selecting",
    "Selection",
    "Window",
]
