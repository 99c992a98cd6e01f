"""What the client decides of a queue of several partitions, without any node."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snowmelt.client.connection.steps import Query, Sleep, Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.leases.delivered import LateRefusal, LeasedItems
from snowmelt.client.leases.steps import LeaseUpdate
from snowmelt.client.parted.looks import selected, summed
from snowmelt.client.parted.order import PutOrder
from snowmelt.client.parted.parts import PartitionedQueue, home_of, together
from snowmelt.client.queue.bodies import PutItems, parcel
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.batch import Batch
from snowmelt.core.errors import Full, LeaseLost, NoSuchQueue, SnowmeltError, Unavailable
from snowmelt.core.instant import Duration, Instant
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api.calls import ItemRun, PutDone, QueueStatus, Select
from snowmelt.protocols.queue.api.settings import QueueSettings

# --- selection ------------------------------------------------------------------------------------


def taken(steps: Steps[Any]) -> Any:
    """What steps return that ask nobody."""
    try:
        while True:
            one = next(steps)
            assert isinstance(one, Sleep)
    except StopIteration as end:
        return end.value


class Rows:
    """Sorted rows, of which one item is asked at a time."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.rows = [sorted(row) for row in rows]
        self.asked = 0

    def nth(self, row: int, rank: int) -> Steps[tuple[int, int] | None]:
        self.asked += 1
        yield Sleep(0)
        values = self.rows[row]
        return (values[rank - 1], row) if rank <= len(values) else None

    def select(self, ask: Select, sizes: Sequence[int] | None = None) -> Any:
        ready = sizes or [len(row) for row in self.rows]
        return taken(selected(ready, ask, self.nth, lambda one: one))


@given(st.lists(st.lists(st.integers(-9, 9), max_size=40), min_size=1, max_size=9), st.data())
def test_the_item_of_a_rank_is_the_one_that_it_is_in_all_rows_together(rows, data):
    made = Rows(rows)
    everything = sorted((one, at) for at, row in enumerate(made.rows) for one in row)
    rank = data.draw(st.integers(1, len(everything) + 2))
    expected = everything[rank - 1] if rank <= len(everything) else None
    assert made.select(Select("log", rank)) == expected


def test_a_share_of_all_and_how_many_questions_it_takes():
    chance = Random(7)
    numbers = [chance.getrandbits(60) for _ in range(100_000)]
    made = Rows([numbers[at::8] for at in range(8)])
    assert made.select(Select("log", 0, 0.5))[0] == sorted(numbers)[49_999]
    assert made.asked < 8 * 20
    assert made.select(Select("log", 0, 0.0))[0] == min(numbers)
    assert made.select(Select("log", 0, 1.0))[0] == max(numbers)


def test_rows_that_became_shorter_meanwhile_end_it_all_the_same():
    made = Rows([range(10), range(10, 20), []])
    assert made.select(Select("log", 15), [100, 100, 100]) is not None
    assert made.select(Select("log", 250), [100, 100, 100]) is None


# --- puts -----------------------------------------------------------------------------------------


class FakePart:
    """A partition with so much room."""

    def __init__(self, name: str, room: int) -> None:
        self.name = name
        self.room = room
        self.asked: list[tuple[int, int | None]] = []
        self.told: list[LeaseUpdate] = []
        self.refuses = False
        self.away = False

    def put_parcel(
        self,
        items: PutItems,
        headers: bytes,
        due: int,
        wait: Wait,
        sequence: int | None,
        *,
        eager: bool = False,
    ) -> Steps[PutDone]:
        del headers, due
        self.asked.append((wait.patience, sequence))
        yield Sleep(0)
        if self.away:
            assert eager, "else it waits"
            raise Unavailable(f"{self.name} waits for n3")
        if self.room < items.count:
            raise Full(f"{self.name} is full")
        self.room -= items.count
        return PutDone(0, items.count, 1, True)

    def delivered(self, leased: Any, asked: Instant, bytes_max: int) -> Steps[LeasedItems | None]:
        raise NotImplementedError

    def tell(
        self, delivered: LeasedItems, word: LeaseUpdate
    ) -> Steps[tuple[Instant, LateRefusal | None]]:
        del delivered
        yield Sleep(0)
        self.told.append(word)
        return Instant(5), LateRefusal(f"{self.name} refuses") if self.refuses else None

    def tell_done(self, word: LeaseUpdate, wait: Wait) -> Steps[LateRefusal | None]:
        del wait
        yield Sleep(0)
        self.told.append(word)
        return LateRefusal(f"{self.name} refuses") if self.refuses else None

    def ask_about(self, body: Any, timeout: float, weight: int = 0) -> Steps[Any]:
        yield Query(body, timeout, weight=weight)
        raise NotImplementedError


class NoDoor:
    since = 1
    away_parts: tuple[int, ...] = ()

    def ask_door(self, body: Any, wait: Wait, weight: int) -> Steps[tuple[Any, Instant]]:
        yield Query(body, wait.left, weight=weight)
        raise NotImplementedError

    def ended(self, error: NoSuchQueue, *, of_lease: bool = False) -> SnowmeltError:
        return LeaseLost("gone") if of_lease else error


def parts_of(
    *room: int, producer: ProducerSequence | None = None, bounded: bool = True
) -> PartitionedQueue:
    some = [FakePart(f"log/{at}", one) for at, one in enumerate(room)]
    parts = PartitionedQueue("log", NoDoor(), some, producer or ProducerSequence())
    parts.bounded = bounded
    return parts


def put(
    parts: PartitionedQueue, timeout: float = 0.0, sequence: int | None = None
) -> Steps[PutDone]:
    return parts.put(parcel(b"one"), b"", 0, Wait(timeout), sequence)


def asked_of(parts: PartitionedQueue) -> list[int]:
    return [len(part.asked) for part in parts.all]  # type: ignore[attr-defined]


def test_puts_go_round_one_after_the_other():
    parts = parts_of(9, 9, 9, bounded=False)
    for _ in range(6):
        taken(put(parts))
    assert asked_of(parts) == [2, 2, 2]


def test_what_is_asked_meanwhile_lies_in_the_same_partition():
    parts = parts_of(9, 9, 9, bounded=False)
    begun = [put(parts) for _ in range(3)]
    for one in begun:
        next(one)
    assert sorted(asked_of(parts)) == [0, 0, 3]
    for one in begun:
        taken(one)
    taken(put(parts))
    assert sorted(asked_of(parts)) == [0, 1, 3]


def test_a_producer_with_a_name_has_one_partition():
    parts = parts_of(9, 9, 9, 9, producer=ProducerSequence("loader", 1), bounded=False)
    for number in range(4):
        taken(put(parts, sequence=number))
    assert asked_of(parts)[home_of(b"loader", 4)] == 4
    assert sum(asked_of(parts)) == 4


def test_a_full_partition_is_passed_over():
    parts = parts_of(0, 0, 1, 0)
    taken(put(parts))
    assert [part.room for part in parts.all] == [0, 0, 0, 0]  # type: ignore[attr-defined]


def test_a_partition_that_is_away_is_passed_over():
    parts = parts_of(9, 9, 9, bounded=False)
    parts.all[1].away = True  # type: ignore[attr-defined]
    for _ in range(9):
        taken(put(parts, timeout=5.0))
    assert [part.room for part in parts.all][1] == 9  # type: ignore[attr-defined]
    assert sum(part.room for part in parts.all) == 18  # type: ignore[attr-defined]


def test_that_all_are_away_is_said_when_the_time_is_over():
    parts = parts_of(9, 9, bounded=False)
    for part in parts.all:
        part.away = True  # type: ignore[attr-defined]
    with pytest.raises(Unavailable, match="waits for n3"):
        taken(put(parts, timeout=0.0))


def test_full_is_said_when_each_had_no_room():
    parts = parts_of(0, 0, 0)
    with pytest.raises(Full, match="none of the 3 partitions of 'log' has room; the last: log/"):
        taken(put(parts))
    assert all(asked_of(parts))


def test_who_waits_for_room_takes_it_wherever_it_is_made():
    parts = parts_of(0, 0, 0)
    steps = put(parts, timeout=5.0)
    for _ in range(10):
        next(steps)
    waited = [patience for part in parts.all for patience, _ in part.asked]  # type: ignore[attr-defined]
    assert any(waited)
    assert max(waited) <= 500_000_000
    parts.all[1].room = 1  # type: ignore[attr-defined]
    taken(steps)
    assert parts.all[1].room == 0  # type: ignore[attr-defined]


def test_a_put_into_a_queue_with_a_bound_waits_for_those_before_it():
    parts = parts_of(0, 1, 1)
    parts._producer.order = order = PutOrder(Random(1))
    order._part = 2  # the next is 0
    one, two = put(parts, timeout=5.0), put(parts, timeout=5.0)
    for _ in range(2):  # the first looks for room, the second for the first
        next(one), next(two)
        assert parts.all[2].asked == []  # type: ignore[attr-defined]
    taken(one)
    assert asked_of(parts) == [1, 1, 0]
    taken(two)
    assert asked_of(parts) == [1, 1, 1]
    late = put(parts), put(parts)  # whose time is over does not wait
    next(late[0])
    with pytest.raises(Full):
        taken(late[1])


def test_a_child_has_no_puts_of_its_parent():
    order = PutOrder(Random(1))
    order.begin(3)
    order.forked()
    assert order.before(order.next) == 0


# --- leases ---------------------------------------------------------------------------------------


def piece(start: int, count: int, token: int, ends: int = 100) -> LeasedItems:
    batch = Batch.of([b"%d" % (start + at) for at in range(count)])
    part = ItemRun(start, bytes(batch.offsets), bytes(batch.blob))
    return LeasedItems(token, (part,), Duration(30), Instant(ends))


def shared() -> LeasedItems:
    """0 to 2 of partition 1, 2 and 3 of partition 0, 4 of partition 2."""
    return together([(0, piece(2, 2, 7)), (1, piece(0, 2, 7, ends=50)), (2, piece(4, 1, 9))])


def test_what_several_gave_is_one_lease_in_order():
    delivered = shared()
    assert delivered.positions == (Interval(0, 5),)
    assert (delivered.ends, len(delivered)) == (50, 5)


def test_a_word_goes_to_whom_it_concerns():
    parts, delivered = parts_of(0, 0, 0), shared()
    word = LeaseUpdate(delivered.token, done=(Interval(1, 3),), back=(Interval(3, 4),), reason="no")
    taken(parts.tell(delivered, word))
    told = [part.told for part in parts.all]  # type: ignore[attr-defined]
    assert told[0] == [LeaseUpdate(7, done=(Interval(2, 3),), back=(Interval(3, 4),), reason="no")]
    assert told[1] == [LeaseUpdate(7, done=(Interval(1, 2),), reason="no")]
    assert told[2] == []


def test_what_is_extended_is_what_is_held_still():
    parts, delivered = parts_of(0, 0, 0), shared()
    delivered.settled((Interval(0, 2),))
    asked, refused = taken(parts.tell(delivered, LeaseUpdate(delivered.token, extend=True)))
    assert (asked, refused) == (5, None)
    assert [len(part.told) for part in parts.all] == [1, 0, 1]  # type: ignore[attr-defined]


def test_what_one_partition_refuses_is_lost_alone():
    parts, delivered = parts_of(0, 0, 0), shared()
    parts.all[0].refuses = True  # type: ignore[attr-defined]
    _, refused = taken(parts.tell(delivered, LeaseUpdate(delivered.token, done=(Interval(0, 5),))))
    assert refused == LateRefusal("log/0 refuses", (Interval(2, 4),))
    late = taken(parts.tell_done(LeaseUpdate(delivered.token, done=(Interval(0, 3),)), Wait(1)))
    assert late == LateRefusal("log/0 refuses", (Interval(2, 3),))


def test_leases_of_different_partitions_have_different_numbers():
    one, other = together([(0, piece(0, 1, 7))]), together([(1, piece(1, 1, 7))])
    assert one.token != other.token
    assert together([(0, piece(0, 1, 8))]).token > one.token


# --- how it is ------------------------------------------------------------------------------------


def status(part: int, **counts: Any) -> QueueStatus:
    zero = {"term": 1, "paused": False, "ready": 0, "delayed": 0, "leased": 0, "dead": 0}
    more = "bytes", "tail", "done", "lost", "waiting_gets", "waiting_puts", "blocks"
    zero |= dict.fromkeys((*more, "short_of_copies", "producers"), 0)
    settings = QueueSettings(partitions=3, priorities=2)
    return QueueStatus(f"log/{part}", settings, NodeId(f"n{part}"), (), **(zero | counts))


def test_counts_are_added_and_who_is_away_is_named():
    found = {
        0: status(
            0,
            ready=2,
            tail=9,
            leased=1,
            ready_of=(1, 1),
            tails=(3, 8),
            oldest_ready=2.5,
            followers_behind=1,
        ),
        2: status(
            2,
            ready=5,
            tail=4,
            paused=True,
            copied=40,
            ready_of=(5, 0),
            tails=(4, 0),
            followers_behind=1,
        ),
    }
    told = summed("log", 3, found)
    assert (told.queue, told.ready, told.leased, told.tail) == ("log", 7, 1, 9)
    assert (told.ready_of, told.tails, told.copied) == ((6, 1), (4, 8), 40)
    assert (told.oldest_ready, told.oldest_leased) == (2.5, None)
    assert (told.paused, told.leaders, told.away) == (True, ("n0", "", "n2"), (1,))
    assert told.followers_behind == 1  # each lacks the same one: that is one copy, and not two
