"""The simulated disk, against a dict and a list of what was asked."""

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from snowmelt.core.node import Persist, Persisted, PersistFailed, Started
from snowmelt.core.record import BULK, Damaged, Erase, Missing, Record, Write, erase, scanned
from snowmelt_world.disk import NOTHING, Disk, Ending

KEYS = st.sampled_from([b"a", b"b", b"c", b"~a", b"~b"])
CHANGES = st.one_of(
    st.builds(Write, KEYS, st.binary(max_size=4)),
    st.builds(erase, KEYS),
    st.builds(Erase, KEYS, KEYS),
)
STEPS = st.lists(CHANGES, min_size=1, max_size=3).map(tuple)
ALL = [b"a", b"b", b"c", b"~a", b"~b"]


def after(plain, changes):
    plain = dict(plain)
    for change in changes:
        match change:
            case Write(key, value):
                plain[key] = value
            case Erase(start, stop):
                plain = {key: value for key, value in plain.items() if not start <= key < stop}
    return plain


def contents(disk):
    return {one.key: one.value for one in disk.load(ALL) if isinstance(one, Record)}


def write(disk, ticket, *pairs):
    disk.ask(Persist(ticket, tuple(Write(key, value) for key, value in pairs)))


class DiskModel(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.disk = Disk(Random(0))
        self.safe = {}
        self.asked = []
        self.ticket = 0

    def states(self):
        """What is on the disk after none, one, … all of what was asked."""
        found = [self.safe]
        for _, changes in self.asked:
            found.append(after(found[-1], changes))
        return found

    @rule(changes=STEPS)
    def ask(self, changes):
        self.ticket += 1
        self.disk.ask(Persist(self.ticket, changes))
        self.asked.append((self.ticket, changes))

    @rule()
    def flush(self):
        assert self.disk.flush() == [Persisted(ticket) for ticket, _ in self.asked]
        self.safe, self.asked = self.states()[-1], []

    @rule()
    def load(self):
        plain = self.states()[-1]
        assert self.disk.load(ALL) == tuple(
            Record(key, plain[key]) if key in plain else Missing(key) for key in ALL
        )

    @rule(start=KEYS, stop=KEYS, bytes_max=st.integers(0, 9))
    def scan(self, start, stop, bytes_max):
        plain = sorted(self.states()[-1].items())
        whole = [Record(key, value) for key, value in plain if start <= key < stop]
        assert self.disk.scan(start, stop, bytes_max) == tuple(scanned(whole, bytes_max))

    @rule()
    def start(self):
        small = sorted(key for key in self.safe if not key.startswith(BULK))
        assert self.disk.start() == Started(tuple(Record(key, self.safe[key]) for key in small))

    @rule()
    def crash(self):
        self.disk.end(Ending.CRASH)
        kept = contents(self.disk)
        assert kept in self.states()
        self.safe, self.asked = kept, []

    @rule()
    def power(self):
        self.disk.end(Ending.POWER)
        assert contents(self.disk) == self.safe
        self.asked = []


DiskModel.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
TestADiskKeepsWhatItFlushedAndAPrefixOfWhatItDidNot = DiskModel.TestCase


def seeds_of(ending, steps=4):
    """For many seeds: what is left of so many unflushed steps, each of two keys."""
    for seed in range(60):
        disk = Disk(Random(seed))
        for step in range(1, steps + 1):
            write(disk, step, (b"a%d" % step, b"value"), (b"b%d" % step, b"value"))
        disk.end(ending)
        yield disk.start()


def test_a_crash_keeps_any_prefix_and_each_step_whole_or_not_at_all():
    seen = set()
    for started in seeds_of(Ending.CRASH):
        assert started.damaged == ()
        names = [one.key for one in started.records]
        count = len(names) // 2
        expected = [b"%c%d" % (a, n) for a in b"ab" for n in range(1, count + 1)]
        assert names == expected
        seen.add(count)
    assert seen == {0, 1, 2, 3, 4}


def test_a_power_failure_loses_all_that_was_not_flushed():
    assert {started.records for started in seeds_of(Ending.POWER)} == {()}


def test_a_torn_step_is_the_one_after_the_prefix_and_its_last_record_is_damaged():
    seen = set()
    for started in seeds_of(Ending.TORN):
        (hurt,) = started.damaged
        torn = int(hurt[1:])
        assert hurt == b"b%d" % torn
        names = sorted(one.key for one in started.records)
        whole = [b"%c%d" % (a, n) for a in b"ab" for n in range(1, torn)]
        assert names == sorted([*whole, b"a%d" % torn])
        seen.add(torn)
    assert seen == {1, 2, 3, 4}


def test_a_step_that_writes_nothing_is_not_torn():
    disk = Disk(Random(0))
    write(disk, 1)
    disk.end(Ending.TORN)
    assert disk.start().damaged == ()


def test_a_torn_record_is_damaged_when_loaded_too():
    disk = Disk(Random(0))
    write(disk, 1, (b"~a", b"value"))
    disk.end(Ending.TORN)
    assert disk.load([b"~a"]) == (Damaged(b"~a"),)


@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_bit_is_damaged_and_never_served_until_it_is_written_over(seed):
    disk = Disk(Random(seed))
    write(disk, 1, (b"a", b"one"), (b"~b", b"two"))
    disk.flush()
    key = disk.flip()
    other = b"~b" if key == b"a" else b"a"
    assert disk.load([key]) == (Damaged(key),)
    assert isinstance(disk.load([other])[0], Record)
    assert disk.start().damaged == ((b"a",) if key == b"a" else ())
    assert disk.flip() is None  # never two hurts at once
    write(disk, 2, (key, b"new"))
    assert disk.load([key]) == (Record(key, b"new"),)
    disk.flush()
    assert disk.load([key]) == (Record(key, b"new"),)


def test_a_damaged_record_is_scanned_in_its_place_until_it_is_written_over():
    disk = Disk(Random(0))
    write(disk, 1, (b"~a", b""), (b"~b", b"two"), (b"~c", b""))
    disk.flush()
    assert disk.flip() == b"~b"
    empty = Record(b"~a", b""), Record(b"~c", b"")
    assert disk.scan(b"~", b"~z", 9) == (empty[0], Damaged(b"~b"), empty[1])
    write(disk, 2, (b"~b", b"new"))
    assert disk.scan(b"~", b"~z", 9) == (empty[0], Record(b"~b", b"new"), empty[1])


def test_nothing_flips_on_an_empty_disk():
    assert Disk(Random(0)).flip() is None


def test_a_hurt_disk_is_not_torn_too():
    disk = Disk(Random(0))
    write(disk, 1, (b"a", b"one"))
    disk.flush()
    disk.flip()
    write(disk, 2, (b"b", b"two"))
    disk.end(Ending.TORN)
    assert disk.start().damaged == (b"a",)


def test_a_load_sees_what_was_asked_and_not_flushed():
    disk = Disk(Random(0))
    write(disk, 1, (b"a", b"one"))
    disk.flush()
    disk.ask(Persist(2, (erase(b"a"), Write(b"b", b"two"))))
    assert disk.load([b"b", b"a"]) == (Record(b"b", b"two"), Missing(b"a"))


# --- disks that fail, fill up, and are put back ---------------------------------------------------


def test_a_disk_that_fails_keeps_any_prefix_and_takes_nothing_more_until_its_process_ends():
    kept = set()
    for seed in range(60):
        disk = Disk(Random(seed))
        disk.failing = True
        write(disk, 1, (b"a", b"1"))
        write(disk, 2, (b"b", b"2"))
        assert disk.flush() == [
            PersistFailed(ticket, "the disk failed", fatal=True) for ticket in (1, 2)
        ]
        kept.add(tuple(sorted(contents(disk))))
        assert disk.refusal(3).fatal
        disk.failing = False
        assert disk.refusal(4).fatal
        disk.end(Ending.CRASH)
        assert not disk.failed
        write(disk, 5, (b"c", b"3"))
        assert disk.flush() == [Persisted(5)]
    assert kept == {(), (b"a",), (b"a", b"b")}


def test_a_disk_that_fills_up_within_a_flush_keeps_the_first_steps_and_no_trace_of_the_rest():
    disk = Disk(Random(0))
    disk.room = 1
    write(disk, 1, (b"a", b"1"))
    write(disk, 2, (b"b", b"2"))
    assert disk.flush() == [Persisted(1), PersistFailed(2, "no space left on the disk")]
    assert disk.full
    assert contents(disk) == {b"a": b"1"}


def test_a_disk_with_room_for_what_comes_is_not_full_yet():
    disk = Disk(Random(0))
    disk.room = 2
    write(disk, 1, (b"a", b"1"))
    assert disk.flush() == [Persisted(1)]
    assert (disk.full, disk.room) == (False, 1)


def test_a_copy_put_back_holds_what_was_flushed_when_it_was_taken():
    disk = Disk(Random(0))
    write(disk, 1, (b"a", b"1"))
    disk.flush()
    write(disk, 2, (b"b", b"2"))
    copy = disk.copy()
    disk.flush()
    write(disk, 3, (b"a", b"4"))
    disk.flush()
    disk.put_back(copy)
    assert contents(disk) == {b"a": b"1"}
    disk.put_back(NOTHING)
    assert contents(disk) == {}
    disk.put_back(copy)
    assert contents(disk) == {b"a": b"1"}
