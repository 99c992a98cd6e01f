"""Until when a node is current: rule 8 of the package, and rule 25 of `leader_role.py`."""

from enum import Enum
from typing import Final

from snowmelt.core.instant import START, Duration, Instant, later

WORDS_KEPT: Final = 32


class Whose(Enum):
    """Whose acceptances count.

    another's --this node decides--> its own --it does no more--> nobody's yet --another is known to
    have led since--> another's. Where a disk decides it is the first, for the one who does, too.
    """

    ANOTHERS = "another's"
    OWN = "its own"
    NOBODYS = "nobody's yet"


class MembershipLease:
    """The words that a node said, which of them were accepted, and how long that counts.

    >>> current = MembershipLease(Duration(9))
    >>> number = current.said(Instant(1))
    >>> current.counts(number, epoch=6, own=False), current.accepted(number, Instant(2), own=False)
    (True, True)
    >>> current.end
    10
    >>> current.decides(Instant(5), epoch=7), current.end
    (None, 5)
    >>> current.decides_no_more()
    >>> number = current.said(Instant(6))
    >>> [current.counts(number, epoch, own=False) for epoch in (6, 7, 8)]
    [False, False, True]
    >>> current.accepted(number, Instant(7), own=False), current.end
    (True, 15)
    """

    def __init__(self, lease: Duration) -> None:
        self.newest = 0
        """The newest of the words that was accepted."""
        self._lease = lease
        self._number = 0
        self._sent: dict[int, Instant] = {}
        """When the words were said that still may count."""
        self._whose = Whose.ANOTHERS
        self._epoch = 0
        self._until: Instant = START
        self._sure: Instant | None = None
        """Until when it is, or was, sure of its own lead; None once another has accepted it."""

    @property
    def end(self) -> Instant:
        return self._until if self._sure is None else min(self._until, self._sure)

    def said(self, now: Instant) -> int:
        """The number of a word that is sent now."""
        self._number += 1
        self._sent[self._number] = now
        self._sent.pop(self._number - WORDS_KEPT, None)
        return self._number

    def counts(self, number: int, epoch: int, *, own: bool) -> bool:
        """Whether a word of this number was said, and who accepts it, in this view, may."""
        if self._whose is Whose.NOBODYS and epoch <= self._epoch:
            return False
        return number in self._sent and own == (self._whose is Whose.OWN)

    def accepted(self, number: int, now: Instant, *, own: bool) -> bool:
        """Rule 8: it counts from when the word was sent; says whether it still does."""
        until = later(self._sent[number], self._lease)
        if until <= now:
            return False
        if not own and self._sure is not None:
            self._whose, self._sure, self._until = Whose.ANOTHERS, None, START
        self.newest = max(self.newest, number)
        self._until = max(self._until, until)
        return True

    def none(self) -> None:
        """What was accepted counts no more, nor what will be of words said before."""
        self._until = START
        self._sent.clear()

    def decides(self, until: Instant, epoch: int) -> None:
        """Rule 25: this node leads, with views from this one on, and is sure of it until then."""
        if self._whose is not Whose.OWN:
            self._whose = Whose.OWN
            self._sent.clear()
        self._sure, self._epoch = until, epoch

    def decides_no_more(self) -> None:
        """Rule 25: what it was sure of stays; who accepts it next must have led later.

        Such a one was found in etcd since, or decides on views above those of this node.
        """
        if self._whose is Whose.OWN:
            self._whose = Whose.NOBODYS
            self._sent.clear()

    def finds_who_leads(self) -> None:
        """Rule 25: whoever that is came after this node."""
        if self._whose is Whose.NOBODYS:
            self._whose = Whose.ANOTHERS
            self._sent.clear()
