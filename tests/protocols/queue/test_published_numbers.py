"""A number is used once: for the same again it does nothing, for anything else it is refused."""

from random import Random

import pytest
from alone import Alone
from test_staging import publish, stage, status

from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import Plan, Planned, PutDone, Receipt, Share
from snowmelt.protocols.queue.limits import QueueLimits
from snowmelt.protocols.queue.state import publications
from snowmelt.protocols.queue.state.publications import PLANS_MAX


@pytest.fixture
def alone():
    return Alone.of()


def plan(alone, number, *shares, digest=9):
    return alone.said(Plan("q", "load", number, shares, digest))


def refused(answer):
    assert isinstance(answer, Declined), answer
    assert answer.error == "AlreadyPublished"
    return answer.text


def again(alone):
    """As it is, and as whoever leads next finds it."""
    yield
    alone.killed()
    yield


# --- the same, or something else ------------------------------------------------------------------


def test_something_else_under_a_number_that_was_used_is_refused_and_stays_staged(alone):
    first, second = stage(alone, *"abc"), stage(alone, *"de")
    assert publish(alone, 1, first, digest=7) == PutDone(0, 3, 1, True)
    for _ in again(alone):
        said = refused(publish(alone, 1, second, digest=8))
        assert "number 1 of 'load' in queue 'q' was published before, with 3 items" in said
        assert "these 2 are not the same; nothing was put" in said
        assert (status(alone).tail, status(alone).staged) == (3, 2)
    assert publish(alone, 2, second, digest=8) == PutDone(3, 5, 1, True)


def test_the_same_staged_anew_under_a_number_that_was_used_is_told_where_it_went(alone):
    first, *others = stage(alone, *"abc"), stage(alone, *"ab"), stage(alone, "c")
    publish(alone, 1, first, digest=7)
    for _ in again(alone):
        for digest in (7, 0):  # who does not say what it is wants no more than that it be once
            told = publish(alone, 1, *others, digest=digest)
            assert told == PutDone(0, 3, 1, True, repeated=True)
        assert status(alone).tail == 3


def test_of_what_was_published_without_a_digest_the_count_is_compared(alone):
    first, second = stage(alone, *"abc"), stage(alone, *"de")
    publish(alone, 1, first)
    assert publish(alone, 1, first, digest=7) == PutDone(0, 3, 1, True, repeated=True)
    assert "not remembered any more" in refused(publish(alone, 1, second, digest=7))


def test_what_is_forgotten_is_refused_and_never_taken_for_the_same(alone, monkeypatch):
    monkeypatch.setattr(publications, "KEPT_MAX", 150)
    for number in range(300):
        last = stage(alone, "x")
        publish(alone, number, last, digest=number + 1)
    for _ in again(alone):
        assert publish(alone, 150, last, digest=151).repeated
        assert "not remembered any more" in refused(publish(alone, 0, last, digest=1))
        assert status(alone).tail == 300


def test_a_low_number_used_lately_is_not_forgotten_by_whoever_leads_next(alone, monkeypatch):
    monkeypatch.setattr(publications, "KEPT_MAX", 150)
    for number in [*range(1000, 1150), 5, *range(1150, 1160)]:
        if number in (5, 1150):
            alone.killed()
        last = stage(alone, "x")
        assert not publish(alone, number, last, digest=number).repeated
    for _ in again(alone):
        assert publish(alone, 5, last, digest=5).repeated
        assert "are not the same" in refused(publish(alone, 5, last, digest=6))


def test_a_producer_without_a_name_leaves_no_trace(alone):
    done = publish(alone, 1, stage(alone, *"abc"), digest=7, producer="c-1")
    assert done == PutDone(0, 3, 1, True)
    leader = alone.node._terms.leaders["q"]
    assert list(leader.state.publications) == []


@pytest.mark.parametrize(("planned", "count"), [(False, 600), (True, 300)])
def test_a_number_that_was_never_used_is_put_or_refused_and_never_taken_for_used(planned, count):
    alone, tail, refusals = Alone.of(QueueLimits(producer_gaps=count // 3)), 0, 0
    for first, number in enumerate(Random(1).sample(range(1, 10**6, 7), count)):
        receipt = stage(alone, "x")
        if planned:
            told = plan(alone, number, Share("a", (receipt,), 5))
            assert told.error == "SequenceTooOld" if isinstance(told, Declined) else told.shares
        told = publish(alone, number, receipt, digest=first + 1)
        if isinstance(told, Declined):
            refusals += 1
            assert (told.error, f"sequence is {number};" in told.text) == ("SequenceTooOld", True)
        else:
            tail += 1
            assert (told.repeated, status(alone).tail) == (False, tail)
    assert tail > count // 3
    assert refusals > 0


# --- plans ----------------------------------------------------------------------------------------


def receipt(first, stop):
    return Receipt("1", first, stop, 10 * (stop - first))


FIRST = (Share("a", (receipt(0, 1),), 4), Share("b", (receipt(1, 3),), 5))
SECOND = (Share("b", (receipt(7, 9),), 6), Share("c", (receipt(9, 10),), 3))


def test_the_first_plan_stands_however_the_same_items_are_shared_out_later(alone):
    assert plan(alone, 1, *FIRST) == Planned(FIRST)
    for _ in again(alone):
        assert plan(alone, 1, *SECOND) == Planned(FIRST)
        assert plan(alone, 1, *SECOND, digest=0) == Planned(FIRST)
        assert plan(alone, 2, *SECOND) == Planned(SECOND)
        for shares in (SECOND, ()):
            said = refused(plan(alone, 1, *shares, digest=8))
            assert "was published before, with 3 items" in said


def test_a_plan_is_not_told_before_it_is_safe(alone):
    assert alone.ask(Plan("q", "load", 1, FIRST, 9)) is None
    alone.killed()
    assert plan(alone, 1, *SECOND) == Planned(SECOND)


@pytest.mark.parametrize("digest", [9, 0])
def test_a_plan_ends_when_its_number_is_published_where_it_was_written_down(alone, digest):
    plan(alone, 1, *FIRST)
    assert publish(alone, 1, digest=digest) == PutDone(0, 0, 1, True)
    for _ in again(alone):
        assert plan(alone, 1, *SECOND) == Planned((), ended=True)
        assert publish(alone, 1, digest=9).repeated
        refused(plan(alone, 1, *SECOND, digest=8))


def test_an_empty_plan_is_written_down_nowhere(alone):
    assert plan(alone, 1, digest=1) == Planned(())
    assert plan(alone, 1, *FIRST) == Planned(FIRST)


def test_so_many_plans_may_be_open_and_more_are_refused(alone):
    for number in range(PLANS_MAX):
        alone.ask(Plan("q", "load", number, FIRST, 9))
        if number % 100 == 0:
            alone.flush()
    for _ in again(alone):
        alone.flush()
        assert plan(alone, PLANS_MAX, *FIRST).error == "Full"
    publish(alone, 0, digest=9)
    assert plan(alone, PLANS_MAX, *FIRST) == Planned(FIRST)


def test_open_plans_may_name_so_many_batches_together(alone, monkeypatch):
    monkeypatch.setattr(publications, "PLANNED_MAX", 5)
    two = Share("a", (receipt(0, 1), receipt(1, 2)), 5)
    assert plan(alone, 1, two) == plan(alone, 1, two) == Planned((two,))
    assert plan(alone, 2, two) == Planned((two,))
    for _ in again(alone):
        assert "2 publications of 4 batches" in plan(alone, 3, two).text
    publish(alone, 1, digest=9)
    assert plan(alone, 3, two) == Planned((two,))
