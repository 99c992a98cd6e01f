"""What one client's connection owes the ledger: calls without an answer, answers without a reader.

1. A connection may have `FREE_BYTES` of calls in flight in any case. As it asks for more, its bound
   grows by what the ledger gives, up to the bound of one connection. Where the ledger gives nothing
   it is read from again when some are answered.
2. What it was sent and does not read counts from when it is so much that the connection is held up,
   until it has read it. Nobody can take that back, so it counts in any case; but whoever is beyond
   its share then has a tenth of the time to read on.
3. What is owed goes with the connection.
"""

from typing import Final

from snowmelt.runtime.ledger import Cost, CostLedger, Payer
from snowmelt.runtime.limits import Limits
from snowmelt.wire.connection import Connection

FREE_BYTES: Final = 64 << 10
HURRY: Final = 10


class Owed:
    """Of one connection.

    >>> from snowmelt.core.names import NodeId
    >>> from snowmelt.wire.greeting import Gate, Role
    >>> from snowmelt.wire.sides import Listening
    >>> machine = Connection(Listening(Gate("snow"), NodeId("n1"), Role.NODE, 1 << 20))
    >>> ledger = CostLedger({Cost.CALLS: 1 << 20, Cost.ANSWERS: 1 << 20})
    >>> owed = Owed(ledger, Limits(), machine)
    >>> owed.pays(Payer("host a", "c-1")); machine.in_flight_max
    65536
    >>> machine.in_flight_bytes = 70_000; owed.grow(); machine.in_flight_max
    140000
    >>> machine.in_flight_bytes = 0; owed.shrink(); ledger.used(Cost.CALLS)
    0
    """

    __slots__ = ("_ledger", "_machine", "_most", "_payer", "calls", "unread")

    def __init__(self, ledger: CostLedger, limits: Limits, machine: Connection) -> None:
        self.calls = 0
        """Bytes of calls beyond what is free."""
        self.unread = 0
        self._ledger = ledger
        self._machine = machine
        self._most = limits.in_flight_bytes
        self._payer: Payer | None = None

    def pays(self, payer: Payer) -> None:
        """A client has shown who it is."""
        self._payer = payer
        self._machine.in_flight_max = min(FREE_BYTES, self._most)

    def grow(self) -> None:
        """More is in flight than it has (rule 1)."""
        machine = self._machine
        now, wanted = machine.in_flight_max, min(2 * machine.in_flight_bytes, self._most)
        more = wanted - now
        payer = self._payer
        if payer is not None and more > 0 and self._ledger.take(Cost.CALLS, payer, more):
            self.calls += more
            machine.in_flight_max = wanted

    def shrink(self) -> None:
        """Little is in flight of what it has."""
        machine = self._machine
        if self._payer is not None and machine.in_flight_bytes * 4 < machine.in_flight_max:
            self._ledger.give(Cost.CALLS, self._payer, self.calls)
            machine.in_flight_max -= self.calls
            self.calls = 0

    def unreads(self, size: int) -> bool:
        """So much is not read (rule 2); whether it is within its share."""
        if self._payer is None or self.unread or not size:
            return True
        self.unread = size
        fits = self._ledger.take(Cost.ANSWERS, self._payer, size)
        if not fits:
            self._ledger.charge(Cost.ANSWERS, self._payer, size)
        return fits

    def reads(self) -> None:
        """It reads again."""
        if self._payer is not None and self.unread:
            self._ledger.give(Cost.ANSWERS, self._payer, self.unread)
            self.unread = 0

    def end(self) -> None:
        """The connection is no more (rule 3)."""
        self.reads()
        if self._payer is not None and self.calls:
            self._ledger.give(Cost.CALLS, self._payer, self.calls)
            self.calls = 0
