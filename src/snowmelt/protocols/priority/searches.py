"""A door's ranks: what gets were given, until it is known where it is (`seap`, rule 10)."""

from snowmelt.core.interval import Interval
from snowmelt.core.names import OperationId
from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.ends import Ends
from snowmelt.protocols.priority.gets import Gets
from snowmelt.protocols.priority.hand import GetInHand, Hand
from snowmelt.protocols.priority.settings import How

Ranks = tuple[OperationId | None, Interval]
"""Of which get; of none when nobody wants them any more."""


class Searches:
    """Of one queue, at one door."""

    def __init__(self, hand: Hand, gets: Gets, ends: Ends) -> None:
        self._hand = hand
        self._gets = gets
        self._ends = ends
        self.ranks: list[Ranks] = []
        """To be found out."""

    def begin(self, one: GetInHand, ranks: Shares, token: int) -> None:
        one.token, one.waits, one.granted = token, 1, ()
        self.ranks.append((one.operation, ranks[0].intervals[0]))

    def unwanted(self, ranks: Shares) -> None:
        self.ranks.extend((None, one) for share in ranks for one in share.intervals)

    def taken(self) -> list[Ranks]:
        ranks, self.ranks = self.ranks, []
        return ranks

    def found(self, operation: OperationId | None, shares: Shares) -> None:
        """Where the elements are; for a get, if it is in hand still."""
        one = self._hand.all.get(operation) if operation is not None else None
        if isinstance(one, GetInHand) and one.fresh and one.token and not one.granted:
            one.waits = 0
            self._gets.take(one, shares, one.token, self._hand.at())
        else:
            self._ends.say(sorted(self._hand.at().by_home(shares).items()), How.UNWANTED)
