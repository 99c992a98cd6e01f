"""Which node may say which message to another: one table, which the door asks (`runtime/door.py`).

1. Every message between nodes has a line here. One without a line fails where this is imported.
2. A line names roles of which one is enough. Whoever is in no view that is known here may say what
   is of strangers: that it asks to join, what shows that it does not know yet that it is out, and
   answers to what this node asked.
3. A line may name a field that says who speaks, with its disk and its run. Nobody says that of
   another.
4. Who leads a queue in a term is asked of this node's own record of that term. It may have none
   yet: then it is the machine's to know, by what the line names as its check.
5. Where etcd decides, any member may come to decide, and only etcd knows. So a member that says
   that it does counts, from its new view on, until this node has that view. Where a disk decides,
   nobody else ever does.
6. Only the coordinator passes on what another said. That one must be a member, and must have the
   role that what it said has here.
"""

from collections.abc import Callable, Collection
from enum import Enum
from operator import attrgetter
from typing import Any, Final, get_args

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.protocols.arrow import Claim
from snowmelt.protocols.baton import messages as baton
from snowmelt.protocols.membership import messages as membership
from snowmelt.protocols.multicast import messages as multicast
from snowmelt.protocols.queue.api.partition_names import part_name, whole_of
from snowmelt.protocols.queue.messages import home_words as queue
from snowmelt.protocols.queue.messages import partition_words as parted
from snowmelt.protocols.queue.messages import words
from snowmelt.protocols.queue.streams import node_of
from snowmelt.wire.codec import NODE_WORDS


class NodeRole(Enum):
    """What a node is to the one that hears it."""

    STRANGER = "whoever greets as a node"
    MEMBER = "a member of the view"
    COORDINATOR = "the coordinator of the view"
    LEADER = "the leader of the queue in this term"
    KEEPER = "one that keeps the queue in this term"
    ANCHOR = "the leader of the queue's first partition in its term"


class RoleRule(msgspec.Struct, frozen=True):
    """Who may say one message."""

    roles: tuple[NodeRole, ...]
    """One of these is enough."""
    own: str = ""
    """The field that names who speaks (rule 3)."""
    check: str = ""
    """What the machine looks at itself, since only it can know."""

    @property
    def simple(self) -> bool:
        """Whether any member may say it of anybody, as mostly."""
        return not self.own and (NodeRole.MEMBER in self.roles or NodeRole.STRANGER in self.roles)


_RUN: Final = "the run that it answers"
_TERM: Final = "the term"
_FENCE: Final = "the fence"
_ROUND: Final = "the round, or the view"
_CALL: Final = "the call that was asked"
STRANGER, MEMBER = (NodeRole.STRANGER,), (NodeRole.MEMBER,)
COORDINATOR, LEADER, ANCHOR = (NodeRole.COORDINATOR,), (NodeRole.LEADER,), (NodeRole.ANCHOR,)

LINES: Final[dict[type, RoleRule]] = {
    # views
    membership.Join: RoleRule(STRANGER, check="cluster, birth, start and run"),
    membership.JoinByEtcd: RoleRule(STRANGER, check="cluster, birth, start and run"),
    membership.Heartbeat: RoleRule(STRANGER, check="cluster, birth, start and run"),
    membership.Leave: RoleRule(STRANGER, check="cluster, start and run"),
    membership.Accepted: RoleRule(STRANGER, check=_RUN),
    membership.Redirected: RoleRule(STRANGER, check=_RUN),
    membership.Refused: RoleRule(STRANGER, check=_RUN),
    membership.LeftView: RoleRule(STRANGER, check=_RUN),
    membership.Adopt: RoleRule(COORDINATOR, own="view.coordinator", check="cluster and epoch"),
    # where queues are at home
    queue.Assignment: RoleRule(COORDINATOR, check=_TERM),
    queue.Nowhere: RoleRule(COORDINATOR, check="what was asked"),
    queue.Needs: RoleRule(COORDINATOR, check="the run that asked"),
    queue.Rolled: RoleRule(COORDINATOR, check="what was asked"),
    queue.DeleteAnswered: RoleRule(COORDINATOR, check=_CALL),
    queue.Close: RoleRule(COORDINATOR, check=_TERM),
    queue.EraseCopy: RoleRule(COORDINATOR, check=_TERM),
    queue.ListCopies: RoleRule(COORDINATOR),
    queue.LocateQueue: RoleRule(MEMBER),
    queue.Roll: RoleRule(MEMBER),
    queue.DeleteQueue: RoleRule(MEMBER),
    queue.CopyClosed: RoleRule(MEMBER, check="the master of the home"),
    queue.RequestTerm: RoleRule(MEMBER, own="run", check=_TERM),
    queue.Activate: RoleRule(LEADER, own="run", check=_TERM),
    queue.Among: RoleRule(LEADER, own="run", check=_TERM),
    queue.ChangeSettings: RoleRule(LEADER, own="run", check=_TERM),
    queue.Unreached: RoleRule(LEADER, own="run", check=_TERM),
    queue.Aside: RoleRule(LEADER, own="run", check=_TERM),
    queue.Quits: RoleRule(MEMBER, own="run"),
    queue.Erased: RoleRule(MEMBER, own="run", check=_TERM),
    queue.CopiesListed: RoleRule(MEMBER, own="run", check="what was asked"),
    # a leader and those who have copies
    words.Append: RoleRule(LEADER, check=_TERM),
    words.Confirm: RoleRule(LEADER, check=_TERM),
    words.Fence: RoleRule(LEADER, check=_TERM),
    words.FetchBodies: RoleRule(LEADER, check=_TERM),
    words.Thin: RoleRule(LEADER, check=_TERM),
    words.Goes: RoleRule(LEADER, check=_CALL),
    words.PutReply: RoleRule(LEADER, check=_CALL),
    words.CopyBody: RoleRule(LEADER, check=_TERM),
    words.Spared: RoleRule(LEADER, check=_TERM),
    words.SnapshotChunk: RoleRule((NodeRole.LEADER, NodeRole.KEEPER), check=_TERM),
    words.Appended: RoleRule(MEMBER, own="keeper", check=_TERM),
    words.AppendRejected: RoleRule(MEMBER, own="keeper", check=_TERM),
    words.NoRoom: RoleRule(MEMBER, own="keeper", check=_TERM),
    words.Confirmed: RoleRule(MEMBER, own="keeper", check=_TERM),
    words.Fenced: RoleRule(MEMBER, own="keeper", check=_TERM),
    words.BodyStored: RoleRule(MEMBER, own="keeper", check=_TERM),
    words.Lacks: RoleRule(MEMBER, own="keeper", check=_TERM),
    words.Spare: RoleRule(MEMBER, own="keeper", check=_TERM),
    words.Bring: RoleRule(MEMBER, own="keeper", check=_TERM),
    words.FetchedBodies: RoleRule(MEMBER, own="keeper", check="what was asked"),
    words.Superseded: RoleRule(MEMBER, check=_TERM),
    words.Decided: RoleRule(LEADER, check="what is staged, or promised, under that name"),
    words.PartDone: RoleRule(LEADER, check="what is open under that name"),
    words.AskDecision: RoleRule(LEADER),
    words.PassOn: RoleRule(MEMBER, own="source", check="the role of who said it"),
    words.Offer: RoleRule(MEMBER, check=_TERM),
    words.StoreBody: RoleRule(MEMBER, check=_TERM),
    # partitions
    parted.RequestNumbers: RoleRule(LEADER, check=_TERM),
    parted.PartitionReport: RoleRule(LEADER, check=_TERM),
    parted.Ready: RoleRule(LEADER, check=_TERM),
    parted.PartialAnswer: RoleRule(LEADER, check=_CALL),
    parted.Numbers: RoleRule(ANCHOR, check=_TERM),
    parted.NextPhase: RoleRule(ANCHOR, check=_TERM),
    parted.PartedGet: RoleRule(MEMBER),
    parted.CancelPartedGet: RoleRule(MEMBER),
    parted.Nothing: RoleRule(MEMBER, check=_CALL),
    parted.PartedGetCancelled: RoleRule(MEMBER, check=_CALL),
    # batons, whose root is the coordinator, and topics
    baton.CensusQuery: RoleRule(COORDINATOR, check=_ROUND),
    baton.Follow: RoleRule(COORDINATOR, check=_FENCE),
    baton.Void: RoleRule(COORDINATOR, check=_FENCE),
    baton.Fold: RoleRule(COORDINATOR, check=_FENCE),
    baton.Yield: RoleRule(COORDINATOR),
    baton.Stored: RoleRule(COORDINATOR, check="what was asked"),
    baton.Spoiled: RoleRule(COORDINATOR),
    baton.Reserved: RoleRule(COORDINATOR),
    baton.Along: RoleRule(MEMBER, check="the receiver's start, and the count"),
    baton.Predecessor: RoleRule(MEMBER, check="the place"),
    baton.CheckPredecessor: RoleRule(MEMBER, check="the place"),
    baton.Apart: RoleRule(MEMBER, check="the place"),
    baton.Pass: RoleRule(MEMBER, check=_FENCE),
    baton.Arrived: RoleRule(MEMBER, check=_FENCE),
    baton.Complaint: RoleRule(MEMBER),
    baton.CensusReply: RoleRule(MEMBER, check=_ROUND),
    baton.Quiet: RoleRule(MEMBER, check=_FENCE),
    baton.Backup: RoleRule(MEMBER, check="the version"),
    baton.Forgo: RoleRule(MEMBER),
    baton.Reached: RoleRule(MEMBER, check=_FENCE),
    Claim: RoleRule(MEMBER, check="the edges of the overlay"),
    multicast.Broadcast: RoleRule(MEMBER),
    multicast.Acknowledge: RoleRule(MEMBER),
    multicast.Upto: RoleRule(MEMBER),
    multicast.FindFirst: RoleRule(MEMBER),
    multicast.Have: RoleRule(MEMBER),
    multicast.FetchPublications: RoleRule(MEMBER),
}

_OF_TERMS: Final = {
    NodeRole.LEADER: ("queue", "term"),
    NodeRole.KEEPER: ("queue", "term"),
    NodeRole.ANCHOR: ("queue", "anchor"),
}


def check(lines: dict[type, RoleRule], kinds: Collection[type[msgspec.Struct]]) -> None:
    """Each message has a line, and each line's fields are there (rule 1); raises `TypeError`.

    >>> check({}, (Claim,))
    Traceback (most recent call last):
    TypeError: Claim has no line in wire/roles.py: who may say it?
    """
    for kind in kinds:
        if kind not in lines:
            raise TypeError(f"{kind.__name__} has no line in wire/roles.py: who may say it?")
        line = lines[kind]
        needed = {one for role in line.roles for one in _OF_TERMS.get(role, ())}
        needed |= {line.own.partition(".")[0]} - {""}
        if lacks := needed - {*kind.__struct_fields__}:
            raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(lacks))}")


check(LINES, get_args(NODE_WORDS))

OF_STRANGERS: Final = frozenset(
    kind for kind, one in LINES.items() if NodeRole.STRANGER in one.roles
)
_OWN: Final = {kind: attrgetter(one.own) for kind, one in LINES.items() if one.own}
SIMPLE: Final = frozenset(kind for kind, one in LINES.items() if one.simple)

Homes = Callable[[str, int], queue.Assignment | None]
"""What this node knows of a queue's home in just that term."""


class RoleCheck(msgspec.Struct):
    """What this node knows of who is what."""

    homes: Homes
    on_disk: bool = True
    """Whether a disk decides (rule 5)."""
    members: frozenset[NodeId] = frozenset()
    coordinators: tuple[NodeId, ...] = ()
    """Of the view; and who said since that it decides on a later one."""

    def viewed(self, members: frozenset[NodeId], coordinator: NodeId) -> None:
        """A new view."""
        self.members, self.coordinators = members, (coordinator,)

    def wrong(self, source: NodeId, message: Any) -> str:
        """What is wrong with it that this node says this; nothing when it may.

        >>> ground = RoleCheck(lambda *_: None)
        >>> ground.viewed(frozenset(["n1", "n2"]), "n1")
        >>> ground.wrong("n1", queue.ListCopies("")), ground.wrong("n9", membership.LeftView(7))
        ('', '')
        >>> ground.wrong("n2", queue.ListCopies(""))
        'ListCopies is for the coordinator of the view to say'
        >>> ground.wrong("n2", queue.Quits("n1/1/1"))
        "Quits says that it is from 'n1/1/1'"
        """
        kind = type(message)
        if kind is words.PassOn:  # rule 6
            if message.source != source and source not in self.coordinators:
                return f"PassOn says that it is from {message.source!r}"
            return self.wrong(message.source, message.word)
        if kind in SIMPLE:
            return "" if source in self.members or kind in OF_STRANGERS else _said(kind, MEMBER)
        if source not in self.members:
            return _said(kind, MEMBER)
        line, own = LINES[kind], _OWN.get(kind)
        if own is not None:
            named: str = own(message)
            if named.partition("/")[0] != source:
                return f"{kind.__name__} says that it is from {named!r}"
            if line.roles is MEMBER:
                return ""
        if kind is membership.Adopt and not self.on_disk:  # rule 5
            if source not in self.coordinators:
                self.coordinators = (*self.coordinators[:1], source)
            return ""
        for role in line.roles:
            if self._is(role, source, message):
                return ""
        return _said(kind, line.roles)

    def _is(self, role: NodeRole, source: NodeId, message: Any) -> bool:
        if role is NodeRole.LEADER:  # as mostly
            home = self.homes(message.queue, message.term)
            return home is None or home.master.partition("/")[0] == source
        if role is NodeRole.COORDINATOR:
            return source in self.coordinators
        if role is NodeRole.ANCHOR:
            home = self.homes(part_name(whole_of(message.queue), 0), message.anchor)
            return home is None or node_of(home.master) == source
        if role is NodeRole.KEEPER:
            home = self.homes(message.queue, message.term)
            named = () if home is None else (*home.keepers, *home.before)
            return home is None or source in map(node_of, named)
        return source in self.members


def _said(kind: type, roles: tuple[NodeRole, ...]) -> str:
    return f"{kind.__name__} is for {' or '.join(one.value for one in roles)} to say"
