"""How many rows the next micro-batch takes, so that it lasts about as long as its user wishes.

Each batch costs Spark some 0.3 s, whatever is in it; so batches are to be long enough, and short
enough that what comes out does not wait for ever. How long rows take is only known once some have
been done:

1. The first batch is small: so many rows for each core.
2. A batch that was full makes the next one larger or smaller in the proportion of its time to the
   one wished for; at most `GROWTH` times as large, and never less than half as large. As each batch
   costs something whatever is in it, a small one foretells too long a time, not too short a one.
3. A batch that was not full says little of a full one, and changes nothing.
4. A rest of less than half a batch goes along with the batch before it: alone it would cost as much
   as any, and what comes of it would come so much later. What waits is asked just before: since the
   last batch was given, an earlier stage may have put all that it made.
5. The first batch of a run pays for the start of Python and Java as well (three quarters of 16 s,
   measured), and in a pipeline it may wait for the cores that an earlier stage has. So a quarter of
   its time counts as its own, and it makes the next one larger, never smaller.
6. What a run has found out is in the checkpoint, as so many rows for each core: the next run begins
   with it, and not with a small batch. So a function that takes long for each row begins no run
   with a batch that takes minutes, and one that is quick spares a batch.
"""

from typing import Final

ROWS_A_CORE: Final = 10_000
GROWTH: Final = 16
REST: Final = 0.5
OWN: Final = 0.25
"""What of the first batch's time is its own (rule 5)."""


class BatchSize:
    """What the batches of one run took, and what the next may have.

    >>> pace = BatchSize(seconds=5.0, cores=2, most=500_000)
    >>> pace.rows
    20000
    >>> pace.given(20_000, at=50.0)
    >>> pace.over(at=74.0)
    >>> pace.rows
    20000
    >>> pace.given(20_000, at=100.0)
    >>> pace.over(at=100.5)
    >>> pace.rows
    200000
    >>> pace.given(200_000, at=100.5)
    >>> pace.over(at=110.5)
    >>> pace.rows
    100000
    >>> pace.given(100_000, at=110.5)
    >>> pace.over(at=110.6)
    >>> pace.rows
    500000
    >>> pace = BatchSize(seconds=5.0, cores=2, most=500_000)
    >>> [pace.of(waiting) for waiting in (10_000, 30_000, 30_001)]
    [20000, 30000, 20000]
    >>> pace = BatchSize(seconds=5.0, cores=2, most=500_000, a_core=70_000)
    >>> pace.rows, pace.a_core
    (140000, 70000)
    """

    def __init__(self, seconds: float, cores: int, most: int, a_core: int = 0) -> None:
        self._seconds = seconds
        self._most = most
        self._cores = max(1, cores)
        self.rows = min(most, (a_core or ROWS_A_CORE) * self._cores)
        self._given = 0
        self._begun: float | None = None
        self._own, self._least = OWN, 1.0

    @property
    def a_core(self) -> int:
        """How many rows a batch has for each core, at least one (rule 6)."""
        return -(-self.rows // self._cores)

    def of(self, waiting: int) -> int:
        """How many rows the next batch takes at most, when about so many wait (rule 4)."""
        if self.rows < waiting <= self.rows * (1 + REST):
            return min(self._most, waiting)
        return self.rows

    def given(self, rows: int, at: float) -> None:
        """A batch of so many rows begins now; one of none is no batch."""
        self._given = rows
        self._begun = at if rows >= self.rows else None

    def over(self, at: float) -> None:
        """The batch that was begun is over now, if it was a full one."""
        if self._begun is None:
            return
        factor = self._seconds / max((at - self._begun) * self._own, 0.001)
        wanted = int(self._given * min(GROWTH, max(self._least, factor)))
        self.rows = max(1, min(self._most, wanted))
        self._begun, self._own, self._least = None, 1.0, 0.5
