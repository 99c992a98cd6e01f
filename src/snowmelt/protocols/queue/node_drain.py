"""A node that is to leave in order, or to be empty: what only it has is handed over first.

1. It asks who decides on homes until none of them names it (`controller.py`, rule 11). All that
   moves is moved by new terms: whoever leads next takes the newest copy, which may be here.
2. Where fewer nodes would be left than must keep a queue, or there is no time, it may not leave; it
   says how many items of which queues that is for, and the way out.
3. So it is with bodies that it keeps: they are erased here when others have them (`body_store.py`).
4. A node that is drained asks the same and goes on asking, until that is undone or it starts anew:
   it stays a member that no home names. It is empty when nobody needs it *and* there is no copy on
   its disk that anybody might count: then its disk may be lost at that moment.
"""

from itertools import islice
from typing import Final

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announce
from snowmelt.protocols.membership import HandedOver
from snowmelt.protocols.queue.api.drains import NAMES_MAX, Drain, Drained
from snowmelt.protocols.queue.follower.body_store import BodyStore
from snowmelt.protocols.queue.messages.home_words import Needs, Quits
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.store.copies import Copies

AGAIN_AFTER: Final = milliseconds(100)
EMPTY_AGAIN: Final = seconds(1)
"""So often a node that is empty says that it is to stay so (`controller/growing.py`)."""
NAMED: Final = 3
AGAIN: Final = "or stop it as it is, and start it again on its folder"


class NodeDrain:
    """A node's leave in order: it ends when no other node needs its copies."""

    def __init__(self, outbox: Outbox, copies: Copies, keeping: BodyStore) -> None:
        self._outbox = outbox
        self._copies = copies
        self._keeping = keeping
        self._until: Instant | None = None
        self._drains = False
        self._asks_at = Instant(0)
        self._needs: Needs | None = None
        """What was heard last of who needs this node."""

    def begin(self, until: Instant) -> None:
        """This node is to leave until then."""
        self._until, self._needs, self._asks_at = until, None, self._outbox.now
        self._keeping.leave(leaving=True)
        self.tick()

    def tick(self) -> None:
        """Asks, and asks again; or says that there is no time (rule 2)."""
        outbox = self._outbox
        if self._until is not None and self._until <= outbox.now:
            self._ends("" if self._needs is None and self._has_none else self._refusal(self._needs))
        if self._until is None and not self._drains:
            return
        if self._until is not None or self._asks_at <= outbox.now:
            outbox.to_coordinator(Quits(outbox.stream))
            rests = self._until is None and self.is_empty
            self._asks_at = later(outbox.now, EMPTY_AGAIN if rests else AGAIN_AFTER)
        outbox.wake(self._asks_at if self._until is None else min(self._until, self._asks_at))

    def drain(self, operation: OperationId, ask: Drain) -> None:
        """This node is to keep nothing, or as much as before (rule 4); tells how far it is."""
        if ask.undo == self._drains:
            self._drains, self._needs = not ask.undo, None
            self._keeping.leave(leaving=self._drains or self._until is not None)
            self._asks_at = self._outbox.now
            self.tick()
        names, needs = dict.fromkeys(self._copies), self._needs
        names.update(dict.fromkeys(() if needs is None else needs.queues))
        homes = [(one, self._copies.of(one).home) for one in names]
        told = Drained(
            self._outbox.me,
            self._drains,
            self.is_empty,
            max(len(names), 0 if needs is None else needs.there),
            tuple(islice(names, NAMES_MAX)),
            sum(home is not None and home.settings.replicas == 1 for _, home in homes),
            sum(self._copies.of(one).items for one in names),
            self._keeping.bodies,
            needs.count if needs is not None and needs.stuck else 0,
        )
        self._outbox.reply(operation, told)

    @property
    def standing(self) -> str:
        """How far that is, in a word; nothing for a node that is not drained."""
        return ("empty" if self.is_empty else "draining") if self._drains else ""

    @property
    def is_empty(self) -> bool:
        """Whether it is drained, and all of it is elsewhere."""
        needed = self._needs is None or self._needs.count
        return self._drains and not needed and self._has_none

    @property
    def _has_none(self) -> bool:
        return not any(self._copies) and not self._keeping.bodies

    def heard(self, _: NodeId, needs: Needs) -> None:
        if needs.run != self._outbox.stream:
            return
        self._needs = needs
        if self._until is None:
            return
        if needs.stuck:
            self._ends(self._refusal(needs))
        elif not needs.count and not self._keeping.bodies:
            self._ends("")

    def _ends(self, refused: str) -> None:
        self._until = None
        if refused:
            self._keeping.leave(leaving=self._drains)
        self._outbox.effect(Announce(HandedOver(refused)))

    def _refusal(self, needs: Needs | None) -> str:
        if needs is not None and not needs.count:
            bodies = self._keeping.bodies
            text = (
                f"{self._outbox.me} keeps the bodies of {bodies} puts that others do not have yet"
            )
            return f"{text}: ask again, with more time, {AGAIN}"
        queues = tuple(self._copies) if needs is None else needs.queues
        count = len(queues) if needs is None else needs.count
        items = sum(self._copies.of(one).items for one in queues)
        names = ", ".join(queues[:NAMED]) + (", …" if count > NAMED else "")
        kind = "queue" if count == 1 else "queues"
        what = f"{self._outbox.me} has {items} items of {count} {kind} ({names})"
        if needs is None:
            return f"{what}, and nobody who decides answered it: ask again, {AGAIN}"
        if needs.stuck:
            return f"{what} that need as many nodes as there are: start another first, {AGAIN}"
        return f"{what} that others do not have yet: ask again, with more time, {AGAIN}"
