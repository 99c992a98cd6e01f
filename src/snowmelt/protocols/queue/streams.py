"""Names of nodes with their disks, and of their runs.

A name is `node/birth/start`. The first two name the *keeper*: a node with an empty disk has another
birth, and nothing of what it had before. With the third it is a *stream*: one run of that node.
"""

from collections.abc import Collection
from typing import Final

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.membership import Member, View

BEGINNING: Final = Instant(0)


def keeper_of(member: Member) -> str:
    """The name of a node with the disk that it has.

    >>> from snowmelt.core.names import Address
    >>> n1 = Member(NodeId("n1"), Address("127.0.0.1", 4410), birth=255, start=3)
    >>> keeper_of(n1), stream_of(n1)
    ('n1/ff', 'n1/ff/3')
    """
    return f"{member.id}/{member.birth:x}"


def stream_of(member: Member) -> str:
    """The name of the stream of a node's present run."""
    return f"{member.id}/{member.birth:x}/{member.start}"


def node_of(name: str) -> NodeId:
    """Whose stream or keeper's name this is."""
    return NodeId(name.partition("/")[0])


class Presence:
    """Who is here, by the names of disks and runs."""

    def __init__(
        self, view: View, before: "Presence | None" = None, now: Instant = BEGINNING
    ) -> None:
        self.view = view
        earlier = () if before is None else before.view.members
        left = {one.id: now for one in earlier} | ({} if before is None else before.left)
        self.left: dict[NodeId, Instant] = {
            node: at for node, at in left.items() if view.member(node) is None
        }
        """When who was here before left, as far as it was seen."""
        self.keepers = {keeper_of(one): one for one in view.members}
        self.streams = {stream_of(one): one for one in view.members}

    def without(self, streams: Collection[str]) -> "Presence":
        """The same, but for these runs."""
        other = Presence(self.view, self)
        for stream in streams:
            member = other.streams.pop(stream, None)
            if member is not None:
                del other.keepers[keeper_of(member)]
        return other

    def after(self, keeper: str, count: int) -> tuple[str, ...]:
        """The next keepers in the ring of members after this one, at most so many."""
        if not count:
            return ()
        names = list(self.keepers)  # in the order of the view, the same for all
        if keeper not in self.keepers:
            return tuple(names[:count])
        at = names.index(keeper)
        ring = names[at + 1 :] + names[:at]
        return tuple(ring[:count])

    def run_of(self, keeper: str) -> str:
        """The stream of a keeper's present run."""
        return stream_of(self.keepers[keeper])


def gone_for_ever(keepers: tuple[str, ...], presence: Presence) -> bool:
    """Whether all these disks are gone: their nodes are here with others."""
    return all(
        keeper not in presence.keepers and presence.view.member(node_of(keeper)) is not None
        for keeper in keepers
    )
