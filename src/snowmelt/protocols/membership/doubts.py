"""What a member was told of how sure a view is: rule 27 of the package."""

from snowmelt.core.instant import START, Instant
from snowmelt.core.node import Announce, Effect
from snowmelt.protocols.membership.view import Unsure, View


class Doubts:
    """Until when the newest view is unsure, and what was announced of that.

    >>> doubts = Doubts()
    >>> doubts.told(7, Instant(50)); doubts.told(7, Instant(40)); doubts.told(6, Instant(90))
    >>> view = View(1, 7, "n1", ())
    >>> doubts.announced(view, Instant(39))[0]
    Announce(fact=Unsure(until=40))
    >>> len(doubts.announced(view, Instant(40)))
    1
    """

    def __init__(self) -> None:
        self._epoch = 0
        self._until: Instant = START
        self._announced: Instant = START

    def told(self, epoch: int, until: Instant) -> None:
        """Of what is told of a view more than once, what ends first is true."""
        if epoch > self._epoch:
            self._epoch, self._until = epoch, until
        elif epoch == self._epoch:
            self._until = min(self._until, until)

    def announced(self, view: View, now: Instant) -> list[Effect[object]]:
        """A view, and before it until when it is unsure; or that it is sure, when one was not."""
        until = self._until if self._epoch >= view.epoch else START
        if max(until, self._announced) <= now:
            return [Announce(view)]
        self._announced = until
        return [Announce(Unsure(until)), Announce(view)]
