"""Any 64-bit priority: Seap, as a mode of the durable priority queue (`protocols/priority`).

Theory of operation
-------------------
From Feldmann and Scheideler, "Skeap & Seap", section 5. With priorities without number there can't
be a row for each, and no anchor can know what stands where. So all elements of a queue stand in
one row, whose positions say where they lie and nothing of their turn; their priority goes with
them, as their *key*, and their homes keep what is free in the order of the keys (`runs.py`): what
was put together as one sorted run, so what is put and got costs little more for many than for one.
What is got is found by a selection among all homes (`protocols/select`).

All else is the priority queue's: views, doors, homes, copies, leases, repair, settling, one
operation once. Nothing of a phase is on a disk. Whatever it has given to nobody when its view ends
is free in the next one.

What changes for elements:

1. *Keys* are whole numbers of 64 bits, signed; of two elements with one key that of the lesser
   position is first. Fractions are mapped so that their order is kept (`core/keys.py`); where the
   largest is first, a home orders by the key turned round. A key goes where its element goes: it
   is in the small record of its lot, and homes are told the keys of what they lack when a view
   settles, so that nothing is passed because it lies with another for a while.
2. *Put.* The batch that goes up says how many are put, and how many are wanted; not their keys. A
   put gets positions, which spread it over the homes as the hash of its name would, and lies there
   under its key. It is *in* the queue from the moment it is flushed by all who should keep it,
   and so are elements that come back, under the keys that they had.
3. *Phases.* Gets of a batch are served by a phase: it takes the k least elements there are, as a
   set. Phases have numbers, and follow each other: a phase begins when the one before has given
   all it took. Where there is nothing to get no phase is begun, and where one home has everything
   a phase is a call of a function.
4. *Order.* Whoever puts is told the number of the phase before which its element came in, and
   whoever gets that of the phase that served it. So the order is: what came in before a phase,
   then what it took, the least first, then its gets that found nothing. That explains all that was
   got (serializable), and heap consistency holds in the strong form. What one client asks for
   without waiting for answers may be served in any order: it is not sequentially consistent. What
   was answered before something else was asked for comes before it, though, whoever asked.
5. *Frozen.* From `Begin` on a home lets nothing in until its phase is over: it comes in with the
   next one. Until it knows that all have begun it says of nothing that it came in, be it put or
   back again, else somebody could put more after the answer, at a home that has not begun yet, and
   be served before (rule 4). Nobody joins or leaves: a view's end ends the phase.

How a phase goes. The anchor asks all homes down a flat tree, and their answers come up combined:

6. *Begin*: how many there are, m, and the least few of them. k is at most m, the rest of the gets
   find nothing, or wait. As m is counted anew in each phase, nobody need keep it up. Where there is
   one home there is nothing to be found out, and nobody who could let in more meanwhile: it is told
   how many are wanted, takes that many of the least or all that it has, and says how many.
7. *Few.* Where k of them fit in one message, what has come up says who has the k least, at each
   place of the tree: they are known at once.
8. *Many.* Else a selection (`Selection`) finds the k-th least. Its samples are of one size whatever
   the number of homes, so they come up the tree in a message of bounded size instead of being
   sorted by meetings. Then `Choose` counts who has how many up to it.
9. *Assign.* The elements up to the k-th have the next k *ranks*, by decomposition, home by home;
   the gets have the same ranks, by decomposition of their batch. A rank is never given twice, in
   any view: it is the token of the lease as well. Within a home ranks follow positions, not keys:
   so what one get has is a set, of as few intervals as can be. It travels like that, as one piece
   with the keys of all its elements (`gathered.py`), is leased and ended by one record
   (`bundles.py`), its stretches are entered when somebody looks (`wholes.py`), and whoever asked
   puts it in order. Only when it is too much for one answer its home, or its door, does so before:
   what is told is always the least of it.
10. *Meeting.* The home of an element with a rank tells where it is to whoever keeps the hash of the
    rank; the door asks there, and where the three are one node it is known and nobody asks. So what
    travels the tree is counts, bounds and one interval: O(log n) bits, however much is put and got.
    Elements themselves stay where they lie, with their copies.
    A rank that its door has no use for is given back, and the element is free again.
11. *Hungry.* When somebody waits for more than there was, all homes hear it with the last step;
    whoever has something free from then on says so with its next batch.

12. *Gone.* The anchor hears of blocks of which all is gone, so that what homes must remember does
    not grow; and of all that is gone where the queue has a bound, since it counts what there is
    room for. Of one node no more than `REPORTED_MAX` intervals go up at once. A census says no more
    than that either: which is the last position, and which blocks are gone.
13. *What can't be.* A step is heard of the home above alone, and an answer if it is one to the step
   (`follows`, `answers`). What homes tell that does not fit together is counted anew.
"""
