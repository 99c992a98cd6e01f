"""The ledger of a queue: what may never be seen is found, and what is not promised is let pass."""

import pytest

from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api.calls import ItemRun, Leased, PutDone, Span
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt_world.check.history import Ended
from snowmelt_world.families.fifo_words import Ledger
from snowmelt_world.faults import FailingDisk, LongPause, Stalls
from snowmelt_world.judge.lapses import lingering
from snowmelt_world.judge.looks import Stay
from snowmelt_world.judge.positions import judge_damage
from snowmelt_world.judge.positions_end import judge
from snowmelt_world.judge.values import Put
from snowmelt_world.world import Broken

N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
LEASE = Duration(seconds(10))


def at(number):
    return Instant(seconds(number))


@pytest.fixture
def ledger():
    settings = QueueSettings(replicas=2, durable_copies=2, lease=LEASE, linger=seconds(1))
    return Ledger("q1", settings)


def asked(ledger, value, second):
    batch = Put("p1", (value,), b"", at(second))
    ledger.asked(batch)
    return batch


def put(ledger, value, position, second):
    batch = asked(ledger, value, second)
    ledger.done(batch, PutDone(position, position + 1, 2, flushed=True), at(second))


def lease(ledger, position, second, token=7, away=()):
    span = Span(position, position + 1, "n1/a/1", 0, ())
    answer = Leased(token, (), (span,), LEASE, away=away)
    return ledger.got("k1", at(second), answer, at(second), at(second))


def part(value, position):
    return ItemRun(position, bytes(4) + len(value).to_bytes(4, "little"), value.encode())


def lose_the_body(ledger, position, second):
    for node in (N1, N2):
        ledger.excuses.hurt_body(node, at(second), b"record %d" % position, lambda: True)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False])
def test_what_is_refused_is_not_in_the_queue_unless_it_may_have_been_put_before(ledger, known):
    """Asked again, its number may be below what is known of its producer."""
    batch = asked(ledger, "p1/0", 1)
    why = "nothing was put now" + ("" if known else ", and it may have been put before")
    ledger.refused(batch, why, at(2))
    held = lease(ledger, 0, 3)
    if known:
        with pytest.raises(Broken, match="was refused"):
            ledger.read(part("p1/0", 0), at(3), held)
    else:
        ledger.read(part("p1/0", 0), at(3), held)


@pytest.mark.parametrize(
    ("items", "acked", "had_room"), [(1, 0, True), (2, 0, False), (2, 1, True)]
)
def test_a_put_is_refused_for_want_of_room_only_where_there_may_have_been_none(
    items, acked, had_room
):
    ledger = Ledger("q1", QueueSettings(lease=LEASE, items_max=2))
    for position in range(items):
        put(ledger, f"p1/{position}", position, 1)
    held = lease(ledger, 0, 2)
    ledger.read(part("p1/0", 0), at(2), held)
    if acked:
        ledger.settled(held, (0,), at(3), at(3), Ended.SUCCEEDED)
    assert ledger.had_room(asked(ledger, "p1/9", 4), at(5)) is had_room


# --- order ----------------------------------------------------------------------------------------

FIRST, SECOND = "p1/0", "p1/1"


def read(ledger, value, position, second, token):
    answer = Leased(token, (part(value, position),), (), LEASE)
    held = ledger.got("k1", at(second), answer, at(second), at(second))
    ledger.read(answer.parts[0], at(second), held)
    return held


@pytest.mark.parametrize("named", [1, 2])
def test_what_was_given_back_is_the_next(named):
    """Unless it may have been given back before, and be with another since."""
    ledger = Ledger("q1", QueueSettings(lease=LEASE))
    put(ledger, FIRST, 0, 1)
    put(ledger, SECOND, 1, 2)
    held = read(ledger, FIRST, 0, 3, token=1)
    for _ in range(named):
        ledger.giving_back(held, (0,))
    ledger.given_back(held, (0,), at(4), at(5))
    read(ledger, SECOND, 1, 6, token=2)
    read(ledger, FIRST, 0, 7, token=3)
    if named == 1:
        with pytest.raises(Broken, match=f"'{FIRST}' waited, and the later '{SECOND}' was got"):
            judge(ledger)
    else:
        judge(ledger)


def ranked(values):
    """A ledger of three priorities, which was asked for these by one put, and where they are."""
    ledger = Ledger("q1", QueueSettings(lease=LEASE, priorities=3))
    batch = Put("p1", values, b"", at(1))
    ledger.asked(batch)
    runs = [[value for value in values if batch.priority(value) == rank] for rank in range(3)]
    edges = [(rank << 48) + edge for rank, run in enumerate(runs) if run for edge in (0, len(run))]
    return ledger, batch, edges


@pytest.mark.parametrize("shifted", [0, 1 << 48])
def test_an_item_stands_in_its_priority(shifted):
    ledger, batch, (start, stop, *others) = ranked(("a", "b", "c", "d"))
    others[-2:] = [edge + shifted for edge in others[-2:]]
    done = PutDone(start, stop, 2, flushed=True, others=tuple(others))
    if shifted:
        with pytest.raises(Broken, match="is of priority 2, and stands at"):
            ledger.done(batch, done, at(2))
    else:
        ledger.done(batch, done, at(2))
        assert batch.start == start == 0


@pytest.mark.parametrize("first", [0, 1])
def test_a_less_urgent_item_goes_later(first):
    ledger, batch, (start, stop, *others) = ranked(("g", "a"))  # of priority 1, and 0
    ledger.done(batch, PutDone(start, stop, 2, flushed=True, others=tuple(others)), at(2))
    rows = [("a", 0), ("g", 1 << 48)]
    for token, at_row in enumerate((first, 1 - first), start=1):
        read(ledger, *rows[at_row], 2 + token, token)
    if first:
        with pytest.raises(Broken, match="'a' waited, and the later 'g' was got before it"):
            judge(ledger)
    else:
        judge(ledger)


# --- who is away, and what is damaged -------------------------------------------------------------


def passed_over(ledger, second):
    answer = Leased(0, (), (), LEASE, away=(Interval(0, 2),))
    ledger.got("k1", at(second), answer, at(second), at(second))


@pytest.mark.parametrize("away", [True, False])
def test_what_is_passed_over_may_come_after_what_is_behind_it(ledger, away):
    for position in range(3):
        put(ledger, f"p1/{position}/0", position, second=position + 1)
    lease(ledger, 2, 6, token=1, away=(Interval(0, 2),) if away else ())
    lease(ledger, 0, 7, token=2)
    lease(ledger, 1, 8, token=3)
    if away:
        judge(ledger)
    else:
        with pytest.raises(Broken, match="fifo_leased"):
            judge(ledger)


@pytest.mark.parametrize("away", [True, False])
def test_a_get_may_find_nothing_while_what_waits_is_passed_over(ledger, away):
    put(ledger, "p1/0/0", 0, second=1)
    if away:
        passed_over(ledger, 5)
    ledger.looks.empty("k2", at(6), at(6))
    lease(ledger, 0, 8)
    if away:
        judge(ledger)
    else:
        with pytest.raises(Broken, match="k2 got nothing"):
            judge(ledger)


@pytest.mark.parametrize(("second", "hurt"), [(5, False), (10, False), (10, True)])
def test_nobody_is_away_when_all_is_well(ledger, second, hurt):
    ledger.looks.quiet = at(9)
    if hurt:
        ledger.excuses.hurt(N1, at(2), "disk lost")
    if second < 9 or hurt:
        passed_over(ledger, second)
    else:
        with pytest.raises(Broken, match="that those are away who keep"):
            passed_over(ledger, second)


@pytest.mark.parametrize("hurt", [True, False])
def test_what_was_put_fails_for_want_of_a_copy_only_when_a_disk_is_hurt(ledger, hurt):
    put(ledger, "p1/0/0", 0, second=1)
    held = lease(ledger, 0, 3)
    if hurt:
        ledger.excuses.hurt_body(N1, at(2), b"record 0", lambda: True)
        judge_damage(ledger, held, (0,))
    else:
        with pytest.raises(Broken, match="none is hurt"):
            judge_damage(ledger, held, (0,))
    judge_damage(ledger, held, (5,))  # nobody was told of it


# --- pauses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty_at", [4, 8])
def test_who_resumes_ends_no_pause_but_the_one_that_was_meant(ledger, empty_at):
    ledger.looks.pausing(at(1))
    ledger.looks.pausing(at(3))  # while the first resumption was on its way
    ledger.looks.resumed(at(1), at(5), at(6))
    ledger.looks.empty("k1", at(empty_at), at(empty_at))
    ledger.looks.judge([Stay(0, "p1/0/0", at(0), at(20))])


def test_a_get_finds_something_once_every_pause_is_over(ledger):
    ledger.looks.pausing(at(1))
    ledger.looks.resumed(at(1), at(5), at(6))
    ledger.looks.empty("k1", at(8), at(8))
    with pytest.raises(Broken, match="k1 got nothing"):
        ledger.looks.judge([Stay(0, "p1/0/0", at(0), at(20))])


def power_cut(ledger, second, lingering):
    for node in (N1, N2):
        ledger.excuses.died(node, at(second), Duration(seconds(lingering)))


def test_a_queue_may_be_paused_again_when_its_resumption_is_undone(ledger):
    ledger.looks.pausing(at(1))
    ledger.looks.resumed(at(1), at(5), at(6))
    power_cut(ledger, 7, lingering=2)
    ledger.looks.empty("k1", at(8), at(8))
    ledger.looks.judge([Stay(0, "p1/0/0", at(0), at(20))])


def test_a_resumption_that_was_on_its_way_in_a_power_cut_may_be_undone(ledger):
    ledger.looks.pausing(at(1))
    power_cut(ledger, 7, lingering=2)
    ledger.looks.resumed(at(1), at(6), at(8))
    ledger.looks.empty("k1", at(9), at(9))
    ledger.looks.judge([Stay(0, "p1/0/0", at(0), at(20))])


@pytest.mark.parametrize("cut_at", [9, 4])
def test_what_was_resumed_long_before_a_power_cut_or_after_it_is_not_paused(ledger, cut_at):
    ledger.looks.pausing(at(1))
    if cut_at == 4:
        power_cut(ledger, 4, lingering=2)
    ledger.looks.resumed(at(1), at(5), at(6))
    if cut_at == 9:
        power_cut(ledger, 9, lingering=2)
    ledger.looks.empty("k1", at(10), at(10))
    with pytest.raises(Broken, match="k1 got nothing"):
        ledger.looks.judge([Stay(0, "p1/0/0", at(0), at(20))])


def test_the_next_resumption_ends_the_pause_that_came_back_in_a_power_cut(ledger):
    ledger.looks.pausing(at(1))
    ledger.looks.resumed(at(1), at(5), at(6))
    power_cut(ledger, 7, lingering=2)
    ledger.looks.pausing(at(8))
    ledger.looks.resumed(at(8), at(9), at(10))
    ledger.looks.empty("k1", at(11), at(11))
    with pytest.raises(Broken, match="k1 got nothing"):
        ledger.looks.judge([Stay(0, "p1/0/0", at(0), at(20))])


# --- what may be lost -----------------------------------------------------------------------------


def test_a_lease_ends_when_all_that_it_held_is_lost(ledger):
    asked(ledger, "p1/0/0", 1)
    held = lease(ledger, 0, 2)
    lose_the_body(ledger, 0, 3)
    ledger.lease_lost(held, at(4))


def test_a_lease_is_not_lost_of_more_than_was_lost(ledger):
    asked(ledger, "p1/0/0", 1)
    put(ledger, "p1/5/0", 5, 1)  # it is known where this stands
    answer = Leased(7, (), (Span(0, 2, "n1/a/1", 0, ()),), LEASE)
    held = ledger.got("k1", at(2), answer, at(2), at(2))
    lose_the_body(ledger, 0, 3)
    with pytest.raises(Broken, match="is lost, it says, and it was held"):
        ledger.lease_lost(held, at(4))


def test_a_lease_is_not_lost_of_which_a_body_came(ledger):
    put(ledger, "p1/0/0", 0, 1)
    held = lease(ledger, 0, 2)
    ledger.read(part("p1/0/0", 0), at(2), held)
    lose_the_body(ledger, 0, 3)
    with pytest.raises(Broken, match="is lost, it says, and it was held"):
        ledger.lease_lost(held, at(4))


def test_a_lease_is_not_lost_of_what_came_after_the_loss(ledger):
    lose_the_body(ledger, 0, 3)
    put(ledger, "p1/1/0", 1, 4)
    held = lease(ledger, 1, 5)
    with pytest.raises(Broken, match="is lost, it says, and it was held"):
        ledger.lease_lost(held, at(6))


# --- what is forgotten ----------------------------------------------------------------------------


def test_what_two_lapses_undid_leaves_its_position_to_others(ledger):
    put(ledger, "p1/0/0", 0, 3)
    for node in (N1, N2):
        ledger.excuses.died(node, at(4), Duration(seconds(2)))
    for node in (N1, N2):
        ledger.excuses.hurt(node, at(5), "disk lost")
    put(ledger, "p1/1/0", 0, 6)


def given_over_a_lapse(ledger, value, position):
    """A group asked before a power cut, and was told after it, and read what was there."""
    span = Span(position, position + 1, "n1/a/1", 0, (), 1, "the lease ended")
    held = ledger.planned("g1", 5, at(3), (span,), at(9))
    ledger.read(part(value, position), at(9), held)


def test_what_a_group_was_given_over_a_power_cut_was_delivered(ledger):
    power_cut(ledger, 5, lingering=1)
    batch = asked(ledger, "p1/0/0", 6)
    given_over_a_lapse(ledger, "p1/0/0", 0)
    ledger.done(batch, PutDone(0, 0, 0, flushed=False, repeated=True), at(9))
    put(ledger, "p1/1/0", 1, 10)
    lease(ledger, 1, 11)
    judge(ledger)


def test_a_position_has_one_meaning_through_a_power_cut(ledger):
    power_cut(ledger, 5, lingering=1)
    for value in ("p1/0/0", "p1/1/0"):
        asked(ledger, value, 6)
    given_over_a_lapse(ledger, "p1/0/0", 0)
    with pytest.raises(Broken, match="position 0 is told of p1/0/0 and of p1/1/0"):
        ledger.read(part("p1/1/0", 0), at(9), called=at(9))


def test_a_position_has_another_meaning_when_its_disks_are_lost_in_a_power_cut(ledger):
    put(ledger, "p1/0/0", 0, 2)
    power_cut(ledger, 5, lingering=1)
    for node in (N1, N2):
        ledger.excuses.hurt(node, at(6), "disk lost")
    asked(ledger, "p1/1/0", 7)
    given_over_a_lapse(ledger, "p1/0/0", 0)
    ledger.read(part("p1/1/0", 0), at(9), called=at(8))


# --- queues that are gone -------------------------------------------------------------------------


def test_a_queue_is_gone_with_as_many_disks_as_keep_it(ledger):
    ledger.excuses.hurt(N1, at(1), "disk lost")
    assert not ledger.excuses.gone
    ledger.excuses.hurt(N3, at(2), "disk lost")
    assert ledger.excuses.gone


def test_a_queue_is_not_gone_that_was_whole_in_between(ledger):
    ledger.excuses.hurt(N1, at(1), "disk lost")
    ledger.excuses.back(N1, at(2))
    ledger.excuses.whole(at(30))
    ledger.excuses.hurt(N2, at(40), "disk lost")
    assert not ledger.excuses.gone


def test_a_record_that_cannot_be_read_takes_no_queue_away(ledger):
    for node in (N1, N2):
        ledger.excuses.hurt(node, at(1), "record damaged", lambda: True)
    assert not ledger.excuses.gone


# --- what lingers ---------------------------------------------------------------------------------

USUAL = lingering((), N1, at(20), Duration(seconds(1)))


@pytest.mark.parametrize(
    ("fault", "longer"),
    [
        (FailingDisk(at(2), at(30), N1), 0),  # it ends with the first flush that fails
        (LongPause(at(10), at(19), N1), 9),
        (LongPause(at(10), at(19), N2), 0),
        (LongPause(at(10), at(18), N1), 0),  # it had time to flush
        (Stalls(at(1), at(40), (N1, N2), (at(12), at(14), at(25)), seconds(5)), 7),
        (Stalls(at(1), at(40), (N2,), (at(12), at(14), at(25)), seconds(5)), 0),
        (Stalls(at(1), at(40), (N1,), (at(16), at(12)), seconds(3)), 3),  # it had time between
        (Stalls(at(1), at(40), (N1,), (at(17), at(13)), seconds(3)), 6),
    ],
)
def test_so_long_may_linger_what_a_process_told_before_its_end(fault, longer):
    assert lingering((fault,), N1, at(20), Duration(seconds(1))) == USUAL + seconds(longer)
