"""When expressions fire: as cronsim says, which has Debian's rules; and round summer time."""

from datetime import UTC, datetime
from random import Random
from zoneinfo import ZoneInfo

import msgspec
import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from snowmelt.client.queue.timetables import timetable
from snowmelt.core.errors import BadOption
from snowmelt.protocols.queue.api.cron import AGAIN_AFTER, APART, DAY, Cron, Zone, date_of
from wide import wide

ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "America/Santiago", "Africa/Casablanca",
    "Asia/Kathmandu", "Pacific/Apia", "Europe/Dublin",
)  # fmt: skip
YEAR = datetime.now(tz=UTC).year + 1
"""Expressions are known from this year on."""


def cron(every: str, zone: str = "UTC") -> Cron:
    found = timetable(every, zone).cron
    assert found is not None
    return found


def moments(every: str, zone: str, begin: datetime, count: int) -> list[str]:
    """The next ones, as a local clock shows them."""
    info, at = ZoneInfo(zone), int(begin.replace(tzinfo=ZoneInfo(zone)).timestamp())
    found: list[str] = []
    for _ in range(count):
        after = cron(every, zone).after(at)
        assert after is not None
        at = after
        found.append(datetime.fromtimestamp(at, info).strftime("%d %H:%M %Z"))
    return found


def last_sunday(month: int) -> int:
    return max(
        day for day in range(25, 32) if datetime(YEAR, month, day, tzinfo=UTC).weekday() == 6
    )


def test_a_time_that_does_not_exist_fires_at_the_first_moment_after() -> None:
    day = last_sunday(3)
    found = moments("30 2 * * *", "Europe/Berlin", datetime(YEAR, 3, day - 1), 3)
    assert found == [f"{day - 1} 02:30 CET", f"{day} 03:00 CEST", f"{day + 1:02} 02:30 CEST"]


def test_two_that_do_not_exist_fire_once() -> None:
    day = last_sunday(3)
    found = moments("15,45 2 * * *", "Europe/Berlin", datetime(YEAR, 3, day), 2)
    assert found[0] == f"{day} 03:00 CEST"
    assert found[1].endswith("02:15 CEST")


def test_a_time_that_stands_twice_fires_once() -> None:
    day = last_sunday(10)
    found = moments("30 2 * * *", "Europe/Berlin", datetime(YEAR, 10, day), 2)
    assert found[0] == f"{day} 02:30 CEST"
    assert found[1].endswith("02:30 CET")
    assert found[1][:2] != found[0][:2]


def test_one_that_fires_each_half_hour_goes_on_while_an_hour_stands_twice() -> None:
    day = last_sunday(10)
    found = moments("*/30 * * * *", "Europe/Berlin", datetime(YEAR, 10, day, 1, 45), 5)
    assert [one[3:] for one in found] == [
        "02:00 CEST", "02:30 CEST", "02:00 CET", "02:30 CET", "03:00 CET",
    ]  # fmt: skip


def expression(chance: Random) -> str:
    def field(low: int, high: int, *more: str) -> str:
        first = chance.randint(low, high)
        last = chance.randint(first, high)
        some = f"{first}-{last}/{chance.randint(1, 5)}", f"*/{chance.randint(2, high)}", str(first)
        return chance.choice(["*", *some, *some, *more])

    hour, minute = field(0, 23), field(0, 59)
    week = field(0, 7, "1#2", "5L", "MON-FRI", "3#5")
    return f"{minute} {hour} {field(1, 31, 'L', 'LW')} {field(1, 12, '*', '*')} {week}"


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("many", [20, *wide(60)])
def test_it_fires_as_debian_s_cron_does(zone: str, many: int) -> None:
    chance, info, looked = Random(zone), ZoneInfo(zone), 0
    while looked < many:
        every = expression(chance)
        try:
            own = cron(every, zone)
        except BadOption:
            continue  # for a date that never comes
        starts, since = own.zone.starts, own.zone.since
        at = since + (chance.choice(starts) or DAY) + chance.randint(-5 * 60, 3 * 60) * 60
        theirs = CronSim(every, datetime.fromtimestamp(at, info))
        for _ in range(6):
            expected = next(theirs, None)
            after = own.after(at)
            assert after == (None if expected is None else int(expected.timestamp())), (every, at)
            if after is None:
                break
            at = after
        looked += 1


def test_after_28_years_the_changes_begin_anew() -> None:
    own = cron("0 12 * * *", "Europe/Berlin")
    at = own.zone.since + 200 * DAY
    first, later = own.after(at), own.after(at + AGAIN_AFTER)
    assert first is not None
    assert later == first + AGAIN_AFTER


@given(st.integers(0, 200_000))
def test_dates_are_those_of_the_calendar(day: int) -> None:
    known = datetime.fromtimestamp(day * DAY, UTC)
    assert date_of(day) == (known.year, known.month, known.day)


@pytest.mark.parametrize(
    "starts",
    [(), (5,), (0, 5, 5), (0, 7, 3), (0, AGAIN_AFTER), tuple(range(200)), (0, DAY, 3 * DAY)],
)
def test_a_zone_that_is_none_is_refused_where_it_is_read(starts: tuple[int, ...]) -> None:
    told = msgspec.msgpack.encode([0, starts, [0] * len(starts)])
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(told, type=Zone)


def test_a_zone_that_changes_all_the_time_takes_no_long_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches, search = [0], Cron._local

    def counted(cron: Cron, at: int) -> int | None:
        searches[0] += 1
        return search(cron, at)

    monkeypatch.setattr(Cron, "_local", counted)
    starts = tuple([one * (APART + 1) for one in range(128)])
    offsets = tuple([DAY * (one % 2) for one in range(128)])
    for elapsed in (False, True):
        wild = Cron(1, 1, 1 << 29, 4, 1 << (5 * 7 + 1), True, elapsed, Zone(0, starts, offsets))
        for at in (0, 64, AGAIN_AFTER, 1 << 39):
            searches[0] = 0
            found = wild.after(at)
            assert found is None or found > at
            assert searches[0] <= 8  # one may look at each day of 41 years


@pytest.mark.parametrize(
    "every",
    [
        "",
        "x",
        "* * * *",
        "0 0 * * * *",
        "60 * * * *",
        "0 0 30 2 *",
        "0s",
        "0.5s",
        "4000d",
        None,
        "1" * 200,
    ],
)
def test_what_is_no_timetable_is_refused_with_what_is_allowed(every: object) -> None:
    with pytest.raises(BadOption, match="every is "):
        timetable(every)


@pytest.mark.parametrize("zone", ["Nowhere", "Europe", "../etc/passwd", "", 7, "a\0b"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(BadOption, match="zone is "):
        timetable("0 7 * * *", zone)


def test_names_stand_for_expressions() -> None:
    assert cron("@daily") == cron("0 0 * * *")
    assert cron("@Weekly") == cron("0 0 * * 7")
