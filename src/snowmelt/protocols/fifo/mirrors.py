"""The journals that this node keeps for others, and for itself between two terms.

1. A copy of a journal has a term, a step, and a *fence*: the latest term anybody has announced to
   it. It takes no step of a term before its fence, so a master that was replaced can't make a step
   safe any more.
2. A step is taken when it is the next one of the copy's term; a snapshot of a term that is not
   fenced off is taken always. What is taken is told after the flush.
3. A copy that lost a record to its disk says so; it is counted only when there is no better one.
   One that was read from the disk may lack what lingered, and says that too.
"""

from functools import partial

import msgspec

from snowmelt.core.instant import Duration
from snowmelt.core.names import NodeId
from snowmelt.core.node import Started
from snowmelt.core.record import Change, Erase, Write, erase
from snowmelt.protocols.fifo.desk import NOW, Desk
from snowmelt.protocols.fifo.messages import (
    Behind,
    Fence,
    Fenced,
    Mirror,
    Mirrored,
    Pairs,
    Snapshot,
    Superseded,
)


class KeptCopy(msgspec.Struct, frozen=True, array_like=True):
    """The record of a copy as a whole."""

    term: int
    step: int
    fence: int


class Copy(msgspec.Struct):
    """One queue's journal, as records that nobody here has read."""

    term: int = 0
    step: int = 0
    fence: int = 0
    sound: bool = True
    unbroken: bool = True
    """Whether nothing that lingered can have been lost from it: it was not read from the disk."""
    values: dict[bytes, bytes] = {}

    @property
    def pairs(self) -> Pairs:
        """All records."""
        return tuple(sorted(self.values.items()))


def copy_change(queue: str, term: int, step: int, fence: int) -> Change:
    """Writes down how far the copy of a journal is."""
    return Write(b"m" + queue.encode(), msgspec.msgpack.encode(KeptCopy(term, step, fence)))


def record_changes(queue: str, pairs: Pairs) -> list[Change]:
    """Writes a step's records."""
    prefix = _prefix(queue)
    return [
        erase(prefix + key) if value is None else Write(prefix + key, value) for key, value in pairs
    ]


def whole_changes(queue: str, pairs: Pairs) -> list[Change]:
    """Writes all records in the place of what was there."""
    everything = Erase(_prefix(queue), b"j" + queue.encode() + b"\1")
    return [everything, *record_changes(queue, pairs)]


class Mirrors:
    """The copies on this node."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._copies: dict[str, Copy] = {}

    @property
    def queues(self) -> list[str]:
        """Whose journals are here."""
        return list(self._copies)

    def begin(self, started: Started) -> None:
        """From the disk."""
        for record in started.records:
            kind, rest = record.key[:1], record.key[1:]
            if kind == b"m":
                copy = self._of(rest.decode())
                kept = msgspec.msgpack.decode(record.value, type=KeptCopy)
                copy.term, copy.step, copy.fence = kept.term, kept.step, kept.fence
                copy.unbroken = False
            elif kind == b"j":
                queue, _, key = rest.partition(b"\0")
                self._of(queue.decode()).values[key] = record.value
        for hurt in started.damaged:
            if hurt[:1] in (b"m", b"j"):
                self._of(hurt[1:].partition(b"\0")[0].decode()).sound = False

    def _of(self, queue: str) -> Copy:
        if queue not in self._copies:
            self._copies[queue] = Copy(values={})
        return self._copies[queue]

    def fence(self, source: NodeId, message: Fence) -> None:
        """A new master asks what is here, and that no older one be listened to (rule 1)."""
        queue, copy = message.queue, self._of(message.queue)
        if message.term < copy.fence:
            self._desk.send(source, Superseded(queue, copy.fence))
            return
        copy.fence = message.term
        answer = Fenced(
            queue,
            message.term,
            self._desk.keeper,
            copy.term,
            copy.step,
            copy.sound,
            copy.pairs,
            copy.unbroken,
        )
        change = copy_change(queue, copy.term, copy.step, copy.fence)
        self._desk.write((change,), partial(self._desk.send, source, answer))

    def mirror(self, source: NodeId, message: Mirror) -> None:
        """The next step, perhaps (rule 2)."""
        queue, copy = message.queue, self._of(message.queue)
        if message.term < copy.fence:
            self._desk.send(source, Superseded(queue, copy.fence))
        elif message.term != copy.term or message.step > copy.step + 1:
            self._desk.send(source, Behind(queue, message.term, self._desk.keeper))
        elif message.step == copy.step + 1:
            copy.step = message.step
            copy.unbroken = True  # it lacked nothing
            for key, value in message.pairs:
                if value is None:
                    copy.values.pop(key, None)
                else:
                    copy.values[key] = value
            self._write(source, queue, copy, record_changes(queue, message.pairs), message.linger)
        else:
            self._write(source, queue, copy, [], NOW)

    def snapshot(self, source: NodeId, message: Snapshot) -> None:
        """The whole journal (rule 2)."""
        queue, copy = message.queue, self._of(message.queue)
        if message.term < copy.fence:
            self._desk.send(source, Superseded(queue, copy.fence))
            return
        if (message.term, message.step) < (copy.term, copy.step):  # it was overtaken on its way
            self._write(source, queue, copy, [], NOW)
            return
        copy.term, copy.step, copy.fence = message.term, message.step, message.term
        copy.values = {key: value for key, value in message.pairs if value is not None}
        copy.sound = copy.unbroken = True
        self._write(source, queue, copy, whole_changes(queue, message.pairs), NOW)

    def take_over(self, queue: str, term: int, step: int, pairs: Pairs) -> None:
        """This node is the master of a new term; its copy is what the master began with."""
        copy = self._of(queue)
        copy.term, copy.step, copy.fence, copy.sound = term, step, term, True
        copy.unbroken = True
        copy.values = {key: value for key, value in pairs if value is not None}

    def _write(
        self, source: NodeId, queue: str, copy: Copy, changes: list[Change], linger: Duration
    ) -> None:
        how_far = copy_change(queue, copy.term, copy.step, copy.fence)
        answer = Mirrored(queue, copy.term, copy.step, self._desk.keeper)
        said = partial(self._desk.send, source, answer)
        self._desk.write((*changes, how_far), said, linger=linger)


def _prefix(queue: str) -> bytes:
    return b"j" + queue.encode() + b"\0"
