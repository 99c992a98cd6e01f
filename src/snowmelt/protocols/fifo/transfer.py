"""A queue's whole journal, on its way to a mirror while it changes.

1. It goes in pieces of some hundred records, each made when the one before was flushed there: so
   no journal is too large, and none holds up its master.
2. Records are sent as they stand when their piece is made. Those that change behind the walk are
   sent once more; those before it are sent when it comes to them.
3. The last piece is made when nothing else is left, and no change waits to be part of a step: so
   what the mirror has with it is just what the last step left.
"""

from collections.abc import Callable

from snowmelt.protocols.fifo.limits import Limits
from snowmelt.protocols.fifo.messages import Pairs, Snapshot
from snowmelt.protocols.fifo.queue import Queue

WALKED = (b"x", b"y", b"z")
"""How the keys begin of runs, and of what is said of their items; a position follows."""

Record = Callable[[Queue, bytes], bytes | None]


class Transfer:
    def __init__(self, number: int, others: list[bytes], limits: Limits) -> None:
        self.number = number
        self.piece = 0
        self.message: Snapshot | None = None
        """The piece that is under way; None when it waits for a whole step."""
        self._others = others
        self._walks = dict.fromkeys(WALKED, 0)
        """Those of a kind from this position on were not sent; all were of a kind that is gone."""
        self._again: dict[bytes, None] = {}
        self._limits = limits

    def changed(self, keys: tuple[bytes, ...]) -> None:
        """These are not any more what they may have been sent as (rule 2)."""
        for key in keys:
            begin = self._walks.get(key[:1])
            if begin is None or position_of(key) < begin:
                self._again[key] = None

    def next(self, queue: Queue, record: Record, *, whole: bool) -> tuple[Pairs, bool]:
        """The next records, and whether they are the last (rule 3)."""
        limits, size = self._limits, 0
        pairs: list[tuple[bytes, bytes | None]] = []
        while len(pairs) < limits.journal_piece_records and size < limits.journal_piece_bytes:
            key = self._next_key(queue)
            if key is None:
                break
            value = record(queue, key)
            pairs.append((key, value))
            size += len(key) + len(value or b"")
        over = not self._others and not self._walks and not self._again
        return tuple(pairs), over and whole

    def _next_key(self, queue: Queue) -> bytes | None:
        if self._others:
            return self._others.pop()
        for kind, begin in list(self._walks.items()):
            start = _following(queue, kind, begin)
            if start is not None:
                self._walks[kind] = start + 1
                return kind + start.to_bytes(8)
            del self._walks[kind]
        if self._again:
            key = next(iter(self._again))
            del self._again[key]
            return key
        return None


def _following(queue: Queue, kind: bytes, begin: int) -> int | None:
    match kind:
        case b"x":
            return queue.runs.following(begin)
        case b"y":
            return queue.failures.following(begin)
        case _:
            return queue.delays.following(begin)


def position_of(key: bytes) -> int:
    return int.from_bytes(key[1:])
