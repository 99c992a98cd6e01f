"""A door tells homes what became of elements, and hears what they could not do of it.

What one turn brings goes to each home in one message (door, rule 8); but for what needs no flush,
which waits for none.
"""

from collections.abc import Iterable
from typing import Final

from snowmelt.core.instant import Duration
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.messages import End, Word
from snowmelt.protocols.priority.sending import Sending
from snowmelt.protocols.priority.settings import How

NOBODY: Final = OperationId(NodeId(""), 0)
"""Who waits for the answer to a word that no call waits for."""


class Ends:
    """Of one queue, at one door."""

    def __init__(self, desk: Desk, queue: str, sending: Sending) -> None:
        self._desk = desk
        self._queue = queue
        self._sending = sending
        self.words: dict[tuple[NodeId, bool], list[tuple[OperationId, Word]]] = {}
        """What leaves with this turn, by homes; apart, what needs no flush."""

    def say(
        self,
        homes: Iterable[tuple[NodeId, Shares]],
        how: How,
        *,
        token: int = 0,
        operation: OperationId = NOBODY,
        reason: str = "",
        time: Duration = Duration(0),  # noqa: B008 - an int
    ) -> int:
        """Each home its own positions; how many are told. `operation` waits for their answers."""
        count, unflushed = 0, how == How.RENEW
        for home, shares in homes:
            word = Word(token, shares, how, reason, time)
            self.words.setdefault((home, unflushed), []).append((operation, word))
            count += 1
        return count

    def leave(self) -> None:
        """The turn is over; when there are any words."""
        words, self.words = self.words, {}
        era, queue = self._desk.era, self._queue
        for (home, _), said in words.items():
            self._sending.send_all(home, said, lambda some, serial: End(era, queue, serial, some))

    def viewed(self) -> None:
        """What was said in a view that is over is said again, to whoever it concerns then."""
        self.words = {}
