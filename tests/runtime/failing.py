"""An engine whose disk fails when a switch is thrown."""

from typing import Any

import lmdb

from snowmelt.store import Store

FAILED = "input/output error"


class Failing:
    """Does what it is told; with `reads` or `writes` off, that raises."""

    def __init__(self, store: Store) -> None:
        self.reads = self.writes = True
        self._env: Any = store._env
        store._env = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self, *, write: bool = False) -> Any:
        if not (self.writes if write else self.reads):
            raise lmdb.CorruptedError(FAILED)
        return self._env.begin(write=write)
