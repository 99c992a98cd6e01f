"""The anchor's numbers: each is given once, to one partition, and the next anchor begins above.

It is rule 3 of the package. The bound is that of partition 0 (`log.py`, rule 5).
"""

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api.partition_names import part_of
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.messages.partition_words import Numbers, RequestNumbers
from snowmelt.protocols.queue.messages.words import Say
from snowmelt.protocols.queue.replication.log import BOUND_AHEAD


class GivenNumbers(msgspec.Struct):
    """What one partition was given last."""

    said: Say | None = None
    stop: int = 0
    """Where it ends."""
    carried: Say | None = None
    """What goes with the turns of this phase, or was given before."""
    heard: Say | None = None
    """Of which it is known that it was heard: it need not go with turns any more."""

    @property
    def told(self) -> Say | None:
        """What was, or may be, told."""
        return self.said if self.said is not None and self.said.told else None


class Counting(LeaderPart):
    """Of one queue, in one term of its anchor."""

    def __init__(self, own: Own) -> None:
        super().__init__(own)
        self._given = [GivenNumbers() for _ in range(self._home.settings.partitions)]
        self._next: int = max(self._state.bound, *self._state.tails)
        """The next number."""
        self._told = self._next
        """All below this were told, by this anchor or an earlier one; others may be, too."""
        self._flushed = 0
        """Numbers below this may be told."""
        self._raised = 0
        """With which step those below the state's bound may."""

    def begin(self) -> None:
        """The bound is raised with the first step of the term."""
        if not self._raised:
            self._raised = self._log.raise_bound(self._next + BOUND_AHEAD)

    def begin_anew(self) -> None:
        """The state is that of a backup now: it goes on above all that this names."""
        self._next = self._told = max(self._state.bound, *self._state.tails)
        self._raised = 0
        self.begin()

    def ask(self, source: NodeId, word: RequestNumbers) -> None:
        """A partition wants some; told when it is sure that this one is the anchor."""
        given = self._given[part_of(word.queue) or 0]
        if not _is_old(given, word):
            said = self._numbers(source, given, word)
            self._log.confirm(said, 0 if self._next <= self._flushed else self._raised)
        elif given.told is not None and given.told.message.number == word.number:
            self._outbox.answer(source, given.told.message)

    def at_once(self, word: RequestNumbers) -> Numbers | None:
        """The same for a partition beside it (rule 16)."""
        given = self._given[part_of(word.queue) or 0]
        stop = max(self._next, word.above) + word.count
        late = stop + BOUND_AHEAD // 2 > self._state.bound or _is_old(given, word)
        if late or not self._log.is_settled:
            return None
        said = self._numbers(self._outbox.me, given, word)
        said.told = True
        assert isinstance(said.message, Numbers)
        return said.message

    def _numbers(self, source: NodeId, given: GivenNumbers, word: RequestNumbers) -> Say:
        """The next ones; the bound is raised in time."""
        self._told = max(self._told, given.stop)  # it was heard
        if self._log.safe >= self._raised:
            self._flushed = self._state.bound
        first = max(self._next, word.above)
        self._next = given.stop = first + word.count
        if self._next + BOUND_AHEAD // 2 > self._state.bound:
            self._raised = self._log.raise_bound(self._next + BOUND_AHEAD)
        numbers = Numbers(word.queue, word.term, self._home.term, word.number, first)
        given.said = Say(source, numbers)
        return given.said

    # --- what phases see --------------------------------------------------------------------------

    @property
    def upto(self) -> int:
        """All numbers below this were told, or never will be."""
        upto: int = max([self._told, *[one.stop for one in self._given if one.told is not None]])
        return upto

    def carry(self, part: int) -> None:
        """A phase begins: what was told goes with its turns."""
        given = self._given[part]
        given.carried = given.told or given.heard

    def heard(self, part: int) -> None:
        """It has reported, and so it has heard what went with the turn."""
        self._given[part].heard = self._given[part].carried

    def of(self, part: int, term: int) -> Numbers | None:
        """What goes with a turn now."""
        given = self._given[part]
        said = given.told
        if said is None or said is given.heard:
            return None
        numbers = said.message
        return numbers if isinstance(numbers, Numbers) and numbers.term == term else None


def _is_old(given: GivenNumbers, word: RequestNumbers) -> bool:
    """Whether it had these numbers, or later ones."""
    if given.said is None:
        return False
    last = given.said.message
    return (word.term, word.number) <= (last.term, last.number)
