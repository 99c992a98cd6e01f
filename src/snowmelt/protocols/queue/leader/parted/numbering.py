"""What waits at a partition for its place in the order of the whole queue.

It is rules 2 to 5 of the package, as a partition keeps them.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.core.names import OperationId
from snowmelt.protocols.queue.api.calls import PublishStaged, Put
from snowmelt.protocols.queue.api.partition_names import part_name, whole_of
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.leader.parted.beside import Led
from snowmelt.protocols.queue.messages.partition_words import (
    ASKED_MAX,
    News,
    Numbers,
    Post,
    RequestNumbers,
)
from snowmelt.protocols.queue.messages.words import Decided, SpreadPut
from snowmelt.protocols.queue.replication.log import STEP_BYTES, Log
from snowmelt.protocols.queue.state.publications import items_of

AGAIN_AFTER: Final = milliseconds(300)
Kind = Put | SpreadPut | PublishStaged | Decided
Name = tuple[str, str, int]


class Entrant(msgspec.Struct):
    """What is let in, and has no numbers yet."""

    what: Kind
    operations: dict[OperationId, None]
    count: int
    size: int
    first: int = 0
    """Its first number, once there is one."""


class Numbering(LeaderPart):
    """Of one partition, in one term."""

    def __init__(self, own: Own) -> None:
        super().__init__(own)
        self.count = 0
        """Of items that wait."""
        self.size = 0
        self._anchor = part_name(whole_of(self._home.queue), 0)
        self._named: dict[Name, Entrant] = {}
        """All of them, by their producers and numbers."""
        self._arrived: OrderedDict[Name, Entrant] = OrderedDict()
        self._asked: list[Entrant] = []
        """Those for which numbers are asked now, in their order."""
        self._numbered: deque[Entrant] = deque()
        """Those that have them, and wait for room in a step."""
        self._number = 0
        self._at = Instant(0)
        self.leaders: Mapping[str, Led] = {}
        """All that this node leads (rule 16)."""

    def waits(self, what: Kind) -> bool:
        """Whether that put, or publication, waits."""
        return _name(what) in self._named

    def has(self, put: SpreadPut) -> bool:
        """Whether that very one does."""
        entrant = self._named.get(_name(put))
        return entrant is not None and entrant.what is put

    def add(self, operations: tuple[OperationId, ...], what: Kind) -> None:
        """One more that is let in; or the same is asked again."""
        name = _name(what)
        known = self._named.get(name)
        if known is not None:
            if len(known.operations) < self._outbox.limits.attempts:
                known.operations |= dict.fromkeys(operations)
            return
        if isinstance(what, PublishStaged | Decided):
            count, size = items_of(what.receipts), 0
        else:
            count, size = what.count, what.size
        entrant = Entrant(what, dict.fromkeys(operations), count, size)
        self._named[name] = self._arrived[name] = entrant
        self.count += count
        self.size += size

    def gone(self, operation: OperationId, what: Kind) -> None:
        """Nobody is there for what was asked; numbers that it was to have stay unused."""
        entrant = self._named.get(_name(what))
        if entrant is not None:
            entrant.operations.pop(operation, None)
            if not entrant.operations:
                self._leave(entrant)

    def _leave(self, entrant: Entrant) -> None:
        name = _name(entrant.what)
        del self._named[name]
        self._arrived.pop(name, None)
        self.count -= entrant.count
        self.size -= entrant.size

    # --- numbers ----------------------------------------------------------------------------------

    def ask(self) -> bool:
        """For those that came, as many as one step has room for; one question at a time.

        Whether they have numbers at once.
        """
        if self._asked or not self._arrived or self._numbered:
            return False
        size = count = 0
        while self._arrived:
            entrant = next(iter(self._arrived.values()))
            size, count = size + entrant.size, count + entrant.count
            if self._asked and (size > STEP_BYTES or count > ASKED_MAX):
                break
            self._asked.append(self._arrived.popitem(last=False)[1])
        self._number += 1
        self._say()
        return self.unplaced

    def _say(self, *, again: bool = False) -> None:
        home, now = self._home, self._outbox.now
        count, above = sum([one.count for one in self._asked]), max(self._state.tails)
        word = RequestNumbers(home.queue, home.term, self._number, max(1, count), above)
        beside = self.leaders.get(self._anchor)
        if beside is not None and beside.partition is not None:
            anchor = beside.partition.anchor
            numbers = None if anchor is None else anchor.counting.at_once(word)
            if numbers is not None:
                self.told(numbers)
                return
        self._outbox.inside.append(Post(self._anchor, word, again))
        self._at = now
        self._outbox.wake(later(now, AGAIN_AFTER))

    def ask_again(self) -> None:
        """Somebody else may be the anchor by now."""
        if self._asked:
            self._say()

    def tick(self) -> None:
        """What has no answer for a while is asked again."""
        again = later(self._at, AGAIN_AFTER)
        if self._asked and again <= self._outbox.now:
            self._outbox.inside.append(News(self._anchor))  # it may be led elsewhere by now
            self._say(again=True)
        elif self._asked:  # a queue has one alarm, and this was another's
            self._outbox.wake(again)

    def told(self, word: Numbers) -> None:
        """They have numbers now, in their order."""
        if word.number != self._number or word.first < max(self._state.tails):
            return
        first = word.first
        for entrant in self._asked:
            entrant.first = first
            first += entrant.count
        self._numbered += self._asked
        self._asked = []

    @property
    def unplaced(self) -> bool:
        """Whether something has numbers, and is not in the state."""
        return len(self._numbered) > 0

    def entering(self, log: Log) -> Iterator[Entrant]:
        """Those that have numbers, as their steps have room for them; they wait here no more."""
        while self._numbered:
            entrant = self._numbered[0]
            waits = self._named.get(_name(entrant.what)) is entrant
            if waits and not isinstance(entrant.what, SpreadPut) and not log.has_room(entrant.size):
                return
            self._numbered.popleft()
            if waits:
                self._leave(entrant)
                yield entrant


def _name(what: Kind) -> Name:
    """Producers are named for each home of transactions by themselves."""
    if isinstance(what, Decided):
        return what.queue, what.producer, what.number
    return "", what.producer, what.sequence
