"""Whether a view still is: asked before a get says that there is nothing, or what is here alone.

A node that slept while its steady clock stood still takes itself for one of a view that is over,
until somebody tells it. What is stored, leased or acknowledged there waits for whoever keeps
copies, and those who are in a later view do not answer. But an anchor that finds nothing to be got,
and one that grants what lies at its own node alone, would ask nobody, and pass what was put since.
An anchor elsewhere may have slept as well: machines that share a host are paused together.

1. Such a get is answered when all other members have said that they are in this view still, and
   were asked since it was. Whoever is in a later one says nothing to that. So no later view is
   that any of them is in: what was answered in one before this get was asked stands before it.
2. One question at a time, for all who came until then: however many find nothing at once, it is one
   message to each, and its answer.
3. A new view ends it: these gets begin anew there (door, rule 3), also where there were views
   without this node between the two: what they were leased lies here alone, so nobody else knows.
"""

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.hand import GetInHand
from snowmelt.protocols.priority.messages import Inquire
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.sending import Sending
from snowmelt.protocols.priority.settings import QueueSettings


class Confirming:
    """Of one queue, at one door."""

    def __init__(self, desk: Desk, settings: QueueSettings, sending: Sending) -> None:
        self._desk = desk
        self._settings = settings
        self._sending = sending
        self._placing: Placing | None = None
        self._anchor: NodeId | None = None
        """Whose node the anchor is at, within a view."""
        self.waiting: list[OperationId] = []
        """For the next question."""
        self._asked: tuple[OperationId, ...] = ()
        self._waits = 0
        """For so many answers."""

    def needed(self, one: GetInHand) -> bool:
        """Whether it found nothing, or no other node had a part in it, though there are others.

        Of what is granted otherwise nobody else is asked: if all slept who had a part in it (its
        door, the anchor, the homes, and those who keep copies), it may pass what was put since.
        """
        me, placing = self._desk.me, self._placing
        if placing is None or len(placing.members) == 1:
            return False
        if not one.pieces:
            return not one.unheard(self._desk.now)
        alone = self._settings.replicas == 1 and self._anchor == me
        return alone and placing.by_home(one.granted).keys() == {me}

    def leave(self) -> None:
        """The turn is over: who waits is asked for, unless a question is open (rule 2)."""
        if self._waits:
            return
        self._asked, self.waiting = tuple(self.waiting), []
        era, queue = self._desk.era, self._settings.queue
        for member in self._desk.members:
            if member != self._desk.me:
                self._waits += 1
                self._sending.send(member, self._asked, lambda serial: Inquire(era, queue, serial))

    def heard(self) -> tuple[OperationId, ...]:
        """One more is in this view still; who can be answered, when it was the last."""
        self._waits -= 1
        return () if self._waits else self._asked

    def viewed(self, placing: Placing | None, anchor: NodeId | None) -> tuple[OperationId, ...]:
        """The view is over: all that were not answered in it (rule 3)."""
        unanswered = (*self._asked, *self.waiting) if self._waits else tuple(self.waiting)
        self._placing, self._anchor = placing, anchor
        self.waiting, self._asked, self._waits = [], (), 0
        return unanswered
