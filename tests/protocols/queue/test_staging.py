"""Staged batches: published once and whole or not at all, and kept until their time is over."""

import pytest
from alone import WALL, Alone

from snowmelt.core.batch import Batch
from snowmelt.core.instant import SECOND, Duration, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Requested
from snowmelt.core.record import BULK
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import (
    Describe,
    Get,
    PublishStaged,
    Purge,
    Put,
    PutDone,
    Receipt,
    Settle,
    Settled,
)
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits
from snowmelt.protocols.queue.state.blocks import STAGED

HOUR = Duration(3600 * SECOND)


@pytest.fixture
def alone():
    return Alone.of()


def put(*bodies, number=0, hold=HOUR, due=0):
    batch = Batch.of([body.encode() for body in bodies])
    offsets, blob = bytes(batch.offsets), bytes(batch.blob)
    return Put("q", "p", number, offsets, blob, due=due, hold=hold)


def stage(alone, *bodies, **more):
    return alone.said(put(*bodies, **more))


def publish(alone, number, *receipts, digest=0, producer="load"):
    return alone.said(PublishStaged("q", producer, number, receipts, digest))


def status(alone):
    return alone.said(Describe("q"))


def bodies(alone, most=100):
    leased = alone.said(Get("q", most, 1 << 20, Duration(0)))
    parts = [(part.start, Batch(part.offsets, part.blob)) for part in leased.parts]
    return [(start, [bytes(one).decode() for one in batch]) for start, batch in parts]


def on_the_disk(alone):
    """Where bodies lie."""
    records = alone.disk.scan(BULK, BULK + b"\xff", 1 << 30)
    return [int.from_bytes(one.key[-20:-12]) for one in records]


# --- what is staged -------------------------------------------------------------------------------


def test_what_is_staged_is_told_when_it_is_safe_and_in_no_queue(alone):
    assert alone.ask(put("a", "b", "c")) is None
    alone.flush()
    receipt = alone.answers[alone.calls]
    assert (receipt.first, receipt.stop, receipt.bytes) == (STAGED, STAGED + 3, 3)
    for _ in range(2):
        told = status(alone)
        assert (told.staged, told.tail, told.ready, told.bytes) == (3, 0, 0, 0)
        assert bodies(alone) == []
        alone.killed()


def test_who_asks_again_has_the_same_receipt(alone):
    first = stage(alone, "a")
    alone.give(Requested(OperationId(NodeId("c-1"), alone.calls), put("a")))
    alone.flush()
    assert (alone.answers[alone.calls], status(alone).staged) == (first, 1)
    assert stage(alone, "a") != first


def test_a_staged_put_has_no_number_among_the_puts(alone):
    assert not alone.said(put("a", number=7, hold=Duration(0))).repeated
    assert isinstance(stage(alone, "b", number=7), Receipt)
    assert alone.said(put("c", number=7, hold=Duration(0))).repeated


def test_so_many_may_be_staged_and_more_are_refused():
    alone = Alone.of(QueueLimits(staged=2))
    first, _ = stage(alone, "a"), stage(alone, "b")
    full = stage(alone, "c")
    assert (full.error, "2 batches are staged in queue 'q'" in full.text) == ("Full", True)
    publish(alone, 1, first)
    alone.give(Requested(OperationId(NodeId("c-1"), alone.calls - 1), put("c")))
    alone.flush()
    assert alone.answers[alone.calls - 1] == full  # what was refused does not come
    assert isinstance(stage(alone, "c"), Receipt)


def test_when_its_time_is_over_it_is_erased_whoever_leads(alone):
    first = stage(alone, "a", "b", hold=Duration(2 * SECOND))
    second = stage(alone, "c", hold=Duration(4 * SECOND))
    alone.wait(seconds(1.9))
    assert (status(alone).staged, on_the_disk(alone)) == (3, [first.first, second.first])
    alone.wait(seconds(0.2))
    alone.flush()
    assert (status(alone).staged, on_the_disk(alone)) == (1, [second.first])
    assert publish(alone, 1, first).error == "NotStaged"
    alone.killed()
    alone.wait(seconds(3))
    alone.flush()
    assert (status(alone).staged, on_the_disk(alone)) == (0, [])
    assert stage(alone, "d").first > second.first


def test_what_was_published_is_not_erased_when_its_time_would_be_over(alone):
    publish(alone, 1, stage(alone, "a", "b", hold=Duration(SECOND)))
    alone.wait(seconds(5))
    alone.flush()
    assert bodies(alone) == [(0, ["a", "b"])]


# --- what is published ----------------------------------------------------------------------------


def test_bodies_stay_where_they_are_and_are_erased_when_their_items_are_done(alone):
    receipts = [stage(alone, "a", "b"), stage(alone, "c"), stage(alone, "d", "e")]
    alone.said(put("x", "y", number=1, hold=Duration(0)))
    assert publish(alone, 1, receipts[2], receipts[0]) == PutDone(2, 6, 1, True)
    for _ in range(2):
        assert on_the_disk(alone) == [0, *[one.first for one in receipts]]
        alone.killed()
    leased = alone.said(Get("q", 100, 1 << 20, Duration(0)))
    assert b"".join(bytes(part.blob) for part in leased.parts) == b"xydeab"
    done = Interval(1, 5)  # one of each end lives
    assert alone.said(Settle("q", leased.token, (done,))) == Settled(2)
    assert on_the_disk(alone) == [0, receipts[0].first, receipts[1].first]
    alone.killed()
    leased = alone.said(Get("q", 100, 1 << 20, Duration(0)))
    assert [(part.start, bytes(part.blob)) for part in leased.parts] == [(0, b"x"), (5, b"b")]


def test_what_failed_is_told_by_its_positions(alone):
    publish(alone, 1, stage(alone, "a", "b", "c"))
    token = alone.said(Get("q", 3, 1 << 20, Duration(0))).token
    alone.said(Settle("q", token, back=(Interval(1, 2),), reason="broken"))
    alone.said(Settle("q", token, back=(Interval(0, 1), Interval(2, 3))))
    parts = alone.said(Get("q", 3, 1 << 20, Duration(0))).parts
    told = [(part.start, bytes(part.blob), part.failures) for part in parts]
    assert told == [(0, b"a", 0), (1, b"b", 1), (2, b"c", 0)]


def test_a_publication_that_was_not_safe_is_not_half_there_after_a_crash(alone):
    receipts = stage(alone, "a", "b", "c"), stage(alone, "d")
    alone.ask(PublishStaged("q", "load", 1, receipts))
    assert alone.calls not in alone.answers
    alone.killed()
    assert (status(alone).staged, status(alone).ready) == (4, 0)
    assert publish(alone, 1, *receipts) == PutDone(0, 4, 1, True)
    assert (status(alone).staged, status(alone).ready) == (0, 4)


def test_the_same_number_is_the_same_publication_across_terms(alone):
    first, second = stage(alone, "a", "b", "c"), stage(alone, "d", "e")
    assert publish(alone, 1, second, first) == PutDone(0, 5, 1, True)
    for _ in range(2):
        again = publish(alone, 1, second, first)
        assert again == PutDone(0, 5, 1, True, repeated=True)
        assert publish(alone, 1, Receipt("1", 90, 99, 1)) == again  # whatever it names now
        assert status(alone).tail == 5
        alone.killed()
    assert bodies(alone) == [(0, ["d", "e", "a", "b", "c"])]


def test_a_repeated_publication_is_not_told_before_the_first_is_safe(alone):
    receipt = stage(alone, "a")
    for _ in range(2):
        assert alone.ask(PublishStaged("q", "load", 1, (receipt,))) is None
    alone.flush()
    told = [alone.answers[alone.calls - one] for one in (1, 0)]
    assert [one.repeated for one in told] == [False, True]
    assert status(alone).ready == 1


def there(alone):
    return stage(alone, "a", "b", "c"), stage(alone, "d", "e")


@pytest.mark.parametrize(
    ("named", "missing"),
    [
        (lambda a, b: (a, Receipt("9", b.first, b.stop, b.bytes)), 1),
        (lambda a, _: (a, a), 1),
        (lambda a, _: (Receipt(a.stream, a.first, a.stop - 1, 1),), 1),
        (lambda a, _: (Receipt(a.stream, a.first + 1, a.stop, 1),), 1),
        (lambda a, _: (Receipt(a.stream, -1, 3, 1), Receipt("n1/1/1", 2**62, 2**63 - 1, 1)), 2),
    ],
)
def test_nothing_is_published_when_a_batch_is_not_there(alone, named, missing):
    both = there(alone)
    refused = publish(alone, 1, *named(*both))
    assert (refused.error, refused.text.split()[0]) == ("NotStaged", str(missing))
    assert (status(alone).tail, status(alone).staged) == (0, 5)
    assert publish(alone, 1, *both) == PutDone(0, 5, 1, True)


def test_what_does_not_fit_is_not_published_and_not_forgotten():
    alone = Alone.of(items_max=6)
    alone.said(put("x", "y", hold=Duration(0)))
    both = there(alone)
    many = stage(alone, *"abcdefg")
    full = publish(alone, 1, *both)
    assert (full.error, "holds 2 items" in full.text) == ("Full", True)
    asked = alone.calls
    assert "never fit" in publish(alone, 1, many).text
    assert status(alone).staged == 12
    alone.said(Purge("q"))
    again = Requested(OperationId(NodeId("c-1"), asked), PublishStaged("q", "load", 1, both))
    alone.give(again)
    alone.flush()
    assert alone.answers[asked] == full  # what was refused does not come, though there is room
    assert publish(alone, 1, *both) == PutDone(2, 7, 1, True)


def test_a_delayed_batch_waits_for_its_moment_whoever_leads(alone):
    late = [stage(alone, "a", due=WALL + 30 * SECOND), stage(alone, "b", due=-30 * SECOND)]
    receipts = *late, stage(alone, "c"), stage(alone, "d", due=WALL + SECOND)
    alone.wait(seconds(2))
    publish(alone, 1, *receipts)
    assert (status(alone).ready, status(alone).delayed) == (2, 2)
    alone.killed()
    assert (status(alone).ready, status(alone).delayed) == (2, 2)
    alone.wait(seconds(30))
    assert bodies(alone) == [(0, ["a", "b", "c", "d"])]


def test_where_it_went_is_known_of_the_last_and_that_it_went_of_all(alone):
    count = 2 * LIMITS.producer_recent + 1
    receipts = [stage(alone, str(number)) for number in range(count)]
    for number, receipt in enumerate(receipts):
        publish(alone, number, receipt)
    for _ in range(2):
        assert publish(alone, 0, receipts[0]) == PutDone(0, 0, 0, True, repeated=True)
        again = publish(alone, count - 1, receipts[-1])
        assert again == PutDone(count - 1, count, 1, True, repeated=True)
        alone.killed()
    assert status(alone).tail == count


def test_an_empty_publication_is_noted_as_well(alone):
    receipt = stage(alone, "a")
    assert publish(alone, 1) == PutDone(0, 0, 1, True)
    assert publish(alone, 1, receipt) == PutDone(0, 0, 0, True, repeated=True)
    assert status(alone).staged == 1


def test_below_too_many_gaps_nothing_is_published():
    alone = Alone.of(QueueLimits(producer_gaps=3, producer_recent=2))
    receipt = stage(alone, "a")
    for number in range(10, 40, 3):
        publish(alone, number)
    assert publish(alone, 11, receipt).error == "SequenceTooOld"
    assert publish(alone, 41, receipt) == PutDone(0, 1, 1, True)


def test_a_get_that_waits_has_what_is_published(alone):
    receipt = stage(alone, "a")
    alone.ask(Get("q", 9, 1 << 20, seconds(9)))
    waiting = alone.calls
    publish(alone, 1, receipt)
    assert [bytes(part.blob) for part in alone.answers[waiting].parts] == [b"a"]


def test_what_a_crash_takes_while_flushes_linger_is_not_staged_and_nothing_else_is_named():
    alone = Alone.of(linger=Duration(10 * SECOND))
    alone.said(put("x", hold=Duration(0)))
    alone.ask(put("a"))
    receipt = alone.answers[alone.calls]  # told before its flush
    alone.killed()
    alone.ask(put("b"))
    assert alone.answers[alone.calls].first == receipt.first
    refused = publish(alone, 1, receipt)
    assert isinstance(refused, Declined)
    assert refused.error == "NotStaged"
