"""Any 64-bit priority: Seap, as the paper has it.

Theory of operation
-------------------
From Feldmann and Scheideler, "Skeap & Seap", section 5. With priorities without number there can't
be a row for each, and no anchor can know what stands where. So elements have positions that say
where they lie and nothing of their turn; their priority goes with them, as their *key*, and their
nodes keep them in the order of the keys (`free.py`). What is got is found by a selection among all
nodes (`select`).

1. *Keys* are whole numbers of 64 bits, signed; of two elements with one key that of the lesser
   position is first.
2. *Put.* The batch that goes up says how many are put, and how many are wanted; not their keys. A
   put gets positions, and lies at their hash under its key.
3. *Phases.* Gets of a batch are served by a phase: it takes the k least elements there are, as a
   set. Phases have numbers, and follow each other: a phase begins when the one before has given
   all it took. Where there is nothing to get no phase is begun.
4. *Order.* Whoever puts is told the number of the phase before which its element came in, and
   whoever gets that of the phase that served it. So the order is: what came in before a phase,
   then what it took, the least first, then its gets that found nothing. That explains all that was
   got (serializable), and heap consistency holds in the strong form. What one client asks for
   without waiting for answers may be served in any order: it is not sequentially consistent. What
   was answered before something else was asked for comes before it, though, whoever asked.
5. *Frozen.* From `Begin` on a node lets nothing in until its phase is over: it comes in with the
   next one. Until it knows that all have begun it says of nothing that it came in, else somebody
   could put more after the answer, at a node that has not begun yet, and be served before (rule 4).

How a phase goes (`phase.py`, `steps.py`). The anchor asks all nodes, a wave of the tree a step:

6. *Begin*: how many elements there are, m, and the least few of them. k is at most m, the rest of
   the gets find nothing. As m is counted anew in each phase, nobody need keep it up.
7. *Few.* Where k of them fit in one message, what has come up says who has the k least, at each
   place of the tree: they are known at once.
8. *Many.* Else a selection finds the k-th least. Its samples are of one size whatever the number of
   nodes, so they come up the tree in a message of bounded size instead of being sorted by
   meetings. Then `Choose` counts who has how many up to it.
9. *Assign.* The elements up to the k-th have the next k *ranks*, by decomposition, node by node;
   the gets have the same ranks, by decomposition of their batch. Only within a node ranks follow
   keys, so what a phase takes is a set. A rank is never given twice.
10. *Meeting.* An element with a rank goes to the hash of the rank, and is fetched there. So what
    travels the tree is counts, bounds and one interval: O(log n) bits, however much is put and got.
"""
