"""When a cron expression fires in a time zone, with integers alone: no clock, no calendar library.

Rules:

1. An expression is sets of numbers, as bits. Where neither days of the month nor of the week begin
   with `*`, one of both must fit; else both (as Vixie's cron has it).
2. A zone is its offsets from UTC, and from when on each holds, for 28 years. Then they begin anew:
   after 28 years the same dates have the same weekdays, until 2100.
3. At *set times* (neither minutes nor hours begin with `*`) each local time fires once. One that
   does not exist, since the clock goes forward, fires at the first moment after. One that stands
   twice, since the clock goes back, fires the first time.
4. Else it fires *by elapsed time*: whenever the local clock shows such a time. So "each ten
   minutes" goes on while an hour stands twice.
"""

from bisect import bisect_right
from itertools import pairwise
from typing import Annotated, Final

import msgspec

DAY: Final = 86_400
AGAIN_AFTER: Final = 10_227 * DAY
"""28 years."""
CHANGES_MAX: Final = 128
"""In that time: no zone has had more."""
OFFSET_MAX: Final = DAY
APART: Final = 2 * OFFSET_MAX
"""Two changes of a zone lie so far apart: else each of them would be a search of its own."""
DAYS_LOOKED: Final = 41 * 366
"""So far ahead the next day is looked for: some dates come every 40 years."""
LAST_DAY: Final = 0
LAST_WORKDAY: Final = 32
"""These stand beside the days 1 to 31 of a month."""
LAST_WEEK: Final = 6
"""This stands beside the weeks 1 to 5 of a month; 0 is any."""
_DAY_MINUTES: Final = 1440

Offset = Annotated[int, msgspec.Meta(ge=-OFFSET_MAX, le=OFFSET_MAX)]
After = Annotated[int, msgspec.Meta(ge=0, lt=AGAIN_AFTER)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Minutes = Annotated[int, msgspec.Meta(gt=0, lt=1 << 60)]
Hours = Annotated[int, msgspec.Meta(gt=0, lt=1 << 24)]
Days = Annotated[int, msgspec.Meta(gt=0, lt=1 << 33)]
Months = Annotated[int, msgspec.Meta(gt=0, lt=1 << 13)]
Weekdays = Annotated[int, msgspec.Meta(gt=0, lt=1 << 49)]


class Zone(msgspec.Struct, frozen=True, array_like=True):
    """Offsets from UTC in seconds, and how long after `since` each begins (rule 2).

    >>> Zone(0, (0, 1000), (3600, 7200)).span(1500)
    (1000, 883612800, 7200)
    """

    since: Seconds = 0
    starts: Annotated[tuple[After, ...], msgspec.Meta(min_length=1, max_length=CHANGES_MAX)] = (0,)
    offsets: Annotated[tuple[Offset, ...], msgspec.Meta(max_length=CHANGES_MAX)] = (0,)

    def __post_init__(self) -> None:
        starts = self.starts
        if len(self.offsets) != len(starts) or starts[0] or sorted(set(starts)) != list(starts):
            raise ValueError("the changes of a time zone are one after the other, the first at 0")
        if any(stop - start <= APART for start, stop in pairwise(starts[1:])):
            raise ValueError("two changes of a time zone are more than two days apart")

    def span(self, at: int) -> tuple[int, int, int]:
        """From when until when the offset of this moment holds, and that offset."""
        turn, after = divmod(at - self.since, AGAIN_AFTER)
        begun, starts = self.since + turn * AGAIN_AFTER, self.starts
        index = bisect_right(starts, after) - 1
        stop = starts[index + 1] if index + 1 < len(starts) else AGAIN_AFTER
        return begun + starts[index], begun + stop, self.offsets[index]


class Cron(msgspec.Struct, frozen=True, array_like=True):
    """An expression in its zone.

    >>> each_morning = Cron(1 << 0, 1 << 7, 2**32 - 2, 2**13 - 2, 2**7 - 1)
    >>> each_morning.after(0), each_morning.after(7 * 3600)
    (25200, 111600)
    """

    minutes: Minutes
    hours: Hours
    days: Days
    """Of the month: 1 to 31, `LAST_DAY`, `LAST_WORKDAY`."""
    months: Months
    """1 to 12."""
    weekdays: Weekdays
    """0 is Sunday; seven bits for each week of the month, after seven for any."""
    both: bool = True
    """Whether day of the month and of the week must both fit (rule 1)."""
    elapsed: bool = False
    """Whether it fires by elapsed time (rule 4)."""
    zone: Zone = Zone()

    def after(self, at: int) -> int | None:
        """The first moment after one, in seconds since 1970; None where none comes in 40 years."""
        return self._elapsed(at) if self.elapsed else self._set(at)

    def _set(self, at: int) -> int | None:
        # Rule 3.
        local = at + self.zone.span(at)[2]
        start, stop, offset = self.zone.span(at - 2 * OFFSET_MAX)  # it may stand there first
        while (found := self._local(local)) is not None:
            while found - offset >= stop:
                start, stop, offset = self.zone.span(stop)
            moment = max(found - offset, start)
            if moment > at:
                return moment
            local = found + 60
        return None

    def _elapsed(self, at: int) -> int | None:
        # Rule 4.
        until, at = at + DAYS_LOOKED * DAY, at + 1
        while at < until:
            _, stop, offset = self.zone.span(at)
            found = self._local(at + offset)
            if found is None:
                return None
            if found - offset < stop:
                return found - offset
            # The clock may show again what it showed up to so long ago; else nothing until `found`.
            near = stop <= at + APART
            at = stop if near else max(stop, found - OFFSET_MAX)
        return None

    def _local(self, at: int) -> int | None:
        """The first time of the local clock that fits, from one on; both in seconds."""
        day, of_day = divmod(-(-at // 60), _DAY_MINUTES)
        until = day + DAYS_LOOKED
        while day < until:
            year, month, date = date_of(day)
            last = month_days(year, month)
            if not self.months >> month & 1:
                day, of_day = day + last - date + 1, 0
                continue
            if self._has(day, date, last) and (found := self._time(of_day)) is not None:
                return (day * _DAY_MINUTES + found) * 60
            day, of_day = day + 1, 0
        return None

    def _has(self, day: int, date: int, last: int) -> bool:
        # Rule 1.
        weekday = weekday_of(day)
        of_month = self.days >> date & 1
        if date == last:
            of_month |= self.days >> LAST_DAY
        if date == last - max(0, (weekday_of(day + last - date) + 6) % 7 - 4):
            of_month |= self.days >> LAST_WORKDAY
        weeks = [0, (date + 6) // 7] + [LAST_WEEK] * (date + 7 > last)
        of_week = any(self.weekdays >> 7 * week + weekday & 1 for week in weeks)
        return bool(of_month & 1 and of_week) if self.both else bool(of_month & 1 or of_week)

    def _time(self, of_day: int) -> int | None:
        """The first minute of a day that fits, from one on."""
        hour, minute = divmod(of_day, 60)
        late = self.minutes >> minute
        if self.hours >> hour & 1 and late:
            return of_day + _lowest(late)
        hours = self.hours >> hour + 1
        return (hour + 1 + _lowest(hours)) * 60 + _lowest(self.minutes) if hours else None


def _lowest(bits: int) -> int:
    """Which of these is set first."""
    return (bits & -bits).bit_length() - 1


def weekday_of(day: int) -> int:
    """Of a day since 1970, which began on a Thursday; 0 is Sunday."""
    return (day + 4) % 7


def month_days(year: int, month: int) -> int:
    """How many days a month has.

    >>> month_days(2024, 2), month_days(2100, 2), month_days(2026, 12)
    (29, 28, 31)
    """
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def date_of(day: int) -> tuple[int, int, int]:
    """Year, month and day of a day since 1970.

    Years are counted from the first of March, so that the day of a leap year is the last of one
    (Hinnant, *chrono-compatible low-level date algorithms*).

    >>> date_of(0), date_of(20_786), date_of(11_016)
    ((1970, 1, 1), (2026, 11, 29), (2000, 2, 29))
    """
    era, of_era = divmod(day + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    date = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (month <= 2), month, date


def shown(moment: int) -> str:
    """A moment in nanoseconds since 1970, to the second.

    >>> shown(1_795_982_400_000_000_000)
    '2026-11-29T20:00:00Z'
    """
    day, second = divmod(moment // 10**9, DAY)
    year, month, date = date_of(day)
    hour, minute = divmod(second // 60, 60)
    return f"{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second % 60:02}Z"
