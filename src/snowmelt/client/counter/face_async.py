"""Numbers that no two programs of a cluster get, with `await`."""

from snowmelt.client.baton.face_async import Baton
from snowmelt.client.connection.staying import stays
from snowmelt.client.counter.steps import take
from snowmelt.client.counter.tally import checked_numbers
from snowmelt.core.interval import Interval


class Counter:
    """Gives out numbers that grow, each once; as `snowmelt.Cluster.counter`'s."""

    __reduce__ = stays("send its name and the URL, and connect there")

    def __init__(self, baton: Baton) -> None:
        self._baton = baton

    async def next(self, n: int = 1, *, timeout: float | None = None) -> Interval:
        """The next `n` numbers, which lie in a row; all are larger than any given out before."""
        count = checked_numbers(n)
        held = await self._baton.acquire(timeout)
        return await held.through(lambda hold: take(hold, count))
