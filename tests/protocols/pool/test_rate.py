"""How fast a producer is when nothing holds it up (rule 11)."""

import pytest

from snowmelt.core.instant import SECOND, Instant
from snowmelt.protocols.pool.rate import REMEMBERED, Rate, TakeRate


def at(seconds):
    return Instant(round(seconds * SECOND))


def free(start=0.0):
    """Of a program that was told at this time that there is room."""
    rate = Rate()
    rate.freed(at(start))
    return rate


def running(rate, *, start=0.0, count=200, spacing=0.1, each=1):
    """A program that puts so many, so far apart; returns when the last one came."""
    for number in range(1, count + 1):
        rate.made(each, at(start + number * spacing))
    return start + count * spacing


def test_nothing_made_is_no_rate():
    assert free().now(at(100)) == 0


def test_how_long_the_first_took_nobody_knows():
    rate = Rate()
    assert rate.now(at(10_000_000)) == 0
    rate.made(1, at(10_000_000))  # by a clock that has run since the machine was started
    assert rate.now(at(10_000_000)) == 0
    end = running(rate, start=10_000_000, count=1)
    assert rate.now(at(end)) == pytest.approx(10)


def test_objects_come_ten_a_second():
    rate = free()
    end = running(rate)
    assert rate.now(at(end)) == pytest.approx(10)


def test_a_batch_counts_as_its_objects():
    rate = free()
    end = running(rate, each=50)
    assert rate.now(at(end)) == pytest.approx(500)


def test_time_for_which_it_is_held_up_does_not_count():
    rate = free()
    now = 0.0
    for _ in range(100):
        now += 0.1
        rate.made(1, at(now))
        now += 5.0  # the put waits for room
        rate.freed(at(now))
    assert rate.now(at(now)) == pytest.approx(10)
    assert rate.now(at(now + 60), held_up=True) == pytest.approx(10)


def test_one_that_stopped_making_slows_down():
    rate = free()
    end = running(rate)
    assert rate.now(at(end + 0.05)) == pytest.approx(10), "it is at work on the next"
    assert rate.now(at(end + 60)) < 1


def test_what_was_long_ago_fades():
    rate = free()
    end = running(rate, spacing=0.1)
    end = running(rate, start=end, spacing=0.01, count=10 * REMEMBERED)
    assert rate.now(at(end)) == pytest.approx(100, rel=0.02)


def test_objects_all_made_in_one_instant_have_no_rate_yet():
    rate = free()
    rate.made(1000, at(0))
    assert rate.now(at(0)) == 0


def test_a_clock_that_stands_or_a_huge_batch_is_no_harm():
    rate = free(5)
    rate.made(10**9, at(5))
    rate.freed(at(6))
    rate.made(1, at(6))
    assert rate.now(at(7)) > 0


def test_what_is_taken_is_seen_within_seconds_and_forgotten_within_seconds():
    taking = TakeRate()
    assert taking.seen(1_000, at(1_000_000)) == 0, "when they were taken is not known"
    for number in range(1, 21):
        rate = taking.seen(1_000 + 50 * number, at(1_000_000 + 0.5 * number))
    assert rate == pytest.approx(100, rel=0.05)
    assert taking.seen(2_000, at(1_000_010)) == rate, "no time has passed"
    assert taking.seen(2_000, at(1_000_020)) == pytest.approx(rate / 32)
