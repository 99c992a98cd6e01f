"""First in, first out; kept on several nodes, leased to consumers: Blizzard, made durable.

Theory of operation
-------------------
A queue is a row of positions. Its *master* gives positions to batches and hands them out; it deals
in intervals and never touches a body. Bodies lie with *keepers*, who know nothing of orders. Any
node of a cluster is a keeper, and the master of some queues. The paper has one master, one log and
no word on flushing, retries, or late answers; what is done about each is said with the rule.

The life of an item (the picture is in docs/fifo.md):

1. *Put.* A client hands a batch to any node, which stores it as a segment under a number of its own
   (`streams.py`) and copies it to the next nodes in the ring (`intake.py`). When enough keepers
   have flushed, it asks the master to admit the segment. The paper grants an id first and stores
   then. Here a position is given last, when the batch is safe: with positions granted ahead, a
   batch could enter the queue in front of one that was complete before it began. What the client
   is granted ahead is the node to put at (`Opened.store`), for as long as it likes; so a put is one
   round trip, and what was never admitted is a segment nobody points to, and is erased. That node
   is the master where every node keeps every body: what a master takes in itself it admits while
   it is copied, so body and journal are one flush on each disk (`early.py`). Until enough keepers
   have said that they have it, nobody is told, and a master that comes next asks each of them.
2. *Admission* (`admission.py`). The master looks whether this producer put this before (a retry is
   not a second item), whether there is room, and gives the next positions. A client that hears
   nothing asks another node too, so several nodes may offer one put: it waits for room once, and
   has one verdict; it is taken only from a node that is here, in the run that stored it. What is
   remembered of producers (`producers.py`) is exact, and where it ends, puts are refused.
3. *Lease.* A get takes the first ready positions under a token, for a time. What the master's own
   node keeps goes along with the answer; the rest the client fetches from its keepers.
4. *Settling* (`master.py`). Under the token, items are acknowledged or given back. What is given
   back, or whose lease ends, is ready again at its own position: the paper says so in one place
   and "at the head" in another. After too many failures it is set aside as dead.
5. *Dropping.* When it is safe in the journal that an item is settled, its keepers erase it.

Two ways round that, for programs that must do everything exactly once:

6. *Groups* (`groups.py`, `grouping.py`). A group is given items for good: they have no time-out,
   are told again, the same in the same order, and are settled when the group says that it is past
   them. What the group must remember is two numbers.
7. *Staging* (`staged.py`, `publishing.py`). A put with a hold is stored, copied and decided upon
   like any other, but gets no position. `Publish` names any number of such batches, and gives all
   of them the next positions in one step; the same publication again does nothing.

What makes it safe:

8. The *journal* (`journal.py`). A queue's state is a map of small records, some hundred bytes for
   thousands of items. Each change is a step, on the master's disk and at its mirrors; nothing is
   told before its step is safe with `copies_needed` of them. A step names the journal it is of and
   the step it goes on from, and so does the word of a mirror; nothing else counts. However long a
   journal is, it travels and is read in pieces (`transfer.py`, `mirrors.py`). The paper's log is
   on one disk.
9. *Terms* (`registry.py`, `succession.py`). Which node is master is written down by the
   cluster's coordinator, under a growing term, which one run begins once. A new master fences the
   mirrors of the last term and takes the newest journal from so many that no safe step can be
   missing. So an old master that wakes up can make no step safe, and so can promise nothing. A
   mirror that its master can't reach is replaced. A coordinator whose disk is an older copy of
   itself asks those who keep journals before it decides on anything (`census.py`).
10. *Repair* (`repair.py`, `telling.py`). What lies on fewer keepers than wanted is copied, keeper
   to keeper, a little at a time; nothing that is read takes a keeper off what lives before there
   is another copy. Who returns is told what to keep, and erases the rest: deletions that it missed
   included.

Names that make it work: a keeper's name has the birth of its disk in it, so a node with an empty
disk is not taken for the one it was; a stream's name has the run in it, so no number is ever used
twice; a term only grows, and stands in the tokens of its leases; positions go on above a bound
that was flushed before any of them was told.

What a failure costs. A keeper that is away: nothing, while `copies_needed` are here. A master that
restarts: some round trips. A master that stays away: what membership takes to miss it, and as much
again; its leases go on with the new one, their time begun anew. The coordinator away: no new
terms, so a master that fails at the same time waits for it. A link between a master and a mirror,
while both reach the coordinator: some seconds, if another node can mirror. A queue with one
replica waits for its node. What is damaged on one keeper is served from another and copied anew;
what is damaged on the last one is lost, counted, and its neighbours are not.
"""

from typing import TYPE_CHECKING

from snowmelt.core.needed import when_needed

if TYPE_CHECKING:
    from snowmelt.protocols.fifo.messages import MESSAGES
    from snowmelt.protocols.fifo.node import FifoNode

__getattr__ = when_needed(__name__, MESSAGES="messages", FifoNode="node")

__all__ = ["MESSAGES", "FifoNode"]
