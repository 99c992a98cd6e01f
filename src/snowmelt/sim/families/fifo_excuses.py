"""What a queue's promise does not cover in one life, because too much was hurt at once.

A queue's *journal* may go back
to what it was, and what was told of leases, acknowledgements and positions with it, when as many
different nodes were hurt as must have a copy (`copies_needed`): when a record of the journal was
damaged on their disk, when their disk was lost, or, where flushes may linger, when they died within
so short a time of each other that what lingered was on no disk. Of these deaths only what was told
shortly before may be lost. A *body* may be lost when so many nodes lost their journal or a body of
this queue.
"""

from typing import Final

from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.names import NodeId
from snowmelt.protocols.fifo.settings import QueueSettings

FOR_EVER: Final = Instant(2**62)


class Excuses:
    """For one queue."""

    def __init__(self, settings: QueueSettings) -> None:
        self.journal_may_go_back = False
        self._settings = settings
        self._hurt: dict[NodeId, None] = {}
        self._hurt_bodies: dict[NodeId, None] = {}
        self._died: dict[NodeId, Instant] = {}
        self._lapses: list[tuple[Instant, Instant]] = []

    @property
    def bodies_may_be_lost(self) -> bool:
        """Whether the promise allows that an item is lost."""
        hurt = {**self._hurt, **self._hurt_bodies}
        return len(hurt) >= self._settings.copies_needed

    def hurt(self, node: NodeId) -> None:
        """A node may have lost something of this queue's journal."""
        self._hurt[node] = None
        if len(self._hurt) >= self._settings.copies_needed:
            self._excused(Instant(0), FOR_EVER)

    def hurt_body(self, node: NodeId) -> None:
        """A node lost a body."""
        self._hurt_bodies[node] = None

    def died(self, node: NodeId, at: Instant, lingering: Duration) -> None:
        """A process ended; what lingered for so long at most is gone."""
        if not self._settings.linger:
            return
        self._died[node] = at
        together = [one for one in self._died.values() if later(one, lingering) >= at]
        # With those whose disks are hurt, so many may be without it.
        hurt = [one for one in self._hurt if one not in self._died]
        if len(together) + len(hurt) >= self._settings.copies_needed:
            self._excused(Instant(min(together) - lingering), at)

    def _excused(self, since: Instant, until: Instant) -> None:
        """What was told from then to then may be lost, and the journal be what it was before."""
        self.journal_may_go_back = True
        self._lapses.append((since, until))

    def cover(self, called: Instant, returned: Instant) -> bool:
        """Whether what was told then, or was on its way, may be lost."""
        return any(since <= returned and called <= until for since, until in self._lapses)
