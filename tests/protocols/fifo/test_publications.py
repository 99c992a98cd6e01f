"""A number is used once: for the same again it does nothing, for anything else it is refused."""

from random import Random
from typing import Any

import pytest
from master_bench import OTHER, Bench

from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo import publications
from snowmelt.protocols.fifo.calls import Plan, Planned, Publish, PutDone, Receipt, Share
from snowmelt.protocols.fifo.limits import Limits
from snowmelt.protocols.fifo.publications import PLANS_MAX


def receipt(first: int, stop: int) -> Receipt:
    return Receipt(OTHER, first, stop, 10 * (stop - first))


def staged(*parts: tuple[int, int]) -> Bench:
    bench = Bench()
    for first, stop in parts:
        bench.stage(first, stop)
    bench.flush()
    return bench


def publish(bench: Bench, number: int, *receipts: Receipt, digest: int = 0) -> Any:
    ask = Publish("q", "load", number, receipts, digest)
    return bench.ask(bench.master.publishing.publish, ask)


def plan(bench: Bench, number: int, *shares: Share, digest: int = 9) -> Any:
    ask = Plan("q", "load", number, shares, digest)
    return bench.ask(bench.master.publishing.plan, ask)


def refused(answer: Any) -> str:
    assert isinstance(answer, Declined), answer
    assert answer.error == "AlreadyPublished"
    return answer.text


# --- the same, or something else ------------------------------------------------------------------


def test_something_else_under_a_number_that_was_used_is_refused_and_stays_staged() -> None:
    bench = staged((0, 3), (3, 5))
    assert publish(bench, 1, receipt(0, 3), digest=7) == PutDone(0, 3, 1, True)
    for one in (bench, bench.crashed()):
        said = refused(publish(one, 1, receipt(3, 5), digest=8))
        assert "number 1 of 'load' in queue 'q' was published before, with 3 items" in said
        assert "these 2 are not the same; nothing was put" in said
        assert (one.queue.tail, one.queue.staged.items) == (3, 2)
        assert publish(one, 2, receipt(3, 5), digest=8) == PutDone(3, 5, 1, True)


def test_the_same_staged_anew_under_a_number_that_was_used_is_told_where_it_went() -> None:
    bench = staged((0, 3), (3, 5), (5, 6))
    publish(bench, 1, receipt(0, 3), digest=7)
    for one in (bench, bench.crashed()):
        for digest in (7, 0):  # who does not say what it is, wants no more than that it be once
            again = publish(one, 1, receipt(3, 5), receipt(5, 6), digest=digest)
            assert again == PutDone(0, 3, 1, True, repeated=True)
        assert one.queue.tail == 3


def test_of_what_was_published_without_a_digest_the_count_is_compared() -> None:
    bench = staged((0, 3), (3, 5))
    publish(bench, 1, receipt(0, 3))
    again = publish(bench, 1, receipt(0, 3), digest=7)
    assert again == PutDone(0, 3, 1, True, repeated=True)
    assert "not remembered any more" in refused(publish(bench, 1, receipt(3, 5), digest=7))


def test_what_is_forgotten_is_refused_and_never_taken_for_the_same(monkeypatch: Any) -> None:
    monkeypatch.setattr(publications, "KEPT_MAX", 150)
    bench = Bench()
    for number in range(300):
        bench.stage(number, number + 1)
        bench.flush()
        publish(bench, number, receipt(number, number + 1), digest=number + 1)
    for one in (bench, bench.crashed()):
        assert len(list(one.queue.publications)) == 150
        assert publish(one, 150, receipt(0, 1), digest=151).repeated
        assert "not remembered any more" in refused(publish(one, 0, receipt(0, 1), digest=1))
        assert one.queue.tail == 300


def test_a_low_number_used_lately_is_not_forgotten_after_a_restart(monkeypatch: Any) -> None:
    monkeypatch.setattr(publications, "KEPT_MAX", 150)
    bench, numbers = Bench(), [*range(1000, 1150), 5, *range(1150, 1160)]
    for first, number in enumerate(numbers):
        if number in (5, 1150):
            bench = bench.crashed()
        bench.stage(first, first + 1)
        bench.flush()
        assert not publish(bench, number, receipt(first, first + 1), digest=number).repeated
    for one in (bench, bench.crashed()):
        assert len(list(one.queue.publications)) == 150
        assert publish(one, 5, receipt(0, 1), digest=5).repeated
        assert "are not the same" in refused(publish(one, 5, receipt(0, 1), digest=6))


def test_a_producer_without_a_name_leaves_no_trace() -> None:
    bench = staged((0, 3))
    ask = Publish("q", "c-1", 1, (receipt(0, 3),), 7)
    assert bench.ask(bench.master.publishing.publish, ask) == PutDone(0, 3, 1, True)
    assert list(bench.queue.publications) == []


@pytest.mark.parametrize(("planned", "count"), [(False, 3_000), (True, 600)])
def test_a_number_that_was_never_used_is_put_or_refused_and_never_taken_for_used(
    planned: bool, count: int
) -> None:
    bench, tail, refused = Bench(limits=Limits(producer_gaps=count // 3)), 0, 0
    for first, number in enumerate(Random(1).sample(range(1, 10**6, 7), count)):
        bench.stage(first, first + 1)
        if planned:
            told = plan(bench, number, Share("a", (receipt(first, first + 1),), 5))
            if isinstance(told, Declined):
                assert told.error == "SequenceTooOld"
            else:
                assert told.shares
        told = publish(bench, number, receipt(first, first + 1), digest=first + 1)
        if isinstance(told, Declined):
            refused += 1
            assert (told.error, f"sequence is {number};" in told.text) == ("SequenceTooOld", True)
        else:
            tail += 1
            assert (told.repeated, bench.queue.tail) == (False, tail)
    assert tail > count // 3
    assert refused > 0
    assert tail + refused == count


# --- plans ----------------------------------------------------------------------------------------

FIRST = (Share("a", (receipt(0, 1),), 4), Share("b", (receipt(1, 3),), 5))
SECOND = (Share("b", (receipt(7, 9),), 6), Share("c", (receipt(9, 10),), 3))


def test_the_first_plan_stands_however_the_same_items_are_shared_out_later() -> None:
    bench = Bench()
    assert plan(bench, 1, *FIRST) == Planned(FIRST)
    for one in (bench, bench.crashed()):
        assert plan(one, 1, *SECOND) == Planned(FIRST)
        assert plan(one, 1, *SECOND, digest=0) == Planned(FIRST)
        assert plan(one, 2, *SECOND) == Planned(SECOND)
        for shares in (SECOND, ()):
            said = refused(plan(one, 1, *shares, digest=8))
            assert "was published before, with 3 items" in said


def test_a_plan_is_not_told_before_it_is_safe() -> None:
    bench = Bench()
    ask = Plan("q", "load", 1, FIRST, 9)
    bench.begin(bench.master.publishing.plan, ask)
    assert (bench.told, list(bench.crashed().queue.publications)) == ([], [])
    bench.flush()
    assert bench.told == [Planned(FIRST)]


@pytest.mark.parametrize("digest", [9, 0])
def test_a_plan_ends_when_its_number_is_published_where_it_was_written_down(digest: int) -> None:
    bench = Bench()
    plan(bench, 1, *FIRST)
    assert publish(bench, 1, digest=digest) == PutDone(0, 0, 1, True)
    for one in (bench, bench.crashed()):
        assert one.queue.publications.plans == 0
        assert plan(one, 1, *SECOND) == Planned((), ended=True)
        assert publish(one, 1, digest=9).repeated
        refused(plan(one, 1, *SECOND, digest=8))
        assert one.queue.publications.plans == 0


def test_an_empty_plan_is_written_down_nowhere() -> None:
    bench = Bench()
    assert plan(bench, 1, digest=1) == Planned(())
    assert plan(bench, 1, *FIRST) == Planned(FIRST)


def test_so_many_plans_may_be_open_and_more_are_refused() -> None:
    bench = Bench()
    for number in range(PLANS_MAX):
        plan(bench, number, *FIRST)
    for one in (bench, bench.crashed()):
        over = plan(one, PLANS_MAX, *FIRST)
        assert isinstance(over, Declined)
        assert over.error == "Full"
        publish(one, 0, digest=9)
        assert plan(one, PLANS_MAX, *FIRST) == Planned(FIRST)


def test_open_plans_may_name_so_many_batches_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snowmelt.protocols.fifo.publications.PLANNED_MAX", 5)
    bench = Bench()
    two = Share("a", (receipt(0, 1), receipt(1, 2)), 5)
    assert plan(bench, 1, two) == plan(bench, 1, two) == Planned((two,))
    assert plan(bench, 2, two) == Planned((two,))
    for one in (bench, bench.crashed()):
        over = plan(one, 3, two)
        assert isinstance(over, Declined)
        assert "2 publications of 4 batches" in over.text
        publish(one, 1, digest=9)
        assert plan(one, 3, two) == Planned((two,))
