"""One engine for queues: a partition is led by one node, copied by others, changed in steps.

Theory of operation
-------------------
A queue is one partition: its items, leases, groups, publications and producers. One node *leads* it
in a *term*; others *follow*. Each of them has a *copy*: records of the state, and the bodies. The
leader changes the state in *steps*. A step is *safe* when enough disks have it (`in_sync.py`).
Nothing is told before. Terms come from the *controller*, which is the coordinator's disk or etcd.
Each part below has rules with numbers of its own, at the top of its file. A folder says what is in
it and what it may import; the way down is `router`, `follower`, `leader`, `replication`, `store`,
`messages`, `state`, `api`, with `controller` and `metadata` beside them.

The life of an item (the picture is in docs/explanation/life-of-an-item.md):

1. *Put* (`append_check.py`, `waiting.py`). A client sends a batch to the leader, under its
   producer's name and a number. A number that was used is told its first answer (`producers.py`).
   Where there is room the batch has the next positions. Else it waits in its order, or is refused.
   A position has its priority in the upper bits (`tails.py`): a put of several has the next of
   each. Where priorities have no number each item has a *key*, and the least is first (`keyed.py`).
2. *Step* (`log.py`). Whatever changes while the leader's disk flushes is the next step. It carries
   records and bodies. A large one waits until there is way for it (`send_window.py`). Leader and
   followers flush it at the same time. So a put is one round trip, and one flush on each disk.
3. *Lease* (`state.py`, `deadlines.py`, `delivery.py`). A get takes the first ready positions under
   a token, for a time. Bodies come with the answer. What does not fit one answer is told as spans,
   and any copy gives their bodies (`spans.py`, `transfer.py`).
4. *Settling*. Under the token, items are acknowledged or given back. What is given back, or whose
   lease ends, is ready again at its own position. After too many failures it is dead.
5. *Erasing*. The bodies of a put are erased with the step that ends its last item.

Two ways round that, for programs that must do everything exactly once:

6. *Groups* (`grouping.py`). A group is given items for good. It is told the same again, in the
   same order, until it says that it is past them. It has to remember two numbers.
7. *Staging* (`staged.py`, `publishing.py`). A put with a hold is safe like any other, and has no
   position. One publication gives all that it names the next positions, in one step.

For what is large, or in a queue larger than any machine:

8. *Data nodes* (`spread.py`, `storing.py`). Where there are more nodes than copies, a put with more
   than `inline_max` bytes goes to any node as its door (`carrying.py`). It is *pending*; then
   *stored*, flushed by data nodes that the leader draws of all who are here (`body_store.py`); then
   *admitted*: its step names these nodes, and has no bodies. A get tells where they lie. Copies
   are made anew, and what nobody needs is erased, as the leader says.

What makes it safe:

9. A *state is a value* (`state.py`, `batches.py`, `takers.py`): no disk, no clock, no function is
   stored in it. Its records tell it again (`records.py`). What waits for a step is data, too
   (`words.py`).
10. *A copy is what its leader's was* (`copy.py`, `follower_role.py`). A step names that behind
    which it goes, with its term. A follower takes it there or not at all. Who lacks some is sent
    these, or the whole copy in pieces, which replace its own in one write (`follower_progress.py`,
    `sending.py`).
11. *A term has one leader* (`terms.py`, `takeover.py`). Who is to lead fences the copies of the
    last term: they take nothing older. When it has fenced so many that no safe step can be missing,
    it goes on from the newest. It serves when its first step is safe, and the controller knows it.
12. *An old leader can promise nothing.* None of its steps becomes safe, since its followers are
    fenced. What changes nothing (an empty get, a look, a refusal) is told only when enough
    followers have confirmed, asked after it, that they heard of no later term.

Names that make it work. A copy's name has the birth of its disk in it, so an empty disk is not
taken for the one that was there. A body's key has its place and its term, so nothing overwrites
what another term put there. A token begins with the term of its lease. Where flushes may linger,
positions go on above a bound that was flushed before any of them was told.

What a failure costs. A follower that is away: nothing, while `copies_needed` are here. A leader
that restarts: some round trips. A leader that stays away: until membership has missed it, and the
same again. Leases go on with the next leader, their time begun anew. The controller away: no new
terms, so a leader that fails meanwhile is waited for. A link between leader and follower, while
both reach the controller: some seconds, if another node can follow; between leader and data node:
the same for the first put that was to lie there. A queue with one copy waits for its node. A node
that leaves in order hands over first (`node_drain.py`). A body that can't be read is read from a
follower, and written again. Where no copy of it can be read it is lost, counted, and its neighbours
are not.

Paper words (Levy, Suskin and Goodwin, *Blizzard*). Its master is the leader. Its log is the log, on
several disks. A pending enqueue is a put whose step is not safe. A pending dequeue is a lease. Its
data nodes are the followers: every copy has all bodies. What the paper leaves open has rules here:
flushing, retries, late answers, and a master that fails.
"""

from typing import TYPE_CHECKING

from snowmelt.core.needed import when_needed

if TYPE_CHECKING:
    from snowmelt.protocols.queue.messages.words import MESSAGES
    from snowmelt.protocols.queue.node import QueueNode

__getattr__ = when_needed(__name__, MESSAGES="messages.words", QueueNode="node")

__all__ = ["MESSAGES", "QueueNode"]
