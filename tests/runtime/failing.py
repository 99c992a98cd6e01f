"""A disk that fails when a switch is thrown."""

import errno
from collections.abc import Sequence
from typing import Any

import lmdb

from snowmelt.store import Store
from snowmelt.store.changes import Group

FAILED = "input/output error"


class Failing:
    """Does what it is told; with `reads` or `writes` off, that raises."""

    def __init__(self, store: Store) -> None:
        self.reads = self.writes = True
        self._env: Any = store._env
        store._env = self  # type: ignore[assignment]
        store._log = FailingLog(self, store._log)  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self, *, write: bool = False) -> Any:
        if not (self.writes if write else self.reads):
            raise lmdb.CorruptedError(FAILED)
        return self._env.begin(write=write)


class FailingLog:
    """The log on the same disk."""

    def __init__(self, disk: Failing, log: Any) -> None:
        self._disk = disk
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, groups: Sequence[Group]) -> bool:
        if not self._disk.writes:
            raise OSError(errno.EIO, FAILED)
        return bool(self._log.append(groups))
