# Made of face_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""Numbers that no two programs of a cluster get; blocking."""

from snowmelt.client.baton.face import Baton
from snowmelt.client.connection.staying import stays
from snowmelt.client.counter.state import checked_numbers, counter_name, take
from snowmelt.core.interval import Interval


class Counter:
    """Gives out numbers that grow, each once. `cluster.counter(name)` gives it.

    No number is ever given out twice, whichever nodes and programs die, as long as the root keeps
    its disk. There may be gaps: what was taken by a program that died, and up to a thousand numbers
    (or as many as were asked for at once, if more) when a node died with the baton.
    """

    __reduce__ = stays("send its name and the URL, and connect there")

    def __init__(self, baton: Baton) -> None:
        self._baton = baton

    def __repr__(self) -> str:
        return f"Counter({counter_name(self._baton.name)!r})"

    def next(self, n: int = 1, *, timeout: float | None = None) -> Interval:
        """The next `n` numbers, which lie in a row; all are larger than any given out before.

        Each call is one turn at a baton, so take many at once if you need many. Raises
        `NotGranted` when no turn came in time. After any error the numbers are nobody's.
        """
        count = checked_numbers(n)
        held = self._baton.acquire(timeout)
        return held.through(lambda hold: take(hold, count))

    def delete(self, timeout: float | None = None) -> None:
        """In a turn of its own it begins at 0 again: numbers that were given out come anew.

        What is kept of the name goes once nobody has used it for some minutes.
        """
        self._baton.delete(timeout)
