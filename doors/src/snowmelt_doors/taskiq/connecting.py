"""The cluster of a broker or a result backend: opened when it is first used, on that event loop."""

import os
from typing import Any

import snowmelt.aio
from snowmelt.core.errors import BadOption


class Connecting:
    """A cluster by its URL, or the folder of a path."""

    def __init__(
        self, where: str | os.PathLike[str], token: str | None = None, user: str | None = None
    ) -> None:
        if not os.fspath(where):
            raise BadOption("where", where, "snowmelt://HOST:PORT, or the path of a folder")
        self._where = where
        self._token = token
        self._user = user
        self._open: Any = None

    @property
    def cluster(self) -> Any:
        """Open, or opened now."""
        if self._open is None:
            where = os.fspath(self._where)
            if where.startswith("snowmelt://"):
                self._open = snowmelt.aio.connect(where, token=self._token, user=self._user)
            else:
                self._open = snowmelt.aio.open(where)
        return self._open

    async def close(self) -> None:
        """Disconnects, or gives the folder back."""
        before, self._open = self._open, None
        if before is not None:
            await before.close()
