"""What homes of transactions, and those who have a part in them, say to each other by their nodes.

It goes to whoever leads the queue, or partition, that it is for, as far as is known here; who does
not lead it is silent, and it is said again. A queue that is not there any more, or whose partitions
have parts by themselves, is answered for: it has none, and as a home it decided nothing
(`transactions.py`, rule 8). What is said again goes by the coordinator as well (`router.py`).
"""

from collections.abc import Callable
from typing import Any, Final, assert_never

from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.leader.terms import Terms
from snowmelt.protocols.queue.messages.home_words import Assignment, Nowhere
from snowmelt.protocols.queue.messages.words import AskDecision, Decided, PartDone, ToLeaderOf
from snowmelt.protocols.queue.metadata.metadata_cache import MetadataCache
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.streams import node_of

HELD_MAX: Final = 1_000
"""So much waits for where a queue is; what is beyond is said again."""
Word = Decided | PartDone | AskDecision


class TransactionRouter:
    """Of one node."""

    def __init__(self, outbox: Outbox, metadata: MetadataCache, terms: Terms) -> None:
        self._outbox = outbox
        self._metadata = metadata
        self._terms = terms
        self._held: dict[str, dict[Word, None]] = {}
        """What waits for news of where a queue is at home, by its name."""

    def hears(self) -> dict[type, Callable[[NodeId, Any], None]]:
        arrived = self._arrived
        return {ToLeaderOf: self._post, Decided: arrived, PartDone: arrived, AskDecision: arrived}

    def _post(self, _: NodeId, post: ToLeaderOf) -> None:
        word = post.word
        home = self._metadata.home(word.to)
        if home is not None and home.queue != word.to:  # it has several partitions
            self._answer_for(word)
            return
        if home is not None:
            say = self._outbox.send_again if post.again else self._outbox.send
            say(node_of(home.master), word)
        if home is None or post.again:
            if sum(map(len, self._held.values())) < HELD_MAX:
                self._held.setdefault(word.to, {})[word] = None
            self._metadata.refresh(word.to)

    def heard(self, home: Assignment) -> None:
        """Where a queue is at home."""
        if home.active and home.end is None:
            for word in self._held.pop(home.queue, ()):
                self._outbox.send(node_of(home.master), word)

    def nowhere(self, message: Nowhere) -> None:
        """There is no such queue."""
        for word in self._held.pop(message.queue, ()):
            self._answer_for(word)

    def _answer_for(self, word: Word) -> None:
        match word:
            case Decided(queue, term, to, producer, number):
                self._arrived(self._outbox.me, PartDone(to, term, queue, producer, number))
            case AskDecision(queue, term, to, producer, number):
                given_up = Decided(to, term, queue, producer, number, committed=False)
                self._arrived(self._outbox.me, given_up)
            case PartDone():
                pass
            case _:
                assert_never(word)

    def _arrived(self, _: NodeId, word: Word) -> None:
        leader = self._terms.leaders.get(word.to)
        if leader is None or not leader.serving or not leader.state.restoring.done:
            return
        self._terms.touched[word.to] = None
        match word:
            case Decided():
                leader.transacting.decided(word)
            case PartDone():
                leader.transacting.part_done(word)
            case AskDecision():
                leader.transacting.asked(word)
            case _:
                assert_never(word)
