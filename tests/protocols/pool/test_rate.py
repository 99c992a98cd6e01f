"""How fast a producer is when nothing holds it up (rule 11)."""

import pytest

from snowmelt.core.instant import SECOND, Instant
from snowmelt.protocols.pool.rate import REMEMBERED, Rate


def at(seconds):
    return Instant(round(seconds * SECOND))


def running(rate, *, start=0.0, count=200, spacing=0.1, each=1):
    """A program that puts so many, so far apart; returns when the last one came."""
    for number in range(1, count + 1):
        rate.made(each, at(start + number * spacing))
    return start + count * spacing


def test_nothing_made_is_no_rate():
    assert Rate(at(0)).now(at(100)) == 0


def test_objects_come_ten_a_second():
    rate = Rate(at(0))
    end = running(rate)
    assert rate.now(at(end)) == pytest.approx(10)


def test_a_batch_counts_as_its_objects():
    rate = Rate(at(0))
    end = running(rate, each=50)
    assert rate.now(at(end)) == pytest.approx(500)


def test_time_for_which_it_is_held_up_does_not_count():
    rate = Rate(at(0))
    now = 0.0
    for _ in range(100):
        now += 0.1
        rate.made(1, at(now))
        now += 5.0  # the put waits for room
        rate.freed(at(now))
    assert rate.now(at(now)) == pytest.approx(10)
    assert rate.now(at(now + 60), held_up=True) == pytest.approx(10)


def test_one_that_stopped_making_slows_down():
    rate = Rate(at(0))
    end = running(rate)
    assert rate.now(at(end + 0.05)) == pytest.approx(10), "it is at work on the next"
    assert rate.now(at(end + 60)) < 1


def test_what_was_long_ago_fades():
    rate = Rate(at(0))
    end = running(rate, spacing=0.1)
    end = running(rate, start=end, spacing=0.01, count=10 * REMEMBERED)
    assert rate.now(at(end)) == pytest.approx(100, rel=0.02)


def test_objects_all_made_in_one_instant_have_no_rate_yet():
    rate = Rate(at(0))
    rate.made(1000, at(0))
    assert rate.now(at(0)) == 0


def test_a_clock_that_stands_or_a_huge_batch_is_no_harm():
    rate = Rate(at(5))
    rate.made(10**9, at(5))
    rate.freed(at(6))
    rate.made(1, at(6))
    assert rate.now(at(7)) > 0
