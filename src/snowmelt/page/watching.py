"""A node looks at its cluster: once a minute, and every few seconds while somebody has a page open.

Looks cost the more, the more queues there are, and so they are the more seldom. What is seen is
encoded once for all who look; each of them is sent the newest, and none has anything waiting.

What came in and went out of each queue, minute by minute, for the last hour.

A queue takes 480 bytes of counts, however much happens, and as many queues have their hour as a
cluster may have. One that is not there any more loses it.
"""

import asyncio
import logging
from array import array
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import suppress
from heapq import nlargest
from time import monotonic, time
from typing import Any, Final, TypeAlias

import msgspec

from snowmelt.client.connection.steps import run_async
from snowmelt.client.queue.overviews import overview
from snowmelt.client.queue.rows import QueueRow, queue_row
from snowmelt.core.errors import AccessDenied, SnowmeltError
from snowmelt.core.users import Right, fits
from snowmelt.page.looking import (
    FIELDS,
    LETTERS_MAX,
    ROWS_MAX,
    ClusterTables,
    ItemDetail,
    PresentNodes,
    QueueDetail,
    WorkerRow,
    around,
    one_item,
    one_queue,
    row,
    workers_of,
)
from snowmelt.page.port import NodePort
from snowmelt.protocols.queue.api.partition_names import whole_of
from snowmelt.protocols.queue.api.statuses import QueueStatus
from snowmelt.runtime.http.pages import SiteContext
from snowmelt.runtime.logs import tell

MINUTES: Final = 60
QUEUES_MAX: Final = 10_000
UNKNOWN: Final = -1
MOST: Final = 2**31 - 1
EVERY: Final = 2.0
"""Seconds between updates."""
SOON: Final = 0.5
"""So long after the last look the first who has a page open may have another."""
QUEUES_A_SECOND: Final = 100
"""So many queues are looked at in a second, at most: 1,000 every 10 seconds."""
MINUTE: Final = 60.0
LOOK_SECONDS: Final = 5.0
BEAT: Final = 15.0
"""So long a stream is silent at most."""
LISTENERS_MAX: Final = 8
WORKERS_OF: Final = 50
"""So many queues are asked who uses them."""
Sees: TypeAlias = tuple[str, ...] | None
"""Patterns of the names that somebody may see; None for all."""


class QueueTotals(msgspec.Struct, frozen=True, array_like=True):
    """How many items ever came into a queue, and were given out."""

    queue: str
    put: int
    delivered: int


class QueueHour(msgspec.Struct, frozen=True, array_like=True):
    """Of one queue, the oldest minute first; `UNKNOWN` of one in which it was not looked at."""

    queue: str
    came: list[int]
    went: list[int]


class _Ring:
    __slots__ = ("came", "last", "went")

    def __init__(self) -> None:
        self.came = array("i", [UNKNOWN] * MINUTES)
        self.went = array("i", [UNKNOWN] * MINUTES)
        self.last: QueueTotals | None = None


class History:
    """Of all queues.

    >>> history = History()
    >>> for put in (10, 15, 75):
    ...     history.add([QueueTotals("orders", put, put)])
    >>> one, = history.hours(last=3)
    >>> one.came, history.minute
    ([-1, 5, 60], 3)
    """

    def __init__(self) -> None:
        self.minute = 0
        """The number of the last minute that was added; they count from 1."""
        self._rings: dict[str, _Ring] = {}

    def add(self, counted: Iterable[QueueTotals]) -> None:
        """A minute is over; so many there are by now. A queue that is not named is gone."""
        rings: dict[str, _Ring] = {}
        self.minute += 1
        at = self.minute % MINUTES
        for one in counted:
            if len(rings) == QUEUES_MAX:
                break
            ring = rings[one.queue] = self._rings.get(one.queue) or _Ring()
            ring.came[at], ring.went[at] = _between(ring.last, one)
            ring.last = one
        self._rings = rings

    def miss(self) -> None:
        """A minute is over, and nobody could be asked."""
        self.minute += 1
        at = self.minute % MINUTES
        for ring in self._rings.values():
            ring.came[at] = ring.went[at] = UNKNOWN
            ring.last = None

    def hours(self, last: int = MINUTES) -> Iterator[QueueHour]:
        """Of each queue the last minutes."""
        places = [(self.minute + one + 1) % MINUTES for one in range(MINUTES - last, MINUTES)]
        for name, ring in self._rings.items():
            came, went = ring.came, ring.went
            yield QueueHour(name, [came[at] for at in places], [went[at] for at in places])


def _between(before: QueueTotals | None, now: QueueTotals) -> tuple[int, int]:
    """What came and went; another queue of the name, or one that lost some, has none yet."""
    if before is None or now.put < before.put or now.delivered < before.delivered:
        return UNKNOWN, UNKNOWN
    return min(now.put - before.put, MOST), min(now.delivered - before.delivered, MOST)


def _anybody() -> Sees:
    return None


def _log_a_bug(task: asyncio.Task[None]) -> None:
    """What a look can meet is a trouble of the page; all else is ours, and ends the looks."""
    if not task.cancelled() and (error := task.exception()) is not None:
        tell("the page shows nothing any more", logging.ERROR, error)


class PageWatcher:
    """Looks at the cluster for all browsers of one node."""

    def __init__(self, inside: SiteContext, port: NodePort | None = None) -> None:
        self.history = History()
        self.listeners = 0
        self.looks = 0
        """How often it looked."""
        self.port = port or NodePort(inside)
        self._present = PresentNodes(inside.node)
        self._around = ClusterTables(inside.node, "not asked yet")
        self._lines: list[QueueRow] = []
        self._known: dict[str, QueueStatus] = {}
        self._trouble = ""
        self._looked = -MINUTE
        self._wanted = asyncio.Event()
        self._changed: asyncio.Future[None] | None = None
        self._encoded: tuple[int, bytes] = (0, b"")
        self._hour: tuple[int, bytes] = (0, b"")
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Starts the task that looks."""
        self._task = asyncio.get_running_loop().create_task(self._watch())
        self._task.add_done_callback(_log_a_bug)

    async def close(self) -> None:
        """Ends the task, and waits for its end."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self.port.close()

    @property
    def every(self) -> float:
        """Seconds between looks while somebody has a page open."""
        return max(EVERY, len(self._lines) / QUEUES_A_SECOND)

    async def queue(self, name: str, may: tuple[Right, ...]) -> QueueDetail:
        """All that the page shows of a queue to who has these rights."""
        known = self._known.get(name)
        partitions = 1 if known is None else known.settings.partitions
        return await run_async(self.port, one_queue(name, partitions, may))

    async def item(
        self, name: str, position: int, priority: float | None, *, names: bool
    ) -> ItemDetail:
        """One item of a queue, or of a partition, and its life; perhaps not who had it."""
        known = self._known.get(whole_of(name))
        ranked = known is not None and known.settings.priorities != 1
        told = one_item(name, position, priority, ranked=ranked, names=names)
        return await run_async(self.port, told)

    async def workers(self) -> list[WorkerRow]:
        """Who has items, or waits: of so many queues, those with most of that."""

        def used(one: QueueStatus) -> int:
            return one.leased + one.waiting_gets + one.waiting_puts

        busy = [one for one in self._known.items() if used(one[1])]
        most = nlargest(WORKERS_OF, busy, key=lambda one: used(one[1]))
        ranked = {name: one.settings.priorities != 1 for name, one in most}
        return await run_async(self.port, workers_of(ranked))

    def soon(self) -> None:
        """Something was done: whoever looks is to see it."""
        self._wanted.set()

    # --- what one listener is sent ----------------------------------------------------------------

    async def events(self, who: Callable[[], Sees] = _anybody) -> AsyncGenerator[bytes]:
        """Pieces of a stream: the newest state and history, whenever they have changed.

        Only of queues, batons and pools that `who` may see then; it raises `AccessDenied` when
        they may see nothing any more.
        """
        if self.listeners >= LISTENERS_MAX:  # several came in one moment
            return
        self.listeners += 1
        looks = minute = 0
        if self.listeners == 1:  # what was seen before anybody looked is old, and not all
            looks = self.looks
            self._wanted.set()
        try:
            yield b"retry: 3000\n\n"
            while not (self._task is None or self._task.done()):
                try:
                    sees, piece = who(), b""
                except AccessDenied:
                    return
                if self.looks != looks:
                    looks, piece = self.looks, self._state(sees)
                if self.history.minute != minute:
                    piece += self._minutes(minute, sees)
                    minute = self.history.minute
                if not piece and not await self._change():
                    piece = b": nothing is new\n\n"
                if piece:
                    yield piece
        finally:
            self.listeners -= 1

    async def _change(self) -> bool:
        """Waits for something new; False if nothing came for a while."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        assert self._task is not None
        done, _ = await asyncio.wait(
            (self._changed, self._task), timeout=BEAT, return_when=asyncio.FIRST_COMPLETED
        )
        return bool(done)

    def _state(self, sees: Sees) -> bytes:
        if sees is not None or self._encoded[0] != self.looks:
            around, lines = self._around, self._lines
            told = msgspec.structs.asdict(around) | {
                "batons": [one for one in around.batons if _shows(one.name, sees)],
                "pools": [one for one in around.pools if _shows(one.name, sees)],
                "at": round(time(), 1),
                "every": self.every,
                "trouble": self._trouble[:LETTERS_MAX],
                "fields": FIELDS,
                "queues": [row(one) for one in lines[:ROWS_MAX] if _shows(one.queue, sees)],
            }
            encoded = event("state", told)
            if sees is not None:
                return encoded
            self._encoded = self.looks, encoded
        return self._encoded[1]

    def _minutes(self, known: int, sees: Sees) -> bytes:
        """One more minute than was known, or all of the hour."""
        minute = self.history.minute
        one = known and known == minute - 1
        if not one and sees is None and self._hour[0] == minute:
            return self._hour[1]
        hours = [
            each
            for each in self.history.hours(1 if one else MINUTES)
            if (max(each.came) > 0 or max(each.went) > 0) and _shows(each.queue, sees)
        ]
        told = event("minute" if one else "hour", {"minute": minute, "hours": hours})
        if not one and sees is None:
            self._hour = minute, told
        return told

    # --- looks ------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        minute = monotonic() + EVERY
        while True:
            left = minute - monotonic()
            if self._wanted.is_set():
                left = self._looked + SOON - monotonic()
            elif self.listeners:
                left = min(left, self._looked + self.every - monotonic())
            if left > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await (
                            asyncio.sleep(left) if self._wanted.is_set() else self._wanted.wait()
                        )
                continue
            self._wanted.clear()
            seen = await self.look()
            if monotonic() >= minute:
                minute = max(minute + MINUTE, monotonic())
                self._add_minute(seen)
            self._tell()

    async def look(self) -> bool:
        """Looks once; whether anybody answered."""
        before, self._looked = self._looked, monotonic()
        try:
            found = await run_async(self.port, overview(self._present.ask, LOOK_SECONDS))
            self.port.is_mine(self._present.mine)
            if self.listeners:
                self._around = await run_async(self.port, around(self._present, LOOK_SECONDS))
        except SnowmeltError as error:
            self._trouble = str(error)
            self.looks += 1
            return False
        self._trouble = ""
        passed = self._looked - before
        self._lines = [queue_row(one, self._known.get(one.name), passed) for one in found]
        self._known = {one.name: one.status for one in found if one.status is not None}
        self.looks += 1
        return True

    def _add_minute(self, seen: bool) -> None:
        if seen:
            known = self._known.items()
            self.history.add([QueueTotals(name, one.put, one.delivered) for name, one in known])
        else:
            self.history.miss()

    def _tell(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set_result(None)


def _shows(name: str, sees: Sees) -> bool:
    return sees is None or fits(name, sees)


def event(name: str, told: Any) -> bytes:
    r"""As a browser's EventSource reads it.

    >>> event("state", {"queue": "a\nb"})
    b'event: state\ndata: {"queue":"a\\nb"}\n\n'
    """
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(told))
