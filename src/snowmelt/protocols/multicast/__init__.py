"""Everybody who listens hears the same messages in the same order: multicast, on the baton.

Theory of operation
-------------------
A *topic* is a name. What is published under it gets *positions*, and every node hands messages to
its listeners in the order of these positions and never goes back. So no two listeners ever see two
messages in different orders, whatever fails. What can fail is that a listener misses some; then it
is told. All nodes of a view take part in all topics; clients ask any node. Nothing is on a disk.

Numbering (`topic.py`, `topic_writer.py`):

1. *Publications.* What comes in one call is one publication: bodies, under a ticket that the
   client drew. It is numbered as a whole, and its bodies stand side by side.
2. *Positions.* A position is an era and a number. The baton of the topic (`protocols.baton`)
   carries both: the present era, and the number that is next in it. Whoever gets the baton numbers
   all that waits at its node, and gives the baton up in the same step, before anything is sent. So
   the order is made by the baton alone, and the bodies never hold it up.
3. *Eras.* A baton that was lost and made anew may not know the last number. So what it carries
   counts only if it is from the time of this very baton, and not behind what this node or a
   listener here knows of the topic; else the fence of the hold begins a new era. Fences only grow,
   and so do eras. (A value that somebody else wrote into the baton begins an era, too, and does no
   other harm. Should a fence ever be behind an era that is known here, the era is one later than
   that: no listener waits for ever for what is behind it. An era that a client says counts only
   if it is not a century ahead of the fence: by no client's word do eras outrun all fences.)

Saying (`topic_writer.py`):

4. *Said, heard.* Who numbered a publication sends it to all members of its view, again on each
   beat, until each has answered `Acknowledge`. Members that leave the view are no longer waited
   for; those that join it are. Then the client is told: every present node has it.
5. *Beyond.* A node that has gone past a position without the message (rule 8) says so, and so does
   one that has another message there, by its ticket. Then the
   publication is numbered anew, as long as its client asks for it; what was numbered stays what
   it is. So a publication may stand in the order twice, and so it may when a client asks at a
   second node because the first is gone. Listeners pass over tickets that they know. A node that
   has a publication from another, when a client asks for it, does not number it again: it sees to
   it that everybody hears it.

Hearing (`receiver.py`, `topic_log.py`):

6. *In order.* A node hands on a message when it has handed on the one before, of the same era.
   What comes too early waits.
7. *Search.* When it is held up, or is told of a further end than its own, it asks all members what
   the first is that they have from its own end on (`FindFirst`, `Have`). It does so at its first
   word of a topic, and where a new era begins, at once; at a gap after a beat, for most gaps are
   short.
8. *Skipping.* When all have answered, or a few beats are over, or one has the very next, it goes on
   from the smallest of these (`FetchPublications`, if it is with another). What lies between nobody
   has who lives, or nobody who speaks. Who numbered it and lives hears that it came too late, and
   rule 5 brings it again.
9. *Ends.* A node tells a member drawn by chance how far it has come (`Upto`), on each beat for a
   minute after anything happened to the topic, and after each new view. So a last message that
   was lost is missed, too, though no other comes behind it. At a node with many topics it is the
   first of these beats, the second, the fourth, and so on.
10. *Keeping.* A node keeps the newest messages of each topic that it knows, for those who are
    behind. It forgets the oldest once those who wait were told of what one step brought.

Listening (`listening.py`):

11. *From now on.* Who begins to listen is told the end, once the node is not behind; from there on
    it asks by position, at this node or any other. When no member knows anything of the topic, the
    node gets the baton, as if to number something: what it carries is the end, or an era begins
    and is carried on with nothing in it. When nobody has what lies before either, the node's own
    line begins there, too.
12. *Missed.* A listener is told so when what it gets does not begin where it stood, or has a gap:
    in an era, by the numbers; between two eras always, since nobody knows how the last one ended.
    All begin in an era (rule 11), so who is not told has missed nothing since it began.

Bounds (`messages.py`):

13. *Sound positions.* A word of another node with a position so large that one can't count on from
    it, or below 0, is dropped with a note; the link goes on, for what it carries is many topics'.
14. *Calls that wait.* Of one client so many wait for messages of one topic; more are refused.

When faults have ended all nodes of the view come to the same end by rules 4, 7 and 9, and from then
on there are no gaps; what is published is heard by all. A node that is cut off numbers nothing: it
has no baton. It takes no calls either, so that its clients go to others.
"""

from typing import TYPE_CHECKING

from snowmelt.core.needed import when_needed
from snowmelt.protocols.multicast.messages import MESSAGES
from snowmelt.protocols.multicast.settings import MulticastSettings

if TYPE_CHECKING:
    from snowmelt.protocols.multicast.node import MulticastNode, family

__getattr__ = when_needed(__name__, MulticastNode="node", family="node")

__all__ = ["MESSAGES", "MulticastNode", "MulticastSettings", "family"]
