"""What of a lease is not held any more, while the rest is: whoever acknowledges it is told."""

from collections.abc import Iterator
from typing import Any

import pytest

from snowmelt.client.connection.steps import Query, Rest, Steps
from snowmelt.client.leases.delivered import WIDE, Delivered, Portion
from snowmelt.client.leases.steps import Word
from snowmelt.client.leases.tending import Tending
from snowmelt.client.overlay.steps import DOOR, Door, OverlaySteps
from snowmelt.core.errors import LeaseLost, NoSuchQueue, OutcomeUnknown, Unavailable
from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.calls import Leased, Open, Receipt, Settle, Settled, Via
from snowmelt.protocols.priority.messages import Piece
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.runtime.clock import shown, steady_now

NOW = Instant(seconds(1_000))
OF_TWO = bytes(4) + (1).to_bytes(4, "little") + (2).to_bytes(4, "little")
FIRST, SECOND = Interval(5, 6), Interval(6, 7)


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    with shown(NOW):
        yield


def queue() -> OverlaySteps:
    """Of four priorities, with its door."""
    steps = OverlaySteps("jobs", None)
    via, settings = Via(NodeId("n1"), 1), QueueSettings(queue="jobs", priorities=4)
    steps._door = Door(via, NodeId("n1"), settings, later(steady_now(), DOOR))
    return steps


def two() -> Delivered:
    """Two items of one lease, at 5 and 6 of priority 0."""
    part = Portion(5, OF_TWO, b"ab", b"", 0, "")
    return Delivered(7, (part,), seconds(15), later(NOW, seconds(15)))


def lost(*places: Interval) -> tuple[Receipt, ...]:
    return (Receipt(7, (Share(0, places),)),)


def answered(steps: Steps[Any], *answers: Any) -> tuple[list[Any], Any]:
    """What was asked, and what came of it."""
    left, asked = list(answers), list[Any]()
    try:
        step = next(steps)
        while True:
            assert isinstance(step, Query)
            asked.append(step.body)
            step = steps.send(left.pop(0))
    except StopIteration as end:
        return asked, end.value


def in_silence(steps: Steps[Any], *answers: Any) -> Any:
    """What comes of it when nobody answers any more after these."""
    left, now = list(answers), NOW
    try:
        step = next(steps)
        while True:
            now = later(now, seconds(0.1 if left else 10))
            with shown(now):
                if isinstance(step, Rest):
                    step = steps.send(None)
                elif left:
                    step = steps.send(left.pop(0))
                else:
                    step = steps.throw(OutcomeUnknown("nobody answered"))
    except StopIteration as end:
        return end.value


def tending(
    steps: OverlaySteps, bodies: bytes = b"ab"
) -> tuple[Tending, Delivered, list[tuple[Interval, ...]]]:
    missed: list[tuple[Interval, ...]] = []
    books = Tending(steps, lambda *told: missed.append(told[1]))
    offsets = b"".join(at.to_bytes(4, "little") for at in range(len(bodies) + 1))
    piece = Piece(0, 5, offsets, bodies, b"", 0, "")
    got = answered(books.get(3, 1 << 20, 0.0), Leased(7, (piece,), seconds(15), 1))[1]
    return books, got, missed


@pytest.mark.parametrize("where", [None, FIRST, SECOND])
def test_what_was_refused_can_not_be_acknowledged_later(where: Interval | None) -> None:
    steps, delivered = queue(), two()
    with pytest.raises(LeaseLost):
        answered(steps.extend(delivered), Settled(lost(Interval(5, 7))))
    with pytest.raises(LeaseLost, match="position 5" if where is not SECOND else "position 6|5"):
        answered(steps.ack(delivered, where))


def test_the_rest_is_acknowledged_and_then_it_is_said_what_was_lost() -> None:
    steps, delivered = queue(), two()
    with pytest.raises(LeaseLost):
        answered(steps.extend(delivered), Settled(lost(FIRST)))
    acknowledging = steps.ack(delivered, None)
    step = next(acknowledging)
    assert isinstance(step, Query)
    assert step.body.done == lost(SECOND)
    with pytest.raises(LeaseLost, match="position 5 of lease 7"):
        acknowledging.send(Settled())
    assert answered(steps.ack(delivered, SECOND)) == ([], None)


def test_a_word_does_not_renew_what_it_says_is_done() -> None:
    steps, delivered = queue(), two()
    word = Word(7, done=(FIRST,), extend=True)
    asked, (_, refused) = answered(steps.tell(delivered, word), Settled())
    assert asked == [Settle("jobs", done=lost(FIRST), renew=lost(SECOND))]
    assert refused is None


def test_items_of_which_some_came_too_late_with_the_next_get_say_so() -> None:
    steps, before = queue(), two()
    got = answered(steps.get_after(before, 1, 1 << 20, 0.0), Leased(0, (), 0, 1, lost(FIRST)))[1]
    assert got is None
    assert before.loss == "1 of 2 items of lease 7 are not held any more"
    assert before.open_in(None) == ()


def test_who_loops_is_told_of_what_a_renewal_was_refused() -> None:
    books, delivered, missed = tending(queue())
    with shown(delivered.renewal):
        renewal = books.tend()
        next(renewal)
        books.done(delivered, 5)  # gathered while it is on its way
        with pytest.raises(StopIteration):
            renewal.send(Settled(lost(FIRST)))
        assert missed == [(FIRST,)]
        with pytest.raises(LeaseLost, match="position 5 of lease 7"):
            books.done(delivered, 5)
        books.done(delivered, 6)


def test_what_goes_back_while_its_lease_is_renewed_is_no_missed_acknowledgement() -> None:
    books, delivered, missed = tending(queue())
    with shown(delivered.renewal):
        returning, renewal = books.give_back(delivered, FIRST, 0, ""), books.tend()
        next(returning)
        next(renewal)
        with pytest.raises(StopIteration):
            returning.send(Settled())
        with pytest.raises(StopIteration):
            renewal.send(Settled(lost(FIRST)))
    assert missed == []
    assert delivered.open_in(None) == (SECOND,)


def test_who_loops_is_told_what_was_refused_though_with_the_rest_all_of_its_lease_is_settled() -> (
    None
):
    books, delivered, missed = tending(queue())
    books.done(delivered, 5)
    books.done(delivered, 6)
    with shown(delivered.renewal):
        asked, _ = answered(books.tend(), Settled(lost(FIRST)))
    assert [one.done for one in asked] == [lost(Interval(5, 7))]
    assert missed == [(FIRST,)]
    assert books.idle


def test_what_a_get_could_not_tell_is_missed_where_a_renewal_was_refused_it_meanwhile() -> None:
    books, delivered, missed = tending(queue(), b"abc")
    books.done(delivered, 5)
    getting = books.get(2, 1 << 20, 0.0)
    next(getting)
    books.done(delivered, 6)
    gone = lost(FIRST, Interval(7, 8))
    with shown(delivered.renewal):
        asked, _ = answered(books.tend(), Settled(gone))
        assert [(one.done, one.renew) for one in asked] == [(lost(SECOND), gone)]
        assert missed == []  # the get may have told it
    with pytest.raises(OutcomeUnknown), shown(later(NOW, seconds(10))):
        getting.throw(OutcomeUnknown("nobody answered"))
    assert missed == [(FIRST,)]


@pytest.mark.parametrize("first", [True, False])
def test_what_one_of_two_words_had_told_is_not_missed(first: bool) -> None:
    books, delivered, missed = tending(queue())
    books.done(delivered, 5)
    getting = books.get(2, 1 << 20, 1.0)
    next(getting)
    closing = books.close()
    next(closing)
    words = (closing, Settled()), (getting, Leased(0, (), 0, 1, lost(FIRST)))
    others = (getting, Leased(0, (), 0, 1)), (closing, Settled(lost(FIRST)))
    for steps, answer in words if first else others:
        with pytest.raises(StopIteration):
            steps.send(answer)
    assert missed == []


def test_what_two_words_were_refused_is_missed_once() -> None:
    books, delivered, missed = tending(queue())
    books.done(delivered, 5)
    getting = books.get(2, 1 << 20, 1.0)
    next(getting)
    answered(books.close(), Settled(lost(FIRST)))
    with pytest.raises(StopIteration):
        getting.send(Leased(0, (), 0, 1, lost(FIRST)))
    assert missed == [(FIRST,)]


def test_what_a_loop_told_with_its_last_word_is_not_missed_where_the_rest_of_it_came_too_late() -> (
    None
):
    books, delivered, missed = tending(queue())
    books.done(delivered, 5)
    asked, _ = answered(books.close((delivered, SECOND), "it failed"), Settled(lost(SECOND)))
    assert [(one.done, one.back) for one in asked] == [(lost(FIRST), lost(SECOND))]
    assert missed == []


@pytest.mark.parametrize("answers", [(), (Settled(),)], ids=["at all", "any more"])
def test_what_a_loop_told_is_not_missed_where_nobody_answers_any_more(answers: Any) -> None:
    books, delivered, missed = tending(queue(), b"abc")
    books.done(delivered, 5)
    in_silence(books.close((delivered, SECOND), "it failed"), *answers)
    assert missed == ([] if answers else [(FIRST,)])


@pytest.mark.parametrize("answers", [(), (8,)], ids=["at all", "any more"])
def test_what_was_told_with_a_get_is_told_though_its_items_were_lost_on_their_way(
    answers: Any,
) -> None:
    books, delivered, missed = tending(queue())
    books.done(delivered, 5)
    piece = Piece(0, 9, OF_TWO, b"cd", b"", 0, "")
    late = [Leased(token, (piece,), Duration(1), 2) for token in answers]
    getting = books.get(2, 1 << 20, 1.0)
    if late:
        assert in_silence(getting, *late, Settled((Receipt(8, (piece.share,)),))) is None
        assert delivered.open_in(None) == (SECOND,)
    else:
        with pytest.raises(OutcomeUnknown):
            in_silence(getting)
        assert delivered.open_in(None) == (Interval(5, 7),)
    assert missed == []


def test_a_get_that_nobody_who_knows_the_queue_answers_has_not_told_what_is_done() -> None:
    steps = queue()
    getting = steps.get_many(1, 1 << 20, 0.0, Word(7, done=(FIRST,)))
    next(getting)
    with pytest.raises(Unavailable, match="not told what is done"):
        getting.throw(NoSuchQueue("there is no queue jobs"))


def test_a_get_that_says_nothing_waits_for_its_queue() -> None:
    steps = queue()
    getting = steps.get_many(1, 1 << 20, 1.0)
    next(getting)
    assert isinstance(getting.throw(NoSuchQueue("there is no queue jobs")), Rest)
    step = next(getting)
    assert isinstance(step, Query)
    assert isinstance(step.body, Open)


def test_places_of_other_priorities_are_other_places() -> None:
    steps, delivered = queue(), two()
    with pytest.raises(LeaseLost):
        answered(steps.extend(delivered), Settled((Receipt(7, (Share(0, (FIRST,)),)),)))
    other = (1 << WIDE) + 5
    delivered.check_kept(Interval(other, other + 1))
