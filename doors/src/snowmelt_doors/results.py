"""Results of tasks, kept in the cluster for a while and found by their keys.

Rules:

1. A table of results is a priority queue that nobody gets from. A result's priority is the first
   63 bits of its key's hash, and the latest one of a priority is what `last` shows, in one call.
   The key itself stands in a header, so that of two keys of one hash the older one is missing, and
   never mistaken: with a million results that has a chance of one in ten million.
2. `forget` stores that there is no result.
3. Time has windows, as long as the retention, and each has a queue: NAME.RETENTION.NUMBER. The
   latest one that has a key counts. A result can be found for the retention, or the shorter time
   that it was stored with. Windows that ended two retentions ago are deleted by whoever stores the
   first result in a new one.
4. Clocks may differ by a tenth of the retention, and by a minute at most.
5. A window that is over and was never made is not asked for again.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final

from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.leases.steps import Seen
from snowmelt.core.errors import BadOption, CallerError, NoSuchQueue, SnowmeltError

DAY: Final = 86_400
RETENTION_MAX: Final = 3650 * DAY
NAME_MAX: Final = 70
_SKEW: Final = 60.0


def place_of(key: str) -> int:
    """The priority of a key.

    >>> 0 <= place_of("a") < 1 << 63, place_of("a") == place_of("a"), place_of("a") == place_of("b")
    (True, True, False)
    """
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) >> 1


class Windows:
    """The windows of one table, and what is asked of them; the same for both faces."""

    def __init__(self, name: object, retention: object) -> None:
        if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX:
            raise BadOption("name", name, f"1 to {NAME_MAX} letters, as a queue's name has them")
        if type(retention) is not int or not 10 <= retention <= RETENTION_MAX:
            raise BadOption(
                "retention", retention, f"10 to {RETENTION_MAX} seconds, a whole number"
            )
        self.retention: Final = retention
        self._prefix = f"{name}.{retention}."
        self._swept = -1
        self._missing = ""
        """The window before this one, where it was never made."""

    def now(self) -> str:
        """The window of what is stored now."""
        return self._named(self._number())

    def found_in(self) -> list[str]:
        """Where a result may be that can be found still, the latest first."""
        number, skew = self._number(), min(_SKEW, self.retention / 10)
        into = time.time() % self.retention
        ahead = [number + 1] if into > self.retention - skew else []
        behind = [number - 2] if into < skew else []
        names = [self._named(one) for one in (*ahead, number, number - 1, *behind)]
        return [one for one in names if one != self._missing]

    def missing(self, name: str) -> None:
        """There is no such window; one that is over for longer than clocks differ stays away."""
        late = time.time() % self.retention > min(_SKEW, self.retention / 10)
        if late and name == self._named(self._number() - 1):
            self._missing = name

    def is_new(self) -> bool:
        """Whether this process stores the first time in this window."""
        number = self._number()
        new, self._swept = self._swept != number, number
        return new

    def over(self, names: list[str]) -> Iterator[str]:
        """Those of these queues that are windows of this table, and can go."""
        for name in names:
            number = name.removeprefix(self._prefix)
            if number != name and number.isdigit() and int(number) < self._number() - 2:
                yield name

    def headers(self, key: str, ttl: float | None, *, gone: bool = False) -> dict[str, str]:
        """What stands beside a result."""
        if ttl is not None and not 0 < ttl <= self.retention:
            raise BadOption("ttl", ttl, f"up to {self.retention} seconds, the table's retention")
        until = time.time() + (self.retention if ttl is None else ttl)
        return {"key": key, "until": f"{until:.3f}"} | ({"gone": "1"} if gone else {})

    def result(self, key: str, seen: Seen) -> bytes | None:
        """The result of a key, of what stands where it would be."""
        fresh = seen.headers.get("key") == key and time.time() < float(seen.headers["until"])
        return seen.body if fresh and "gone" not in seen.headers else None

    def _number(self) -> int:
        return int(time.time() // self.retention)

    def _named(self, number: int) -> str:
        return f"{self._prefix}{number}"


class ResultTable:
    """A table of results, blocking.

    >>> import snowmelt, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, snowmelt.open(folder) as cluster:
    ...     results = ResultTable(cluster, "results", retention=3600)
    ...     results.store("job-1", b"running")
    ...     results.store("job-1", b"done")
    ...     results.find("job-1"), results.find("job-2")
    ...     results.forget("job-1")
    ...     results.find("job-1")
    (b'done', None)
    """

    def __init__(
        self, cluster: Any, name: str, retention: int = DAY, timeout: float = TIMEOUT
    ) -> None:
        self.windows = Windows(name, retention)
        self._cluster = cluster
        self._timeout = timeout

    def store(self, key: str, body: bytes, ttl: float | None = None) -> None:
        """Keeps a result safely, for the retention or a shorter time."""
        self._put(key, body, self.windows.headers(key, ttl))

    def forget(self, key: str) -> None:
        """A result is not found any more."""
        self._put(key, b"", self.windows.headers(key, None, gone=True))

    def find(self, key: str) -> bytes | None:
        """The latest result of a key, while it is kept."""
        for window in self.windows.found_in():
            table = self._cluster.priority(window)
            try:
                seen = table.last(place_of(key), timeout=self._timeout)
            except NoSuchQueue:
                self.windows.missing(window)
                continue
            if seen is not None:
                return self.windows.result(key, seen)
        return None

    def sweep(self) -> None:
        """Deletes windows that are over."""
        with suppress(CallerError):  # without the right to delete, another program does it
            for name in self.windows.over(self._cluster.queues(kind="priority")):
                self._cluster.delete(name)

    def _put(self, key: str, body: bytes, headers: dict[str, str]) -> None:
        queue = self._cluster.priority(self.windows.now())
        queue.put(body, priority=place_of(key), headers=headers, timeout=self._timeout)
        if self.windows.is_new():
            with suppress(SnowmeltError):  # what was to be stored is stored
                self.sweep()


class AsyncResultTable:
    """The same with `await`."""

    def __init__(
        self, cluster: Any, name: str, retention: int = DAY, timeout: float = TIMEOUT
    ) -> None:
        self.windows = Windows(name, retention)
        self._cluster = cluster
        self._timeout = timeout

    async def store(self, key: str, body: bytes, ttl: float | None = None) -> None:
        """Keeps a result safely, for the retention or a shorter time."""
        await self._put(key, body, self.windows.headers(key, ttl))

    async def forget(self, key: str) -> None:
        """A result is not found any more."""
        await self._put(key, b"", self.windows.headers(key, None, gone=True))

    async def find(self, key: str) -> bytes | None:
        """The latest result of a key, while it is kept."""
        for window in self.windows.found_in():
            table = self._cluster.priority(window)
            try:
                seen = await table.last(place_of(key), timeout=self._timeout)
            except NoSuchQueue:
                self.windows.missing(window)
                continue
            if seen is not None:
                return self.windows.result(key, seen)
        return None

    async def sweep(self) -> None:
        """Deletes windows that are over."""
        with suppress(CallerError):  # without the right to delete, another program does it
            for name in self.windows.over(await self._cluster.queues(kind="priority")):
                await self._cluster.delete(name)

    async def _put(self, key: str, body: bytes, headers: dict[str, str]) -> None:
        queue = self._cluster.priority(self.windows.now())
        await queue.put(body, priority=place_of(key), headers=headers, timeout=self._timeout)
        if self.windows.is_new():
            with suppress(SnowmeltError):  # what was to be stored is stored
                await self.sweep()
