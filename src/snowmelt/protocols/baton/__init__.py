"""One holder at a time, each told only who is next; a lock whose holder carries a value.

Theory of operation
-------------------
A *baton* is a name. One *token* goes with it from holder to holder, with a *fence*, a number that
only grows, and a value. Who wants it asks for a place in the arrow protocol's order
(`protocols.arrow`), so that each learns of one other, and nobody is in the middle. What the paper
leaves to the application is here: one token, whatever dies; an order repaired when a waiter is
gone; everybody served or told. All nodes of a view take part in all batons; clients ask any node.

The order (`arrows.py`, `places.py`):

1. *Tree.* Each view gives every node the same four rings; the tree of `arrow.tree` grows on them,
   its root the coordinator of that view. There is one tree for all names.
2. *Ways.* Each name has an arrow of its own. A node that has not heard of a name points to its
   parent, and the root to itself: this is a legal state, so a name that nobody uses costs nothing.
3. *Links.* Words along edges carry the sender's life and a count. What does not come in order, or
   from the life that is in the view, falls: a link that loses, which rule 4 heals, and never one
   that doubles or turns round. A *life* is one process of one node: its start, on its disk.
4. *Awake.* An edge is watched (arrow, rules 6 to 9) for a minute after anything happened to the
   name at either end, and after every new view. A child that nobody observes says so to its parent,
   who may never have heard of the name. At a node with many names, those to which nothing happens
   are observed a quarter as often each time: else a minute of thousands fills it. And on a beat it
   looks only at names for which something is due.
5. *Places.* A want asks for a place. Whose find got lost or was ignored hears nothing; it asks for
   another place, and keeps the first: whichever has its turn first will do, and the others pass. It
   waits twice as long before each further one.
6. *Turns.* `Followed` gives a place the one behind it, once; that one is told by `Predecessor`, and
   takes it from one only. So places form chains that branch nowhere. A place that nobody wants any
   more, or that healing made, stays in its chain and passes the token on. Where a node is gone its
   chains are torn: the place behind is *cut*, tells the one behind itself (`Apart`), and so on to
   the end, and all who want these places ask for others as well, by rule 5. A place that waits long
   asks the one before it whether they still belong together (`CheckPredecessor`): a node may have
   been out of a view without knowing it, and be forgotten by the others. A place that has had none
   before it for long sends the one behind to ask anew: while others keep the baton busy it never
   rests, and rule 11 can't bring it.

The token (`relay.py`, `token.py`):

7. *Steps.* When a hold ends the token goes to the place behind, straight to its node, or rests
   until there is one. Every step makes the fence one larger. A place has one turn, and is forgotten
   then.
8. *Passing.* `Pass` is sent again on every beat until it is answered by `Arrived`, or the node it
   goes to is gone: then the token is lost, since it may have come there. It names the life that it
   goes to, and falls at a later one: the earlier may have had it, and handed it on, and whoever
   sends it again may not know yet that there is another. A token whose fence is not larger than any
   seen here came twice, and falls.
9. *Cut off.* A node that is cut off lets its tokens fall: it can't know whether it is still a
   member. So does one that restarts. Its holders learn it from their next call. A node that leaves
   in order first gives the root what rests with it. This is looked at before every event: a process
   that slept may be woken by any.

What was lost (`token_census.py`, `registrar.py`); the root is asked only when somebody waits in
vain:

10. *Complaints.* On every beat a node tells the root of one *orphan*: a place that somebody waits
    for and that has nobody before it, since that one's node is gone, or healing made the place. Now
    and then it tells of any place that waits long, lest something was forgotten that no rule knows.
11. *Census.* Then the root asks all members of its view what they have of the token. One that is
    idle is sent to the orphan (`Follow`). Of two the one with the smaller fence is void. Each
    `Pass` carries the last census that its sender answered, and falls where a later one was
    answered. So when all have said in one census that they have nothing, nothing is on its way that
    anybody would still take. (This is a consistent cut, after Lai and Yang; a question that comes
    twice has one answer, for the token may have moved in between.) Who takes a token counts the
    census it carries as one that it answered: somebody before it did while the token was there.
    Else no process that began since would pass a token on before the next census.
12. *Made anew.* Then, and when a lease has passed in which nobody had it, the root makes a new
    token for the orphan. Its fence is larger than any that was told, and than any of an earlier
    *term*, which is its upper part (`fences.py`). A view has a later term than the one before, and
    it is on the root's disk before a token is made in it. No term is earlier than the seconds
    that the wall clock counts, so that a root whose disk was set back, or emptied, is later than
    itself. A baton that is handed on until its count runs into the next term tells the root. A name
    that was never used gets its token at once. A root that began again waits for a lease before
    that, and again after each view in which one is gone. It may have made the token of that name,
    and the one who is gone may have been the only other that knew. Where a folder is the cluster
    (`alone`), all who held anything in an earlier term have ended, and nobody is waited for.

Clients (`baton.py`, `waiters.py`):

13. *Leases.* A holder renews its lease; it believes to hold for the time of a lease from when it
    sent the call that was answered last. The node counts from when it answered, and a little
    longer, since its clock may be faster. A holder that is silent, or for a `grace` when all
    connections of whoever renewed it last have ended, has lost the baton. A call that may not wait
    is answered when its place learns from `Predecessor` that somebody has the place before it, or
    waits there; until then nobody knows whether the baton is free. Who has many renews those
    at one node together (`RenewMany`), and the end of a client is no work but for the names that it
    had to do with (`involved.py`): thousands may end one by one. A want lives as long as it is
    asked for again. Of one name and of all, so many may wait at a node as it can look at within a
    moment; of thousands of names it looks at some at a time. So nobody's crowd holds up the others.
14. *Values.* A value that a holder changes goes on with the token, and to the root's disk behind
    it. A new token begins with the newest value that any member or the root's disk knows. What a
    holder changed and did not hand on is lost with it. `SaveValue` is answered when the value is on
    the disk, and the token carries it from then on, not before: what failed has changed nothing.
    Where a hold ends and nobody knows what became of its save, the value that goes on is given
    anew, and counts as newer. The root takes no value from a baton that is older than the last that
    it made, and makes none while a value of that name is on its way to the disk. It keeps each
    twice (`values.py`). Where neither can be read no token is made of that name: who waits is told,
    until somebody gives the value up.

Names that nobody uses (`names.py`, `retired_names.py`):

15. *Folding.* Where nothing has happened to a name for as long as edges are watched, its node says
    so to the root (`Quiet`), once in that time. The root takes a census. When all say that the name
    sleeps it asks for a place as anybody does, but for nobody. So the token comes to rest there,
    and all arrows point to the root, as rule 2 has it for a name that was never heard of. When the
    value is on its disk, too, the root tells all to fold the name (`Fold`). Whose arrow does point
    so forgets it, which changes nothing, and keeps a line: the largest fence, for rule 8, and the
    last census, for rule 11. The root's line is the token itself. Whoever uses the name just then
    does not fold it. Whatever is said about a name, but a census, unfolds it. A name with an
    empty value has none: its record is erased then, and what may yet come of an earlier hold is
    void. A root that has too many lines drops the oldest, but those with a value, and makes no
    smaller fence after that.

Bounds (`messages.py`):

16. *Sound numbers.* A word of another node with a fence or a version so large that one can't count
    on from it, or below 0, is dropped with a note; the link goes on, for it carries many names.
17. *Topics.* A name that begins with `multicast.` is a topic's. Clients may look at it, but not
    hold it, for then they could write positions into it. A topic needs no value but that of the
    present token (multicast, rule 3), so none goes to the root, and no disk fills with names.

Where etcd decides, the root goes with whoever leads (`stable.py`, `newest.py`):

18. *One root after another.* Two things of the root are decided by compare-and-set, and both by
    changes that count only while the leader's key is its own (membership, rule 12): the term, and
    what is kept of values. All else is found again by a census: places, arrows, where the token is.
    Who comes to lead takes a term above that in etcd before it makes a baton, and another for each
    view. So no two roots make batons in one term, whoever of them slept, died, or came back: what
    a root asked for and was not told of it never uses. A term is a block of fences that is taken at
    once, so that a hand-over asks etcd nothing. Since a baton could be handed on beyond its
    end, that far only where a root has told (`Reserved`) that etcd has the next one, too. A census
    is of one view, and a view has one root. A new one makes nothing before all members of its view
    have answered, or are out of it for a lease: a root that slept is one of them. It asks nobody
    what its predecessor had asked, and takes no value that was sent in an earlier view, for it does
    not know which batons were made anew since.
19. *Values.* They go to etcd, each under its name, up to 64 KiB: so that each survives any machine.
    Whoever knows a value tells the root until it is told that etcd has that one, or a newer: so a
    root may die with what it had not passed on. Until then the name is not folded. What a baton
    that was made anew begins with counts as newer than all that was given before, so that nothing
    comes back of what was lost.
20. *What can wait.* `SaveValue` goes to etcd at once. What a release changes goes with others, once
    a second at most and 64 KiB a second: of what changes faster, the last. So what was handed on
    within one machine, and is with nobody else, may be lost with that machine until then; nothing
    else that was handed on is.

Of thousands of names (`token_census.py`):

21. *In line.* So many censuses are under way at once. Other names stand in line, each once, and
    have their turn when there is a verdict, or when not all have answered one for long. Meanwhile
    who is asked anew, since some were late, is given twice the time: else those who are busy would
    never be in time. Beyond as many names, what the root keeps of one is dropped when nobody has
    complained for a while, unless it knows of nobody who has the baton: since when counts (12).

So as long as clocks run equally fast and nobody sleeps through a lease, there is one holder at a
time; and when they don't, whoever checks the fence never takes an older holder's word after a newer
one's. While nobody leads for longer than members are current, nobody holds anything.
"""

from typing import TYPE_CHECKING

from snowmelt.core.needed import when_needed
from snowmelt.protocols.baton.messages import MESSAGES
from snowmelt.protocols.baton.settings import BatonSettings

if TYPE_CHECKING:
    from snowmelt.protocols.baton.node import BatonNode, families

__getattr__ = when_needed(__name__, BatonNode="node", families="node")

__all__ = ["MESSAGES", "BatonNode", "BatonSettings", "families"]
