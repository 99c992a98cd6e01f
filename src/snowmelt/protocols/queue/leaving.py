"""A node that is to leave in order: what only it has is handed over first.

1. It asks who decides on homes until none of them names it (`registry.py`, rule 11). All that
   moves is moved by new terms: whoever leads next takes the newest copy, which may be here.
2. Where fewer nodes would be left than must keep a queue, or there is no time, it may not leave; it
   says how many items of which queues that is for, and the way out.
3. So it is with bodies that it keeps: they are erased here when others have them (`keeping.py`).
"""

from typing import Final

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announce
from snowmelt.protocols.membership import HandedOver
from snowmelt.protocols.queue.copies import Copies
from snowmelt.protocols.queue.desk import Desk
from snowmelt.protocols.queue.keeping import Keeping
from snowmelt.protocols.queue.messages import Needs, Quits

AGAIN_AFTER: Final = milliseconds(100)
NAMED: Final = 3
AGAIN: Final = "or stop it as it is, and start it again on its folder"


class Leaving:
    """Of one node."""

    def __init__(self, desk: Desk, copies: Copies, keeping: Keeping) -> None:
        self._desk = desk
        self._copies = copies
        self._keeping = keeping
        self._until: Instant | None = None
        self._needs: Needs | None = None
        """What was heard last of who needs this node."""

    def begin(self, until: Instant) -> None:
        """This node is to leave until then."""
        self._until, self._needs = until, None
        self._keeping.leave(leaving=True)
        self.tick()

    def tick(self) -> None:
        """Asks, and asks again; or says that there is no time (rule 2)."""
        desk = self._desk
        if self._until is None:
            return
        if self._until <= desk.now:
            has_none = self._needs is None and not any(self._copies) and not self._keeping.bodies
            self._ends("" if has_none else self._refusal(self._needs))
            return
        if desk.presence is not None:
            desk.send(desk.presence.view.coordinator, Quits(desk.stream))
        desk.wake(min(self._until, later(desk.now, AGAIN_AFTER)))

    def heard(self, _: NodeId, needs: Needs) -> None:
        """Who needs it still."""
        if self._until is None or needs.run != self._desk.stream:
            return
        self._needs = needs
        if needs.stuck:
            self._ends(self._refusal(needs))
        elif not needs.count and not self._keeping.bodies:
            self._ends("")

    def _ends(self, refused: str) -> None:
        self._until = None
        if refused:
            self._keeping.leave(leaving=False)
        self._desk.effect(Announce(HandedOver(refused)))

    def _refusal(self, needs: Needs | None) -> str:
        if needs is not None and not needs.count:
            bodies = self._keeping.bodies
            text = f"{self._desk.me} keeps the bodies of {bodies} puts that others do not have yet"
            return f"{text}: ask again, with more time, {AGAIN}"
        queues = tuple(self._copies) if needs is None else needs.queues
        count = len(queues) if needs is None else needs.count
        items = sum(self._copies.of(one).items for one in queues)
        names = ", ".join(queues[:NAMED]) + (", …" if count > NAMED else "")
        kind = "queue" if count == 1 else "queues"
        what = f"{self._desk.me} has {items} items of {count} {kind} ({names})"
        if needs is None:
            return f"{what}, and nobody who decides answered it: ask again, {AGAIN}"
        if needs.stuck:
            return f"{what} that need as many nodes as there are: start another first, {AGAIN}"
        return f"{what} that others do not have yet: ask again, with more time, {AGAIN}"
