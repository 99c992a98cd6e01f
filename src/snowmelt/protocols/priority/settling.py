"""A new view: everybody tells everybody what it keeps of the other's blocks. Package, rule 8.

1. First, all tell which operations were begun anew (`Anew`), and if there are any, what other
   attempts at them there are (`Others`): somebody may come back with one. One of them counts, and
   the others are void (`attempts.py`). Only when all know that, what is kept is told (`Tell`).
2. A home hears the same of itself as of others. When all have told, it knows all there is to know.
   What is leased to a get that the end of the last view has interrupted is free again: its door has
   said so with the first word, and nobody else has heard of it (door, rule 3).
3. What is said is said again until it is heard. It comes in parts, none of them large.
4. What is gone in large intervals is told to each home, whole: there may be very many blocks in it.
   It is told to who is the home of nothing else as well, since he may have copies of it.
5. A node tells what it keeps only when no body waits for its disk: what was told counts as a copy,
   and a loss of power must not take it. Bodies that find no room are off the shelf by then.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, TypeVar

import msgspec

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.desk import Desk, Patience
from snowmelt.protocols.priority.keyed import keys_in
from snowmelt.protocols.priority.messages import Anew, Attempt, Kept, Mark, Others, Tell, Told
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.settings import Registered, State
from snowmelt.protocols.priority.shelf import Shelf

KEPT_AT_ONCE: Final = 64
MARKS_AT_ONCE: Final = 512
INTERVALS_AT_ONCE: Final = 4_096
REDONE_AT_ONCE: Final = 1_024
INTERRUPTED_AT_ONCE: Final = 4_096
QUEUES_AT_ONCE: Final = 1_024

Redone = tuple[str, Attempt]
Interrupted = tuple[str, OperationId, int]
Word = Anew | Others | Tell
WORDS: Final[tuple[type[Word], ...]] = (Anew, Others, Tell)
T = TypeVar("T")
W = TypeVar("W", Anew, Others)


class Heard(msgspec.Struct):
    """What one has said, part by part, until the last has come."""

    parts: dict[int, Word] = {}
    last: int | None = None

    def add(self, message: Word) -> None:
        self.parts[message.part] = message
        if message.last:
            self.last = message.part

    @property
    def whole(self) -> bool:
        return self.last is not None and len(self.parts) == self.last + 1


class Settling:
    """Of one node, in one view, for all its queues."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._out: dict[tuple[NodeId, int, int], tuple[Word, Patience]] = {}
        self._heard = {word: {node: Heard() for node in desk.members} for word in WORDS}
        self.begun = False
        """Whether this node has said its first word."""
        self.comparing = False
        """Whether other attempts are being told (rule 1)."""
        self.telling = False
        """Whether what is kept is being told (rule 1)."""
        self.chosen: dict[str, Shares] = {}
        """What counts among several attempts, by queue."""

    # --- out --------------------------------------------------------------------------------------

    def begin(
        self,
        queues: Sequence[Registered],
        redone: Sequence[Redone],
        interrupted: Sequence[Interrupted],
    ) -> None:
        """Says to all which queues there are, and what was begun anew, or begins anew."""
        self.begun = True
        lists = (
            _pages(queues, QUEUES_AT_ONCE),
            _pages(redone, REDONE_AT_ONCE),
            _pages(interrupted, INTERRUPTED_AT_ONCE),
        )
        pages = list(zip_longest(*lists)) or [((), (), ())]
        era = self._desk.era
        for node in self._desk.members:
            for part, (known, begun, anew) in enumerate(pages):
                last = part == len(pages) - 1
                self._say(node, Anew(era, part, last, known or (), begun or (), anew or ()))

    def compare(self, others: Sequence[Redone]) -> None:
        """Says to all what else there is of what was begun anew."""
        self.comparing = True
        era = self._desk.era
        pages = list(_pages(others, REDONE_AT_ONCE)) or [()]
        for node in self._desk.members:
            for part, page in enumerate(pages):
                self._say(node, Others(era, part, part == len(pages) - 1, page))

    def tell(self, kept: dict[NodeId, list[Kept]]) -> None:
        """Says to each what there is for it."""
        self.telling = True
        era = self._desk.era
        for node in self._desk.members:
            pages = list(_pages(kept.get(node, []), KEPT_AT_ONCE)) or [()]
            for part, page in enumerate(pages):
                self._say(node, Tell(era, part, part == len(pages) - 1, page))

    def told(self, source: NodeId, message: Told) -> None:
        self._out.pop((source, message.word, message.part), None)

    def again(self) -> None:
        """What was not heard is said again (rule 3)."""
        for (node, _, _), (message, patience) in self._out.items():
            if patience.over(self._desk.now):
                self._desk.send(node, message)
            self._desk.wake(patience.at, "")

    def _say(self, node: NodeId, message: Word) -> None:
        patience = Patience.new(self._desk.now)
        if node != self._desk.me:
            self._out[node, WORDS.index(type(message)), message.part] = message, patience
            self._desk.wake(patience.at, "")
        self._desk.send(node, message)

    # --- in ---------------------------------------------------------------------------------------

    def heard(self, source: NodeId, message: Word) -> None:
        heard = self._heard[type(message)].get(source)
        if heard is not None:
            heard.add(message)
            if source != self._desk.me:
                word = WORDS.index(type(message))
                self._desk.send(source, Told(self._desk.era, message.part, word))

    def whole(self, word: type[Word]) -> bool:
        """Whether all have said this."""
        return all(heard.whole for heard in self._heard[word].values())

    def anew(self) -> Iterator[Anew]:
        """All that was said of what was begun anew."""
        return self._said(Anew)

    def redone(self) -> dict[str, set[OperationId]]:
        """The operations that were begun anew, by queue."""
        found: dict[str, set[OperationId]] = {}
        for message in self.anew():
            for queue, one in message.redone:
                found.setdefault(queue, set()).add(one.origin.operation)
        return found

    def attempts(self) -> dict[str, list[Attempt]]:
        found: dict[str, list[Attempt]] = {}
        said = [one for message in self.anew() for one in message.redone]
        said += [one for message in self._said(Others) for one in message.attempts]
        for queue, one in said:
            found.setdefault(queue, []).append(one)
        return found

    def interrupted(self) -> dict[str, dict[OperationId, int]]:
        """The gets that begin anew, by queue, and the tokens that they had."""
        found: dict[str, dict[OperationId, int]] = {}
        for message in self.anew():
            for queue, operation, token in message.interrupted:
                found.setdefault(queue, {})[operation] = token
        return found

    def kept(self) -> dict[str, dict[NodeId, Kept]]:
        """What each keeps of this node's blocks, by queue."""
        found: dict[str, dict[NodeId, list[Kept]]] = {}
        for node, heard in self._heard[Tell].items():
            for message in heard.parts.values():
                for one in message.kept if type(message) is Tell else ():
                    found.setdefault(one.queue, {}).setdefault(node, []).append(one)
        return {
            queue: {node: _as_one(queue, several) for node, several in nodes.items()}
            for queue, nodes in found.items()
        }

    def _said(self, word: type[W]) -> Iterator[W]:
        for heard in self._heard[word].values():
            for message in heard.parts.values():
                if type(message) is word:
                    yield message


def kept_for(
    queue: str, shelf: Shelf, placing: Placing, large_size: int
) -> dict[NodeId, list[Kept]]:
    parts: dict[NodeId, list[Kept]] = {}
    for node, shares in placing.by_home(shelf.rows.stored()).items():
        parts.setdefault(node, []).extend(Kept(queue, page, ()) for page in _paged(shares))
    small, large = by_size(shelf.rows.gone(), large_size)
    theirs = placing.by_home(small)
    for node in placing.members:  # also who has nothing of the small ones (rule 4)
        pages_of = _paged((*theirs.get(node, ()), *large))
        parts.setdefault(node, []).extend(Kept(queue, (), page) for page in pages_of)
    for void in shelf.rows.voids():
        small, large = by_size(void.shares, large_size)
        theirs = placing.by_home(small)
        for node in placing.members:
            for page in _paged((*theirs.get(node, ()), *large)):
                mark = msgspec.structs.replace(void, shares=page)
                parts.setdefault(node, []).append(Kept(queue, (), (), (mark,)))
    marks: dict[NodeId, list[Mark]] = {}
    ended = [Mark(shares, 0, 0, State.GONE, token) for token, shares in shelf.ended]
    for mark in (*shelf.rows.marks(), *ended):
        for node, shares in placing.by_home(mark.shares).items():
            marks.setdefault(node, []).append(msgspec.structs.replace(mark, shares=shares))
    for node, those in marks.items():
        pages = _pages(those, MARKS_AT_ONCE)
        parts.setdefault(node, []).extend(Kept(queue, (), (), page) for page in pages)
    return parts


def by_size(shares: Shares, large_size: int) -> tuple[Shares, Shares]:
    """Small intervals, and large ones."""
    small = [
        Share(share.priority, tuple(one for one in share.intervals if one.size < large_size))
        for share in shares
    ]
    large = [
        Share(share.priority, tuple(one for one in share.intervals if one.size >= large_size))
        for share in shares
    ]
    return (
        tuple([share for share in small if share.intervals]),
        tuple([share for share in large if share.intervals]),
    )


def _paged(shares: Shares) -> Iterator[Shares]:
    for share in shares:
        for page in _pages(share.intervals, INTERVALS_AT_ONCE):
            yield (Share(share.priority, page),)


def _pages(things: Sequence[T], size: int) -> Iterator[tuple[T, ...]]:
    for start in range(0, len(things), size):
        yield tuple(things[start : start + size])


def _as_one(queue: str, several: list[Kept]) -> Kept:
    stored = union([share for one in several for share in one.stored])
    return Kept(
        queue,
        stored,
        union([share for one in several for share in one.gone]),
        tuple(mark for one in several for mark in one.marks),
        keys_in(several),
    )
