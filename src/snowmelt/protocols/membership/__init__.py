"""Who is here: joining, heartbeats, leaving, and views with a number.

Theory of operation
-------------------
A *view* is a numbered list of members; its number is the *epoch*. One node of the cluster, the
*coordinator*, decides on views, one after another, each on its disk before anybody hears of it.
The others follow. Whatever needs to know who is here (who keeps a copy, who orders a queue) uses
the view, carries its epoch, and refuses what carries an older one.

Every node is named by an id that a person chose. Three more numbers keep an id from meaning two
things. The *birth* was drawn when its disk was new and stays with that disk. The *start* counts
how often a node began on that disk, and is written before the node's first word. The *run* is
drawn at every start, and tells two processes on copies of one disk apart.

Rules of the coordinator (`monitor.py`, deciding through `coordinator.py`):

1. A view is told to nobody before it is on the disk (`core.node`, rule of order). So no epoch ever
   has two contents, whatever crashes.
2. `Join` admits a node in the next view, when its id is free or bound to the same birth, its start
   is not older than the last one known, and, for the same start, its run is the same. Otherwise
   it is refused, and the refusal says why and whether waiting can help.
3. The `Heartbeat` of a present member is answered by `Accepted`, with the view when its epoch is
   behind. That of a node which is not in the view is refused: it must join again.
4. A member silent for `misses` heartbeats and a grace is left out of the next view. Its id stays
   bound to its birth, so that it can return with its old disk and nobody else can take its name.
   The coordinator never leaves itself out.
5. The coordinator looks round every interval. When a look comes an interval late, its own process
   slept or its clock leapt, and every member gets the whole time anew: its own sleep is not their
   silence. (A leap of less than two intervals may pass unseen, and costs members that much.)
6. `Leave` takes a member out at once; its id stays bound. `Forget` frees the id of an absent node.
   A word of this cluster with an epoch above its own, or with its own and another `mark`, shows
   the coordinator that its disk is an older copy. It decides at once on a view with a number above
   that. Else nobody would listen to it for as many views as it has forgotten, and who has another
   view of one number would never hear of its own. But a number far above its own nobody has counted
   to, nor by many words that are each a little ahead: that is told as an alarm, and refused; a
   member does not take up such a view either.

Rules of a member (`member.py`):

7. A new view is on the member's disk before it is used or announced; its epoch never goes back,
   through restarts either.
8. A member is *current* from an `Accepted` until `misses` heartbeats have passed since it *sent*
   what was accepted. After that it is *cut off*: it announces so, and its process stops what needs
   a view. The coordinator waits longer (rule 4) and counts from what it *received*. So as long as
   the two clocks run equally fast to within grace / (misses x interval), a member knows that it is
   out before anybody acts on it. Clocks that run wilder cost no safety, since every use of a view
   carries its epoch; they cost only this politeness.
9. Every answer repeats the run it answers, and one that a later answer may undo (an acceptance, a
   refusal that is not final) the number of the word too. Those of another run are passed over, as
   are numbers never sent, and a refusal older than the newest acceptance. So words of an earlier
   life, or of an earlier moment of this one, change nothing.
10. A node that is refused for good before it was ever accepted halts and says why; so does one that
    is told that its start or run was superseded. One that was accepted before and is refused
    because the coordinator is another cluster stays cut off and keeps asking: an impostor at
    the coordinator's address must not be able to stop a cluster.

A hint that somebody is no more:

27. Whoever runs a node may tell it that another is *severed*: all connections with it have ended,
    and it refuses new ones. Mostly its process has died; but there may be a wall between, and it
    lives, and is current. So the hint is acted upon and not believed. Who leads leaves a member out
    at once, and tells with the view for how long it is *unsure*: until that one, and any other left
    out like it, is current no more by rule 8, or has begun again. What does no harm while somebody
    is current whom the view lacks goes on at once; all else takes the view up when it is sure
    (`host.py`, rule 7). Nor is the same start let in again before: its word may be an old one, and
    it would be back without ever having heard that it was out. A doubt goes with the record of
    views, so that who leads next, or begins again, has it too, and counts it anew.

Leaving in order:

30. Whoever runs the node says that what it has is handed over (`hands_over`): then it is current
    until its other machines have done that (`Leaving`, `HandedOver`), and may be refused to leave.

A joiner may ask any member; one that does not decide answers `Redirected`.

What a failure costs: while the coordinator is down no view changes, and after `misses` heartbeats
everybody is cut off; all go on when it is back on its disk. A cluster whose coordinator lost its
disk is founded anew from its members' disks (rules 21 to 24: `rescuing.py`). Where etcd decides, no
node is that one: any may lead, by compare-and-set, behind the same `Coordinator` (rules 11 to 20,
25 and 26: `records.py`, `election.py`, `leader_role.py`). A cluster begins when a person says so
(rule 29: `founding.py`). There is no consensus protocol of our own
here, on purpose.

Joint cases, in the order they are easiest to get wrong. A `Join` doubled by the network arrives
after its node has restarted (rule 2 refuses it by its start, and the refusal carries the old run,
so the new run passes it over). A member restarts faster than it is missed (its `Join` replaces it
in the next view, so everybody sees that it restarted). The coordinator crashes between deciding and
telling (the view is on its disk, and the next heartbeat of each member fetches it).
"""

from typing import TYPE_CHECKING, Final

import msgspec

from snowmelt.core.needed import when_needed
from snowmelt.protocols.etcd import ANSWERS
from snowmelt.protocols.membership.facts import (
    HandedOver,
    KeepRecord,
    Leads,
    LeadsNoMore,
    Leaving,
    RecordsKept,
    Slept,
)
from snowmelt.protocols.membership.messages import (
    BETWEEN_NODES,
    MESSAGES,
    Depart,
    Departed,
    Forget,
    GetStatus,
    Status,
)
from snowmelt.protocols.membership.settings import Identity, MembershipSettings
from snowmelt.protocols.membership.view import Current, CutOff, Member, Severed, Unsure, View

if TYPE_CHECKING:
    from snowmelt.protocols.membership.node import MembershipNode

__getattr__ = when_needed(__name__, MembershipNode="node")

HEARD: Final[tuple[type[msgspec.Struct], ...]] = (*MESSAGES, *ANSWERS, KeepRecord)
"""What the machine hears: from other nodes, from etcd, and from its own node's other machines."""

__all__ = [
    "BETWEEN_NODES",
    "HEARD",
    "MESSAGES",
    "Current",
    "CutOff",
    "Depart",
    "Departed",
    "Forget",
    "GetStatus",
    "HandedOver",
    "Identity",
    "KeepRecord",
    "Leads",
    "LeadsNoMore",
    "Leaving",
    "Member",
    "MembershipNode",
    "MembershipSettings",
    "RecordsKept",
    "Severed",
    "Slept",
    "Status",
    "Unsure",
    "View",
]
