"""Groups: what is given is given for good and to nobody else, and told the same again."""

from random import Random
from typing import Any

import msgspec
import pytest
from master_bench import KEEPERS, OTHER, Bench
from whole_records import restored

from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo.calls import (
    Assign,
    Assigned,
    Changed,
    Locate,
    Located,
    Publish,
    Receipt,
    Release,
    Survey,
)
from snowmelt.protocols.fifo.groups import Group
from snowmelt.protocols.fifo.limits import LIMITS, Limits
from snowmelt.protocols.fifo.messages import Keep

MANY = 1 << 40


def filled(count: int, **settings: Any) -> Bench:
    bench = Bench(**settings)
    bench.offer(0, count)
    bench.flush()
    return bench


def asked(name: str, lease: int, done: int, most: int = MANY, **more: Any) -> Assign:
    usual = {"reader": "r1", "bytes_max": MANY}
    return Assign("q", name, lease=lease, done=done, items_max=most, **{**usual, **more})


def assign(bench: Bench, name: str, lease: int, done: int, most: int = MANY, **more: Any) -> Any:
    return bench.ask(bench.master.grouping.assign, asked(name, lease, done, most, **more))


def locate(bench: Bench, name: str, lease: int, after: int, until: int) -> Any:
    return bench.ask(bench.master.grouping.locate, Locate("q", name, lease, after, until))


def positions(located: Located) -> list[int]:
    return [where for span in located.spans for where in range(span.start, span.stop)]


def release(bench: Bench, name: str) -> Any:
    return bench.ask(bench.master.grouping.release, Release("q", name))


# --- one group, against a plain list --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_a_group_is_the_list_of_what_it_was_given(seed: int) -> None:
    chance = Random(seed)
    group, rows, at = Group(1, "r", 0, [], 0), list[int](), 0
    for _ in range(30):
        if not group.held:
            for _ in range(chance.randrange(1, 5)):
                at += chance.randrange(1, 4)
                piece = Interval(at, at + chance.randrange(1, 6))
                group.held.append(piece)
                rows += piece
                at = piece.stop
        assert (group.given, group.holds) == (len(rows), len(rows) - group.done)
        after = chance.randrange(len(rows) + 3)
        until = chance.randrange(after, len(rows) + 5)
        found = [where for piece in group.between(after, until) for where in piece]
        assert found == rows[max(after, group.done) : max(until, group.done)]
        done, before = chance.randrange(len(rows) + 1), group.done
        passed = [where for piece in group.pass_by(done) for where in piece]
        assert passed == rows[before:done]
        assert group.done == max(before, done)
        assert [where for piece in group.held for where in piece] == rows[group.done :]


# --- whose the items are --------------------------------------------------------------------------


def test_nothing_is_told_that_is_not_safe_and_nothing_is_held_that_was_not() -> None:
    bench = filled(10)
    bench.begin(bench.master.grouping.assign, asked("g", 0, 0, 4))
    assert (bench.told, list(bench.queue.ready)) == ([], [Interval(4, 10)])
    later = bench.crashed()
    assert (list(later.queue.ready), list(later.queue.groups)) == ([Interval(0, 10)], [])
    bench.flush()
    assert bench.told == [Assigned(1, 4, 6)]
    later = bench.crashed()
    assert list(later.queue.ready) == [Interval(4, 10)]
    assert assign(later, "g", 1, 0) == Assigned(1, 4, 6)


def test_passing_and_taking_are_one_step() -> None:
    bench = filled(10)
    assign(bench, "g", 0, 0, 4)
    bench.begin(bench.master.grouping.assign, asked("g", 1, 4, 3))
    bench.collect()
    assert bench.dropped() == []
    later = bench.crashed()  # neither
    assert (later.queue.done, list(later.queue.ready)) == (0, [Interval(4, 10)])
    assert positions(locate(later, "g", 1, 0, 4)) == [0, 1, 2, 3]
    bench.flush()
    later = bench.crashed()  # both
    assert (later.queue.done, list(later.queue.ready)) == (4, [Interval(7, 10)])
    assert positions(locate(later, "g", 1, 4, 7)) == [4, 5, 6]


def test_bodies_are_erased_only_when_the_group_is_past_them_and_that_is_safe() -> None:
    bench = filled(10)
    assign(bench, "g", 0, 0)
    bench.pass_time(10**6)  # there is no time-out
    bench.flush()
    assert bench.dropped() == []
    bench.begin(bench.master.grouping.assign, asked("g", 1, 10))
    assert bench.dropped() == []
    bench.flush()
    assert [one[1:] for one in bench.dropped()] == [(0, 10)]


def test_what_keepers_are_told_to_keep_is_of_one_step() -> None:
    bench = filled(10)
    assign(bench, "g", 0, 0)
    bench.master.repair.viewed()
    bench.write()  # that step is on its way to the disk
    bench.begin(bench.master.grouping.assign, asked("g", 1, 10))  # done, in no step yet
    bench.arrive()
    kept = [message for _, message in bench.sent if isinstance(message, Keep)]
    assert kept
    assert all(sum(one.stop - one.first for one in said.extents) == 10 for said in kept)
    assert bench.crashed().queue.alive.total == 10


def test_a_consumer_cannot_settle_what_a_group_holds() -> None:
    bench = filled(10)
    assign(bench, "g", 0, 0, 4)
    lease = bench.queue.lease(OperationId(NodeId("c-1"), 1), 100, MANY, bench.desk.now)
    assert lease is not None
    assert list(lease.left) == [Interval(4, 10)]
    bench.queue.settle(lease, [Interval(0, 10)])
    assert list(bench.queue.alive) == [Interval(0, 4)]
    assert positions(locate(bench, "g", 1, 0, 4)) == [0, 1, 2, 3]
    bench.flush()
    assert positions(locate(bench.crashed(), "g", 1, 0, 4)) == [0, 1, 2, 3]


def test_the_queue_as_a_whole_leaves_a_group_what_it_has() -> None:
    bench = filled(10)
    assign(bench, "g", 0, 0, 4)
    bench.queue.pause(paused=True)
    assert assign(bench, "h", 0, 0) == Assigned(0, 0, 6)
    assert assign(bench, "g", 1, 2).given == 4
    assert assign(bench, "g", 1, 4).given == 4  # it takes nothing while the queue is paused
    bench.queue.pause(paused=False)
    assert assign(bench, "g", 1, 4, 2).given == 6
    count, _ = bench.queue.purge(dead=False)
    assert (count, bench.queue.redrive(100)) == (4, 0)
    bench.flush()
    for one in (bench, bench.crashed()):
        assert positions(locate(one, "g", 1, 4, 6)) == [4, 5]
        assert one.queue.alive.total == 2


def test_there_is_room_as_soon_as_a_group_is_past_something() -> None:
    bench = filled(4, items_max=4)
    assign(bench, "g", 0, 0)
    bench.offer(4, 6, sequence=1, patience=10**12)
    bench.flush()
    assert (bench.queue.tail, len(bench.master.waiting.puts)) == (4, 1)
    assert assign(bench, "g", 1, 1).given == 4
    assert bench.queue.tail == 4
    assert assign(bench, "g", 1, 2).given == 4
    assert bench.queue.tail == 6


# --- who reads ------------------------------------------------------------------------------------


def test_who_knows_less_than_the_group_is_done_with_is_refused_and_changes_nothing() -> None:
    bench = filled(10)
    assign(bench, "g", 0, 0, 4)
    assert assign(bench, "g", 1, 4, 3) == Assigned(1, 7, 3)
    for one in (bench, bench.crashed()):
        for old in (
            *(assign(one, "g", 1, done, 3) for done in (0, 1, 3)),
            locate(one, "g", 1, 0, 4),
            locate(one, "g", 1, 3, 7),
        ):
            assert isinstance(old, Declined)
            assert (old.error, "is done with 4 items" in old.text) == ("GroupHeld", True)
        assert assign(one, "g", 1, 4, 3) == Assigned(1, 7, 3)
        assert (one.queue.done, positions(locate(one, "g", 1, 4, 7))) == (4, [4, 5, 6])


def test_whoever_has_read_something_is_not_pushed_aside_though_nothing_is_done_yet() -> None:
    bench = filled(10)
    assign(bench, "g", 0, 0, 4)
    assert assign(bench, "g", 0, 0, 4, reader="r2") == Assigned(2, 4, 6)  # nobody has read
    assert positions(locate(bench, "g", 2, 0, 4)) == [0, 1, 2, 3]
    for one in (bench, bench.crashed()):
        held = assign(one, "g", 0, 0, 4, reader="r3")
        assert isinstance(held, Declined)
        assert (held.error, "at work on 4 items" in held.text) == ("GroupHeld", True)
        again = assign(one, "g", 0, 0, 4, reader="r2")  # asked again: the answer was lost
        assert again == Assigned(2, 4, 6, located=4)
        assert positions(locate(one, "g", 2, 0, 4)) == [0, 1, 2, 3]


def test_how_far_a_group_was_located_is_safe_before_it_is_told_where() -> None:
    bench = filled(10)
    assign(bench, "g", 0, 0, 4)
    bench.begin(bench.master.grouping.locate, Locate("q", "g", 1, 0, 3))
    assert not any(isinstance(one, Located) for one in bench.told)
    assert assign(bench.crashed(), "g", 1, 0) == Assigned(1, 4, 6)
    bench.flush()
    assert isinstance(bench.told[-1], Located)
    locate(bench, "g", 1, 0, 1)  # as a task that is run again
    for one in (bench, bench.crashed()):
        assert assign(one, "g", 1, 0) == Assigned(1, 4, 6, located=3)
        assert assign(one, "g", 1, 4, 2) == Assigned(1, 6, 4, located=3)


def test_a_group_that_was_written_down_without_how_far_it_was_located_is_read() -> None:
    bench = filled(10)
    assign(bench, "g", 0, 0, 4)
    group = bench.queue.groups.named("g")
    assert group is not None
    fields = [getattr(group, name) for name in ("lease", "reader", "done", "held", "heard")]
    bench.written[b"gg"] = msgspec.msgpack.encode(fields)
    assert assign(bench.crashed(), "g", 1, 0) == Assigned(1, 4, 6)


def test_who_does_not_know_the_lease_is_refused() -> None:
    bench = filled(10)
    assign(bench, "g", 0, 0, 4)
    assert assign(bench, "g", 0, 0, 4) == Assigned(1, 4, 6)  # asked again: the answer was lost
    assert assign(bench, "g", 0, 0, 4, reader="r2") == Assigned(2, 4, 6)
    for one in (bench, bench.crashed()):
        for request in (
            assign(one, "g", 1, 4),
            assign(one, "g", 3, 4),
            assign(one, "h", 2, 0),
            assign(one, "g", 2, 5),
            locate(one, "g", 1, 0, 4),
            locate(one, "h", 2, 0, 4),
            locate(one, "g", 2, 0, 5),
        ):
            assert isinstance(request, Declined)
            assert request.error == "LeaseLost"
        assert one.queue.done == 0
    assert assign(bench, "g", 2, 1) == Assigned(2, 4, 6)
    held = assign(bench, "g", 0, 0, reader="r2")
    assert (held.error, "done with 1 items" in held.text) == ("GroupHeld", True)


def test_a_lease_is_never_given_twice_even_if_a_record_is_lost() -> None:
    bench = filled(10)
    for number in range(5):
        assign(bench, "g", 0, 0, 4, reader=f"r{number}")
    assert assign(bench, "g", 5, 2).lease == 5
    pairs = tuple((key, value) for key, value in bench.written.items() if key != b"s")
    later = Bench(restored("q", bench.queue.settings, pairs, bench.desk.now))
    assert release(later, "g") == Changed(2)
    assert assign(later, "g", 0, 0).lease == 6
    assert assign(later, "g", 5, 2).error == "LeaseLost"


def test_what_a_released_group_held_is_ready_in_the_same_step() -> None:
    bench = filled(10)
    assign(bench, "g", 0, 0, 4)
    assign(bench, "g", 1, 1)
    bench.begin(bench.master.grouping.release, Release("q", "g"))
    assert positions(locate(bench.crashed(), "g", 1, 1, 4)) == [1, 2, 3]
    bench.flush()
    for one in (bench, bench.crashed()):
        assert list(one.queue.ready) == [Interval(1, 10)]
        assert assign(one, "g", 1, 1).error == "LeaseLost"
        assert release(one, "g") == Changed(0)


# --- what is lost ---------------------------------------------------------------------------------


def test_what_is_lost_stays_in_the_count_and_the_others_keep_their_numbers() -> None:
    bench = filled(10)
    assign(bench, "g", 0, 0, 8)
    bench.queue.give_up(Interval(2, 5))
    bench.flush()
    for one in (bench, bench.crashed()):
        assert assign(one, "g", 1, 0).given == 8
        located = locate(one, "g", 1, 0, 8)
        assert (positions(located), located.lost) == ([0, 1, 5, 6, 7], 3)
        located = locate(one, "g", 1, 3, 6)
        assert (positions(located), located.lost) == ([5], 2)
    assert assign(bench, "g", 1, 4, 0).given == 8
    assert (bench.queue.done, bench.queue.lost, bench.queue.alive.total) == (2, 3, 5)
    bench.queue.give_up(Interval(0, 10))
    bench.flush()
    located = locate(bench, "g", 1, 4, 8)
    assert (positions(located), located.lost) == ([], 4)
    assert assign(bench.crashed(), "g", 1, 8).given == 8
    assert release(bench, "g") == Changed(0)
    assert list(bench.queue.ready) == []


# --- how much -------------------------------------------------------------------------------------


def test_an_assignment_lies_in_so_many_pieces_and_runs_at_most() -> None:
    bench = filled(5000)
    for start in range(0, 5000, 2):
        bench.queue.ready.remove(Interval(start, start + 1))
    assert assign(bench, "g", 0, 0).given == LIMITS.group_pieces
    # With a bound in bytes each put is a run of its own.
    bench = Bench(limits=Limits(lease_runs=8), bytes_max=MANY)
    for number in range(20):
        bench.queue.show(bench.queue.admit("n1/1/1", number, 1, 10, KEEPERS))
    assert [assign(bench, "g", lease, done).given for lease, done in ((0, 0), (1, 8))] == [8, 16]


def test_limits_in_items_bytes_and_positions() -> None:
    bench = filled(10)  # ten bytes each
    assert assign(bench, "a", 0, 0, 0) == Assigned(0, 0, 10)
    assert list(bench.queue.groups) == []
    assert assign(bench, "a", 0, 0, 3).given == 3
    assert assign(bench, "b", 0, 0, bytes_max=20).given == 2
    assert assign(bench, "c", 0, 0, bytes_max=1).given == 1
    assert assign(bench, "d", 0, 0, below=6) == Assigned(0, 0, 4)
    assert assign(bench, "d", 0, 0, below=8).given == 2
    assert list(bench.queue.ready) == [Interval(8, 10)]


def test_a_survey_tells_of_so_many_and_goes_on_from_there() -> None:
    bench = filled(10, limits=Limits(surveyed=4))
    bench.queue.ready.remove(Interval(1, 3))
    found, start = list[int](), 0
    while True:
        told = bench.ask(bench.master.grouping.survey, Survey("q", start, 1_000_000))
        assert told.lost == 0
        if not told.spans:
            break
        found += positions(told)
        start = found[-1] + 1
    assert found == [0, *range(3, 10)]


# --- all of it together ---------------------------------------------------------------------------


class Play:
    """Groups, consumers, losses and crashes, in any order; what was told must stay true."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.bench = Bench()
        self.puts = 0
        self.calls = 0
        self.marks: dict[str, tuple[int, int]] = {}
        self.given: dict[str, dict[int, int]] = {}
        self.owners: dict[int, str] = {}
        self.lost: dict[int, None] = {}

    def step(self) -> None:
        acts = [self.put, self.advance, self.advance, self.advance, self.get, self.crash]
        acts += [self.release, self.lose, self.publish, self.unsafe]
        self.chance.choice(acts)()
        for name in self.marks:
            self.look(name)

    def put(self) -> None:
        count = self.chance.randrange(1, 9)
        self.bench.offer(self.puts, self.puts + count, sequence=self.puts)
        self.puts += count
        self.bench.flush()

    def publish(self) -> None:
        count = self.chance.randrange(1, 5)
        self.bench.stage(self.puts, self.puts + count, sequence=self.puts)
        self.bench.flush()
        self.puts += count
        named = Receipt(OTHER, self.puts - count, self.puts, 10 * count)
        ask = Publish("q", "loader", self.puts, (named,))
        self.bench.ask(self.bench.master.publishing.publish, ask)

    def advance(self) -> None:
        name = self.chance.choice("gh")
        lease, done = self.marks.get(name, (0, 0))
        told = self.assigned(name, lease, done)
        given = max(self.given.get(name, {}), default=-1) + 1
        if told.given > given:
            held = self.bench.queue.groups.named(name)
            assert held is not None
            new = [where for piece in held.held for where in piece]
            for number, where in enumerate(new, start=told.given - len(new)):
                assert where not in self.owners, f"{where} was given to {self.owners[where]}"
                self.owners[where] = name
                self.given.setdefault(name, {})[number] = where
        if told.lease:
            self.marks[name] = told.lease, self.chance.randrange(done, told.given + 1)

    def assigned(self, name: str, lease: int, done: int) -> Assigned:
        told = assign(self.bench, name, lease, done, self.chance.randrange(9))
        assert isinstance(told, Assigned), told
        for number, where in self.given.get(name, {}).items():
            if number < done:
                assert where not in self.bench.queue.alive
        return told

    def look(self, name: str) -> None:
        """What the group holds is what it was told, but for what is lost."""
        group = self.bench.queue.groups.named(name)
        assert group is not None
        held = self.given[name]
        told = locate(self.bench, name, self.marks[name][0], group.done, group.given)
        wanted = [held[number] for number in range(group.done, group.given)]
        assert positions(told) == [where for where in wanted if where not in self.lost]

    def get(self) -> None:
        """A consumer takes some, and acknowledges them."""
        self.calls += 1
        operation = OperationId(NodeId("c-9"), self.calls)
        lease = self.bench.queue.lease(operation, self.chance.randrange(1, 5), MANY, _now(self))
        if lease is None:
            return
        for piece in list(lease.left):
            for where in piece:
                assert where not in self.owners, f"{where} was given to {self.owners[where]}"
                self.owners[where] = "a consumer"
        self.bench.queue.settle(lease, list(lease.left))
        self.bench.flush()

    def lose(self) -> None:
        if self.bench.queue.tail:
            where = self.chance.randrange(self.bench.queue.tail)
            self.bench.queue.give_up(Interval(where, where + 1))
            self.lost[where] = None
            self.bench.flush()

    def release(self) -> None:
        if self.chance.random() < 0.3 and self.marks:
            name = self.chance.choice(list(self.marks))
            release(self.bench, name)
            del self.marks[name]
            for where in self.given.pop(name).values():
                if where in self.bench.queue.alive:
                    del self.owners[where]

    def crash(self) -> None:
        self.bench = self.bench.crashed()

    def unsafe(self) -> None:
        """Something is asked, and is not safe when the master crashes."""
        name = self.chance.choice("gh")
        lease, done = self.marks.get(name, (0, 0))
        self.bench.begin(self.bench.master.grouping.assign, asked(name, lease, done, 5))
        if self.chance.random() < 0.5:
            self.bench.write()
        self.crash()


def _now(play: Play) -> Any:
    return play.bench.desk.now


@pytest.mark.parametrize("seed", range(60))
def test_what_was_told_stays_true_whatever_happens(seed: int) -> None:
    play = Play(seed)
    for _ in range(80):
        play.step()
    assert play.owners
