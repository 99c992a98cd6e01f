"""When a schedule fires, as a person says it, turned into numbers that a node reckons with.

The expression is read by cronsim, which has the rules of Debian's cron and nothing that it needs.
(croniter was given up in 2025, and its new keepers have other rules for summer time.)
"""

import re
import time
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Duration, seconds
from snowmelt.protocols.queue.api.cron import (
    AGAIN_AFTER,
    CHANGES_MAX,
    DAY,
    LAST_DAY,
    LAST_WEEK,
    LAST_WORKDAY,
    Cron,
    Zone,
)  # fmt: skip
from snowmelt.protocols.queue.api.schedules import EVERY_LONGEST, EVERY_SHORTEST

ALLOWED: Final = (
    'five fields of cron ("0 7 * * 1-5"), "@daily", or a time ("30s", "5m", "2h", "1d")'
)
_TIME: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([smhd])")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": DAY}
_NAMED: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}


class Timetable(msgspec.Struct, frozen=True):
    """What was said, and when that is."""

    every: str
    zone: str = ""
    interval: Duration = Duration(0)
    cron: Cron | None = None


def timetable(every: object, zone: str = "UTC") -> Timetable:
    """Checks it; raises `BadOption`.

    >>> timetable("90s").interval, timetable(0.5 * 3600).every
    (90000000000, '1800s')
    >>> timetable("every day")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: every is 'every day'; allowed: five fields of cron...
    """
    if type(every) in (int, float):
        every = f"{every:.9g}s"
    if not isinstance(every, str) or len(every) > 100:
        raise BadOption("every", every, ALLOWED)
    found = _TIME.fullmatch(every.strip())
    if found is None:
        return Timetable(every, zone, cron=_cron(every, _zone(zone)))
    each = float(found[1]) * _UNITS[found[2]]
    if not EVERY_SHORTEST <= each * 10**9 <= EVERY_LONGEST:
        raise BadOption("every", every, "1 second to 3650 days")
    return Timetable(every, interval=seconds(each))


def _cron(every: str, zone: Zone) -> Cron:
    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415  # intervals do without
    except ImportError:
        way_out = 'a time as "30s"; or install what reads cron: pip install snowmelt[cron]'
        raise BadOption("every", every, way_out) from None
    text = _NAMED.get(every.strip().lower(), every)
    fields = text.split()
    if len(fields) != 5:  # it would take seconds, too
        raise BadOption("every", every, ALLOWED)
    try:
        read = CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise BadOption("every", every, f"{ALLOWED}: {error}") from None
    days = {CronSim.LAST: LAST_DAY, CronSim.LAST_WEEKDAY: LAST_WORKDAY}
    cron = Cron(
        _bits(read.minutes),
        _bits(read.hours),
        _bits({days.get(one, one) for one in read.days}),
        _bits(read.months),
        _bits({_weekday(one, CronSim.LAST) for one in read.weekdays}),
        read.day_and,
        fields[0].startswith("*") or fields[1].startswith("*"),
        zone,
    )
    if cron.after(zone.since) is None:
        raise BadOption("every", every, f"{ALLOWED}, for a date that comes")
    return cron


def _weekday(one: int | tuple[int, int], last: int) -> int:
    """A day of the week, or of one week in a month, as `Cron` counts them."""
    day, week = one if isinstance(one, tuple) else (one, 0)
    return day % 7 + 7 * (LAST_WEEK if week == last else week)


def _bits(numbers: set[int]) -> int:
    return sum([1 << one for one in numbers])


def _zone(name: str) -> Zone:
    """Of the time zone, from this year on, what its changes are; raises `BadOption`."""
    try:
        info = ZoneInfo(name)
    except (KeyError, ValueError, TypeError, OSError):
        allowed = 'a name of the IANA database, as "Europe/Berlin" (pip install tzdata brings it)'
        raise BadOption("zone", name, allowed) from None
    since = int(datetime(time.gmtime().tm_year, 1, 1, tzinfo=UTC).timestamp())
    starts, offsets = [0], [_offset(info, since)]
    for day in range(DAY, AGAIN_AFTER, DAY):
        if (offset := _offset(info, since + day)) != offsets[-1]:
            starts.append(_change(info, since, day - DAY, day))
            offsets.append(offset)
    if len(starts) > CHANGES_MAX:
        raise BadOption("zone", name, f"one with at most {CHANGES_MAX} changes in 28 years")
    return Zone(since, tuple(starts), tuple(offsets))


def _change(info: ZoneInfo, since: int, low: int, high: int) -> int:
    """When, between two moments, the other offset begins."""
    before = _offset(info, since + low)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(info, since + middle) == before:
            low = middle
        else:
            high = middle
    return high


def _offset(info: ZoneInfo, at: int) -> int:
    offset = datetime.fromtimestamp(at, info).utcoffset()
    assert offset is not None, "a time in a zone has one"
    return round(offset.total_seconds())
