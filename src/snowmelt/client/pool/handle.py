"""One handle of a process' part in a pool: it may be closed while the part goes on for others."""

from snowmelt.client.pool.open_pools import OpenPool
from snowmelt.core.errors import Closed
from snowmelt.protocols.pool.calls import CLOSED


class PoolPortBase:
    """What both faces ask through."""

    def __init__(self, part: OpenPool) -> None:
        self._engine = part.engine
        self._closed = False

    def close(self) -> None:
        """Nothing is asked through this one any more."""
        self._closed = True

    def check(self) -> None:
        """Raises `Closed` when it is; the engine says itself whether it is."""
        if self._closed:
            raise Closed(CLOSED)
