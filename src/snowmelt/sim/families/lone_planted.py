"""Known bugs of a node that is alone in its view, where the machine takes short cuts.

It tells no copies, climbs no tree and asks nobody for a phase (`Spreading`, gathering rule 5,
`Waves.alone`). Each of these bugs is in that node alone, so lives of several never show it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.anchor import Anchor
from snowmelt.protocols.priority.home import Home
from snowmelt.protocols.priority.messages import Take
from snowmelt.protocols.priority.phases import RankAnchor
from snowmelt.protocols.priority.queue import Here, Queue
from snowmelt.protocols.priority.writing import Part, Task, Writing
from snowmelt.sim.planted import Bug


class UnwritingHome(Home):
    """Keeps in memory alone what it leases."""

    def _take(self, door: NodeId, message: Take, places: Iterable[int]) -> None:
        changed = self._shelf.rows.changed
        before = dict(changed)
        super()._take(door, message, places)
        for key in [one for one in changed if one not in before]:
            del changed[key]


class RestartedAnchor(Anchor):
    """Goes on after the positions that are free or gone, whatever epochs there were."""

    def check(self) -> None:
        """It does not notice."""


class RestartedRankAnchor(RankAnchor):
    """The same of a queue with any priorities."""

    def check(self) -> None:
        """It does not notice."""


RESTARTED: Mapping[type, type] = {Anchor: RestartedAnchor, RankAnchor: RestartedRankAnchor}


def spoil_lone(bug: Bug, here: Here) -> None:
    """Replaces a part of what a view of one node has made of a queue."""
    if not _is_lone(here):
        return
    anchor: Any = here.gathering.anchor
    match bug:
        case Bug.UNWRITTEN_LEASE:
            here.home.__class__ = UnwritingHome
        case Bug.RESTARTED_COUNT if type(anchor) in RESTARTED:
            anchor.__class__ = RESTARTED[type(anchor)]
            for row in anchor._rows:  # noqa: SLF001 - it is spoiled
                row.next = max([one.stop for one in (*row.free, *row.gone)], default=0)
        case _:
            pass


def early(disk: Writing, queues: Mapping[str, Queue]) -> list[Task]:
    """The tasks of homes of one node that wait for its disk, which are told at once."""
    lone = {name for name, one in queues.items() if one.here is not None and _is_lone(one.here)}
    under_way = disk._under_way  # noqa: SLF001 - it is spoiled
    found: list[Task] = []
    for tasks in (disk.tasks, [] if under_way is None else under_way.tasks):
        some = [one for one in tasks if one.part == Part.HOME and one.queue in lone]
        tasks[:] = [one for one in tasks if one not in some]
        found += some
    return found


def _is_lone(here: Here) -> bool:
    return len(here.placing.members) == 1
