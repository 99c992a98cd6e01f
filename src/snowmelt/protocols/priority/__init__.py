"""Most urgent first, spread over all nodes, without a broker: Skeap, made durable.

Theory of operation
-------------------
A queue is a row of positions for each priority. Any node takes a client's operations: it is their
*door*. It gathers them in a batch, and batches are combined on their way up a tree of all nodes
(`overlay`). At the top is the *anchor*: it gives positions, and never sees a body. Positions come
down the same tree, and each door puts its elements where their positions say, or gets them there.
One priority makes it a fifo (Skueue).

The life of an element:

1. *Batch* (`batches.py`, `gathering.py`). A door's operations keep their order. While one batch is
   on its way up, the next gathers; a batch waits for nobody, so an idle queue answers quickly and a
   busy one works in large batches. The paper's waves take every node along; here a wave takes
   whoever is there.
2. *Positions* (`anchor.py`). What is put gets the next positions of its priority; what is got, the
   least ones of the most urgent. Which come next the anchor chooses so that what comes together
   lies together (`dealing.py`): it passes over blocks of other homes.
3. *Home* (`placing.py`). Positions are cut into blocks; a block lies with the first `replicas`
   members along the circle from the hash of its number, where each member has many points, since a
   view names all of them (`overlay`, rule 3). The first of those members is its *home*, the others
   keep copies. Everybody can tell, and nobody asks. With blocks of one this is the paper's table;
   with larger ones a thousand elements are some messages and some records. Where everybody keeps
   everything, the anchor's node is the home of all.
4. *Put* (`home.py`). The door sends the elements home. The home writes them down and has the copies
   do so; when all have flushed, the door is told, and tells its client.
5. *Get*. The door asks the home for what was granted. What has not arrived yet is waited for, at
   its home. The home leases it under a token, on its own disk and the copies', then hands it out:
   never before all who should keep the element itself have flushed it.
6. *End*. Under the token, an element is acknowledged, given back, or said to be dead. The home, and
   it alone, decides between that and the lease's own end. What is acknowledged is *gone*, on all
   disks, before it is said to be. What comes back is free again under its old position, so ahead
   of later ones of its priority; the home tells the anchor with a batch. What failed too often is
   dead: set aside, and free again only when somebody says so.

What makes it safe:

7. *Epochs.* In a view (`membership`) everybody knows who is here, so every place of the tree, every
   home and the anchor are known, and are the same for all. Each message names the view; one of
   another view is nobody's. Whatever is on its way when a view ends never arrives. Within a view
   nobody fails (else there would be another), so whatever is sent is sent again until answered.
8. *What is stored is the truth.* A new view begins with a settling (`settling.py`): each node tells
   each home what it keeps of the home's blocks, and so each home knows all there is to know about
   them: what anybody knows to be got is gone; of what else is said, the latest counts, by epoch and
   turn. Then comes the census: homes answer for their blocks, up the tree, once; the anchor begins
   with what comes out, and needs no disk. Positions of an epoch are above those of all before, so
   no position is ever two elements'.
9. *Repair* (`repair.py`). Who should keep a copy and has none is given one, by the home, in the
   background; a get waits for the one element it needs. Who keeps what is no longer his to keep may
   erase it when all who should have it do. So arcs are handed over when nodes come and go.
10. *Who was away* has copies of what is gone by now. What is gone is remembered as intervals, by
   whoever kept it when it went, and it is more than any copy says.
11. *One operation, once* (`inquiry.py`). A door remembers what it did. An operation that may have
   been begun elsewhere, or in a view that is over, is inquired of all members before it goes on:
   the name of an operation lies with its elements and leases, and stays there for `REMEMBERED`
   after they are gone. What was stored of it counts; the rest is done anew. Whoever was asked will
   not begin it any more. So there may be several attempts at one put, with nodes that are not here
   at the same time; when they are, one of them counts (`attempts.py`): that which was got, else
   that which was last had to do with. What was answered, or leased, is not undone by an attempt
   that somebody comes back with.
12. *Leases* end by the home's clock. A new home lets them begin anew. So no two leases of one
   element are live at once, and its tokens grow: a late acknowledgement is refused.

What a failure costs. Any node, the anchor's too: what membership takes to miss it, and a settling.
Nothing that was acknowledged while one of its `replicas` copies is left. With one replica, elements
wait for the node that has them. An operation that nobody has answered may have happened or not,
and is found out under its own name by whoever asks again; until its put is answered, an element may
be there in one view and not in the next.

An older copy of the coordinator's disk makes views of numbers that there were: what was told since
that copy may be undone. While as many nodes as have copies of an element are all away, what was
said of it may be forgotten, and a put of it that is asked for again is done anew. A put of which a
part is there waits for room for the rest: as long as a disk stays full, and no answer comes.
"""

from typing import TYPE_CHECKING

from snowmelt.core.needed import when_needed
from snowmelt.protocols.priority.calls import CALLS
from snowmelt.protocols.priority.messages import MESSAGES as _BETWEEN

if TYPE_CHECKING:
    from snowmelt.protocols.priority.node import PriorityNode

__getattr__ = when_needed(__name__, PriorityNode="node")

MESSAGES = (*_BETWEEN, *CALLS)
"""All that a priority machine takes."""

__all__ = ["MESSAGES", "PriorityNode"]
