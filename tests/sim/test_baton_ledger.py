"""The ledger of a baton: what may never be seen is found, and what may be is let pass."""

import msgspec
import pytest

from snowmelt.client.counter.state import CounterState
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.baton.calls import Granted, HeldAt
from snowmelt_world.families.baton_excuses import AllowedLosses
from snowmelt_world.families.baton_ledger import Ledger
from snowmelt_world.families.baton_numbers import Numbers
from snowmelt_world.faults import ClockJump, Crash
from snowmelt_world.world import Broken

ANN, BOB = NodeId("ann"), NodeId("bob")
MINE, YOURS = 1, 2
CRASH = Crash(Instant(0), Instant(1), NodeId("n1"))
WHERE = HeldAt(NodeId("n1"), 1, Address("n1", 4410))


def at(number):
    return Instant(seconds(number))


def granted(fence, value=b"", made=1):
    return Granted(fence, made, value, seconds(5), WHERE)


@pytest.fixture
def ledger():
    ledger = Ledger("b1", AllowedLosses([CRASH]))
    ledger.wants(ANN, MINE, at(0))
    ledger.wants(BOB, YOURS, at(1))
    return ledger


def test_a_grant_that_is_told_twice_is_one(ledger):
    ledger.grants(MINE, granted(1), at(1))
    ledger.grants(MINE, granted(1), at(2))
    assert len(ledger.holds) == 1


def test_two_grants_never_have_one_fence(ledger):
    ledger.grants(MINE, granted(1), at(1))
    with pytest.raises(Broken, match="ann and bob were both granted b1 with fence 1"):
        ledger.grants(YOURS, granted(1), at(2))


@pytest.mark.parametrize("fence", [3, 4])
def test_no_fence_is_granted_after_one_as_large_has_acted(ledger, fence):
    ledger.acts(4)
    with pytest.raises(Broken, match=f"with fence {fence}, after 4 had acted"):
        ledger.grants(MINE, granted(fence), at(1))


def test_what_was_granted_before_and_acts_late_is_turned_away(ledger):
    ledger.grants(MINE, granted(1), at(1))
    ledger.grants(YOURS, granted(2), at(2))
    for fence in (2, 2, 1):
        ledger.acts(fence)
    assert (ledger.accepted, ledger.rejected) == (2, 1)


@pytest.mark.parametrize(("until", "now"), [(5, 4), (5, 4.999)])
def test_two_never_believe_that_they_hold_it(ledger, until, now):
    ledger.believes(ANN, 1, at(until), at(0), at(0))
    with pytest.raises(Broken, match="bob believes that it holds b1 with fence 2, and ann"):
        ledger.believes(BOB, 2, at(9), at(now), at(now))


def test_a_belief_ends_with_its_time_and_with_the_hold(ledger):
    ledger.believes(ANN, 1, at(5), at(0), at(0))
    ledger.believes(BOB, 2, at(6), at(5), at(5))
    ledger.doubts(BOB)
    ledger.believes(ANN, 3, at(9), at(5), at(5))
    ledger.believes(BOB, 2, at(5), at(5), at(7))  # it comes too late to be believed


@pytest.mark.parametrize(("leap", "excused"), [(1, True), (3, True), (5, False)])
def test_where_a_clock_leaps_between_two_may_believe(leap, excused):
    ledger = Ledger("b1", AllowedLosses([ClockJump(at(leap), NodeId("n1"), seconds(9))]))
    ledger.believes(ANN, 1, at(6), at(1), at(1))
    if not excused:
        with pytest.raises(Broken, match="bob believes"):
            ledger.believes(BOB, 2, at(9), at(3), at(4))
        return
    ledger.believes(BOB, 2, at(9), at(3), at(4))
    assert ledger.excused == {"clock": 1}


def test_who_can_not_be_heard_may_believe_until_its_lease_is_over(ledger):
    ledger.believes(ANN, 1, at(5), at(0), at(0))
    ledger.unheard(ANN, at(1))
    ledger.believes(BOB, 2, at(9), at(3), at(3))
    ledger.doubts(BOB)
    ledger.believes(ANN, 3, at(9), at(4), at(4))  # it was heard again
    with pytest.raises(Broken, match="bob believes"):
        ledger.believes(BOB, 4, at(9), at(5), at(5))


def test_who_can_not_be_heard_may_believe_on_after_another_has_it(ledger):
    ledger.believes(ANN, 1, at(5), at(0), at(0))
    ledger.unheard(ANN, at(1))
    ledger.believes(BOB, 2, at(9), at(3), at(3))
    ledger.believes(ANN, 1, at(5), at(0), at(4))  # a renewal failed, and changed nothing
    assert ledger.excused == {"connection ended": 2}
    ledger.unheard(BOB, at(4.5))
    with pytest.raises(Broken, match="ann believes"):  # who has it later took it from nobody
        ledger.believes(ANN, 1, at(6), at(4.5), at(4.5))


def test_no_value_is_invented(ledger):
    with pytest.raises(Broken, match="b'x', which nobody ever sent on"):
        ledger.grants(MINE, granted(1, b"x"), at(1))


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("made", [1, 2])
def test_one_token_carries_what_its_last_holder_is_known_to_have_sent_on(ledger, told, made):
    ledger.grants(MINE, granted(1), at(1))
    ledger.says(1, b"x")
    if told:
        ledger.passed(1)
    ledger.grants(YOURS, granted(2, made=made), at(2))
    if told and made == 1:
        with pytest.raises(Broken, match="had left it with one of"):
            ledger.judge()
    else:
        ledger.judge()


def test_where_nothing_is_lost_nothing_is_made_anew(ledger):
    ledger.grants(MINE, granted(1), at(1))
    ledger.grants(YOURS, granted(2, made=2), at(2))
    ledger.judge()
    ledger.excuses.shaken.clear()
    with pytest.raises(Broken, match="b1 was made anew"):
        ledger.judge()


@pytest.mark.parametrize(("value", "judged"), [(b"", False), (b"x", False), (b"y", True)])
def test_what_was_saved_is_never_forgotten(ledger, value, judged):
    ledger.grants(MINE, granted(1), at(1))
    for saved in (b"x", b"y"):
        ledger.says(1, saved)
        ledger.saved(1, saved, at(2))
    ledger.grants(YOURS, granted(2, value, made=2), at(3))
    if judged:
        ledger.judge()
        return
    with pytest.raises(Broken, match="is older than b'y', which was saved"):
        ledger.judge()
    ledger.excuses.set_back(at(2), at(3))
    ledger.judge()
    assert ledger.excused == {"older disk": 1}


def test_who_means_to_leave_what_it_got_leaves_that(ledger):
    ledger.grants(MINE, granted(1), at(1))
    ledger.says(1, b"x")
    ledger.saved(1, b"x", at(1))
    ledger.releases(ANN, 1, b"")
    ledger.passed(1)
    ledger.grants(YOURS, granted(2, b"x"), at(2))
    with pytest.raises(Broken, match="had left it with one of"):
        ledger.judge()


def test_nobody_gives_a_baton_up_with_another_value_than_it_means_to(ledger):
    ledger.grants(MINE, granted(1), at(1))
    ledger.holds[1].meant = b"y"
    ledger.says(1, b"x")
    with pytest.raises(Broken, match="with b'x', and means to leave b'y'"):
        ledger.releases(ANN, 1, b"x")
    with pytest.raises(Broken, match="gives b1 up as it got it, and said"):
        ledger.releases(ANN, 1, None)
    ledger.releases(ANN, 1, b"y")


def test_nobody_waits_long_where_nothing_happens(ledger):
    ledger.excuses.shaken.clear()
    ledger.grants(MINE, granted(1), at(2))
    ledger.judge_waits(at(20))
    with pytest.raises(Broken, match="bob wanted b1 at 1s, and waited 29s"):
        ledger.judge_waits(at(30))


@pytest.mark.parametrize(("came", "blamed"), [(1, True), (9, False)])
def test_who_is_passed_over_came_before_the_others(ledger, came, blamed):
    ledger.excuses.shaken.clear()
    ledger.comes(MINE, at(0))
    ledger.grants(MINE, granted(1), at(2))
    ledger.comes(YOURS, at(came))  # it began to ask at 1 s; whom it asked first was gone
    ledger.comes(YOURS, at(9))
    for number in range(41):
        ticket = 100 + number
        ledger.wants(ANN, ticket, at(4))
        ledger.comes(ticket, at(4))
        ledger.grants(ticket, granted(2 + number), at(5))
    ledger.grants(YOURS, granted(50), at(10))
    if blamed:
        with pytest.raises(Broken, match=r"bob wanted b1 at 1s.* while 41 others had it"):
            ledger.judge_waits(at(11))
    else:
        ledger.judge_waits(at(11))


def told(numbers, user, fence, made, start, stop, when):
    """Numbers below a limit that was saved from 2 s to 3 s."""
    value = msgspec.msgpack.encode(CounterState(stop, 100, made))
    numbers.reserves(value, at(2))
    numbers.reserved(value, at(3))
    numbers.told(user, fence, Interval(start, stop), value, at(when))


def test_numbers_are_given_out_below_a_limit_that_is_on_the_disk(ledger):
    numbers = Numbers(ledger)
    numbers.takes(1, 1)
    beyond = msgspec.msgpack.encode(CounterState(5, 4, 1))
    with pytest.raises(Broken, match="no limit above it is known"):
        numbers.told(ANN, 1, Interval(0, 5), beyond, at(3))
    numbers.reserves(beyond, at(2))
    with pytest.raises(Broken, match="no limit above it is known"):
        numbers.told(ANN, 1, Interval(0, 5), beyond, at(3))


def test_a_number_is_never_given_twice_and_later_ones_are_larger(ledger):
    numbers = Numbers(ledger)
    for fence, start, stop in ((1, 0, 5), (3, 9, 12)):
        numbers.takes(fence, 1)
        told(numbers, ANN, fence, 1, start, stop, 3)
    numbers.takes(2, 1)
    with pytest.raises(Broken, match="bob and ann both got numbers"):
        told(numbers, BOB, 2, 1, 4, 6, 4)
    with pytest.raises(Broken, match="with fence 2, and ann"):
        told(numbers, BOB, 2, 1, 20, 21, 4)


@pytest.mark.parametrize(
    ("taken", "excused"),
    [(1, True), (3, True), (4, False)],  # the limit was saved from 2 s to 3 s
)
def test_a_number_comes_again_only_where_the_limit_above_it_is_lost(ledger, taken, excused):
    numbers = Numbers(ledger)
    for fence in (1, 2):
        numbers.takes(fence, fence)
    ledger.excuses.set_back(at(taken), at(5))
    told(numbers, ANN, 1, 1, 0, 5, 6)  # they are given out after the loss
    if excused:
        told(numbers, BOB, 2, 2, 0, 5, 8)
        assert ledger.excused == {"older disk": 1}
        return
    with pytest.raises(Broken, match="bob and ann both got numbers"):
        told(numbers, BOB, 2, 2, 0, 5, 8)


def test_a_gap_has_a_reason(ledger):
    numbers = Numbers(ledger)
    for fence, made, start, stop in ((1, 1, 0, 5), (3, 3, 9, 12)):
        numbers.takes(fence, made)
        told(numbers, ANN, fence, made, start, stop, fence)
    numbers.judge()
    numbers.takes(4, 3)
    told(numbers, BOB, 4, 3, 13, 14, 4)
    with pytest.raises(Broken, match=r"bob got \[13, 14\) of b1, next to \[9, 12\)"):
        numbers.judge()


@pytest.mark.parametrize(
    ("asked", "over", "ordered"), [(3.5, False, False), (2, False, True), (3.5, True, True)]
)
def test_nobody_is_overtaken_by_one_who_asked_much_later(asked, over, ordered):
    ledger = Ledger("b1", AllowedLosses(()))
    ledger.ordered_from = at(1)
    ledger.wants(ANN, MINE, at(1))
    ledger.wants(BOB, YOURS, at(asked))
    if over:
        ledger.ends_want(MINE, at(3))
    if ordered:
        ledger.grants(YOURS, granted(1), at(4))
        return
    with pytest.raises(Broken, match=r"bob, which wanted b1 at 3\.5s, was granted it at 4s before"):
        ledger.grants(YOURS, granted(1), at(4))
