"""A process makes itself known to a node of the cluster, and learns who else is there (rule 9)."""

from typing import Final

from snowmelt.core.instant import START, Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import Address, NodeId, contact
from snowmelt.core.node import Note, Send
from snowmelt.protocols.calling import Answer, Call, Declined, Elsewhere
from snowmelt.protocols.pool.alarms import Alarms, Effects
from snowmelt.protocols.pool.introductions import Acquaintance, Introduce, Introduced

FIRST_EVERY: Final = milliseconds(500)
IMPATIENT: Final = milliseconds(100)
"""How often it asks while somebody wants something and nobody is known."""
PATIENCE: Final = milliseconds(500)
"""How long a node may take to answer until it counts as silent; words may follow faster."""
STEPS_MAX: Final = 8
SILENT_FOR: Final = seconds(10)
"""For so long a node that did not answer is not sent to again."""
BEAT: Final = ("beat", None)


class Introduction:
    """Speaks with one node at a time; when that is silent, with the next."""

    def __init__(self, contacts: tuple[NodeId, ...], alarms: Alarms) -> None:
        self.producers: dict[NodeId, Acquaintance] = {}
        self.known: tuple[NodeId, ...] = ()
        self.complete = False
        """Whether a node that has heard of all has told who is there."""
        self.taken = 0.0
        """What all consumers take together, as a node has told."""
        self.address: Address | None = None
        self.version = 0
        self._contacts = contacts
        self._alarms = alarms
        self._at = 0
        self.target = contacts[0] if contacts else None
        self._number = 0
        self._waits = False
        self._silent_from = START
        self._sent_to: NodeId | None = None
        self._silent: dict[NodeId, Instant] = {}
        self._steps = 0
        self._every = FIRST_EVERY
        self._refusal = ""

    @property
    def alone(self) -> bool:
        """Whether there is no node to ask."""
        return not self._contacts

    def gone(self, producer: NodeId) -> bool:
        """Whether it is known that this one is not there any more."""
        return self.complete and producer not in self.producers

    def heirs(self, me: NodeId) -> list[NodeId]:
        """Who may take over what this process leaves behind."""
        return [one.id for one in self.producers.values() if one.id != me and not one.leaving]

    def beat(self, word: Introduce, now: Instant, *, impatient: bool = False) -> Effects:
        """Says what this process is; if the last word was not answered, to another node."""
        if self.target is None or self.address is None:
            return []
        if self._waits and now >= self._silent_from:
            self._next(now)
            self._waits = False
        if not self._waits:
            self._silent_from = later(now, PATIENCE)
        self._alarms.set(BEAT, later(now, IMPATIENT if impatient else self._every))
        self._number += 1
        self._waits = True
        self._steps = 0
        return [Send(self.target, Call(self._number, word))]

    def silent(self, now: Instant) -> tuple[NodeId, ...]:
        """Nodes that did not answer lately, for which another may stand in."""
        return tuple(node for node, until in self._silent.items() if until > now)

    def soon(self, now: Instant) -> None:
        """What it is has changed, and somebody should know."""
        if not self.alone:
            self._alarms.set(BEAT, now)

    def answered(self, answer: Answer[object], word: Introduce) -> tuple[bool, Effects]:
        """Whether who is there has changed, and what is to be done."""
        if answer.number != self._number:
            return False, []
        match answer.body:
            case Introduced() as told:
                self._waits = False
                self._refusal = ""
                return self._told(told), []
            case Elsewhere(node, address) if self._steps < STEPS_MAX:
                self._steps += 1
                self._sent_to = node
                self.target = contact(address)
                return False, [Send(self.target, Call(self._number, word))]
            case Declined(error, text) if text != self._refusal:
                self._refusal = text
                return False, [Note(f"{self.target} does not introduce: {error}: {text}")]
            case _:
                return False, []

    def lost(self, target: NodeId, now: Instant) -> None:
        if target == self.target and self._waits:
            self._silent_from = now
            self.soon(now)

    def meet(self, producers: tuple[Acquaintance, ...], known: tuple[NodeId, ...]) -> None:
        """Without a node: these are there."""
        self.producers = {one.id: one for one in producers}
        self.known = known
        self.complete = True

    def _told(self, told: Introduced) -> bool:
        self.version = told.version
        self.taken = told.taken
        self._every = max(IMPATIENT, Duration(told.every))
        if told.producers is None:
            return False
        fresh = {one.id: one for one in told.producers}
        if told.settled:
            self.producers, self.known = fresh, told.known
        else:  # it has not heard of all yet; those it does not name may be there still
            self.producers = {**self.producers, **fresh}
            self.known = tuple(dict.fromkeys((*self.known, *told.known)))
            self.version = 0  # to be told again
        self.complete = told.settled
        return True

    def _next(self, now: Instant) -> None:
        if self._sent_to is not None:
            self._silent[self._sent_to] = later(now, SILENT_FOR)
            self._sent_to = None
        self._at = (self._at + 1) % len(self._contacts)
        self.target = self._contacts[self._at]
