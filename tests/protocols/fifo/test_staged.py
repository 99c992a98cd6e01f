"""Staged batches: published once and whole or not at all, and kept until their time is over."""

import time
from random import Random
from typing import Any

import pytest
from master_bench import KEEPERS, MEMBERS, OTHER, OWN, WALL, Bench

from snowmelt.client.fifo.steps import due_of
from snowmelt.core.instant import Instant
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo.calls import Publish, PutDone, Receipt, Settle, Settled
from snowmelt.protocols.fifo.limits import LIMITS, Limits
from snowmelt.protocols.fifo.messages import Admitted, Keep
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.protocols.fifo.staged import Staged, StagedBatch
from snowmelt.protocols.fifo.streams import Presence
from snowmelt.protocols.membership import Member, View

SECOND = 10**9


def receipt(first: int, stop: int, stream: str = OTHER) -> Receipt:
    return Receipt(stream, first, stop, 10 * (stop - first))


def publication(number: int, *receipts: Receipt) -> Publish:
    return Publish("q", "loader", number, receipts)


def publish(bench: Bench, number: int, *receipts: Receipt) -> PutDone | Declined:
    return bench.ask(bench.master.publishing.publish, publication(number, *receipts))


def verdicts(bench: Bench) -> list[tuple[int, bool, str]]:
    told = [message for _, message in bench.sent if isinstance(message, Admitted)]
    return [(one.first, one.dropped, one.error) for some in told for one in some.verdicts]


def staged(bench: Bench) -> list[tuple[str, int]]:
    return [name for name, _ in bench.queue.staged]


def test_what_is_staged_is_told_when_it_is_safe_and_in_no_queue() -> None:
    bench = Bench()
    bench.stage(0, 3)
    bench.collect()
    assert verdicts(bench) == []
    assert staged(bench.crashed()) == []
    bench.flush()
    assert verdicts(bench) == [(0, False, "")]
    assert (bench.queue.tail, bench.queue.staged.items) == (0, 3)
    bench.stage(0, 3)  # offered again: the answer was lost
    bench.flush()
    assert verdicts(bench) == [(0, False, ""), (0, False, "")]
    later = bench.crashed()
    later.stage(0, 3)
    later.flush()
    assert (verdicts(later), staged(later)) == ([(0, False, "")], [(OTHER, 0)])


def test_a_publication_that_was_not_safe_is_not_half_there_after_a_crash() -> None:
    bench = Bench()
    bench.stage(0, 3)
    bench.stage(3, 5)
    bench.flush()
    bench.begin(bench.master.publishing.publish, publication(1, receipt(0, 3), receipt(3, 5)))
    assert (bench.told, bench.queue.ready.total, bench.queue.alive.total) == ([], 0, 5)
    later = bench.crashed()
    assert (staged(later), later.queue.alive.total) == ([(OTHER, 0), (OTHER, 3)], 0)
    assert publish(later, 1, receipt(0, 3), receipt(3, 5)) == PutDone(0, 5, 1, True)
    assert (later.queue.staged.items, list(later.queue.ready)) == (0, [Interval(0, 5)])


def test_the_same_number_is_the_same_publication_across_masters() -> None:
    bench = Bench()
    bench.stage(0, 3)
    bench.stage(3, 5)
    bench.flush()
    assert publish(bench, 1, receipt(3, 5), receipt(0, 3)) == PutDone(0, 5, 1, True)
    for later in (bench, bench.crashed()):
        again = publish(later, 1, receipt(3, 5), receipt(0, 3))
        assert again == PutDone(0, 5, 1, True, repeated=True)
        assert publish(later, 1, receipt(90, 99)) == again  # whatever it names the second time
        assert later.queue.tail == 5
    lanes = [(lane.first, lane.count) for run in bench.queue.runs for lane in run.lanes]
    assert lanes == [(3, 2), (0, 3)]


def test_a_repeated_publication_is_not_told_before_the_first_is_safe() -> None:
    bench = Bench()
    bench.stage(0, 3)
    bench.flush()
    for _ in range(2):
        bench.begin(bench.master.publishing.publish, publication(1, receipt(0, 3)))
    assert bench.told == []
    bench.write()  # on its way to the disk, and no further
    bench.begin(bench.master.publishing.publish, publication(1, receipt(0, 3)))
    bench.write()
    assert bench.journal.due() == []
    bench.flush()
    assert [one.repeated for one in bench.told] == [False, True, True]
    assert bench.queue.alive.total == 3


@pytest.mark.parametrize(
    ("named", "missing"),
    [
        ((receipt(0, 3), receipt(3, 5, OWN)), 1),
        ((receipt(0, 3), receipt(0, 3)), 1),
        ((receipt(0, 2),), 1),
        ((receipt(1, 3),), 1),
        ((receipt(-1, 3), receipt(2**63, 2**64 - 1)), 2),
        ((receipt(0, 3, "n9/9/9"), receipt(3, 5)), 1),
    ],
)
def test_nothing_is_published_when_a_batch_is_not_there(named: Any, missing: int) -> None:
    bench = Bench()
    bench.stage(0, 3)
    bench.stage(3, 5)
    bench.flush()
    refused = publish(bench, 1, *named)
    assert isinstance(refused, Declined)
    assert (refused.error, refused.text.split()[0]) == ("NotStaged", str(missing))
    assert (bench.queue.tail, bench.queue.staged.items) == (0, 5)
    assert publish(bench, 1, receipt(0, 3), receipt(3, 5)) == PutDone(0, 5, 1, True)


def test_what_does_not_fit_is_not_published_and_not_forgotten() -> None:
    bench = Bench(items_max=6)
    bench.offer(0, 2)
    bench.stage(2, 5)
    bench.stage(5, 7)
    bench.stage(7, 20)
    bench.flush()
    both = receipt(2, 5), receipt(5, 7)
    full = publish(bench, 1, *both)
    assert isinstance(full, Declined)
    assert (full.error, "holds 2 items" in full.text) == ("Full", True)
    never = publish(bench, 1, receipt(7, 20))
    assert isinstance(never, Declined)
    assert "never fit" in never.text
    assert bench.queue.staged.items == 18
    bench.queue.purge(dead=False)
    assert publish(bench, 1, *both) == PutDone(2, 7, 1, True)


def test_a_batch_whose_disks_are_all_gone_is_not_published() -> None:
    bench = Bench()
    bench.stage(0, 3, keepers=KEEPERS[1:2])
    bench.flush()
    away = View(2, 1, NodeId("n1"), MEMBERS[:1])
    bench.desk.set_presence(Presence(away))  # it may come back
    reborn = Member(NodeId("n2"), MEMBERS[1].address, birth=2, start=1)
    back = View(3, 1, NodeId("n1"), (MEMBERS[0], reborn))
    bench.desk.set_presence(Presence(back))
    refused = publish(bench, 1, receipt(0, 3))
    assert isinstance(refused, Declined)
    assert refused.error == "NotStaged"


def test_when_its_time_is_over_it_is_erased_but_not_before_that_is_safe() -> None:
    bench = Bench()
    bench.stage(0, 3, hold=2 * SECOND)
    bench.stage(3, 5, hold=4 * SECOND)
    bench.flush()
    bench.pass_time(1.9)
    bench.flush()
    assert (bench.queue.staged.items, bench.dropped()) == (5, [])
    assert bench.desk.alarms.next is not None
    bench.pass_time(0.2)
    bench.collect()
    assert bench.dropped() == []
    assert staged(bench.crashed()) == [(OTHER, 0), (OTHER, 3)]
    bench.flush()
    assert bench.dropped() == [(OTHER, 0, 3)]
    assert staged(bench) == staged(bench.crashed()) == [(OTHER, 3)]
    refused = publish(bench, 1, receipt(0, 3))
    assert isinstance(refused, Declined)
    later = bench.crashed()
    later.pass_time(2)
    later.flush()
    assert later.dropped() == [(OTHER, 3, 5)]


def test_what_was_published_is_not_erased_when_its_time_would_be_over() -> None:
    bench = Bench()
    bench.stage(0, 3, hold=SECOND)
    bench.flush()
    publish(bench, 1, receipt(0, 3))
    bench.pass_time(5)
    bench.flush()
    assert (bench.dropped(), list(bench.queue.ready)) == ([], [Interval(0, 3)])


def test_keepers_are_told_to_keep_it_though_its_stream_has_ended() -> None:
    bench = Bench()
    bench.stage(0, 3, hold=100 * SECOND)
    bench.flush()
    restarted = Member(NodeId("n2"), MEMBERS[1].address, birth=1, start=2)
    bench.desk.set_presence(Presence(View(2, 1, NodeId("n1"), (MEMBERS[0], restarted))))
    bench.master.repair.viewed()
    bench.flush()
    kept = [message for _, message in bench.sent if isinstance(message, Keep)]
    assert sorted(one.run for one in kept) == ["n1/1/1", "n2/1/2"]
    for keep in kept:
        assert [(one.stream, one.first, one.stop) for one in keep.extents] == [(OTHER, 0, 3)]
    assert OTHER not in bench.queue.streams
    assert publish(bench, 1, receipt(0, 3)) == PutDone(0, 3, 1, True)


def test_a_staged_put_has_no_number_among_the_puts() -> None:
    bench = Bench()
    bench.offer(0, 2, sequence=7)
    bench.flush()
    bench.stage(2, 4, sequence=7)
    bench.flush()
    assert verdicts(bench) == [(0, False, ""), (2, False, "")]
    assert staged(bench) == [(OTHER, 2)]
    bench.offer(4, 6, sequence=7)  # but a put with this number is a repeated one
    bench.flush()
    assert verdicts(bench)[-1] == (4, True, "")


def test_what_found_no_room_on_the_disk_is_forgotten() -> None:
    bench = Bench()
    bench.stage(0, 3, OWN)
    bench.stage(3, 5, OWN)
    bench.write()
    bench.master.admission.unstored(OWN, 0)
    bench.flush()
    assert verdicts(bench) == [(3, False, "")]
    assert staged(bench) == staged(bench.crashed()) == [(OWN, 3)]
    bench.master.admission.unstored(OWN, 3)  # it was told: it is safe, whatever is said now
    bench.flush()
    assert staged(bench) == [(OWN, 3)]


def test_a_master_that_stops_withdraws_what_it_did_not_tell() -> None:
    bench = Bench()
    bench.stage(0, 3, OWN)
    bench.flush()
    bench.stage(3, 5, OWN)
    bench.master.admission.withdraw()
    bench.flush()
    later = bench.crashed()
    assert (staged(later), verdicts(bench)) == ([(OWN, 0)], [(0, False, "")])
    later.stage(3, 5, OWN)  # it is offered anew
    later.flush()
    assert staged(later) == [(OWN, 0), (OWN, 3)]


def test_a_delayed_batch_waits_for_its_moment_wherever_its_master_is() -> None:
    bench = Bench()
    bench.stage(0, 3, due=WALL + 3 * SECOND)
    bench.stage(3, 5)
    bench.stage(5, 6, due=WALL - SECOND)
    bench.flush()
    publish(bench, 1, receipt(0, 3), receipt(3, 5), receipt(5, 6))
    for one in (bench, bench.crashed()):
        assert (list(one.queue.ready), one.queue.delays.total) == ([Interval(3, 6)], 3)
        one.pass_time(3)
        one.flush()
        assert list(one.queue.ready) == [Interval(0, 6)]


@pytest.mark.parametrize("hours", [-2, 0, 2])
def test_a_delay_is_as_long_as_it_was_meant_whatever_the_clock_shows(hours: int) -> None:
    bench = Bench()
    bench.desk.set_wall(WALL + hours * 3600 * SECOND, Instant(0))  # the caller's shows WALL
    bench.stage(0, 3, due=-SECOND)
    bench.offer(3, 5, due=due_of(1.0))
    bench.flush()
    publish(bench, 1, receipt(0, 3))
    lease = bench.queue.lease(OperationId(NodeId("c-1"), 1), 100, 1 << 20, bench.desk.now)
    assert lease is None
    bench.pass_time(1)
    bench.flush()
    lease = bench.queue.lease(OperationId(NodeId("c-1"), 2), 100, 1 << 20, bench.desk.now)
    assert lease is not None
    back = Settle("q", lease.token, back=(Interval(0, 5),), due=due_of(1.0))
    assert bench.ask(bench.master.settle, back) == Settled(0)
    assert bench.queue.ready.total == 0
    bench.pass_time(1)
    bench.flush()
    assert bench.queue.ready.total == 5


def test_where_it_went_is_known_of_the_last_publications_and_that_it_went_of_all() -> None:
    bench = Bench()
    for number in range(2 * LIMITS.producer_recent + 1):
        bench.stage(number, number + 1)
        bench.flush()
        publish(bench, number, receipt(number, number + 1))
    tail = bench.queue.tail
    for one in (bench, bench.crashed()):
        oldest = publish(one, 0, receipt(0, 1))
        assert oldest == PutDone(0, 0, 1, True, repeated=True)
        last = tail - 1
        again = publish(one, last, receipt(last, tail))
        assert again == PutDone(last, tail, 1, True, repeated=True)
        assert one.queue.tail == tail


def test_numbers_by_region_and_hour_are_all_published() -> None:
    """As a job with a batch for each has them: with many gaps, and in no order."""
    bench = Bench()
    numbers = [region * 10_000 + 7 * hour for hour in range(150) for region in range(12)]
    for at, number in enumerate(numbers):
        bench.stage(at, at + 1)
        bench.flush()
        assert publish(bench, number, receipt(at, at + 1)) == PutDone(at, at + 1, 1, True)
    later = bench.crashed()
    for number in numbers[::100]:
        again = publish(later, number, receipt(0, 1))
        assert isinstance(again, PutDone)
        assert again.repeated
    assert later.queue.tail == len(numbers)


def test_below_too_many_gaps_nothing_is_published() -> None:
    bench = Bench(limits=Limits(producer_gaps=3, producer_recent=2))
    bench.stage(0, 9)
    bench.flush()
    for number in range(10, 40, 3):
        publish(bench, number)
    refused = publish(bench, 11, receipt(0, 9))
    assert isinstance(refused, Declined)
    assert refused.error == "SequenceTooOld"
    assert publish(bench, 41, receipt(0, 9)) == PutDone(0, 9, 1, True)


def test_an_empty_publication_is_noted_as_well() -> None:
    bench = Bench()
    bench.stage(0, 3)
    bench.flush()
    assert publish(bench, 1) == PutDone(0, 0, 1, True)
    assert publish(bench, 1, receipt(0, 3)) == PutDone(0, 0, 1, True, repeated=True)
    assert staged(bench) == [(OTHER, 0)]


@pytest.mark.parametrize("seed", range(20))
def test_the_count_and_the_ends_are_right_whatever_happened(seed: int) -> None:
    chance = Random(seed)
    queue = Queue("q", QueueSettings())
    batches: dict[tuple[str, int], StagedBatch] = {}
    for _ in range(200):
        name = chance.choice("abc"), chance.randrange(8)
        if chance.random() < 0.6:
            until = chance.randrange(100)
            batch = StagedBatch(name[1] + chance.randrange(1, 5), 10, ("n1/1",), 0, until)
            batches[name] = batch
            queue.staged.keep(name, batch)
        else:
            batches.pop(name, None)
            queue.staged.forget(name)
        wall = chance.randrange(110)
        over = [name for name, batch in batches.items() if batch.until <= wall]
        assert sorted(name for name, _ in queue.staged.over(wall)) == sorted(over)
        assert queue.staged.items == sum(one.stop - first for (_, first), one in batches.items())
        assert len(queue.staged) == len(batches)


def test_many_that_wait_cost_nothing_while_they_wait() -> None:
    staged = Staged({})
    for first in range(20_000):
        staged.keep(("n1/1/1", first), StagedBatch(first + 1, 10, (), 0, WALL))
    begun = time.process_time()
    for _ in range(2_000):
        assert staged.over(Instant(0)) == []
        assert staged.items == 20_000
    assert time.process_time() - begun < 1.0
