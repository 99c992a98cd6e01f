"""What is remembered of producers: never too much, and never a guess."""

from random import Random

import msgspec
import pytest

from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits
from snowmelt.protocols.queue.state.producers import FORGET_AFTER, NOT_REMEMBERED, Edges, Producers


class Journal:
    """Producers, and their records as they were written last."""

    def __init__(self, limits: QueueLimits = LIMITS) -> None:
        self.changed: dict[bytes, None] = {}
        self.producers = Producers(self.changed, limits)
        self.written: dict[bytes, bytes] = {}
        self.bytes = 0
        self._limits = limits

    def put(self, name: str, number: int, wall: int = 0) -> None:
        self.producers.note(name, number, (number, number + 1), wall)
        self.write()

    def write(self) -> None:
        for key in self.changed:
            value = self.producers.record(key)
            if value is None:
                self.written.pop(key, None)
            else:
                self.written[key] = value
                self.bytes += len(value)
        self.changed.clear()

    def read(self) -> "Journal":
        """What another master finds."""
        later = Journal(self._limits)
        later.written = dict(self.written)
        for key, value in sorted(self.written.items()):
            later.producers.restore(key, value)
        assert sorted(later.producers.keys()) == sorted(self.written)
        return later


def test_a_producer_is_told_the_same_again() -> None:
    journal, last = Journal(), 2 * LIMITS.producer_recent
    for number in range(last + 1):
        journal.put("loader", number)
    for one in (journal, journal.read()):
        assert one.producers.earlier("loader", last) == (last, last + 1)
        assert one.producers.earlier("loader", 0) == NOT_REMEMBERED
        assert one.producers.earlier("loader", last + 1) is None


def test_no_number_that_was_never_used_is_taken_for_a_repeated_one() -> None:
    chance, journal = Random(0), Journal()
    for number in [chance.randrange(2**62) for _ in range(3_000)]:
        assert journal.producers.earlier("loader", number) is None
        assert journal.producers.past("loader", number) == ""
        journal.put("loader", number)
    assert journal.bytes / 3_000 < 6_000  # what is long is written seldom


def test_with_too_many_gaps_the_lowest_numbers_are_refused_and_none_is_guessed() -> None:
    limits = QueueLimits(producer_gaps=12, producer_recent=3)
    chance, journal = Random(1), Journal(limits)
    put: dict[int, None] = {}
    refused = 0
    for step in range(2_000):
        number = chance.randrange(60) if step % 2 else chance.randrange(1_000)
        known = journal.producers.earlier("loader", number)
        if known is not None:
            assert number in put
        elif journal.producers.past("loader", number):
            refused += 1
        else:
            assert number not in put
            put[number] = None
            journal.put("loader", number)
        if chance.random() < 0.2:
            journal = journal.read()
    assert refused > 100
    assert "may have been put before; use numbers that grow" in journal.producers.past("loader", 0)


def test_numbers_that_grow_may_have_gaps_for_ever() -> None:
    journal = Journal(QueueLimits(producer_gaps=12, producer_recent=3))
    for number in range(0, 5_000, 7):
        assert journal.producers.past("loader", number) == ""
        journal.put("loader", number)
    assert all(len(value) < 300 for value in journal.written.values())


def test_one_silent_producer_with_a_name_does_not_keep_the_others_from_being_forgotten() -> None:
    journal = Journal()
    journal.put("loader", 1)
    for number in range(50):
        journal.put(f"c-{number}", 1)
    for number in range(60):
        journal.put("c-new", number, wall=FORGET_AFTER + 1)
    assert len(journal.producers) == 2
    assert sorted(journal.written) == [b"pc-new", b"ploader"]
    assert journal.producers.earlier("loader", 1) == (1, 2)


def test_who_was_heard_of_last_is_forgotten_last() -> None:
    journal = Journal()
    for at, name in enumerate(("c-1", "c-2", "c-1")):
        journal.put(name, at, wall=at)
    journal.put("c-3", 1, wall=FORGET_AFTER + 2)
    assert journal.producers.earlier("c-2", 1) is None
    assert journal.producers.earlier("c-1", 2) is not None


def test_a_master_with_another_clock_forgets_nobody_at_once() -> None:
    journal = Journal()
    journal.put("c-1", 1, wall=0)
    later = journal.read()
    later.put("c-2", 1, wall=9 * FORGET_AFTER)
    assert later.producers.earlier("c-1", 1) == (1, 2)
    later.put("c-2", 2, wall=10 * FORGET_AFTER + 1)
    assert later.producers.earlier("c-1", 1) is None


def test_a_refusal_holds_for_the_callers_turn_and_those_before() -> None:
    journal = Journal()
    journal.producers.refuse("loader", 7, {"a": 3}, wall=0)
    journal.producers.refuse("loader", 7, {"b": 0}, wall=0)
    journal.write()
    for one in (journal.producers, journal.read().producers):
        refused = [one.was_refused("loader", 7, caller, turn) for caller, turn in TURNS]
        assert refused == [True, True, False, True, False, False]
        assert not one.was_refused("loader", 8, "a", 3)
        assert one.past("loader", 7) == ""
        one.note("loader", 7, (0, 1), wall=0)
        assert not one.was_refused("loader", 7, "a", 3)  # every attempt is a repeated one now


TURNS = (("a", 2), ("a", 3), ("a", 4), ("b", 0), ("b", 1), ("c", 0))


def test_of_too_many_refusals_the_oldest_numbers_are_closed_for_good() -> None:
    journal = Journal()
    for number in range(1, 200):
        journal.producers.refuse("loader", number, {"a": number}, wall=0)
        journal.write()
    journal.put("loader", 0)
    for one in (journal.producers, journal.read().producers):
        assert "was refused" in one.past("loader", 1)
        assert one.past("loader", 199) == one.past("loader", 200) == ""
        assert one.was_refused("loader", 199, "a", 199)
        assert not one.was_refused("loader", 199, "a", 200)
    assert all(len(value) < 3_000 for value in journal.written.values())


def test_one_number_that_many_callers_were_refused_is_closed() -> None:
    journal = Journal(QueueLimits(producer_refusals=4))
    for caller in range(9):
        journal.producers.refuse("loader", 7, {f"c-{caller}": 1}, wall=0)
    journal.write()
    assert "was refused" in journal.read().producers.past("loader", 7)


def test_below_a_floor_nothing_is_known_whichever_record_is_older() -> None:
    journal = Journal(QueueLimits(producer_recent=3, producer_gaps=3))
    for number in (1, 3, 4, 5, 6, 7, 8, 20, 22, 21):
        journal.put("loader", number)
    again = journal.read().producers
    assert [one.past("loader", 1) != "" for one in (journal.producers, again)] == [True, True]
    assert [one.earlier("loader", 1) for one in (journal.producers, again)] == [None, None]
    assert again.record(b"nloader") == journal.producers.record(b"nloader")


def test_what_an_earlier_version_wrote_is_read() -> None:
    old = msgspec.msgpack.encode(((Interval(0, 3), Interval(9, 12)), {11: Interval(5, 6)}, 17))
    producers = Producers({})
    producers.restore(b"ploader", old)
    known = [number for number in range(14) if producers.earlier("loader", number) is not None]
    assert known == [0, 1, 2, 9, 10, 11]
    assert sorted(producers.keys()) == [b"nloader", b"ploader"]
    value = producers.record(b"nloader")
    assert value is not None
    again = Producers({})
    again.restore(b"nloader", value)
    assert [again.earlier("loader", number) for number in (2, 3)] == [NOT_REMEMBERED, None]


def test_what_is_packed_put_by_put_is_what_is_known():
    """Numbers are put, put again elsewhere, and so many that the oldest fall out."""
    few = msgspec.structs.replace(LIMITS, producer_recent=8)
    for seed in range(50):
        dice, journal = Random(seed), Journal(few)
        known: dict[int, Edges] = {}
        for at in range(60):
            number = dice.randrange(at + 1)
            where: Edges = 100 * at, 100 * at + dice.randrange(1, 100)
            if dice.random() < 0.3:  # of two priorities
                where = *where, where[0] + (1 << 48), where[1] + (1 << 48)
            journal.producers.note("loader", number, where, at)
            known[number] = where
            if dice.random() < 0.7:  # a step takes in what several changed
                journal.write()
        journal.write()
        told = [journal.read().producers.earlier("loader", number) for number in range(60)]
        assert told == [journal.producers.earlier("loader", number) for number in range(60)]
        assert {one for one in told if one is not None} - {NOT_REMEMBERED} <= set(known.values())


@pytest.mark.parametrize("count", [15, 16, 65_535, 65_536])
def test_however_many_puts_of_a_producer_are_remembered_they_are_written_down(count: int) -> None:
    journal = Journal(QueueLimits(producer_recent=1 << 17))
    for number in range(count):
        journal.producers.note("loader", number, (number, number + 1), 0)
    journal.write()
    later = journal.read().producers
    assert [later.earlier("loader", number) for number in (0, count - 1, count)] == [
        (0, 1),
        (count - 1, count),
        None,
    ]
    assert len(later.lately("loader")) == count


def test_no_user_has_all_names_of_producers() -> None:
    journal = Journal(QueueLimits(producers=50))
    for number in range(100):
        name = f"shop/{number}"
        if not journal.producers.crowded(name):
            journal.put(name, 1)
    for one in (journal, journal.read()):
        assert one.producers.crowded("shop/100")
        assert one.producers.crowded("shop/1") == ""
        assert one.producers.crowded("bob/1") == ""
    assert len(journal.producers) < 50


def test_a_put_of_many_priorities_writes_little() -> None:
    journal = Journal()
    for number in range(200):
        edges = tuple(range(200 * number, 200 * number + 200))
        journal.producers.note("loader", number, edges, 0)
        journal.write()
        assert journal.producers.earlier("loader", number) == edges
    assert journal.bytes / 200 < 40_000
