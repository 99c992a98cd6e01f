"""One node's part in the phases of one queue with any priorities, in one view: `seap`."""

from functools import partial
from typing import Final

from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.batches import Grant, union
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.gathering import Gathering
from snowmelt.protocols.priority.home import Home
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.meeting import Meeting
from snowmelt.protocols.priority.messages import Look
from snowmelt.protocols.priority.phases import Phases, RankAnchor
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.searches import Searches
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.protocols.priority.waves import Waves
from snowmelt.protocols.seap.steps import Answer, Assign, Step

REPORTED_MAX: Final = 64
"""So many intervals of what is gone go up with one batch of a node."""


class Phasing:
    """The place in the tree of homes, the meetings, and at the anchor the phases."""

    def __init__(
        self,
        desk: Desk,
        settings: QueueSettings,
        gathering: Gathering,
        placing: Placing,
        limits: Limits,
    ) -> None:
        self._desk = desk
        self._queue = settings.queue
        self._limits = limits
        self._gathering = gathering
        homes = placing.everybody[:1] or tuple(placing.members)
        root = gathering.root
        nodes = (root, *[node for node in homes if node != root])
        self.waves = Waves(desk, settings.queue, nodes, limits.arity)
        self.meeting = Meeting(desk, settings.queue, placing)
        self._phases: Phases | None = None

    @property
    def phases(self) -> Phases | None:
        """At the anchor, once it has its census."""
        anchor = self._gathering.anchor
        if self._phases is None and isinstance(anchor, RankAnchor):
            self._phases = Phases(self._desk, self._queue, anchor, self.waves, self._limits)
        return self._phases

    def look(self, source: NodeId, message: Look) -> None:
        if self.phases is not None:
            self.phases.look(source, message)

    def search(self, searches: Searches) -> None:
        """Where the elements of ranks are that this door was given."""
        for operation, ranks in searches.taken():
            found = self.meeting.search(operation, ranks)
            if found is not None:
                searches.found(operation, union(found))

    def again(self) -> None:
        self.waves.again()
        self.meeting.again()

    def feeds(self, home: Home) -> bool:
        """Whether this node has something for those who wait, said once (`seap`, rule 11)."""
        return home.urgency is not None and home.urgency.feeds()

    def go_on(self, home: Home) -> Grant | None:
        """All that can be done now; what of it is for this node's own operations."""
        phases = self._phases or self.phases
        own = partial(self._answer, home) if self.waves.alone else None
        grant = None
        while True:
            step = self.waves.due
            if step is not None:
                self.waves.answer(self._answer(home, step))
                continue
            if phases is None:
                return None
            arrived, self._gathering.arrived = self._gathering.arrived, []
            for arrival in arrived:
                phases.arrived(arrival)
            served, phases.answered = phases.answered, []
            for number, one in served:
                grant = self._gathering.serve(number, one) or grant
            if phases.feeds:
                phases.feeds = False
                self._gathering.feed_all()
            if not phases.go_on(own) and not phases.answered:
                return grant

    def _answer(self, home: Home, step: Step) -> Answer:
        assert home.urgency is not None, "phases are of queues with any priorities"
        answer, taken = home.urgency.answer(step)
        if taken:
            assert isinstance(step, Assign), f"{step} takes nothing"
            self.meeting.bring(step.start, taken)
        return answer
