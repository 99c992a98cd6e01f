"""What two nodes that never hear each other say by way of the coordinator.

1. Two nodes may be here that never hear each other, since the coordinator hears both. So what had
   no answer is said again straight, and by way of the coordinator as well.
2. Who is asked that way answers both ways, for a second. So does who had to answer twice. Answers
   that are passed on ask for nothing: so nothing goes both ways for ever.
3. This is for what partitions, anchors, doors and homes of transactions say: it is small, or rare.
   Steps and bodies are not passed on: who can't be reached with these is not in sync.
"""

from collections.abc import Callable
from typing import Any, Final

from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.messages.partition_words import (
    CancelPartedGet,
    NextPhase,
    PartedGet,
    RequestNumbers,
)
from snowmelt.protocols.queue.messages.words import PassOn
from snowmelt.protocols.queue.outbox import Outbox, SaidAgain

Hears = dict[type, Callable[[NodeId, Any], None]]
QUESTIONS: Final = (RequestNumbers, NextPhase, PartedGet, CancelPartedGet)
"""What has an answer (rule 2); what transactions say is said again by either side."""


class PassingOn:
    """Of one node."""

    def __init__(self, outbox: Outbox, rest: Hears) -> None:
        self._outbox = outbox
        self._rest = rest
        """What this node hears."""

    def hears(self) -> Hears:
        return {SaidAgain: self._again, PassOn: self._heard}

    def _again(self, me: NodeId, word: SaidAgain) -> None:
        coordinator = self._outbox.coordinator
        if coordinator is not None and coordinator not in (me, word.target) and word.target != me:
            self._outbox.send(coordinator, PassOn(me, word.target, word.message))

    def _heard(self, _: NodeId, word: PassOn) -> None:
        """It is for this node, or is to be passed on."""
        outbox = self._outbox
        if word.target == outbox.me:
            if isinstance(word.word, QUESTIONS):
                outbox.doubt(word.source)
            self._rest[type(word.word)](word.source, word.word)
        elif outbox.coordinator == outbox.me:
            outbox.send(word.target, word)
