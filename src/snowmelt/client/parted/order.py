"""In which partition a client's next put lies, and which of its puts have no answer yet.

1. A put lies whole in one partition. While none of this client's puts is unanswered it is the next
   in turn; else the same as theirs, since what is put in one partition stands in the order in which
   it was asked.
   What has a key, or a uniqueness key, goes where that lives, whatever else is unanswered.
2. A get of this client does not pass the puts that it asked before: it goes when those were
   answered (`parts.py`).

All handles of one queue share this, so each step here is done by one thread at a time.
"""

import threading
from random import Random


class PutOrder:
    """Of one client and one queue.

    >>> order = PutOrder(Random(1))
    >>> one, first = order.begin(8); two, same = order.begin(8)
    >>> same == first, order.alone(one), order.alone(two), order.before(order.next)
    (True, False, False, 2)
    >>> order.end(one); order.end(two)
    >>> order.begin(8)[1] == (first + 1) % 8, order.before(3)
    (True, 0)
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.forked()

    def forked(self) -> None:
        """A child has asked nothing yet, and the thread that held the lock is not here."""
        self._lock = threading.Lock()
        self.next = 1
        """The number of the next put."""
        self._open: dict[int, None] = {}
        self._part = -1

    def begin(self, partitions: int) -> tuple[int, int]:
        """A put is asked: its number here, and its partition if nothing says another."""
        with self._lock:
            number, self.next = self.next, self.next + 1
            if self._part < 0:  # clients begin anywhere, so that they don't go round together
                self._part = self._chance.randrange(partitions)
            elif not self._open:
                self._part = (self._part + 1) % partitions
            self._open[number] = None
            return number, self._part

    def turn(self, partitions: int) -> int:
        """The next partition, for one that waited for the others."""
        with self._lock:
            self._part = (self._part + 1) % partitions
            return self._part

    def went(self, part: int) -> None:
        """The last one went elsewhere, since there was no room."""
        with self._lock:
            self._part = part

    def end(self, number: int) -> None:
        """It was answered, or is given up."""
        with self._lock:
            self._open.pop(number, None)

    def alone(self, number: int) -> bool:
        """Whether no other of this client is unanswered."""
        with self._lock:
            return len(self._open) == 1 and number in self._open

    def before(self, number: int) -> int:
        """How many of those asked before this one are unanswered."""
        with self._lock:
            return sum(one < number for one in self._open)
