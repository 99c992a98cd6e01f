"""Schedules of a queue, as steps (`connection.steps`): what is put again and again."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal, TypedDict

import msgspec
from msgspec.structs import replace

from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.steps import delay_of
from snowmelt.client.queue.bodies import as_bytes, packed_headers
from snowmelt.client.queue.options import Key, as_key
from snowmelt.client.queue.timetables import Timetable
from snowmelt.core.batch import Buffer
from snowmelt.core.errors import BadOption, TooLarge
from snowmelt.core.instant import SECOND
from snowmelt.protocols.queue.api.calls import Changed
from snowmelt.protocols.queue.api.schedules import (
    BODY_MAX,
    HEADERS_MAX,
    NEVER,
    ListSchedules,
    Moments,
    Schedule,
    Scheduled,
    ScheduleRow,
    ScheduleRows,
    Unschedule,
    What,
    known_schedule,
)

MISSED: Final = ("once", "skip")


class ScheduleOverview(msgspec.Struct, frozen=True):
    """A schedule of a queue: what it does, when it fires next, and when it did."""

    name: str
    every: str
    zone: str
    """Empty where an interval was said."""
    missed: str
    """What becomes of what is missed: `once`, `skip`."""
    bytes: int
    """Of its body."""
    next: datetime | None
    """None where no such date comes any more."""
    last: datetime | None
    """The moment for which it fired last; None if it never did."""
    fired_at: datetime | None
    """When that was."""
    fired: int
    """How often it fired."""


class ScheduleOptions(TypedDict, total=False):
    """What may be said of a schedule besides."""

    missed: Literal["once", "skip"]
    headers: Mapping[str, str | bytes] | None
    delay: float
    key: Key | None


def what_of(
    body: Buffer,
    table: Timetable,
    missed: str = "once",
    headers: Mapping[str, str | bytes] | None = None,
    delay: float = 0.0,
    key: Key | None = None,
) -> What:
    """What a schedule puts, and when, checked; without its priority."""
    if missed not in MISSED:
        raise BadOption("missed", missed, " or ".join(MISSED))
    own, packed = as_bytes(body), packed_headers(headers)
    for what, some, most in (("a body", own, BODY_MAX), ("headers", packed, HEADERS_MAX)):
        if len(some) > most:
            raise TooLarge(f"{what} of {len(some)} bytes; a schedule has {most} at most")
    times = table.every, table.zone, table.interval, table.cron
    name = b"" if key is None else as_key(key)
    return What(own, *times, missed == "skip", packed, delay_of(delay), name=name)


def schedule(
    steps: FifoSteps, name: str, what: What, priority: float | None, timeout: float
) -> Steps[ScheduleOverview]:
    """Makes it, and the queue if need be; or alters it."""
    wait, name = Wait(timeout), _checked(name)
    items = yield from steps.ranked_one(what.body, priority, wait)
    yield from steps.create(wait.left)
    rank = items.runs[0].priority if items.runs else 0
    what = replace(what, priority=rank, keys=items.keys)
    told: Scheduled = yield from steps.ask_about(Schedule(steps.name, name, what), wait.left)
    size = len(what.body)
    return _told(ScheduleRow(name, what.every, what.zone, what.skip, size, told.moments))


def unschedule(steps: FifoSteps, name: str, timeout: float) -> Steps[bool]:
    """Removes it; whether there was one."""
    ask = Unschedule(steps.name, _checked(name))
    changed: Changed = yield from steps.ask_about(ask, timeout)
    return changed.items > 0


def schedules(steps: FifoSteps, timeout: float) -> Steps[list[ScheduleOverview]]:
    """All of them, by name."""
    told: ScheduleRows = yield from steps.ask_about(ListSchedules(steps.name), timeout)
    return [_told(row) for row in told.rows]


def _checked(name: object) -> str:
    if isinstance(name, str) and known_schedule(name):
        return name
    raise BadOption("schedule", name, "1 to 64 of A-Z a-z 0-9 . _ -")


def _told(row: ScheduleRow) -> ScheduleOverview:
    moments: Moments = row.moments
    return ScheduleOverview(
        row.name,
        row.every,
        row.zone,
        MISSED[row.skip],
        row.bytes,
        _moment(moments.next),
        _moment(moments.last),
        _moment(moments.fired_at),
        moments.fired,
    )


def _moment(at: int) -> datetime | None:
    return datetime.fromtimestamp(at / SECOND, UTC) if 0 < at < NEVER else None
