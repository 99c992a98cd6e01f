# Made of object_source_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""A pool's objects for a worker, as `leases.item_source` has a queue's items (rule 9)."""

from typing import Final

from snowmelt.client.pool.face import Pool
from snowmelt.client.pool.objects import Object
from snowmelt.core.errors import Empty


class ObjectSource:
    """A pool's objects, one by one; nothing is asked for ahead."""

    empty: Final = True
    """As an intake of a queue has it: here everybody asks for himself."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def next(self, timeout: float) -> Object | None:
        """The next object; None when none was found in the time."""
        try:
            return self._pool.get(timeout=timeout)
        except Empty:
            return None
