"""What a priority queue's promise does not cover, from when to when, and because of what.

Each excuse is an interval, and rests on a sentence of the family's docstring, "What a failure
costs" (`protocols/priority/__init__.py`):

1. "Nothing that was acknowledged while one of its `replicas` copies is left." So many nodes as have
   a copy have lost their disks, or can't read a record: what was told until then may be undone. A
   disk put back from an older copy has lost what came since; nobody can tell that, so it counts
   from that copy on.
2. "With one replica, elements wait for the node that has them", and with more for one of them: an
   element is not there to be got in a view that lacks as many nodes as have a copy of it. What
   another has of it from before then may be taken for it.
3. The coordinator's disk is lost: the cluster can't go on (`membership`), and nothing is judged.
   An older copy of it makes views of numbers that there were: what was told since may be undone.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from snowmelt.core.instant import START, Instant
from snowmelt.core.names import NodeId

FOR_EVER: Final = Instant(2**62)


class Seen(msgspec.Struct, frozen=True):
    """A view, and when it was first announced."""

    epoch: int
    at: Instant
    members: tuple[NodeId, ...]


class Hurt(msgspec.Struct, frozen=True):
    """One node lost what came to its disk after `since`."""

    node: NodeId
    since: Instant
    at: Instant
    reason: str


class Excuses:
    """For all queues of a life."""

    def __init__(self, nodes: Sequence[NodeId]) -> None:
        self.nodes = tuple(nodes)
        self.views: list[Seen] = []
        self.hurts: list[Hurt] = []
        self.over: Instant | None = None
        self.names: list[Hurt] = []
        """Views since then may have had the same numbers as others (3)."""

    # --- what happens -----------------------------------------------------------------------------

    def viewed(self, at: Instant, epoch: int, members: tuple[NodeId, ...]) -> None:
        """Somebody is current in a view."""
        if not any(one.epoch == epoch and one.members == members for one in self.views):
            self.views.append(Seen(epoch, at, members))

    def hurt(self, node: NodeId, at: Instant, reason: str, since: Instant = START) -> None:
        """A node lost what came to its disk after this moment."""
        self.hurts.append(Hurt(node, since, at, reason))

    def renumbered(self, at: Instant, taken: Instant, node: NodeId) -> None:
        """The coordinator has an older copy of its disk (3)."""
        self.names.append(Hurt(node, taken, at, "older disk of the coordinator"))

    # --- what is excused --------------------------------------------------------------------------

    def copies(self, called: Instant, returned: Instant, replicas: int) -> int:
        """On how many nodes what was told then is flushed, at least."""
        sizes = [
            len(view.members)
            for view, after in zip(self.views, [*self.views[1:], None], strict=True)
            if view.at <= returned and (after is None or called <= after.at)
        ]
        return min([replicas, *sizes])

    def undone(self, called: Instant, returned: Instant, copies: int) -> str:
        """Why what was told then, by so many, may be undone; nothing if it may not."""
        if self.over is not None:
            return "coordinator's disk lost"
        for one in self.names:
            if one.since <= returned and called <= one.at:
                return one.reason
        lost: dict[NodeId, Hurt] = {}
        for one in self.hurts:
            if one.since <= returned and called <= one.at:
                lost[one.node] = one
        if len(lost) >= copies:
            return list(lost.values())[-1].reason
        return ""

    def away(self, view: Seen, copies: int) -> bool:
        """Whether what so many have may not be there in this view (2)."""
        gone = {node for node in self.nodes if node not in view.members}
        gone |= {one.node for one in self.hurts}
        return len(gone) >= copies

    def waits(self, called: Instant, returned: Instant, copies: int) -> bool:
        """Whether at some time of it a view was without as many nodes as had a copy (2)."""
        return any(
            view.at <= returned
            and (after is None or called <= after.at)
            and self.away(view, copies)
            for view, after in zip(self.views, [*self.views[1:], None], strict=True)
        )

    def epochs(self) -> dict[int, list[Seen]]:
        """The views of each number."""
        found: dict[int, list[Seen]] = {}
        for view in self.views:
            found.setdefault(view.epoch, []).append(view)
        return found
